"""Our figures beside the published ones, from stored runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.report.numbers import number_text, span_text
from harness.report.studies import controller_of, measured_cells, packets_per_round_trip, shared_throughputs
from harness.scenario.metric_names import TransferName
from studies.published.claims import FIGURES, TIMED_OUT

Results = Sequence[CellResult]


@dataclass(frozen=True)
class Ours:
    """What our runs say to a published figure."""

    text: str
    value: float | None = None
    """The median in the unit of theirs; None where theirs is no number."""
    high: float | None = None
    """The upper end of the interval of what a bound is held against; None for any other figure."""


def ours(results: Results, key: str) -> Ours | None:
    """Our figure for one of `studies.published.claims`; None without runs. KeyError for an unknown key."""
    return _FIGURES[key](results)


def _seconds(
    scenario: str,
    stack: str = "picoquic",
    transfer: TransferName = "first",
    asked: Mapping[str, str] | None = None,
) -> Callable[[Results], Ours | None]:
    """What a stack with itself took, asked for nothing but `asked`."""

    def completion(results: Results) -> Ours | None:
        span = _completion(results, scenario, stack, transfer, asked or {})
        return None if span is None else Ours(f"{span_text(span)} s", span.median)

    return completion


def _completion(
    results: Results, scenario: str, stack: str, transfer: TransferName, asked: Mapping[str, str]
) -> Interval | None:
    for result in measured_cells(results, scenario):
        cell = result.cell
        parameters = {name: str(value) for name, value in cell.parameters.items()}
        if cell.virtual_time and (cell.client.name, cell.server.name) == (stack, stack) and parameters == asked:
            return result.interval("completion", 0, transfer)
    return None


def _bound(scenario: str, *, alike: bool = True) -> Callable[[Results], Ours | None]:
    """The time at the rate that picoquic's test names; if `alike`, also on frames as fast as in its simulator."""

    def time(results: Results) -> Ours | None:
        cells = [result for result in measured_cells(results, scenario) if result.cell.virtual_time]
        cells.sort(key=lambda result: result.cell.scenario.path.to_client.rate.value)
        spans = [span for result in cells if (span := result.interval("completion", 0, "first")) is not None]
        if not spans:
            return None
        like = f"; {span_text(spans[-1])} s on frames as fast as theirs" if alike and len(spans) > 1 else ""
        return Ours(f"{span_text(spans[0])} s{like}", spans[0].median, spans[0].high)

    return time


def _timeouts(scenario: str) -> Callable[[Results], Ours | None]:
    """Pairs with a run that timed out; which of them theirs are, and which of theirs end here."""

    def pairs(results: Results) -> Ours | None:
        stored = {
            (result.cell.client.name, result.cell.server.name): result.outcomes.get("timed_out", 0) > 0
            for result in results
            if result.cell.scenario.name == scenario and result.cell.virtual_time and result.runs
            if result.cell.server.speaks_quic and not result.cell.parameters
        }
        if not stored:
            return None
        late = sorted(pair for pair, is_late in stored.items() if is_late)
        both = TIMED_OUT[scenario] & stored.keys()
        names = f" ({', '.join(map('→'.join, late))})" if late else ""
        again = sum(stored[pair] for pair in both)
        theirs = f"; {again} of {len(both)} pairs that are on their list, too" if both else ""
        return Ours(f"{len(late)} of {len(stored)}{names}{theirs}")

    return pairs


def _over_pairs(scenario: str, metric: str, unit: str) -> Callable[[Results], Ours | None]:
    def span(results: Results) -> Ours | None:
        return _range(_medians(results, scenario, metric), unit, "pairs")

    return span


def _medians(results: Results, scenario: str, metric: str) -> list[float]:
    """The median of each cell in virtual time."""
    spans = (
        result.interval(metric, 0, "first") for result in measured_cells(results, scenario) if result.cell.virtual_time
    )
    return [span.median for span in spans if span is not None]


def _range(values: Sequence[float], unit: str, of: str) -> Ours | None:
    """The middle of several, and their ends."""
    if not values:
        return None
    middle = statistics.median(values)
    low, high = map(number_text, (min(values), max(values)))
    return Ours(f"{number_text(middle)} {unit} ({low} to {high} over {len(values)} {of})", middle)


def _lossy_cubic(results: Results) -> Ours | None:
    cells = [
        result
        for result in measured_cells(results, "satellite/large-lossy")
        if result.cell.virtual_time and controller_of(result.cell) == "cubic"
    ]
    if not cells:
        return None
    ended = [result for result in cells if result.outcomes.get("completed", 0)]
    timeout = number_text(cells[0].cell.scenario.timeout.seconds)
    return Ours(f"{len(cells) - len(ended)} of {len(cells)} pairs with CUBIC have no run that ends within {timeout} s")


def _careful_resume(results: Results) -> Ours | None:
    """The time of the second connection with Careful Resume, to that without."""
    scenario, off = "remembered/same-50-10mb", {"client.zero_rtt": "off"}
    with_seed, without = (
        _completion(results, scenario, "quinn", "repeat", {**off, "server.bdp_seed": seed})
        for seed in ("careful-resume", "off")
    )
    if with_seed is None or without is None:
        return None
    ratio = with_seed.median / without.median
    return Ours(f"{number_text(ratio)} ({span_text(with_seed)} s to {span_text(without)} s)", ratio)


def _page_split(results: Results) -> Ours | None:
    split = _medians(results, "web/geo-split", "page_load")
    loads = [
        span.median
        for result in measured_cells(results, "web/geo")
        if result.cell.virtual_time and result.cell.client.speaks_quic
        if (span := result.interval("page_load", 0, "first")) is not None
    ]
    return _range([load / min(split) for load in loads], "times", "pairs") if split else None


def _parts(results: Results) -> dict[str, float]:
    """Server → its part of what it and TCP carry."""
    parts = {}
    for result in measured_cells(results, "dumbbell/beside-tcp"):
        cell, both = result.cell, shared_throughputs(result)
        if cell.virtual_time and cell.server.speaks_quic and both is not None and controller_of(cell, 1) == "cubic":
            own, tcp = both
            parts[cell.server.name] = own.median / (own.median + tcp.median)
    return parts


def _share(results: Results) -> Ours | None:
    ratios = {name: 2 * part for name, part in _parts(results).items()}
    if not ratios:
        return None
    most = max(ratios, key=lambda name: ratios[name])
    return Ours(
        f"{number_text(statistics.median(ratios.values()))} times; at most {number_text(ratios[most])} ({most})"
    )


def _share_of(stack: str) -> Callable[[Results], Ours | None]:
    def part(results: Results) -> Ours | None:
        own = _parts(results).get(stack)
        return None if own is None else Ours(f"{own:.0%}", own)

    return part


def _ack_packets(results: Results) -> Ours | None:
    """By client with itself: 100 MB with ratio 1 and with ratio 10, and the packets of acknowledgement."""
    by_stack: dict[str, dict[str, tuple[float, float]]] = {}
    for result in measured_cells(results, "studies/ack-ratio-50-10"):
        cell = result.cell
        time, packets = (result.interval(name, 0, "first") for name in ("milestone_100MB", "ack_packets"))
        if cell.virtual_time and cell.client.name == cell.server.name and time is not None and packets is not None:
            asked = str(cell.parameters.get("client.ack_ratio", ""))
            by_stack.setdefault(cell.client.name, {})[asked] = time.median, packets.median
    texts = []
    for stack, by_ratio in sorted(by_stack.items()):
        if {"1", "10"} <= by_ratio.keys():
            (before, many), (after, few) = by_ratio["1"], by_ratio["10"]
            texts.append(
                f"{stack}: {number_text(after)} s instead of {number_text(before)} with {few / many:.0%} of the packets"
            )
    return Ours("; ".join(texts)) if texts else None


def _leo_rtt(results: Results) -> Ours | None:
    return _range([1e3 * time for time in _medians(results, "leo/steady", "handshake")], "ms", "stacks")


def _leo_reconfigured(results: Results) -> Ours | None:
    by_stack: dict[str, dict[str, float]] = {}
    for scenario in ("leo/handovers", "leo/steady"):
        for result in measured_cells(results, scenario):
            span = result.interval("mean_throughput_l7", 0)
            if result.cell.virtual_time and span is not None:
                by_stack.setdefault(result.cell.server.name, {})[scenario] = span.median
    ratios = [both["leo/handovers"] / both["leo/steady"] for both in by_stack.values() if len(both) > 1]
    return _range(ratios, "times", "stacks")


def _window(controller: str, loss: str) -> Callable[[Results], Ours | None]:
    """Packets that a sender of the controller sends in a round trip, over the servers."""

    def packets(results: Results) -> Ours | None:
        return _range(list(_windows(results, controller, loss)), "packets", "stacks")

    return packets


def _windows(results: Results, controller: str, loss: str) -> Iterator[float]:
    for result in measured_cells(results, "loss/response-100ms"):
        cell = result.cell
        packets = packets_per_round_trip(result)
        is_asked = controller_of(cell) == controller and f"{cell.scenario.path.to_client.mean_loss:.1%}" == loss
        if cell.virtual_time and is_asked and packets:
            yield statistics.median(packets)


_SEED = {"client.zero_rtt": "off", "server.bdp_seed": "jump-start"}
_FIGURES: Mapping[str, Callable[[Results], Ours | None]] = {
    "satl": _seconds("satellite/fau-satl"),
    "satl-deep": _seconds("satellite/fau-satl-deep"),
    "sat-timeouts": _timeouts("satellite/fau-sat"),
    "satl-timeouts": _timeouts("satellite/fau-satl"),
    "goodput": _over_pairs("interop/goodput", "goodput", "Mbit/s"),
    "crosstraffic": _over_pairs("interop/crosstraffic", "goodput", "Mbit/s"),
    "lossy-cubic": _lossy_cubic,
    "lossy-filter": _bound("picoquic/satellite-cubic-loss", alike=False),
    "first": _seconds("remembered/same-250-100mb", asked=_SEED),
    "remembered": _seconds("remembered/same-250-100mb", transfer="repeat", asked=_SEED),
    "careful-resume": _careful_resume,
    "page-split": _page_split,
    "share": _share,
    "share-quic-go": _share_of("quic-go"),
    "ack-packets": _ack_packets,
    "leo-rtt": _leo_rtt,
    "leo-reconfigured": _leo_reconfigured,
    **{figure.key: _bound(figure.key) for figure in FIGURES if figure.key.startswith("picoquic/")},
    **{
        f"window {controller} {loss}": _window(controller, loss)
        for controller in ("reno", "cubic")
        for loss in ("1.0%", "0.1%")
    },
}

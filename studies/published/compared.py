"""Our figures beside the published ones, from stored runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.report.numbers import number_text, span_text
from harness.report.studies import controller_of, measured_cells


def ours(results: Sequence[CellResult], key: str) -> str:
    """Our figure for one of `studies.published.claims`; empty without runs. KeyError for an unknown key."""
    return _FIGURES[key](results)


def _picoquic(scenario: str) -> Callable[[Sequence[CellResult]], str]:
    def completion(results: Sequence[CellResult]) -> str:
        span = _of_pair(results, scenario, "picoquic", "completion")
        return "" if span is None else f"{span_text(span)} s"

    return completion


def _of_pair(results: Sequence[CellResult], scenario: str, stack: str, metric: str) -> Interval | None:
    for result in measured_cells(results, scenario):
        cell = result.cell
        if cell.virtual_time and (cell.client.name, cell.server.name) == (stack, stack) and not cell.parameters:
            return result.interval(metric, 0, "first")
    return None


def _timeouts(results: Sequence[CellResult]) -> str:
    """Pairs of which at least half of the runs timed out."""
    cells = [result for result in results if result.cell.scenario.name == "satellite/fau-satl"]
    stored = [result for result in cells if result.cell.virtual_time and result.runs]
    late = [result for result in stored if 2 * result.outcomes.get("timed_out", 0) >= sum(result.outcomes.values())]
    names = ", ".join(sorted({f"{result.cell.client.name}→{result.cell.server.name}" for result in late}))
    return f"{len(late)} of {len(stored)}{f' ({names})' if names else ''}" if stored else ""


def _goodput(scenario: str) -> Callable[[Sequence[CellResult]], str]:
    def span(results: Sequence[CellResult]) -> str:
        values = _medians(results, scenario, "goodput")
        return _range_text(values, "Mbit/s")

    return span


def _medians(results: Sequence[CellResult], scenario: str, metric: str) -> list[float]:
    """The median of each cell in virtual time."""
    spans = (
        result.interval(metric, 0, "first") for result in measured_cells(results, scenario) if result.cell.virtual_time
    )
    return [span.median for span in spans if span is not None]


def _range_text(values: Sequence[float], unit: str) -> str:
    if not values:
        return ""
    middle, low, high = map(number_text, (statistics.median(values), min(values), max(values)))
    return f"{middle} {unit} ({low} to {high} over {len(values)} pairs)"


def _lossy_cubic(results: Sequence[CellResult]) -> str:
    cells = [
        result
        for result in measured_cells(results, "satellite/large-lossy")
        if result.cell.virtual_time and controller_of(result.cell) == "cubic"
    ]
    if not cells:
        return ""
    ended = [result for result in cells if result.outcomes.get("completed", 0)]
    timeout = number_text(cells[0].cell.scenario.timeout.seconds)
    return f"{len(cells) - len(ended)} of {len(cells)} pairs with CUBIC have no run that ends within {timeout} s"


def _page_split(results: Sequence[CellResult]) -> str:
    split = _medians(results, "web/geo-split", "page_load")
    loads = [
        span.median
        for result in measured_cells(results, "web/geo")
        if result.cell.virtual_time and result.cell.client.speaks_quic
        if (span := result.interval("page_load", 0, "first")) is not None
    ]
    if not split or not loads:
        return ""
    ratios = [load / min(split) for load in loads]
    return f"{number_text(statistics.median(ratios))} times ({number_text(min(ratios))} to {number_text(max(ratios))})"


def _share(results: Sequence[CellResult]) -> str:
    ratios = {}
    for result in measured_cells(results, "dumbbell/beside-tcp"):
        own, tcp = (result.interval("mean_throughput", flow) for flow in (0, 1))
        if result.cell.virtual_time and result.cell.server.speaks_quic and own is not None and tcp is not None:
            ratios[result.cell.server.name] = 2 * own.median / (own.median + tcp.median)
    if not ratios:
        return ""
    most = max(ratios, key=lambda name: ratios[name])
    return f"{number_text(statistics.median(ratios.values()))} times; at most {number_text(ratios[most])} ({most})"


def _ack_packets(results: Sequence[CellResult]) -> str:
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
    return "; ".join(texts)


_FIGURES: Mapping[str, Callable[[Sequence[CellResult]], str]] = {
    "satl": _picoquic("satellite/fau-satl"),
    "satl-deep": _picoquic("satellite/fau-satl-deep"),
    "satl-timeouts": _timeouts,
    "goodput": _goodput("interop/goodput"),
    "crosstraffic": _goodput("interop/crosstraffic"),
    "lossy-cubic": _lossy_cubic,
    "page-split": _page_split,
    "share": _share,
    "ack-packets": _ack_packets,
}

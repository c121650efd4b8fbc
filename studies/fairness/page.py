"""Two flows on one bottleneck: everybody with everybody, and one pair over many links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from harness.report.studies import measured_cells
from harness.scenario.metric_names import MetricName
from harness.stats.intervals import harm, interval
from studies import share_text

#: Beyond so many times the harm that a sender does to itself, a competitor's is shown in bold: this lab's own bound.
UNACCEPTABLE = 1.25


def contests(results: Sequence[CellResult]) -> str:
    """Both parts."""
    return f"{fairness(results)}\n\n{links(results)}"


def fairness(results: Sequence[CellResult]) -> str:
    """Shares and harm of every server and congestion control against every other."""
    found, harms = _by_pair(results), _harms(results)
    names = sorted({name for pair in found for name in pair}, key=lambda name: (name.split()[1], name))
    lines = [
        "## Every server against every other",
        "",
        "Two flows share 10 Mbit/s for 30 s, both from the start. The round trip is 20 ms, and the queue holds one",
        f"bandwidth-delay product. The figures are medians of {_counts(found.values())}.",
        "",
    ]
    if not names:
        return "\n".join(lines)

    def table(title: str, cell: Callable[[str, str], str]) -> list[str]:
        body = [table_row([mine, *(cell(mine, other) for other in names)]) for mine in names]
        return [table_row([title, *names]), table_row(["---", *["---:"] * len(names)]), *body, ""]

    def median(name: MetricName, mine: str, other: str) -> str:
        span = found[mine, other].interval(*name) if (mine, other) in found else None
        return "–" if span is None else number_text(span.median)

    def harm_text(mine: str, other: str) -> str:
        if (mine, other) not in harms:
            return "–"
        text = f"{harms[mine, other]:.2f}"
        return f"**{text}**" if _is_unacceptable(harms, (mine, other)) else text

    lines += table("Mbit/s of ↓ beside →", lambda mine, other: median(MetricName("mean_throughput", 0), mine, other))
    lines += table("Jain's index", lambda mine, other: median(MetricName("jain_shared"), mine, other))
    lines += [
        "Harm is the cost of a competitor: (alone - beside) / alone of the throughput (Ware et al., HotNets 2019). By",
        "that paper a competitor is acceptable if it does no more harm than the other does to itself. The diagonal has",
        f"that harm. More than {UNACCEPTABLE} times that is in bold.",
        "",
    ]
    lines += table("harm to ↓ by →", harm_text)
    return "\n".join(lines)


def finding(results: Sequence[CellResult]) -> str:
    """The rule, how many competitors of another stack break it, and the least share of a flow, in a sentence."""
    harms = _harms(results)
    between = {
        pair: result
        for pair, result in _by_pair(results).items()
        if result.cell.implementation("server", 0).name != result.cell.implementation("server", 1).name
    }
    judged = [pair for pair in between if pair in harms and (pair[0], pair[0]) in harms]
    if not judged:
        return ""
    harmed = sum(_is_unacceptable(harms, pair) for pair in judged)
    shares = {" beside ".join(pair): share for pair, result in between.items() if (share := _share(result)) is not None}
    least = min(shares, key=lambda name: shares[name].median, default="")
    rest = f" The least share is {share_text(shares[least])} ({least})." if shares else ""
    return (
        f"R. Ware et al. accept the harm that a sender does to itself; other stacks do over {UNACCEPTABLE:g} times "
        f"that in {harmed} of {format_count(len(judged), 'contest')}.{rest}"
    )


def _share(result: CellResult) -> Interval | None:
    """The first flow's part of the throughput of both, over the runs."""
    pairs = zip(*(result.values("mean_throughput", flow) for flow in (0, 1)), strict=False)
    shares = [first / (first + second) for first, second in pairs if first + second]
    return interval(shares) if shares else None


def _by_pair(results: Sequence[CellResult]) -> dict[tuple[str, str], CellResult]:
    """The two contestants → their cell."""
    return {_pair(result): result for result in measured_cells(results, "dumbbell/fairness")}


def _harms(results: Sequence[CellResult]) -> dict[tuple[str, str], float]:
    """A contestant and its competitor → the harm that is done to its throughput."""
    alone = {
        _contestant(result, 0): span.median
        for result in measured_cells(results, "dumbbell/alone")
        if (span := result.interval("mean_throughput", 0)) is not None
    }
    return {
        pair: harm(alone[pair[0]], span.median, more_is_better=True)
        for pair, result in _by_pair(results).items()
        if (span := result.interval("mean_throughput", 0)) is not None and alone.get(pair[0])
    }


def _is_unacceptable(harms: Mapping[tuple[str, str], float], pair: tuple[str, str]) -> bool:
    """Whether a competitor harms a contestant by so much more than the contestant harms itself."""
    own = harms.get((pair[0], pair[0]))
    return own is not None and harms[pair] > UNACCEPTABLE * own


def _pair(result: CellResult) -> tuple[str, str]:
    return _contestant(result, 0), _contestant(result, 1)


def _contestant(result: CellResult, flow: int) -> str:
    """A flow's server and congestion control, of which the scenario names each."""
    parameters = result.cell.scenario.flows[flow].parameters
    return f"{result.cell.implementation('server', flow).name} {parameters['server.congestion_control']}"


def _counts(results: Iterable[CellResult]) -> str:
    """How many runs figures rest on."""
    counts = sorted({result.outcomes.get("completed", 0) for result in results})
    if not counts:
        return "no runs"
    if len(counts) > 1:
        return f"{counts[0]} to {counts[-1]} runs"
    return format_count(counts[0], "run")


def links(results: Sequence[CellResult]) -> str:
    """Shares over rates, delays and queues."""
    cell_results = measured_cells(results, "dumbbell/fairness-links")
    lines = ["## Rates, delays and queues", ""]
    if not cell_results:
        return "\n".join(lines)
    columns = {
        "first": "flow0.server.congestion_control",
        "delay": "path.forward.delay",
        "queue": "path.forward.queue",
        "rate": "path.forward.rate",
    }
    figures = {
        "first, Mbit/s": MetricName("mean_throughput", 0),
        "CUBIC, Mbit/s": MetricName("mean_throughput", 1),
        "Jain": MetricName("jain_shared"),
        "utilisation": MetricName("utilisation_shared"),
        "queue, ms": MetricName("mean_queue_delay"),
    }
    lines += [
        "ngtcp2 runs against ngtcp2 with CUBIC for 30 s. The delay is one way, beside 10 ms back. The queue is in",
        "multiples of the bandwidth-delay product. RED has its thresholds at 0.3 and 0.8 of it. Each row has",
        f"{_counts(cell_results)}.",
        "",
        table_row([*columns, *figures]),
        table_row(["---"] * len(columns) + ["---:"] * len(figures)),
    ]
    for result in cell_results:
        asked = (str(result.cell.parameters[name]) for name in columns.values())
        lines.append(table_row([*asked, *(span_text(result.interval(*name)) for name in figures.values())]))
    return "\n".join([*lines, ""])

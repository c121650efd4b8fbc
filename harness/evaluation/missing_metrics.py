"""Why runs do not have a metric, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.formatting import flows_named
from harness.outcome import Absence, MeasuredRun, Run, deviations
from harness.scenario.metric_names import MetricName

#: So many metrics that are absent for one reason are named.
_MOST = 4


def sentences(absent: Iterable[Absence], flows: int) -> list[str]:
    """A sentence each, in a run of so many flows; metrics that share one are named together in it."""
    together: dict[tuple[object, ...], list[Absence]] = {}
    for one in absent:
        # What is of one flow, and of it alone, has a sentence of its own unless it lacks the same samples.
        own = one.metric if one.flows and one.samples is None and one.move is None else ""
        together.setdefault((own, one.flows, one.transfer, one.move, one.samples, one.why), []).append(one)
    return [_sentence(alike, flows) for alike in together.values()]


def _sentence(alike: Sequence[Absence], flows: int) -> str:
    first = alike[0]
    if first.samples is not None:
        left, of = first.samples
        return f"{_written(alike, flows)} leave out {left} of {of} samples {first.why}"
    if first.transfer is not None:
        return f"{_written(alike, flows)} is left out: {first.why}"
    whose = f" of {flows_named(first.flows)}" if first.flows else ""
    return f"{' and '.join(one.metric for one in alike)}{whose}: left out, {first.why}"


def _written(alike: Sequence[Absence], flows: int) -> str:
    names = [
        MetricName(one.metric, one.flows[0] if one.flows else None, one.transfer, move=one.move).text(flows)
        for one in alike
    ]
    if len(names) > _MOST:
        return f"{names[0]} and {len(names) - 1} more metrics"
    return " and ".join(names)


def of_flows(measured: MeasuredRun, flows: int) -> list[str]:
    """Of metrics of flows, the link and the network, which `report metrics` shows."""
    return sentences((one for one in measured.absent if one.transfer is None), flows)


def of_transfers(measured: MeasuredRun, flows: int) -> list[str]:
    """Of metrics of single transfers, which the tables show."""
    return sentences((one for one in measured.absent if one.transfer is not None), flows)


def warnings(runs: Iterable[tuple[Run, MeasuredRun | None]], *, flows_too: bool) -> list[str]:
    """What to check before trusting some runs, and why times are absent, each once; why metrics of flows are, too.

    Where parameters are seen at other values than they were set to is among it.
    """
    runs = list(runs)
    found: Counter[str] = Counter(deviations.sentences(runs))
    for run, measured in runs:
        found.update(run.warnings)
        if measured is not None:
            count = len(run.cell.scenario.flows)
            found.update([*measured.warnings, *of_transfers(measured, count)])
            found.update(of_flows(measured, count) if flows_too else ())
    return sorted(found)

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
    groups: dict[tuple[object, ...], list[Absence]] = {}
    for absence in absent:
        # What is of one flow, and of it alone, has a sentence of its own unless it lacks the same samples.
        own_metric = absence.metric if absence.flows and absence.samples is None and absence.move is None else ""
        groups.setdefault(
            (own_metric, absence.flows, absence.transfer, absence.move, absence.samples, absence.why), []
        ).append(absence)
    return [_sentence(group, flows) for group in groups.values()]


def _sentence(absences: Sequence[Absence], flows: int) -> str:
    first = absences[0]
    if first.samples is not None:
        omitted, total = first.samples
        return f"{_written(absences, flows)} leave out {omitted} of {total} samples {first.why}"
    if first.transfer is not None:
        return f"{_written(absences, flows)} is left out: {first.why}"
    suffix = f" of {flows_named(first.flows)}" if first.flows else ""
    return f"{' and '.join(absence.metric for absence in absences)}{suffix}: left out, {first.why}"


def _written(absences: Sequence[Absence], flows: int) -> str:
    names = [
        MetricName(
            absence.metric, absence.flows[0] if absence.flows else None, absence.transfer, move=absence.move
        ).text(flows)
        for absence in absences
    ]
    if len(names) > _MOST:
        return f"{names[0]} and {len(names) - 1} more metrics"
    return " and ".join(names)


def of_flows(measured: MeasuredRun, flows: int) -> list[str]:
    """Of metrics of flows, the link and the network, which `report metrics` shows."""
    return sentences((absence for absence in measured.absent if absence.transfer is None), flows)


def of_transfers(measured: MeasuredRun, flows: int) -> list[str]:
    """Of metrics of single transfers, which the tables show."""
    return sentences((absence for absence in measured.absent if absence.transfer is not None), flows)


def warnings(runs: Iterable[tuple[Run, MeasuredRun | None]], *, flows_too: bool) -> list[str]:
    """What to check before trusting some runs, and why times are absent, each once; why metrics of flows are, too.

    Where parameters are seen at other values than they were set to is among it.
    """
    runs = list(runs)
    counts: Counter[str] = Counter(deviations.sentences(runs))
    for run, measured in runs:
        counts.update(run.warnings)
        if measured is not None:
            count = len(run.cell.scenario.flows)
            counts.update([*measured.warnings, *of_transfers(measured, count)])
            counts.update(of_flows(measured, count) if flows_too else ())
    return sorted(counts)

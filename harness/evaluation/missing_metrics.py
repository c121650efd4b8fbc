"""Sentences that explain why runs lack a metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.formatting import format_flows
from harness.outcome import Absence, MeasuredRun, Run, deviations
from harness.scenario.metric_names import MetricName

#: Maximum number of metrics named for one reason.
_MAX_NAMES = 4


def absence_sentences(absent: Iterable[Absence], flows: int) -> list[str]:
    """One sentence per reason, in a run of `flows` flows; it names all metrics that share the reason."""
    groups: dict[tuple[object, ...], list[Absence]] = {}
    for absence in absent:
        # A metric of one flow has its own sentence, unless it lacks the same samples as others.
        own_metric = absence.metric if absence.flows and absence.samples is None and absence.move is None else ""
        groups.setdefault(
            (own_metric, absence.flows, absence.transfer, absence.move, absence.samples, absence.why), []
        ).append(absence)
    return [_sentence(group, flows) for group in groups.values()]


def _sentence(absences: Sequence[Absence], flows: int) -> str:
    first = absences[0]
    if first.samples is not None:
        omitted, total = first.samples
        return f"{_metric_names(absences, flows)} leave out {omitted} of {total} samples {first.why}"
    if first.transfer is not None:
        return f"{_metric_names(absences, flows)} is left out: {first.why}"
    suffix = f" of {format_flows(first.flows)}" if first.flows else ""
    return f"{' and '.join(absence.metric for absence in absences)}{suffix}: left out, {first.why}"


def _metric_names(absences: Sequence[Absence], flows: int) -> str:
    names = [
        MetricName(
            absence.metric, absence.flows[0] if absence.flows else None, absence.transfer, move=absence.move
        ).text(flows)
        for absence in absences
    ]
    if len(names) > _MAX_NAMES:
        return f"{names[0]} and {len(names) - 1} more metrics"
    return " and ".join(names)


def flow_absences(measured: MeasuredRun, flows: int) -> list[str]:
    """Sentences for metrics of flows, the link and the network, which `report metrics` shows."""
    return absence_sentences((absence for absence in measured.absent if absence.transfer is None), flows)


def transfer_absences(measured: MeasuredRun, flows: int) -> list[str]:
    """Sentences for metrics of single transfers, which the tables show."""
    return absence_sentences((absence for absence in measured.absent if absence.transfer is not None), flows)


def run_warnings(runs: Iterable[tuple[Run, MeasuredRun | None]], *, flows_too: bool) -> list[str]:
    """Warnings about runs, and why metrics of transfers are absent, each once.

    They include parameters that were observed at other values than configured. `flows_too`: also why metrics of flows
    are absent.
    """
    runs = list(runs)
    counts: Counter[str] = Counter(deviations.deviation_sentences(runs))
    for run, measured in runs:
        counts.update(run.warnings)
        if measured is not None:
            count = len(run.cell.scenario.flows)
            counts.update([*measured.warnings, *transfer_absences(measured, count)])
            counts.update(flow_absences(measured, count) if flows_too else ())
    return sorted(counts)

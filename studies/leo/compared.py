"""Each stack's download over a low orbit, with reconfigurations and without: a repetition has the same path for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval, proven_outcome
from harness.report.studies import measured_cells
from harness.scenario.metric_names import TransferName
from harness.stats.intervals import interval
from studies.leo.claims import HANDOVERS, STEADY

GOODPUT, USE, SPURIOUS = "mean_throughput_l7", "utilisation_shared", "spurious_losses"
#: What a metric that is of no transfer is of: a flow's series, or all flows together.
_OF_SERIES = {GOODPUT: 0, USE: None}
RECOVERY, LONGEST, UNRECOVERED = "change_recovery", "change_recovery_longest", "unrecovered_changes"


@dataclass(frozen=True)
class Stack:
    """What was measured of one stack's runs; None where nothing was."""

    name: str
    runs: int
    """With reconfigurations."""
    goodput: Interval | None
    """Mbit/s, with reconfigurations."""
    steady: Interval | None
    """Mbit/s, without."""
    spurious: Interval | None
    """Packets taken for lost that came all the same, with reconfigurations."""
    spurious_steady: Interval | None
    recovery: Interval | None
    """After a reconfiguration until the link is filled again, ms: the median over those of a run."""
    longest: Interval | None
    """The same after the one that took longest."""
    unrecovered: float
    """Reconfigurations of a run after which the link is not filled before the next, on average."""

    use: Interval | None
    """Share of what the link could carry, with reconfigurations."""
    steady_use: Interval | None
    """The same without."""


def stacks(results: Sequence[CellResult]) -> list[Stack]:
    """Every stack with itself that has runs with reconfigurations, in virtual time; the largest goodput first."""
    with_handovers, without = (_by_name(results, scenario) for scenario in (HANDOVERS, STEADY))
    found = [_stack(name, result, without.get(name)) for name, result in with_handovers.items()]
    return sorted(found, key=lambda stack: -(stack.goodput.median if stack.goodput is not None else 0.0))


def _by_name(results: Sequence[CellResult], scenario: str) -> dict[str, CellResult]:
    return {
        result.cell.server.name: result
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time and result.cell.client.name == result.cell.server.name
    }


def _stack(name: str, result: CellResult, steady: CellResult | None) -> Stack:
    unrecovered = _values(result, UNRECOVERED)
    return Stack(
        name=name,
        runs=len(_values(result, GOODPUT)),
        goodput=_span(result, GOODPUT),
        steady=None if steady is None else _span(steady, GOODPUT),
        spurious=_span(result, SPURIOUS),
        spurious_steady=None if steady is None else _span(steady, SPURIOUS),
        recovery=_span(result, RECOVERY),
        longest=_span(result, LONGEST),
        use=_span(result, USE),
        steady_use=None if steady is None else _span(steady, USE),
        unrecovered=math.fsum(unrecovered) / len(unrecovered) if unrecovered else math.nan,
    )


def _span(result: CellResult, metric: str) -> Interval | None:
    values = _values(result, metric)
    return interval(values) if values else None


def _values(result: CellResult, metric: str) -> list[float]:
    """A metric of the runs that completed over the link that was asked for."""
    transfer: TransferName | None = None if metric in _OF_SERIES else "first"
    flow = _OF_SERIES.get(metric, 0)
    values = [
        measured.value(metric, flow, transfer)
        for run, measured in result.runs
        if measured is not None and proven_outcome(run, measured).status == "completed"
    ]
    return [value for value in values if value is not None]

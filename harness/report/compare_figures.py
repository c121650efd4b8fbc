"""Figures of one engine's runs for a comparison, drawn from a cell's results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from harness.analysis.metrics.registry import find, unit_of
from harness.evaluation.cell_result import CellResult, counts, unreached
from harness.outcome import Better, EngineName, Interval, MeasuredRun, Run, Transfer, proven_outcome
from harness.scenario.metric_names import MetricName
from harness.stats.intervals import interval

CpuRole = Literal["client", "server", "sim"]
ROLES: tuple[CpuRole, ...] = ("client", "server", "sim")


@dataclass(frozen=True)
class Side:
    """One engine's runs of a point, as far as one metric goes."""

    engine: EngineName
    key: str
    """The cell's key in the store."""
    outcomes: Mapping[str, int]
    """How often each outcome happened."""
    counted: int
    """Runs that were measured and completed, or whose transfers failed; the others do not count."""
    interval: Interval | None
    """Of the metric; a time that a failed transfer never reached is infinite. None where it was not measured."""
    receive_drops: float | None
    """Median of the datagrams dropped at full socket buffers of both endpoints."""
    simulator: str
    """Identity of the simulator, with the lab kernel."""
    measured_by: tuple[int, ...]
    """Versions of the measuring code behind the runs that count, in order."""


@dataclass(frozen=True)
class CpuUse:
    """What one container spent during the transfer; medians over the real-time runs
    (`harness.analysis.metrics.wire`).
    """

    seconds: float
    """CPU time, s; in a short transfer it includes the container's start."""
    share: float
    """CPU seconds per second of the completion, or of the client's life where it never completed; 1 is one core."""


def _counted(result: CellResult) -> Iterator[tuple[Run, MeasuredRun]]:
    """The runs that count, as in `CellResult.measurements`."""
    for run, measured in result.runs:
        if measured is not None and counts(run, measured):
            yield run, measured


def _beside(metric: str, other: str) -> MetricName:
    """Another metric of the transfer that a metric is of."""
    name = MetricName.parse(metric)
    return MetricName(other, name.flow or 0, name.transfer or "first")


def _transfer(run: Run, metric: str) -> Transfer | None:
    name = MetricName.parse(metric)
    place = name.flow or 0, int(name.transfer == "repeat")
    return next((item for item in run.transfers if (item.flow, item.index) == place), None)


def _value(run: Run, measured: MeasuredRun, metric: str) -> float | None:
    found = measured.written(metric, len(run.cell.scenario.flows))
    if found is not None:
        return found.value
    return unreached(run, MetricName.parse(metric), failed=proven_outcome(run, measured).failed_transfer)


def side_of(result: CellResult | None, metric: str) -> Side | None:
    """What an engine's runs say of a metric; None where there are no runs."""
    if result is None or not result.runs:
        return None
    counted = list(_counted(result))
    values = [value for run, measured in counted if (value := _value(run, measured, metric)) is not None]
    drops = [measured.value(*_beside(metric, "udp_receive_drops")) for _, measured in counted]
    return Side(
        engine=result.cell.engine, key=result.cell.key, outcomes=result.outcomes, counted=len(counted),
        interval=interval(values) if values else None, receive_drops=_median(drops),
        simulator=result.cell.sim_image.identity,
        measured_by=tuple(sorted({measured.version for _, measured in counted})),
    )  # fmt: skip


def difference_of(real: float, virtual: float) -> float:
    """`virtual / real - 1`; 0 for equal values, two zeros and two infinities included."""
    if real == virtual:
        return 0.0
    return math.copysign(math.inf, virtual) if real == 0 else virtual / real - 1


def kind_of(results: Iterable[CellResult], metric: str) -> tuple[str, Better]:
    """Unit and direction of a metric; an empty unit where nobody has it."""
    for result in results:
        for measurement in result.written.get(metric, []):
            return unit_of(measurement), measurement.direction
    one = find(MetricName.parse(metric).metric)
    return ("", "neutral") if one is None else (one.unit, one.better)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return interval(known).median if known else None


def cpu_of(result: CellResult, metric: str) -> dict[CpuRole, CpuUse]:
    """CPU use during the metric's transfer. The simulator's stands with the first flow."""
    found: dict[CpuRole, CpuUse] = {}
    for role in ROLES:
        spent = [
            (used, used / seconds)
            for run, measured in _counted(result)
            if (used := measured.value(*_beside(metric, f"cpu_{role}"))) is not None
            and (seconds := _seconds(run, measured, metric)) is not None
        ]
        if spent:
            found[role] = CpuUse(
                seconds=interval(used for used, _ in spent).median, share=interval(share for _, share in spent).median
            )
    return found


def _seconds(run: Run, measured: MeasuredRun, metric: str) -> float | None:
    """How long the metric's transfer took; the client's life where it never completed."""
    completion = measured.value(*_beside(metric, "completion"))
    if completion is not None:
        return completion
    transfer = _transfer(run, metric)
    lived = 0.0 if transfer is None else (transfer.ended_ns - transfer.started_ns) / 1e9
    return lived if lived > 0 else None


def cores_of(result: CellResult) -> int | None:
    """Cores of the machine of the last run."""
    known = [cores for run, _ in result.runs if isinstance(cores := run.host.get("cpus"), int)]
    return known[-1] if known else None

"""Second connections beside first ones, and seeds beside none, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval, MeasuredRun, proven_outcome
from harness.report.studies import measured_cells
from harness.scenario.parameters import Role
from harness.scenario.schema import Implementation
from harness.stats.intervals import harm, interval
from studies.remembered.claims import Course

Transfer = Literal["first", "repeat"]


@dataclass(frozen=True)
class Mechanism:
    """What the second connection of a cell has to start from."""

    server: str
    seed: str
    early_data: str
    """Of the client's parameter zero_rtt: on or off."""

    @property
    def handshake(self) -> str:
        """For people."""
        return "0-RTT" if self.early_data != "off" else "resumed"

    @property
    def title(self) -> str:
        """For people."""
        return self.handshake if self.seed == "off" else f"{self.handshake}, {self.seed}"

    @property
    def order(self) -> tuple[str, bool, bool, str]:
        """In a table: what remembers less first."""
        return self.server, self.early_data != "off", self.seed != "off", self.seed


def mechanism(result: CellResult) -> Mechanism:
    """Of a cell. What nobody asked for is what the server does by default."""
    cell = result.cell
    seed = cell.parameters.get("server.bdp_seed", _default(cell.server, "server", "bdp_seed"))
    early = cell.parameters.get("client.zero_rtt", _default(cell.client, "client", "zero_rtt"))
    return Mechanism(cell.server.name, str(seed or "off"), str(early or "off"))


def _default(implementation: Implementation, role: Role, parameter: str) -> object:
    """What it does when nobody asks; None where its manifest does not say."""
    setting = implementation.setting(role, parameter)
    return None if setting is None else setting.default


def by_mechanism(results: Sequence[CellResult], scenario: str) -> dict[Mechanism, CellResult]:
    """The cells of a scenario in virtual time, those that remember less first."""
    cells = {mechanism(result): result for result in measured_cells(results, scenario) if result.cell.virtual_time}
    return dict(sorted(cells.items(), key=lambda item: item[0].order))


def completed(result: CellResult) -> dict[int, MeasuredRun]:
    """Repetition → what was measured, of the runs that completed."""
    return {
        run.repetition: measured
        for run, measured in result.runs
        if measured is not None and proven_outcome(run, measured).status == "completed"
    }


def spread(values: Sequence[float | None]) -> Interval | None:
    """The interval of what there is; None where there is nothing."""
    there = [value for value in values if value is not None]
    return interval(there) if there else None


def times(result: CellResult, transfer: Transfer) -> Interval | None:
    """Seconds that the first or the repeated transfer took."""
    return spread([measured_run.value("completion", 0, transfer) for measured_run in completed(result).values()])


def against_first(result: CellResult) -> Interval | None:
    """The repeated transfer's time per the first one's, in each run."""
    pairs = [
        (measured_run.value("completion", 0, "repeat"), measured_run.value("completion", 0))
        for measured_run in completed(result).values()
    ]
    return spread([again / first for again, first in pairs if again is not None and first])


def gain(result: CellResult) -> Interval | None:
    """Seconds by which the repeated transfer is shorter than the first one, in each run."""
    pairs = [
        (measured_run.value("completion", 0), measured_run.value("completion", 0, "repeat"))
        for measured_run in completed(result).values()
    ]
    return spread([first - again for first, again in pairs if first is not None and again is not None])


def against(result: CellResult, base: CellResult, metric: str, flow: int, transfer: Transfer) -> Interval | None:
    """A metric of one cell per that of another, repetition by repetition."""
    return spread([mine / its for mine, its in _pairs(result, base, metric, flow, transfer)])


def harmed(result: CellResult, base: CellResult, flow: int) -> Interval | None:
    """What a flow's throughput loses with one mechanism beside it against another, repetition by repetition."""
    pairs = _pairs(result, base, "mean_throughput", flow, None)
    return spread([harm(its, mine, more_is_better=True) for mine, its in pairs])


def _pairs(
    result: CellResult, base: CellResult, metric: str, flow: int, transfer: Transfer | None
) -> list[tuple[float, float]]:
    """A metric of two cells in the repetitions in which both have it, the second's more than nothing."""
    runs, base_runs = completed(result), completed(base)
    values = [
        (measured.value(metric, flow, transfer), base_runs[number].value(metric, flow, transfer))
        for number, measured in runs.items()
        if number in base_runs
    ]
    return [(mine, its) for mine, its in values if mine is not None and its is not None and its > 0]


def seen(result: CellResult, parameter: str) -> list[float | str]:
    """What runs show of the server's second connection."""
    return [
        observation.value
        for measured_run in completed(result).values()
        for observation in measured_run.observed
        if observation.role == "server" and observation.parameter == parameter
    ]


def course(phases: str) -> Course:
    """What the phases of a second connection amount to."""
    if "unvalidated" not in phases:
        return "does not jump"
    return "jumps and retreats" if "safe_retreat" in phases else "jumps"

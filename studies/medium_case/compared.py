"""The times of each cell that changes one setting, beside the objectives and textbook slow start."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.evaluation.objective_claim import Answer, objectives_answer
from harness.netem.bounds import bdp_bytes, slow_start_time
from harness.netem.mobility import flow_timeline
from harness.outcome import Cell, Interval
from harness.report.studies import measured_cells
from harness.scenario.schema import Scenario
from harness.units import Duration, Size
from studies.medium_case.claims import CONNECTION_WINDOW, INITIAL_WINDOW, NEIGHBOURS, TIMES

#: Bytes of a packet of an initial window (RFC 9002 §7.2 with the smallest datagram).
_PACKET = 1200
#: Bandwidth-delay products are shown to this fraction of one.
_STEP = 0.25


@dataclass(frozen=True)
class Times:
    """A server's times with one setting changed."""

    server: str
    setting: float
    """Packets of the initial window, or BDPs of the connection window."""
    seconds: tuple[Interval, ...]
    """Of 2, 10 and 100 MB."""
    passes: bool
    """Whether it meets all objectives of the scenario."""


@dataclass(frozen=True)
class Neighbour:
    """A path beside the medium case's, or a setting of the server there."""

    changed: str
    """What is changed, for people."""
    seconds: tuple[Interval, ...]
    answer: Answer
    """Whether it meets all objectives of the scenario."""
    first_flight: float | None
    """Packets that the server sends in the first round trip of data, by the capture; None where nobody knows."""


def initial_windows(results: Sequence[CellResult]) -> list[Times]:
    """By server and window."""
    return _times(results, INITIAL_WINDOW, lambda cell: float(cell.parameters["server.initial_cwnd"]))


def connection_windows(results: Sequence[CellResult]) -> list[Times]:
    """By server and window."""
    return _times(results, CONNECTION_WINDOW, _connection_bdps)


def neighbours(results: Sequence[CellResult]) -> list[Neighbour]:
    """What was changed, in the order of its name."""
    made = []
    for result in measured_cells(results, NEIGHBOURS):
        seconds = _seconds(result)
        if seconds and result.cell.virtual_time and result.cell.parameters:
            changed = ", ".join(f"{name} {value}" for name, value in sorted(result.cell.parameters.items()))
            made.append(Neighbour(changed, seconds, objectives_answer(result), _first_flight(result)))
    return sorted(made, key=lambda neighbour: neighbour.changed)


def _first_flight(result: CellResult) -> float | None:
    seen = [
        item.value
        for _, measured in result.runs
        if measured is not None
        for item in measured.observed
        if (item.role, item.parameter) == ("server", "initial_cwnd") and isinstance(item.value, float | int)
    ]
    return statistics.median(seen) if seen else None


def textbook(scenario: Scenario, packets: float) -> tuple[float, ...]:
    """Seconds of 2, 10 and 100 MB by textbook slow start from a window of so many packets."""
    course = flow_timeline(scenario)
    sizes = (Size.parse(name.removeprefix("milestone_")) for name in TIMES)
    return tuple(slow_start_time(course, size, round(packets * _PACKET)) for size in sizes)


def targets(scenario: Scenario) -> tuple[float, ...]:
    """The objectives of the scenario for 2, 10 and 100 MB, s. ValueError for one without them."""
    goals = {objective.metric: objective.at_most for objective in scenario.objectives}
    bounds = [goals.get(name) for name in TIMES]
    seconds = tuple(bound.seconds for bound in bounds if isinstance(bound, Duration))
    if len(seconds) != len(TIMES):
        raise ValueError(f"{scenario.name} lacks an objective of {', '.join(TIMES)}")
    return seconds


def middle_by_setting(rows: Sequence[Times]) -> Mapping[float, tuple[float, ...]]:
    """Setting → the median over the servers of each time."""
    by_setting: dict[float, list[Times]] = {}
    for row in rows:
        by_setting.setdefault(row.setting, []).append(row)
    return {
        setting: tuple(statistics.median(row.seconds[index].median for row in own) for index in range(len(TIMES)))
        for setting, own in sorted(by_setting.items())
    }


def _times(results: Sequence[CellResult], scenario: str, setting_of: Callable[[Cell], float]) -> list[Times]:
    made = []
    for result in measured_cells(results, scenario):
        seconds = _seconds(result)
        if seconds and result.cell.virtual_time:
            passes = objectives_answer(result) == "meets"
            made.append(Times(result.cell.server.name, setting_of(result.cell), seconds, passes))
    return sorted(made, key=lambda row: (row.server, row.setting))


def _seconds(result: CellResult) -> tuple[Interval, ...]:
    """The three times; empty where one of them is missing."""
    spans = [result.interval(name, 0, "first") for name in TIMES]
    known = tuple(span for span in spans if span is not None)
    return known if len(known) == len(spans) else ()


def _connection_bdps(cell: Cell) -> float:
    path = cell.scenario.path
    window = Size.parse(str(cell.parameters["client.connection_window"])).bytes
    return round(window / bdp_bytes(path.to_client.rate, path.rtt) / _STEP) * _STEP

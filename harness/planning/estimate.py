"""Estimates of how long a run takes and how much it transfers, before it has run. Pure.

A model gives the time from the scenario. Where runs are stored, a factor corrects it: the ratio of measured to modelled
time of the most similar runs. Similar runs are those of the same cell, then of the same pair in the same scenario, then
of the same server, then any on the same processor. The cost of a byte differs by a factor of ten between
implementations and by two between machines, so a fixed list of figures would not do.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from harness.derived import once_per_object
from harness.netem import ideal_time
from harness.netem.mobility import flow_timeline
from harness.outcome import Cell
from harness.scenario.parameters import ParameterValue
from harness.scenario.schema import Scenario

#: Wall seconds of a run in virtual time: per flow (its endpoints), per second of the lab's clock, per byte transferred.
#: They are close to a fit (of logarithms, soft L1) to the 3,159 cells of results/reference that ran with the kernel in
#: the programs' processes. The cost of a byte is set higher than in the fit, because most of those cells move few
#: bytes.
VIRTUAL_FLOW, VIRTUAL_SECOND, VIRTUAL_BYTE = 1.2, 0.02, 3.4e-8
#: Wall seconds that a run in real time takes beside its transfers: for the lab, and per flow for its two containers
#: (each a third of a second of CPU).
REAL_START, REAL_FLOW = 5.3, 0.7
#: From this number of flows, starting and watching the endpoints takes longer than the transfers.
MANY_FLOWS = 8
#: Factor by which measuring extends a run's wall time: median of 376 runs, from 1.04 (10 MB) to 1.27.
MEASURING_FACTOR = 1.1


#: Outcomes of runs that show how long one takes.
TIMED_OUTCOMES = frozenset({"completed", "timed_out"})


@dataclass(frozen=True)
class RunDuration:
    """How long a stored run took."""

    cell: Cell
    wall: float
    """Seconds, without measuring."""
    machine: str
    """The model of its processor."""


class CellKind(NamedTuple):
    """What of a cell says how similar it is to another one."""

    engine: str
    scenario: str
    client: str
    server: str
    parameters: tuple[tuple[str, ParameterValue], ...]
    """Sorted by name."""
    many_flows: bool
    """Their number then determines the time, not the implementations."""


class DurationRatio(NamedTuple):
    """A stored run's duration against the model's."""

    kind: CellKind
    ratio: float
    """Natural logarithm of measured over modelled time."""
    machine: str
    """The model of its processor."""


def duration_ratios(runs: Iterable[RunDuration]) -> Iterator[DurationRatio]:
    """What `DurationModel` needs of runs that completed or timed out: a hundredth of their cells."""
    expected: dict[str, float] = {}
    for run in runs:
        if run.wall <= 0:
            continue
        if run.cell.key not in expected:
            expected[run.cell.key] = _engine_seconds(run.cell)
        yield DurationRatio(_kind(run.cell), math.log(run.wall / expected[run.cell.key]), run.machine)


class DurationModel:
    """Estimates, drawn from how long stored runs took."""

    def __init__(self, runs: Iterable[RunDuration], machine: str, ratios: Iterable[DurationRatio] = ()) -> None:
        """`runs`: stored runs that completed or timed out; `machine`: the model of this machine's processor; `ratios`:
        those of further runs.
        """
        self._machine = machine
        self._durations: dict[Hashable, list[float]] = {}
        for item in itertools.chain(duration_ratios(runs), ratios):
            for machine in dict.fromkeys((item.machine, "")):
                for place in _group_keys(item.kind, machine):
                    self._durations.setdefault(place, []).append(item.ratio)
        self._factors: dict[Hashable, float] = {}

    def expected_seconds(self, cell: Cell) -> float:
        """Wall seconds of one run of a cell, measuring included."""
        return expected_seconds(cell) * self._factor(cell)

    def _factor(self, cell: Cell) -> float:
        # The most similar runs of this machine; if it has none with this engine, those of any machine.
        for machine in (self._machine, ""):
            for place in _group_keys(_kind(cell), machine):
                if place in self._factors:
                    return self._factors[place]
                if ratios := self._durations.get(place):
                    self._factors[place] = math.exp(statistics.median(ratios))
                    return self._factors[place]
        return 1.0


def _kind(cell: Cell) -> CellKind:
    return CellKind(
        cell.engine,
        cell.scenario.name,
        cell.client.name,
        cell.server.name,
        tuple(sorted(cell.parameters.items())),
        len(cell.scenario.flows) >= MANY_FLOWS,
    )


def _group_keys(kind: CellKind, machine: str) -> Iterator[Hashable]:
    """Keys of the groups of runs that a cell belongs to, the most similar group first."""
    engine, scenario, client, server, parameters, many_flows = kind
    common = engine, machine
    # Releases of one implementation take about as long as each other.
    client_base, server_base = (name.partition("@")[0] for name in (client, server))
    yield *common, "cell", scenario, client, server, parameters
    yield *common, "pair there", scenario, client, server
    yield *common, "implementations there", scenario, client_base, server_base
    yield *common, "server there", scenario, server_base
    yield *common, "server", server_base, many_flows
    yield *common, "anything", many_flows
    yield *common, "anything"


#: Bytes that a run keeps on the disk: for its record and figures, and per byte transferred (compressed captures and
#: logs). Runs of 2 × 100 MB keep 0.03 to 0.25 per byte. quiche with quiche keeps the most: its logs and captures are
#: three times as large as its transfers.
STORED_BESIDE, STORED_BYTE = 500_000, 0.3
#: Bytes that it writes while it runs: per byte transferred (the byte itself, and captures and logs before compression),
#: and beside them.
WRITTEN_BYTE, WRITTEN_BESIDE = 5, 64 << 20
#: The same where all flows are TCP's: no file, no log, and 112 B in each of two captures for a segment and for its ACK.
WRITTEN_BYTE_OF_TCP = 0.5


def expected_seconds(cell: Cell) -> float:
    """Rough wall seconds of one run, measuring included, by the model alone."""
    return _engine_seconds(cell) * MEASURING_FACTOR


def _engine_seconds(cell: Cell) -> float:
    """Wall seconds of the engine: in real time the duration of the transfers, in virtual time the cost of endpoints and
    packets.
    """
    scenario = cell.scenario
    lab = _lab_seconds(scenario)
    if cell.virtual_time:
        flows = VIRTUAL_FLOW * len(scenario.flows)
        return flows + VIRTUAL_SECOND * lab + VIRTUAL_BYTE * transferred_bytes(scenario)
    return lab + REAL_START + REAL_FLOW * len(scenario.flows)


@once_per_object
def _lab_seconds(scenario: Scenario) -> float:
    """Seconds until the last flow has ended, with transfers at 1.3 × the ideal."""
    longest = 0.0
    for flow in scenario.flows:
        if flow.carried is None:
            end = flow.stop or flow.start
            if flow.datagrams is not None:
                end = flow.start + flow.datagrams.duration
            longest = max(longest, end.seconds)
            continue
        last = max((request.at.seconds for request in flow.schedule), default=0.0)
        ideal = max(ideal_time(flow_timeline(scenario, flow), flow.carried), last)
        duration = min(1.3 * ideal + 3, scenario.timeout.seconds)
        repeat = 0.0 if flow.repeat_after is None else flow.repeat_after.seconds + duration
        longest = max(longest, flow.start.seconds + duration + repeat)
    return longest


@once_per_object
def transferred_bytes(scenario: Scenario) -> int:
    """Approximate bytes of all flows: their files, or the capacity of the bottleneck until the last flow stops."""
    carried = ((flow.carried, flow.repeat_after) for flow in scenario.flows)
    sizes = [size.bytes * (1 if repeat_after is None else 2) for size, repeat_after in carried if size is not None]
    last_stop = max([flow.stop.seconds for flow in scenario.flows if flow.stop is not None], default=0.0)
    return sum(sizes) + round(scenario.path.to_client.rate.value * last_stop / 8)


def written_bytes(scenario: Scenario) -> int:
    """Upper bound of the bytes that a run writes before compression, received files included."""
    per_byte = WRITTEN_BYTE_OF_TCP if all(flow.kind == "tcp" for flow in scenario.flows) else WRITTEN_BYTE
    return round(per_byte * transferred_bytes(scenario)) + WRITTEN_BESIDE


def stored_bytes(scenario: Scenario) -> int:
    """Upper bound of the bytes that a run keeps on the disk: its record, and compressed captures and logs."""
    return STORED_BESIDE + round(STORED_BYTE * transferred_bytes(scenario))

"""How long a run takes, and how much it transfers, before it has run. Pure.

A model of what a run consists of, and, where runs are stored, how far those nearest to it were from the model: the same
cell, the same pair in the same scenario, the same server, whatever ran on the same processor. Implementations differ by
a factor of ten in what a byte costs them, and machines by two, which no list of figures kept here would follow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from harness.netem import ideal_time
from harness.netem.mobility import course
from harness.outcome import Cell
from harness.scenario.schema import Scenario

#: Wall seconds of a run in virtual time: a flow's endpoints, a second of the lab's clock, a byte of a transfer. Near to
#: a fit of the 3,159 cells of results/reference that were made with the kernel in programs' processes (logarithms, soft
#: L1), with more for a byte: most of those cells move few.
VIRTUAL_FLOW, VIRTUAL_SECOND, VIRTUAL_BYTE = 1.2, 0.02, 3.4e-8
#: Wall seconds of a run in real time beside its transfers: the lab, and the two containers of a flow, each a third of a
#: second of CPU.
REAL_START, REAL_FLOW = 5.3, 0.7
#: Flows from which on starting and watching their endpoints takes longer than what they transfer.
MANY = 8
#: What measuring adds to a run's wall time: median of 376 runs, from 1.04 (10 MB) to 1.27.
MEASURING = 1.1


#: Outcomes of runs that show how long one takes.
ENDED = frozenset({"completed", "timed_out"})


@dataclass(frozen=True)
class Took:
    """How long a stored run took."""

    cell: Cell
    wall: float
    """Seconds, without measuring."""
    machine: str
    """The model of its processor."""


class Experience:
    """Estimates, drawn from how long stored runs took."""

    def __init__(self, runs: Iterable[Took], machine: str) -> None:
        """`runs`: stored runs that ended by themselves or by their time; `machine`: the model of this machine's
        processor.
        """
        self._machine = machine
        self._seen: dict[Hashable, list[float]] = {}
        expected: dict[str, float] = {}
        for run in runs:
            if run.wall <= 0:
                continue
            if run.cell.key not in expected:
                expected[run.cell.key] = _engine_seconds(run.cell)
            ratio = math.log(run.wall / expected[run.cell.key])
            for machine in dict.fromkeys((run.machine, "")):
                for place in _places(run.cell, machine):
                    self._seen.setdefault(place, []).append(ratio)
        self._factors: dict[Hashable, float] = {}

    def expected(self, cell: Cell) -> float:
        """Wall seconds of one run of a cell, measuring included."""
        return expected_seconds(cell) * self._factor(cell)

    def _factor(self, cell: Cell) -> float:
        # Of this machine's runs the nearest, and where it has none of the engine, of any machine's.
        for machine in (self._machine, ""):
            for place in _places(cell, machine):
                if place in self._factors:
                    return self._factors[place]
                if ratios := self._seen.get(place):
                    self._factors[place] = math.exp(statistics.median(ratios))
                    return self._factors[place]
        return 1.0


def _places(cell: Cell, machine: str) -> Iterator[Hashable]:
    """What runs have in common with a cell's, the nearest first."""
    scenario, client, server = cell.scenario.name, cell.client.name, cell.server.name
    common = cell.engine, machine
    parameters = tuple(sorted(cell.parameters.items()))
    yield *common, "cell", scenario, client, server, parameters
    yield *common, "pair there", scenario, client, server
    yield *common, "server there", scenario, server
    # With many flows it is their number that counts, and not whose bytes they are.
    many_flows = len(cell.scenario.flows) >= MANY
    yield *common, "server", server, many_flows
    yield *common, "anything", many_flows
    yield *common, "anything"


#: What a run leaves of the disk: its record and figures, and for every byte transferred, compressed captures and logs.
#: Of 2 × 100 MB 0.03 to 0.25 (quiche with quiche, whose logs and captures are three times what they transfer).
FIGURES, STORED_BYTE = 500_000, 0.3
#: What it writes meanwhile, for every byte transferred: the byte, and captures and logs that are not compressed yet.
WRITTEN_BYTE, WRITTEN_BESIDE = 5, 64 << 20


def expected_seconds(cell: Cell) -> float:
    """Rough wall time of one run, measuring included, by the model alone."""
    return _engine_seconds(cell) * MEASURING


def _engine_seconds(cell: Cell) -> float:
    """What an engine takes: in real time as long as the transfers; in virtual time what endpoints and packets cost."""
    scenario = cell.scenario
    lab = _lab_seconds(scenario)
    if cell.virtual_time:
        flows = VIRTUAL_FLOW * len(scenario.flows)
        return flows + VIRTUAL_SECOND * lab + VIRTUAL_BYTE * transferred_bytes(scenario)
    return lab + REAL_START + REAL_FLOW * len(scenario.flows)


def _lab_seconds(scenario: Scenario) -> float:
    """Seconds until the last flow has ended, with transfers at 1.3 × the ideal."""
    longest = 0.0
    for flow in scenario.flows:
        if flow.carried is None:
            longest = max(longest, flow.stop.seconds if flow.stop is not None else 0.0)
            continue
        duration = min(1.3 * ideal_time(course(scenario, flow), flow.carried) + 3, scenario.timeout.seconds)
        repeat = 0.0 if flow.repeat_after is None else flow.repeat_after.seconds + duration
        longest = max(longest, flow.start.seconds + duration + repeat)
    return longest


def transferred_bytes(scenario: Scenario) -> int:
    """About what all flows of a run transfer: their files, or what passes the bottleneck until the last stop."""
    carried = ((flow.carried, flow.repeat_after) for flow in scenario.flows)
    sizes = [size.bytes * (1 if repeat_after is None else 2) for size, repeat_after in carried if size is not None]
    last_stop = max([flow.stop.seconds for flow in scenario.flows if flow.stop is not None], default=0.0)
    return sum(sizes) + round(scenario.path.to_client.rate.value * last_stop / 8)


def written_bytes(scenario: Scenario) -> int:
    """The most that a run writes, received files among it, before what it leaves is compressed."""
    return WRITTEN_BYTE * transferred_bytes(scenario) + WRITTEN_BESIDE


def stored_bytes(scenario: Scenario) -> int:
    """The most that a run leaves of the disk: its compressed captures and logs, by what it transfers."""
    return FIGURES + round(STORED_BYTE * transferred_bytes(scenario))

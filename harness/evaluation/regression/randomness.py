"""Whether chance has a part in what a cell's figures come to."""

from __future__ import annotations

from harness.outcome import Cell
from harness.planning import sampling

#: Traffic whose packets leave when their law says, whatever the seed.
_REGULAR = frozenset({"bulk", "cbr"})


def plays(cell: Cell) -> bool:
    """Whether another seed, or other bits that change nothing of substance, may give other figures.

    In real time always. In virtual time where the scenario draws something (loss, damage, jitter, a service process,
    RED's early drops, ranges, a generator's gaps), and where several flows share a queue, so that the order of two
    packets decides whose is dropped.
    """
    scenario = cell.scenario
    return (
        cell.engine != "virtual"
        or len(scenario.flows) > 1
        or sampling.is_random(scenario)
        or any(flow.traffic.model not in _REGULAR for flow in scenario.flows)
    )

"""Whether chance has a part in what a cell's figures come to."""

from __future__ import annotations

from harness.model import Path, Red, Scenario
from harness.outcome import Cell

#: Traffic whose packets leave when their law says, whatever the seed.
_REGULAR = frozenset({"bulk", "cbr"})


def plays(cell: Cell) -> bool:
    """Whether another seed, or other bits that change nothing of substance, may give other figures.

    In real time always. In virtual time where the scenario draws something (loss, damage, jitter, a service process,
    RED's early drops, ranges, a generator's gaps), and where several flows share a queue, so that the order of two
    packets decides whose is dropped.
    """
    scenario = cell.scenario
    return cell.engine != "virtual" or len(scenario.flows) > 1 or _drawn(scenario)


def _drawn(scenario: Scenario) -> bool:
    return (
        bool(scenario.draw)
        or any(flow.traffic.model not in _REGULAR for flow in scenario.flows)
        or any(map(_of_path, scenario.every_path.values()))
    )


def _of_path(path: Path) -> bool:
    links = (path.forward, path.return_)
    later = [link for change in path.changes for link in (change.forward, change.return_) if link is not None]
    return any(
        link.mean_loss > 0
        or link.jitter.value > 0
        or link.service is not None
        or isinstance(link.queue, Red)
        or link.corrupt is not None
        or (link.drop is not None and link.drop.rate is not None)
        for link in links
    ) or any(link.loss is not None for link in later)

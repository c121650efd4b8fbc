"""Whether a scenario leaves something of its path to chance."""

from __future__ import annotations

from harness.scenario.schema import Path, Red, Scenario


def drawn(scenario: Scenario) -> bool:
    """Whether its seed decides what the path does: loss, damage, jitter, a service process, RED, ranges."""
    return bool(scenario.draw) or any(map(_of_path, scenario.every_path.values()))


def _of_path(path: Path) -> bool:
    links = [path.forward, path.return_]
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

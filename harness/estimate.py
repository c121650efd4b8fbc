"""How long a run takes, and how much it transfers, before it has run. Pure."""

from __future__ import annotations

from harness.model import Scenario
from harness.outcome import Cell
from harness.path import ideal_time

#: Wall seconds of a run in virtual time: start and stop, and per byte of a transfer (`make bench` has the figures).
VIRTUAL_START, VIRTUAL_BYTE = 2.0, 1.1e-7

#: What a run leaves of the disk: its record and figures, and for every byte transferred, compressed captures and logs.
#: Of 2 × 100 MB 0.03 to 0.25 (quiche with quiche, whose logs and captures are three times what they transfer).
FIGURES, STORED_BYTE = 500_000, 0.3
#: What it writes meanwhile, for every byte transferred: the byte, and captures and logs that are not compressed yet.
WRITTEN_BYTE, WRITTEN_BESIDE = 5, 64 << 20


def expected_seconds(cell: Cell) -> float:
    """Rough wall time of one run, for the estimate.

    In real time transfers at 1.3 × the ideal, pauses, overhead; in virtual time what the packets cost.
    """
    if cell.engine == "virtual":
        return VIRTUAL_START + VIRTUAL_BYTE * transferred_bytes(cell.scenario)
    longest = 0.0
    for flow in cell.scenario.flows:
        if flow.download is None:
            longest = max(longest, flow.stop.seconds if flow.stop is not None else 0.0)
            continue
        once = min(1.3 * ideal_time(cell.scenario.path, flow.download) + 3, cell.scenario.timeout.seconds)
        again = 0.0 if flow.repeat_after is None else flow.repeat_after.seconds + once
        longest = max(longest, flow.start.seconds + once + again)
    return longest + 6


def transferred_bytes(scenario: Scenario) -> int:
    """About what all flows of a run transfer: their files, or what passes the bottleneck until the last stop."""
    files = [flow for flow in scenario.flows if flow.download is not None]
    sizes = [flow.download.bytes * (1 if flow.repeat_after is None else 2) for flow in files if flow.download]
    last = max([flow.stop.seconds for flow in scenario.flows if flow.stop is not None], default=0.0)
    return sum(sizes) + round(scenario.path.to_client.rate.value * last / 8)


def written_bytes(scenario: Scenario) -> int:
    """The most that a run writes, received files among it, before what it leaves is compressed."""
    return WRITTEN_BYTE * transferred_bytes(scenario) + WRITTEN_BESIDE


def stored_bytes(scenario: Scenario) -> int:
    """The most that a run leaves of the disk: its compressed captures and logs, by what it transfers."""
    return FIGURES + round(STORED_BYTE * transferred_bytes(scenario))

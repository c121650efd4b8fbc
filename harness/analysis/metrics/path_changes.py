"""How soon a transfer fills its link again, after each change of a path that makes it stop or gives it another rate.

A change here is a moment at which the direction of the data gets another rate or delay, or begins to be dark. Several
at the same moment are one. It is measured where one flow has the path for itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import LinkDirection
from harness.analysis.link_replay import LinkPhase
from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView
from harness.capture.artefacts import TransferWindow
from harness.outcome import Absence

Ints = npt.NDArray[np.int64]

#: The link is filled again when so much of its rate has come to the receiver within so many ns.
FILLED, WINDOW_NS = 0.8, 100_000_000
_FORMULA = f"the change until the end of the first {WINDOW_NS // 10**6} ms in which {FILLED:.0%} of the rate came"
RECOVERY = declare(
    "change_recovery",
    layer="flow",
    unit="ms",
    better="lower",
    title="after a change of the path, until its link is filled again: the median over the changes",
    formula=f"median of {_FORMULA}; where it is not filled before the next change, the time until that",
    source="both captures, and the simulator's events",
)
LONGEST = declare(
    "change_recovery_longest",
    layer="flow",
    unit="ms",
    better="lower",
    title="the same, after the change that took longest",
    formula=f"max of {_FORMULA}; as in change_recovery",
    source="both captures, and the simulator's events",
)
UNFILLED = declare(
    "unrecovered_changes",
    layer="flow",
    unit="changes",
    better="lower",
    title="changes of the path after which its link is not filled before the next one, or the end",
    formula="count",
    source="both captures, and the simulator's events",
)


@measures
def change_recoveries(view: RunView) -> Iterator[Finding]:
    """Yield change_recovery, change_recovery_longest and unrecovered_changes, in the direction of the data."""
    direction = view.directions.get(view.data_side)
    if view.lab is None or direction is None or len(view.lab.flows) != 1:
        return
    changes = _change_times(view)
    for window in view.windows:
        within = [at for at in changes if window.start_ns < at < window.end_ns]
        if not within:
            continue
        times, unfilled = _recoveries(direction, window, within)
        if not times:
            why = "the path stands still from its last change on"
            yield Absence(metric=RECOVERY.name, flows=(window.transfer.flow,), transfer=window.name, why=why)
            continue
        yield transfer_measurement(RECOVERY, window, statistics.median(times) / 1e6, "both captures")
        yield transfer_measurement(LONGEST, window, max(times) / 1e6, "both captures")
        yield transfer_measurement(UNFILLED, window, unfilled, "both captures")


def _change_times(view: RunView) -> list[int]:
    """When the direction of the data changed, ns, in order."""
    assert view.lab is not None
    side = view.data_side
    states = [change.to_client if side == "to_client" else change.to_server for change in view.lab.changes]
    due = {
        view.lab.changes[index].at: index
        for index, state in enumerate(states)
        if state is not None and (state.rate_bps is not None or state.delay_ns is not None)
    }
    due |= {
        outage.from_ns / 1e9: -1
        for outage in view.lab.outages
        if outage.direction in (side, None) and outage.from_ns / 1e9 not in due
    }
    applied = (view.events.applied(index, at) for at, index in due.items())
    return sorted(time for time in applied if time is not None)


def _recoveries(direction: LinkDirection, window: TransferWindow, changes: list[int]) -> tuple[list[int], int]:
    """The time after each change until the link is filled, ns, and after how many it is not.

    A change to a rate of 0 is left out.
    """
    passage = direction.passage
    rows = np.flatnonzero(passage.arrived & (passage.entered.flow == window.transfer.flow))
    rows = rows[np.argsort(passage.out_ns[rows], kind="stable")]
    came_ns, bits = passage.out_ns[rows], np.cumsum(8 * passage.entered.length[rows].astype(np.int64))
    times, unfilled = [], 0
    for begin, end in zip(changes, [*changes[1:], window.end_ns], strict=True):
        rate = _phase_at(direction, begin).rate_bps
        if not rate:
            continue
        filled = _first_filled(came_ns, bits, begin, end, rate)
        times.append((end if filled is None else filled) - begin)
        unfilled += filled is None
    return times, unfilled


def _phase_at(direction: LinkDirection, moment: int) -> LinkPhase:
    """The phase that a moment begins, or is in."""
    return [phase for phase in direction.phases if phase.start_ns <= moment][-1]


def _first_filled(came_ns: Ints, bits: Ints, begin: int, end: int, rate: int) -> int | None:
    """The first arrival that ends a window behind `begin` with enough of the rate in it; None where none does."""
    last = np.arange(*np.searchsorted(came_ns, [begin + WINDOW_NS, end]))
    before = np.searchsorted(came_ns, came_ns[last] - WINDOW_NS, side="right")
    total = np.concatenate([[0], bits])
    enough = total[last + 1] - total[before] >= FILLED * rate * WINDOW_NS / 1e9
    return int(came_ns[last[np.argmax(enough)]]) if enough.any() else None

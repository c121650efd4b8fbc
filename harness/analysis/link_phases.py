"""The link as it was asked for, piece by piece: from one scheduled change to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harness.path.arithmetic import FRAME
from harness.traces.lab import LinkSettings, LinkSettingsChange

if TYPE_CHECKING:
    from harness.metrics.view import RunView


#: What the default bucket of runs that do not say held, s: a later default is not theirs.
_FORMER_WAKE_UP = 0.004


@dataclass(frozen=True)
class Phase:
    """One direction of the link, from `start_ns` until the next phase."""

    start_ns: int
    rate_bps: int
    delay_ns: int
    mean_loss: float
    burst_bytes: int | None
    """The token bucket; None where packets leave one after the other, each in its own time (a serial server)."""
    limit_bytes: int | None
    limit_packets: int | None


def phases_of(view: RunView, direction: Literal["to_client", "to_server"]) -> tuple[Phase, ...]:
    """The phases of one direction in order of time; a change that never took effect begins none.

    Changes begin when the simulator applied them, which the link proof compares with when they were due.
    Empty without lab.json.
    """
    if view.lab is None:
        return ()
    asked: LinkSettings = getattr(view.lab.links, direction)
    phases = [
        Phase(
            0, asked.rate_bps, asked.delay_ns, asked.mean_loss, asked.burst_bytes, asked.limit_bytes,
            asked.limit_packets,
        )
    ]  # fmt: skip
    for index, change in enumerate(view.lab.changes):
        new: LinkSettingsChange | None = getattr(change, direction)
        applied = view.events.applied(index, change.at)
        if new is not None and applied is not None:
            phases.append(_next(phases[-1], new, applied))
    return tuple(phases)


def _next(before: Phase, new: LinkSettingsChange, start_ns: int) -> Phase:
    rate = before.rate_bps if new.rate_bps is None else new.rate_bps
    burst = new.burst_bytes
    if burst is None and before.burst_bytes is not None:
        # Runs that do not say had a default bucket, which followed the rate, or one that was asked for.
        burst = _default_burst(rate) if before.burst_bytes == _default_burst(before.rate_bps) else before.burst_bytes
    return Phase(
        start_ns,
        rate,
        before.delay_ns if new.delay_ns is None else new.delay_ns,
        before.mean_loss if new.mean_loss is None else new.mean_loss,
        burst,
        before.limit_bytes if new.limit_bytes is None else new.limit_bytes,
        before.limit_packets if new.limit_packets is None else new.limit_packets,
    )


def _default_burst(rate_bps: int) -> int:
    return max(2 * FRAME, math.ceil(rate_bps * _FORMER_WAKE_UP / 8))

"""The link as it was asked for, piece by piece: from one scheduled change to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.capture.artefacts import Artefacts
from harness.capture.lab_file import LinkSettings, LinkSettingsChange
from harness.netem.bounds import default_bucket

#: What the default bucket of runs that do not say held, s: a later default is not theirs.
_FORMER_WAKE_UP = 0.004


@dataclass(frozen=True)
class LinkPhase:
    """One direction of the link, from `start_ns` until the next phase."""

    start_ns: int
    rate_bps: int
    delay_ns: int
    mean_loss: float
    burst_bytes: int | None
    """The token bucket; None where packets leave one after the other, each in its own time (a serial server)."""
    limit_bytes: int | None
    limit_packets: int | None


def phases_of(run: Artefacts, direction: Literal["to_client", "to_server"]) -> tuple[LinkPhase, ...]:
    """The phases of one direction in order of time; a change that never took effect begins none.

    Changes begin when the simulator applied them, which the link proof compares with when they were due.
    Empty without lab.json.
    """
    if run.lab is None:
        return ()
    asked: LinkSettings = getattr(run.lab.links, direction)
    phases = [
        LinkPhase(
            0, asked.rate_bps, asked.delay_ns, asked.mean_loss, asked.burst_bytes, asked.limit_bytes,
            asked.limit_packets,
        )
    ]  # fmt: skip
    for index, change in enumerate(run.lab.changes):
        new: LinkSettingsChange | None = getattr(change, direction)
        applied = run.events.applied(index, change.at)
        if new is not None and applied is not None:
            phases.append(_next(phases[-1], new, applied))
    return tuple(phases)


def _next(before: LinkPhase, new: LinkSettingsChange, start_ns: int) -> LinkPhase:
    rate = before.rate_bps if new.rate_bps is None else new.rate_bps
    burst = new.burst_bytes
    if burst is None and before.burst_bytes is not None:
        # Runs that do not say had a default bucket, which followed the rate, or one that was asked for.
        default = default_bucket(before.rate_bps, _FORMER_WAKE_UP)
        burst = default_bucket(rate, _FORMER_WAKE_UP) if before.burst_bytes == default else before.burst_bytes
    return LinkPhase(
        start_ns,
        rate,
        before.delay_ns if new.delay_ns is None else new.delay_ns,
        before.mean_loss if new.mean_loss is None else new.mean_loss,
        burst,
        before.limit_bytes if new.limit_bytes is None else new.limit_bytes,
        before.limit_packets if new.limit_packets is None else new.limit_packets,
    )

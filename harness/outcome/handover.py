"""What a move of a client was on the wire, and what its server's stack did about it."""

from __future__ import annotations

from typing import Literal

from harness.outcome.base import Fact, Finite
from harness.scenario.metric_names import TransferName
from harness.scenario.schema import MoveKind

WindowReaction = Literal["reset", "kept", "kept a share", "collapsed by loss", "unknown"]
"""What became of the congestion window: its initial value again (RFC 9000 §9.4), what it was, a part of that which is
neither, or what losses left of it."""
RttReaction = Literal["reset", "carried over", "unknown"]
"""What became of the estimate of the round-trip time: begun anew, or the old one that new samples are averaged into."""


#: The sender's figures around a move are kept every so often, from so long before it to so long after it, ms.
TRACE_STEP, TRACE_FROM, TRACE_TO = 5, -100, 400


class Handover(Fact):
    """One move of a flow's client. What could not be seen is None or unknown."""

    flow: int
    transfer: TransferName
    move: int
    """From 1, in order of time."""
    at: Finite
    """When it was asked for, s after the first datagram of the run."""
    how: MoveKind
    path: str
    """That the client is on from then on."""
    why_not: str = ""
    """Why there was no move, or nothing to measure of it: half a sentence for people; empty where there was."""
    address_changed: bool | None = None
    """Whether the server saw another IP address of the client."""
    port_changed: bool | None = None
    destination_id_changed: bool | None = None
    """Whether the client addressed the server by another connection ID (RFC 9000 §9.5); None where IDs are empty."""
    probed: bool | None = None
    """Whether nothing but probing frames was in the client's first packet from there (RFC 9000 §9.1)."""
    window: WindowReaction = "unknown"
    window_evidence: str = ""
    """The figures that says so, or why it is unknown."""
    rtt: RttReaction = "unknown"
    rtt_evidence: str = ""
    old_samples: int | None = None
    """Samples of the round-trip time in the server's qlog, after it sent data to the new address, of packets that it
    had sent before: RFC 9000 §9.4 forbids them to count for the new path."""

    closed: str = ""
    """Who ended the connection with an error afterwards, when, and with which; empty where nobody was seen to."""
    window_trace: tuple[Finite | None, ...] = ()
    """The congestion window around the time `at`, bytes, at the steps of `TRACE_STEP`; None before the first value."""
    rtt_trace: tuple[Finite | None, ...] = ()
    """The smoothed round-trip time then, ms."""

    @property
    def demands_reset(self) -> bool | None:
        """Whether RFC 9000 §9.4 demands that window and estimate begin anew: unless only the port changed."""
        return self.address_changed

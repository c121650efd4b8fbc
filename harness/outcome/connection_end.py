"""How the connection of a transfer ended before all of its file had come."""

from __future__ import annotations

from typing import Literal

from harness.outcome.base import Fact
from harness.scenario.metric_names import TransferName
from harness.scenario.parameters import Role

EndingKind = Literal[
    "idle_timeout", "handshake_timeout", "ack_timeout", "stateless_reset", "connection_closed", "connection_reset",
]  # fmt: skip
"""RFC 9000 §10.1, silence for as long as the idle timeout; the handshake that took too long for one side; §10.3, a
stateless reset; §10.2, CONNECTION_CLOSE. ack_timeout is what TCP calls the user timeout (RFC 5482 §1): what an end
sent stayed unacknowledged for longer than it bears. connection_reset is TCP's (RFC 9293 §3.5.2)."""


class Ending(Fact):
    """What one witness tells of the end of a connection."""

    flow: int
    transfer: TransferName
    kind: EndingKind
    witness: Role
    """The endpoint that tells it, or at whose side of the path the packet was seen that does."""
    by: Role | None = None
    """Whose timer expired, or who sent the reset or the CONNECTION_CLOSE; None where that is not known."""
    at: float | None = None
    """When, s after the client's first datagram; None where the witness says no time."""
    timer: float | None = None
    """The idle timeout in force, s: the lesser of what both ends announced (RFC 9000 §10.1)."""
    error: str = ""
    """The name of the error code, with its number where it has no name: FLOW_CONTROL_ERROR, application error 0x101."""
    words: str = ""
    """The reason phrase, or how the log puts it."""
    source: str
    """Where it stands: the client's log, the server's qlog, the capture."""

    @property
    def sentence(self) -> str:
        """For people, without a full stop: whose timer or error code it was, when, and where that stands."""
        at = "" if self.at is None else f" {self.at:.1f} s after the first datagram"
        return f"{self._what}{at} ({self.source}{self._quoted})"

    @property
    def _what(self) -> str:
        who = f"the {self.by}" if self.by else "one end"
        timer = "" if self.timer is None else f" of {self.timer:g} s"
        if self.kind == "idle_timeout":
            return f"{who}'s idle timeout{timer} expired"
        if self.kind == "handshake_timeout":
            return f"{who} gave the handshake up"
        if self.kind == "ack_timeout":
            return f"what {who} sent stayed unacknowledged for too long"
        if self.kind == "stateless_reset":
            return f"{who} sent a stateless reset"
        if self.kind == "connection_reset":
            return f"{who} reset the TCP connection"
        return f"{who} closed the connection" + (f" with {self.error}" if self.error else "")

    @property
    def _quoted(self) -> str:
        return f": “{self.words}”" if self.words else ""


def deciding(endings: tuple[Ending, ...], flow: int, transfer: TransferName) -> Ending | None:
    """The ending that a transfer's outcome is told by; None where nobody tells of one.

    That is the client's first account, for its exit is to be explained. What the server alone tells the client may
    never have learnt, and what an endpoint does later it does to a connection that has ended.
    """
    its = (one for one in endings if (one.flow, one.transfer) == (flow, transfer))
    return next((one for one in its if one.witness == "client"), None)

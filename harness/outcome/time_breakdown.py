"""Where the time of a transfer went: every moment in exactly one state."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.outcome.base import Fact, Finite
from harness.scenario.metric_names import TransferName

State = Literal[
    "handshake", "request", "slow_start", "line_rate", "recovery", "spurious_recovery", "window_limited",
    "flow_control", "buffer_limited", "sender_idle", "acknowledgements", "probe_timeouts", "shared", "unexplained",
]  # fmt: skip
#: In the order in which they are shown; the letter of each in `Attribution.bands`.
STATES: dict[State, str] = {
    "handshake": "h", "request": "q", "slow_start": "s", "recovery": "r", "spurious_recovery": "e",
    "window_limited": "w", "flow_control": "f", "buffer_limited": "b", "sender_idle": "i", "acknowledgements": "a",
    "probe_timeouts": "p", "shared": "o", "unexplained": "u", "line_rate": "l",
}  # fmt: skip


class Part(Fact):
    """One state's share of a transfer's time."""

    state: State
    seconds: Finite
    note: str = ""
    """What goes with it: 'from 10 packets'."""


class Attribution(Fact):
    """One transfer, from the client's first datagram to the last byte."""

    flow: int
    transfer: TransferName
    size: int
    """Bytes of the file."""
    seconds: Finite
    """Its completion time, which the parts add up to."""
    parts: tuple[Part, ...]
    """The states that it was in, in the order of `STATES`."""
    bands: Annotated[str, Field(pattern=rf"^(?:[{''.join(STATES.values())}][0-9]{{1,9}})*$")] = ""
    """The states over time, each as its letter and for how many hundredths of the time it lasted: 'h5q5s30l60'. A
    hundredth that several share is the longest one's."""

    def seconds_in(self, state: State) -> float:
        """How long it was in a state."""
        return sum(part.seconds for part in self.parts if part.state == state)

    def bound_without(self, state: State) -> float:
        """A bound, s: without this state, and all else the same, it would have taken no less than this."""
        return self.seconds - self.seconds_in(state)


class NotAttributed(Fact):
    """A transfer of which it is not known where its time went."""

    flow: int
    transfer: TransferName
    why: str
    """Half a sentence for people."""


class Attributed(Fact):
    """Where the time of all transfers of a run went."""

    version: int
    """Version of the attributing code; it has nothing to do with that of the measuring code."""
    transfers: tuple[Attribution, ...] = ()
    absent: tuple[NotAttributed, ...] = ()

    def of(self, flow: int = 0, transfer: TransferName = "first") -> Attribution | None:
        """That of one transfer, or None."""
        return next((one for one in self.transfers if (one.flow, one.transfer) == (flow, transfer)), None)

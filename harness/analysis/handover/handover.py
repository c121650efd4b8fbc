"""A move with what the server's stack made of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.analysis.handover.closing import closing
from harness.analysis.handover.rtt import RttAnswer, rtt_answer
from harness.analysis.handover.state import State, state_of
from harness.analysis.handover.validation import probed
from harness.analysis.handover.window import WindowAnswer, window_answer
from harness.analysis.handover.wire import Moved, moves_of
from harness.analysis.missing import Unknown
from harness.analysis.run_view import RunView
from harness.outcome import Handover
from harness.outcome.measured import TRACE_FROM, TRACE_STEP, TRACE_TO

#: A close is still a move's where the transfer ended, or the next move came, so little before, ns.
_LATER = 1_000_000_000


@dataclass(frozen=True)
class SeenMove(Moved):
    """One move of the client of a flow over QUIC, and the server's answer to it."""

    @cached_property
    def state(self) -> State | Unknown:
        """What the server tells of itself; why it does not."""
        return state_of(self)

    @cached_property
    def window_answer(self) -> WindowAnswer:
        """What became of the congestion window."""
        state = self.state
        return WindowAnswer("unknown", state.text) if isinstance(state, Unknown) else window_answer(self, state)

    @cached_property
    def rtt_answer(self) -> RttAnswer:
        """What became of the estimate of the round-trip time."""
        state = self.state
        return RttAnswer("unknown", state.text) if isinstance(state, Unknown) else rtt_answer(self, state)

    @property
    def handover(self) -> Handover:
        """The same as a record."""
        known = {
            "flow": self.facts.flow, "transfer": self.window.name, "move": self.number, "at": self.move.at,
            "how": self.move.how, "path": self.move.path,
        }  # fmt: skip
        if self.why_not:
            return Handover.model_validate({**known, "why_not": self.why_not})
        return Handover.model_validate(
            {
                **known,
                "address_changed": self.address_changed,
                "port_changed": self.port_changed,
                "destination_id_changed": self.destination_id_changed,
                "probed": probed(self),
                "window": self.window_answer.what,
                "window_evidence": self.window_answer.evidence,
                "rtt": self.rtt_answer.what,
                "rtt_evidence": self.rtt_answer.evidence,
                "old_samples": self.rtt_answer.old_samples,
                "closed": self.closed,
                "window_trace": self._trace("congestion_window"),
                "rtt_trace": self._trace("smoothed_rtt_ms"),
            }
        )

    @property
    def closed(self) -> str:
        """Who ended the connection with an error after it, and with which; empty where nobody did."""
        found = closing(self)
        if found is None or found.after_ms * 1e6 > self.until_ns - self.asked_ns + _LATER:
            return ""
        return f"the {found.by} closed the connection {found.after_ms:.0f} ms after it: {found.error}"

    def _trace(self, name: str) -> list[float | None]:
        """One figure of the server around the move; empty where it tells none, or after the end."""
        state = self.state
        if isinstance(state, Unknown):
            return []
        figure = state.figure(name)
        moments = [self.asked_ns + step * 1_000_000 for step in range(TRACE_FROM, TRACE_TO + 1, TRACE_STEP)]
        found = [figure.before(moment) for moment in moments if moment <= self.until_ns]
        return [None if value is None else round(value, 3) for value in found]


def seen_moves(view: RunView) -> list[SeenMove]:
    """The moves of all flows over QUIC, in order of flows and of time."""
    return view.once(_seen)


def _seen(view: RunView) -> list[SeenMove]:
    return [
        SeenMove(one.view, one.window, one.facts, one.move, one.number, one.zero_ns, one.until_ns)
        for one in moves_of(view)
    ]

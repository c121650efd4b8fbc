"""A client's move, and the reaction of the server's stack: path validation, delivery, errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.analysis.connection import FULL_PAYLOAD
from harness.analysis.delivery import ByteRanges
from harness.analysis.handover.state import ServerState, state_of
from harness.analysis.handover.window import RttAnswer, WindowAnswer, rtt_answer, window_answer
from harness.analysis.handover.wire import CLOCK_SLACK_NS, WireMove, moves_of
from harness.analysis.run_view import RunView, Unavailable
from harness.capture.capture import Ints
from harness.capture.key_log import Sender
from harness.capture.quic.error_codes import error_name, is_clean_close, is_plausible_close
from harness.capture.quic.frames import PADDING, PATH_CHALLENGE, PATH_RESPONSE, CloseFrame, Frames, StreamFrame
from harness.outcome import Handover
from harness.outcome.measured import TRACE_FROM, TRACE_STEP, TRACE_TO
from harness.scenario.parameters import ROLES, Role

# --- Which endpoint closed the connection with an error after a move, as seen on the wire.


@dataclass(frozen=True)
class ErrorClose:
    """An endpoint closed the connection with an error."""

    endpoint: Role
    after_ms: float
    """Since the requested time of the move."""
    error: str
    """INTERNAL_ERROR, application error 0x101, with its reason phrase."""


def closing_error(moved: WireMove) -> ErrorClose | None:
    """The first close with an error between a move and the next one, seen at the client's side; None without one."""
    closes = [
        (int(t_ns), role, frames.close)
        for role in ROLES
        for opened in moved.view.decrypted_packets(moved.window, role)
        for t_ns, frames in zip(opened.t_ns, opened.frames, strict=True)
        if frames.close is not None and moved.scheduled_ns <= t_ns and _is_error(frames.close)
    ]
    if not closes:
        return None
    t_ns, role, close = min(closes, key=lambda entry: entry[0])
    return ErrorClose(role, (t_ns - moved.scheduled_ns) / 1e6, _close_text(close))


def _is_error(close: CloseFrame) -> bool:
    return is_plausible_close(close) and not is_clean_close(close)


def _close_text(close: CloseFrame) -> str:
    name = error_name(close.code, by_transport=close.by_transport)
    reason = close.reason.decode(errors="replace").strip()
    return f"{name}: {reason}" if reason else name


# --- Validation of the new path (RFC 9000 §8.2), and the client's first packet on it: from decrypted packets.


#: Probing frames; NEW_CONNECTION_ID is the fourth kind (RFC 9000 §9.1).
_PROBING = frozenset((PADDING, 0x18, PATH_CHALLENGE, PATH_RESPONSE))


@dataclass(frozen=True)
class Validation:
    """A PATH_CHALLENGE that was answered."""

    challenge_ns: int
    """When it left its sender."""
    response_ns: int
    """When the matching PATH_RESPONSE arrived."""

    @property
    def seconds(self) -> float:
        """The time from challenge to response, s."""
        return (self.response_ns - self.challenge_ns) / 1e9


def validation(moved: WireMove, by: Sender) -> Validation | None:
    """An endpoint's first challenge on the new path that was answered; None without one, or without keys.

    RFC 9002 §6.2.2 allows its time as the first RTT estimate.
    """
    challenged = list(_probing_packets(moved, by))
    answers = {data: passage for passage, frames in _probing_packets(moved, _peer_of(by)) for data in frames.responses}
    for passage, frames in challenged:
        for data in frames.challenges:
            if data in answers and answers[data].arrived_ns >= passage.sent_ns:
                return Validation(passage.sent_ns, answers[data].arrived_ns)
    # A response to an unreadable challenge belongs to the padded packet before it.
    readable = {data for _, frames in challenged for data in frames.challenges}
    first = min((passage.sent_ns for data, passage in answers.items() if data not in readable), default=None)
    for passage, frames in challenged:
        if first is not None and _is_padding_only(frames) and passage.arrived_ns <= first:
            return Validation(
                passage.sent_ns, next(answer.arrived_ns for answer in answers.values() if answer.sent_ns == first)
            )
    return None


def _is_padding_only(frames: Frames) -> bool:
    """Whether the readable part of a packet is only padding: quic-go pads in front of the frames."""
    return frames.types == (PADDING,) and frames.hidden > 0


def was_probed(moved: WireMove) -> bool | None:
    """Whether the client's first packet on the new path was a probe; None if it could not be read."""
    if moved.first_datagram is None or not moved.known_to_client:
        return None
    for opened in moved.view.decrypted_packets(moved.window, "client"):
        rows = np.flatnonzero(opened.key == moved.first_datagram.key[0])
        if len(rows):
            frames = opened.frames[rows[0]]
            if _is_padding_only(frames):
                return validation(moved, "client") is not None
            return PATH_CHALLENGE in frames.types and _PROBING.issuperset(frames.types)
    return None


@dataclass(frozen=True)
class _Transit:
    """When one packet was sent and arrived, ns."""

    sent_ns: int
    arrived_ns: int


def _peer_of(sender: Sender) -> Sender:
    return "client" if sender == "server" else "server"


def _probing_packets(moved: WireMove, sender: Sender) -> Iterator[tuple[_Transit, Frames]]:
    """The packets with probes, or possible probes, that an endpoint sent on the new path: sending and arrival times,
    frames.

    Packets are read at the client's side, so those lost on the way to it are missing.
    """
    passage = moved.to_client if sender == "server" else moved.to_server
    if passage is None:
        return
    rows = {key: row for row, key in enumerate(passage.entered.key.tolist())}
    new = moved.to_new(passage) if sender == "server" else moved.from_new(passage)
    for opened in moved.view.decrypted_packets(moved.window, sender):
        for key, frames in zip(opened.key.tolist(), opened.frames, strict=True):
            if key not in rows or not (frames.challenges or frames.responses or _is_padding_only(frames)):
                continue
            row = rows[key]
            transit = _Transit(int(passage.entered.t_ns[row]), int(passage.out_ns[row]))
            inside = moved.scheduled_ns - CLOCK_SLACK_NS <= transit.sent_ns < moved.until_ns
            if transit.arrived_ns >= 0 and inside and new[row]:
                yield transit, frames


# --- handover


#: A close still belongs to a move if it came at most this long after the transfer's end or the next move, ns.
_CLOSE_DELAY_NS = 1_000_000_000


@dataclass(frozen=True)
class ClientMove(WireMove):
    """One move of the client of a flow over QUIC, and the server's reaction to it."""

    @cached_property
    def state(self) -> ServerState | Unavailable:
        """The state that the server reports; or why it does not."""
        return state_of(self)

    @cached_property
    def window_answer(self) -> WindowAnswer:
        """What happened to the congestion window."""
        state = self.state
        return WindowAnswer("unknown", state.text) if isinstance(state, Unavailable) else window_answer(self, state)

    @cached_property
    def rtt_answer(self) -> RttAnswer:
        """What happened to the RTT estimate."""
        state = self.state
        return RttAnswer("unknown", state.text) if isinstance(state, Unavailable) else rtt_answer(self, state)

    @property
    def handover(self) -> Handover:
        """The move as a record."""
        identity = {
            "flow": self.facts.flow,
            "transfer": self.window.name,
            "move": self.number,
            "at": self.move.at,
            "how": self.move.how,
            "path": self.move.path,
        }
        if self.why_unmeasurable:
            return Handover.model_validate({**identity, "why_not": self.why_unmeasurable})
        return Handover.model_validate(
            {
                **identity,
                "address_changed": self.address_changed,
                "port_changed": self.port_changed,
                "destination_id_changed": self.destination_id_changed,
                "probed": was_probed(self),
                "window": self.window_answer.reaction,
                "window_evidence": self.window_answer.evidence,
                "rtt": self.rtt_answer.reaction,
                "rtt_evidence": self.rtt_answer.evidence,
                "old_samples": self.rtt_answer.old_samples,
                "closed": self.closed,
                "window_trace": self._trace("congestion_window"),
                "rtt_trace": self._trace("smoothed_rtt_ms"),
            }
        )

    @property
    def closed(self) -> str:
        """Which endpoint closed the connection with an error after the move, and the error; empty if none did."""
        close = closing_error(self)
        if close is None or close.after_ms * 1e6 > self.until_ns - self.scheduled_ns + _CLOSE_DELAY_NS:
            return ""
        return f"the {close.endpoint} closed the connection {close.after_ms:.0f} ms after it: {close.error}"

    def _trace(self, name: str) -> list[float | None]:
        """One figure of the server around the move; empty if it reports none, or after the end."""
        state = self.state
        if isinstance(state, Unavailable):
            return []
        figure = state.figure(name)
        moments = [self.scheduled_ns + step * 1_000_000 for step in range(TRACE_FROM, TRACE_TO + 1, TRACE_STEP)]
        values = [figure.before(moment) for moment in moments if moment <= self.until_ns]
        return [None if value is None else round(value, 3) for value in values]


def client_moves(view: RunView) -> list[ClientMove]:
    """The moves of all flows over QUIC, in order of flows and of time."""
    return view.cached(_all_moves)


def _all_moves(view: RunView) -> list[ClientMove]:
    return [
        ClientMove(moved.view, moved.window, moved.facts, moved.move, moved.number, moved.zero_ns, moved.until_ns)
        for moved in moves_of(view)
    ]


# --- Delivery to the client around a move: how much, after what silence, and what it already had.


#: Retransmissions within this time after a move count as caused by it, ns.
RETRANSMISSION_NS = 2_000_000_000


def delivered_bytes(moved: WireMove, span_ns: int) -> int | Unavailable:
    """Bytes of UDP payload that the client received in so much time from the move on, by any path."""
    passage, end = moved.to_client, moved.data_end_ns
    assert passage is not None and end is not None, "moves with nothing to measure are left out"
    until = moved.scheduled_ns + span_ns
    if moved.window.transfer.intact and end < until:
        return Unavailable(f"the transfer ended {(end - moved.scheduled_ns) / 1e6:.0f} ms after it")
    inside = passage.arrived & (passage.out_ns >= moved.scheduled_ns) & (passage.out_ns < until)
    return int(passage.entered.payload[inside].sum())


def delivery_gap_ns(moved: WireMove) -> int | Unavailable:
    """Time from the last data for the old address to the first for the new one at the client; 0 if they overlap."""
    passage = moved.to_client
    assert passage is not None, "moves with nothing to measure are left out"
    data = passage.arrived & (passage.entered.payload >= FULL_PAYLOAD) & (passage.entered.t_ns < moved.until_ns)
    new = moved.to_new(passage)
    old, later = passage.out_ns[data & ~new], passage.out_ns[data & new]
    if not len(old) or not len(later):
        return Unavailable("no data came to the new address" if len(old) else "no data came before it")
    return max(0, int(later.min()) - int(old.max()))


def spurious_packets(moved: WireMove) -> int | Unavailable:
    """Packets that brought the client only stream data it already had, in the two seconds after the move.

    Only data that were sent again although they had arrived, or were still to arrive, cause that.
    """
    connections = moved.view.decrypted_packets(moved.window, "server")
    if not connections:
        return Unavailable("there are no keys to read packets with")
    return sum(
        _count_repeated(opened.t_ns, [frames.streams for frames in opened.frames], moved.scheduled_ns)
        for opened in connections
    )


def _count_repeated(t_ns: Ints, stream_frames: Sequence[Sequence[StreamFrame]], since_ns: int) -> int:
    received: dict[int, ByteRanges] = {}
    count = 0
    for moment, streams in zip(t_ns.tolist(), stream_frames, strict=True):
        is_new = [
            received.setdefault(frame.stream, ByteRanges()).add(frame.offset, frame.end)
            for frame in streams
            if frame.length
        ]
        if is_new and not any(is_new) and since_ns <= moment < since_ns + RETRANSMISSION_NS:
            count += 1
    return count

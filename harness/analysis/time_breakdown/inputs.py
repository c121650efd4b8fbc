"""From a run's artefacts to the conversations that rules examine, with their flow control.

`down` is the direction of the data, from the sender to the receiver, and `up` that of the acknowledgements. In an
upload the data go up the path; the words are those of a download.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.analysis.arrival import stream_offsets
from harness.analysis.connection import FULL_PAYLOAD, TransferConnection
from harness.analysis.delivery import Delivery, DeliveryTime, TcpDelivery
from harness.analysis.direction import LinkDirection
from harness.analysis.link_replay import Fate
from harness.analysis.run_view import RunView, Unavailable
from harness.analysis.shared_flows import flows_of
from harness.analysis.spurious_loss import SpuriousLosses, spurious_losses
from harness.analysis.time_breakdown.transfer import (
    NO_SPANS,
    RECEIVE_WINDOW,
    AckArrays,
    Conversation,
    Credit,
    FalseLosses,
    Flags,
    Ints,
    SentArrays,
    Steps,
    WindowSamples,
    merge_spans,
)
from harness.analysis.timeseries.lifetimes import client_port, data_port
from harness.analysis.timeseries.sender import usual_payload
from harness.capture.artefacts import TransferWindow as OneTransfer
from harness.capture.capture import ACK, NO_SHIFT, SYN, Capture, Keys
from harness.capture.connections import SentPackets
from harness.capture.matching import MatchedPackets
from harness.capture.quic.frames import NON_ELICITING
from harness.capture.quic.invariants import Form
from harness.capture.streams import largest_stream
from harness.scenario.schema import DISCIPLINES

# --- Flow control credit over time: QUIC's from decrypted packets (RFC 9000 §4.1), TCP's from every segment's header.


#: A sender that continues this soon after a connection's first credit had waited for it, ns.
_RESUME_NS = 5_000_000


def credits_of(
    view: RunView, window: OneTransfer, up: MatchedPackets, at_sender: Callable[[Ints], Ints], zero_ns: int
) -> tuple[Credit, ...] | None:
    """Credit of the stream with the data, and of its connection; None if its packets cannot be decrypted.

    `up`: the receiver's packets through the link; `at_sender`: from moments at the sender to the conversation's clock.
    """
    answers = [
        (connection, stream)
        for connection in view.decrypted_packets(window, window.sender)
        if (stream := largest_stream(connection)) is not None
    ]
    if not answers:
        return None
    opened, stream = max(answers, key=lambda answer: len(answer[0].t_ns))
    receiver = [
        connection
        for connection in view.decrypted_packets(window, window.receiver)
        if connection.connection.client_id == opened.connection.client_id
    ]
    if not receiver:
        return None
    limits = [
        (int(connection.t_ns[index]), int(connection.key[index]), stream_id, limit)
        for connection in receiver
        for index, frames in enumerate(connection.frames)
        for stream_id, limit in frames.credits
    ]
    # Arrival times are computed only for packets that grant credit.
    granting = np.isin(up.entered.key, np.array([key for _, key, _, _ in limits], np.uint64))
    came_ns = up.out_ns[granting] + _access_ns(up)[granting]
    entered = zip(up.entered.t_ns[granting].tolist(), up.entered.key[granting].tolist(), strict=True)
    arrivals = dict(zip(entered, came_ns.tolist(), strict=True))
    grants: dict[int | None, list[tuple[int, int]]] = {stream: [], None: []}
    for sent_ns, key, stream_id, limit in limits:
        moment = arrivals.get((sent_ns, key), -1)
        if stream_id in grants and moment >= 0:
            grants[stream_id].append((moment, limit))
    initial = _initial_limits(view, window)
    used = _used_credit(opened, stream)
    built = []
    for stream_id, name in ((stream, "stream"), (None, "connection")):
        t_ns = np.array([moment for moment, _ in grants[stream_id]], np.int64)
        order = np.argsort(t_ns, kind="stable")
        credit = Credit(
            name,
            at_sender(t_ns[order]),
            np.array([limit for _, limit in grants[stream_id]], np.int64)[order],
            opened.t_ns - zero_ns,
            used[stream_id],
        )
        built.append(_with_initial(credit, initial[name]))
    return tuple(built)


def receive_window(down: MatchedPackets, up: MatchedPackets, at_sender: Callable[[Ints], Ints]) -> Credit | None:
    """TCP's credit: each segment of the receiver has the last byte that it accepts (RFC 9293 §3.8.6, RFC 7323 §2).

    `down`, `up`: the packets of one connection through the link. None if its opening was not captured. Shapes: g
    segments of the client that arrived, u segments of the server.
    """
    sent, answers = down.entered, up.entered
    server_syns, client_syns = np.flatnonzero(sent.flags & SYN), np.flatnonzero(answers.flags & SYN)
    if not len(server_syns) or not len(client_syns):
        return None
    initial = int(sent.sequence[server_syns[0]])
    shifts = sent.shift[server_syns[0]], answers.shift[client_syns[0]]
    # Windows are scaled only if both SYNs offered it, and a SYN's own window never is (RFC 7323 §2.2).
    shift = 0 if NO_SHIFT in shifts else int(shifts[1])
    rows = np.flatnonzero(up.arrived & (answers.flags & ACK != 0) & (answers.flags & SYN == 0))
    heard_ns = up.out_ns[rows] + _access_ns(up)[rows]
    limit = stream_offsets(answers.acknowledgement[rows], initial) + (answers.window[rows].astype(np.int64) << shift)
    order = np.argsort(heard_ns, kind="stable")
    data = np.flatnonzero(sent.payload > 0)
    used = stream_offsets(sent.sequence[data], initial) + sent.payload[data]
    return Credit(RECEIVE_WINDOW, at_sender(heard_ns[order]), limit[order], at_sender(sent.t_ns[data]), used)


def _access_ns(up: MatchedPackets) -> Ints:
    return up.access_ns if up.access_ns is not None else np.zeros(len(up.out_ns), np.int64)


def _used_credit(opened: SentPackets, stream: int) -> dict[int | None, Ints]:
    """Bytes used of one stream's credit, and of the connection's (None), as each packet shows them, shape (n,)."""
    furthest: dict[int, int] = {}
    of_stream, of_connection = array("q"), array("q")
    total = 0
    for frames in opened.frames:
        for frame in frames.streams:
            before = furthest.get(frame.stream, 0)
            if frame.end > before:
                furthest[frame.stream] = frame.end
                total += frame.end - before
        of_stream.append(furthest.get(stream, 0))
        of_connection.append(total)
    return {stream: np.array(of_stream, np.int64), None: np.array(of_connection, np.int64)}


def _initial_limits(view: RunView, window: OneTransfer) -> dict[str, int | None]:
    """The initial limits, from the transport parameters in either endpoint's trace (RFC 9000 §18.2)."""
    connection = TransferConnection(view, window)
    receiver, sender = connection.settings(window.receiver), connection.settings(window.sender)
    for parameters in (
        receiver.local if receiver is not None else None,
        sender.remote if sender is not None else None,
    ):
        if parameters is not None and parameters.initial_max_data is not None:
            # The client opens the stream.
            stream = (
                parameters.initial_max_stream_data_bidi_local
                if window.receiver == "client"
                else parameters.initial_max_stream_data_bidi_remote
            )
            return {"connection": int(parameters.initial_max_data), "stream": None if stream is None else int(stream)}
    return {"connection": None, "stream": None}


def _with_initial(credit: Credit, initial: int | None) -> Credit:
    """The credit with its initial limit. If the limit is unknown, it is what had been used when the sender, after a
    standstill, continued as soon as the first credit arrived.
    """
    if initial is None and len(credit.granted_ns):
        moment = int(credit.granted_ns[0])
        at = int(np.searchsorted(credit.used_ns, moment))
        was_blocked = 0 < at < len(credit.used) and moment - int(credit.used_ns[at - 1]) > _RESUME_NS
        if was_blocked and int(credit.used_ns[at]) - moment <= _RESUME_NS:
            initial = int(credit.used[at - 1])
    if initial is None:
        return credit
    return Credit(
        credit.name,
        np.concatenate([[-1], credit.granted_ns]).astype(np.int64),
        np.concatenate([[initial], credit.limit]).astype(np.int64),
        credit.used_ns,
        credit.used,
    )


# --- inputs


#: Before all moments, ns.
_LONG_AGO = 1 << 62


@dataclass(frozen=True)
class TransferClock:
    """From the time of a run to that of a conversation (see `analysis.time_breakdown.transfer`)."""

    zero_ns: int
    changes_ns: Ints
    """When the delay towards the client changes, shape (p - 1,)."""
    delays_ns: Ints
    """The delay from each change on, including that of its flow, shape (p,)."""

    @cached_property
    def _floors(self) -> Ints:
        """When the last packet of all former delays arrives, for each phase, shape (p,)."""
        last = self.changes_ns - self.zero_ns + self.delays_ns[:-1]
        floors: Ints = np.concatenate([[-_LONG_AGO], np.maximum.accumulate(last)]).astype(np.int64)
        return floors

    def at_sender(self, t_ns: Ints) -> Ints:
        """Moments at the sender, on the client's clock: when a packet that leaves then has arrived, and all packets
        before it.

        So the order of moments is kept, even if the delay falls and packets overtake others.
        """
        phase = np.searchsorted(self.changes_ns, t_ns, side="right")
        arrivals: Ints = np.maximum(t_ns - self.zero_ns + self.delays_ns[phase], self._floors[phase])
        return arrivals

    def round_trips(self, up_changes_ns: Ints, up_delays_ns: Ints) -> Steps:
        """The path's own round trip for packets that the client sends at each moment, by the delays towards the
        server.
        """

        def comes(t_ns: Ints) -> Ints:
            arrivals: Ints = t_ns + up_delays_ns[np.searchsorted(up_changes_ns, t_ns, side="right")]
            return arrivals

        # The responses to packets sent just before and just after a delay towards the client changes.
        switch_ns = np.concatenate([self.changes_ns - delay for delay in up_delays_ns])
        sent_ns = np.unique(np.concatenate([[self.zero_ns], up_changes_ns, switch_ns]))
        return Steps(sent_ns - self.zero_ns, self.at_sender(comes(sent_ns)) - (sent_ns - self.zero_ns))


def conversation_of(view: RunView, window: OneTransfer) -> Conversation | Unavailable:
    """The conversation of one transfer, or why its time cannot be attributed."""
    span = _time_span(view, window)
    if isinstance(span, Unavailable):
        return span
    zero_ns, end_ns = span
    if view.lab is None or not view.is_one_path:
        return Unavailable("several paths carried it" if view.lab is not None else "lab.json is missing")
    if len(view.directions) != 2:
        return Unavailable("there are no captures of both sides")
    down, up = view.directions["to_client"], view.directions["to_server"]
    if window.sender == "client":
        down, up = up, down
    flow = window.transfer.flow
    facts = next((candidate for candidate in view.lab.flows if candidate.flow == flow), None)
    if facts is None:
        return Unavailable("its flow is not in lab.json")
    if window.over_tcp and facts.sender != "server":
        return Unavailable("its data go to the server")
    if view.capture_drops:
        return Unavailable(f"the captures missed {view.capture_drops} packets")
    access = facts.access_delay_ns
    clock = TransferClock(zero_ns, _phase_starts(down), _phase_delays(down, access))
    down_mask = _select_packets(down.passage, window)
    port = data_port(down.passage.entered.select(down_mask), down=True) if window.over_tcp else None
    if port is not None:
        down_mask &= client_port(down.passage.entered, True) == port
    starts, ends = _service_times(down)
    delivered = np.where(down.passage.arrived, down.passage.out_ns + access, -1)
    sent = _sent_arrays(down, down_mask, starts, ends, clock)
    bare, needless = _frame_flags(view, window, down.passage.entered.key[down_mask])
    sent = replace(sent, ack_only=bare, needless=needless)
    up_mask = _select_packets(up.passage, window, port)
    acknowledged = _acknowledged(up, up_mask, clock, delivered[down_mask], access)
    first = _request_and_response(
        view, window, zero_ns, down.passage.entered.select(down_mask), delivered[down_mask], up
    )
    if first is None or not len(sent):
        return Unavailable("no answer was captured")
    request_ns, first_ns = first
    cross_traffic = ~(down.passage.entered.flow == flow) & (starts >= 0)
    return Conversation(
        request_ns=min(request_ns, end_ns),
        first_byte_ns=min(first_ns, end_ns),
        end_ns=end_ns,
        rtt=clock.round_trips(_phase_starts(up), _phase_delays(up, access)),
        rate=Steps(
            clock.at_sender(np.concatenate([[zero_ns], _phase_starts(down)])),
            np.array([phase.rate_bps for phase in down.phases], np.int64),
        ),
        sent=sent,
        acks=acknowledged,
        other_flows=merge_spans(
            np.stack([clock.at_sender(starts[cross_traffic]), clock.at_sender(ends[cross_traffic])], axis=1)
        )
        if cross_traffic.any()
        else NO_SPANS,
        credits=_credits(view, window, down.passage.select(down_mask), up.passage.select(up_mask), clock),
        window=_window_samples(view, window, clock),
        spurious_losses=_false_losses(view, window, clock),
    )


def _phase_starts(direction: LinkDirection) -> Ints:
    """When each phase but the first begins, ns since the epoch."""
    return np.array([phase.start_ns for phase in direction.phases[1:]], np.int64)


def _phase_delays(direction: LinkDirection, access: int) -> Ints:
    """One-way delay of each phase, with the flow's own, ns."""
    return np.array([phase.delay_ns for phase in direction.phases], np.int64) + access


def _time_span(view: RunView, window: OneTransfer) -> tuple[int, int] | Unavailable:
    """(time zero since the epoch, end since then), ns: the time of the metric `completion`."""
    delivery: Delivery | TcpDelivery = Delivery(view, window)
    size, zero_ns = window.transfer.size, window.zero_ns
    if not window.has_file:
        shared_flow = next((flow for flow in flows_of(view) if flow.number == window.transfer.flow), None)
        amount = window.flow.amount
        if shared_flow is None or amount is None:
            return Unavailable("it has no end of its own")
        delivery, size = TcpDelivery(shared_flow), amount.bytes
        zero_ns = shared_flow.lifetime.zero_ns + shared_flow.lifetime.start_ns
    if zero_ns is None:
        return Unavailable("no datagram of the client was captured")
    if not delivery.is_complete:
        return Unavailable("it did not come to its end")
    moment = delivery.time_of(size)
    return (zero_ns, round(moment.seconds * 1e9)) if isinstance(moment, DeliveryTime) else moment


def _select_packets(passage: MatchedPackets, window: OneTransfer, port: int | None = None) -> Flags:
    entered = passage.entered
    inside = (entered.t_ns >= window.start_ns) & (entered.t_ns < window.end_ns)
    selected: Flags = inside & (entered.flow == window.transfer.flow)
    return selected if port is None else selected & (client_port(entered, False) == port)


def _service_times(down: LinkDirection) -> tuple[Ints, Ints]:
    """When the bottleneck began and ended to serve each of n packets, with its own transmission time at the rate; -1
    for a packet that the queue dropped. With random opportunities, service begins when it is the packet's turn. Both of
    shape (n,).
    """
    passage, replayed = down.passage, down.replay
    t_ns = passage.entered.t_ns
    rates = np.array([phase.rate_bps for phase in down.phases], np.int64)
    departures = replayed.departure_ns if not down.served_at_random else down.departures_ns()
    rows = np.flatnonzero((departures >= 0) & (replayed.fate != Fate.QUEUE_DROP))
    starts, ends = np.full(len(t_ns), -1, np.int64), np.full(len(t_ns), -1, np.int64)
    if not len(rows):
        return starts, ends
    if down.served_at_random:
        ends[rows] = np.maximum.accumulate(departures[rows])
        starts[rows] = np.maximum(t_ns[rows], np.concatenate([[0], ends[rows][:-1]]))
        return starts, ends
    if down.settings.burst_bytes is None or not DISCIPLINES[down.settings.discipline].holds:
        starts[rows], ends[rows] = departures[rows] - replayed.transmission_ns[rows], departures[rows]
        return starts, ends
    service_ns = np.round(passage.entered.length[rows] * 8e9 / np.maximum(rates, 1)[replayed.phase[rows]]).astype(
        np.int64
    )
    # After a token bucket several packets leave at once; each gets its transmission time after the one before.
    busy_ns = np.cumsum(service_ns)
    ends[rows] = busy_ns + np.maximum.accumulate(departures[rows] - busy_ns)
    starts[rows] = ends[rows] - service_ns
    return starts, ends


def _sent_arrays(down: LinkDirection, mask: Flags, starts: Ints, ends: Ints, clock: TransferClock) -> SentArrays:
    passage = down.passage
    t_ns = passage.entered.t_ns[mask]
    served = starts[mask] >= 0
    return SentArrays(
        t_ns=clock.at_sender(t_ns),
        size=passage.entered.payload[mask],
        start_ns=np.where(served, clock.at_sender(starts[mask]), -1),
        end_ns=np.where(served, clock.at_sender(ends[mask]), -1),
        arrived=passage.arrived[mask],
        lost=~passage.arrived[mask] & (down.replay.fate[mask] != Fate.IN_FLIGHT),
    )


def _frame_flags(view: RunView, window: OneTransfer, keys: Keys) -> tuple[Flags | None, Flags | None]:
    """`ack_only` and `needless` for the sender's packets with these capture keys, by their frames, shape (n,)."""
    opened = () if window.over_tcp else view.decrypted_packets(window, window.sender)
    bare = [
        key
        for connection in opened
        for key, frames in zip(connection.key.tolist(), connection.frames, strict=True)
        if not frames.hidden and NON_ELICITING.issuperset(frames.types)
    ]
    spurious = spurious_losses(view, window)
    return (
        np.isin(keys, np.array(bare, np.uint64)) if opened else None,
        np.isin(keys, spurious.needless) if isinstance(spurious, SpuriousLosses) else None,
    )


def _acknowledged(
    up: LinkDirection, mask: Flags, clock: TransferClock, delivered_ns: Ints, access_ns: int
) -> AckArrays:
    """The most that the receiver's packets acknowledge: all packets that had arrived when each was sent.

    `delivered_ns`: when each packet of the sender arrived there, ns since the epoch, -1 if it never did.
    """
    passage = up.passage
    rows = np.flatnonzero(mask & passage.arrived)
    heard_ns = passage.out_ns[rows] + access_ns
    order = np.argsort(heard_ns, kind="stable")
    rows, heard_ns = rows[order], heard_ns[order]
    left_ns = passage.entered.t_ns[rows]
    delivered = np.flatnonzero(delivered_ns >= 0)
    delivered = delivered[np.argsort(delivered_ns[delivered], kind="stable")]
    largest_acked = (
        np.concatenate([[0], np.maximum.accumulate(delivered + 1)]) if len(delivered) else np.zeros(1, np.int64)
    )
    delivered_count = np.searchsorted(delivered_ns[delivered], left_ns, side="right")
    return AckArrays(clock.at_sender(heard_ns), largest_acked[delivered_count].astype(np.int64))


def _request_and_response(
    view: RunView, window: OneTransfer, zero_ns: int, sent: Capture, delivered_ns: Ints, up: LinkDirection
) -> tuple[int, int] | None:
    """(when the client could send its request, when the first byte of the data arrived), ns since time zero.

    `sent`: the sender's packets, `delivered_ns`: when each arrived. None if none of that was captured.
    """
    assert view.left is not None
    requests = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
    delivered = delivered_ns >= 0
    if not window.over_tcp:
        rows = np.flatnonzero(requests.one_rtt | (requests.form == Form.ZERO_RTT))
    elif window.has_file:
        answered = delivered_ns[delivered & (sent.payload > 0)]
        rows = np.flatnonzero((requests.payload > 0) & (len(answered) > 0 and requests.t_ns > answered.min()))
    else:
        rows = np.flatnonzero((requests.t_ns >= zero_ns) & (requests.flags & SYN == 0))
    if not len(rows):
        return None
    request_ns = int(requests.t_ns[rows[0]])
    first_ns = _first_of_stream(view, window)
    if first_ns is None:
        phase = int(np.searchsorted(_phase_starts(up), request_ns, side="right"))
        # An upload is its own request.
        heard_ns = request_ns + (up.phases[phase].delay_ns if window.sender == "server" else 0)
        full = delivered & (sent.t_ns >= heard_ns)
        full &= (sent.payload > 0) if window.over_tcp else (sent.payload >= FULL_PAYLOAD) & (sent.form == Form.SHORT)
        if not full.any():
            return None
        first_ns = int(delivered_ns[full].min())
    return max(min(request_ns, first_ns) - zero_ns, 0), max(first_ns - zero_ns, 0)


def _first_of_stream(view: RunView, window: OneTransfer) -> int | None:
    """When the first packet with data arrived, by decrypted packets; ns since the epoch."""
    first_ns = None
    for opened in () if window.over_tcp else view.decrypted_packets(window, window.sender):
        stream = largest_stream(opened)
        for t_ns, frames in zip(opened.t_ns.tolist(), opened.frames, strict=True):
            if any(frame.stream == stream for frame in frames.streams):
                first_ns = t_ns if first_ns is None else min(first_ns, t_ns)
                break
    return first_ns


def _window_samples(view: RunView, window: OneTransfer, clock: TransferClock) -> WindowSamples | None:
    """The congestion window of a transfer's connection, as its sender reports it (qlog, tcp_info)."""
    series = view.series
    state = None if series is None else series.states.get(window.transfer.flow)
    if series is None or state is None:
        return None
    lifetime = series.lifetimes[window.transfer.flow]
    state = state.drop_nulls("cwnd")
    t_ns = state["t_ns"].to_numpy() + series.zero_ns
    inside = (t_ns >= window.start_ns) & (t_ns < window.end_ns)
    if not inside.any():
        return None
    cwnd = state["cwnd"].to_numpy().astype(np.float64) * usual_payload(lifetime.sent)
    order = np.argsort(t_ns[inside], kind="stable")
    return WindowSamples(clock.at_sender(t_ns[inside][order]), cwnd[inside][order])


def _credits(
    view: RunView, window: OneTransfer, down: MatchedPackets, up: MatchedPackets, clock: TransferClock
) -> tuple[Credit, ...] | None:
    """Flow control credits of a transfer, from its packets in both directions; None if they are unknown."""
    if not window.over_tcp:
        return credits_of(view, window, up, clock.at_sender, clock.zero_ns)
    credit = receive_window(down, up, clock.at_sender)
    return None if credit is None else (credit,)


def _false_losses(view: RunView, window: OneTransfer, clock: TransferClock) -> FalseLosses:
    """Packets that the sender declared lost and that arrived."""
    spurious = spurious_losses(view, window)
    if not isinstance(spurious, SpuriousLosses):
        return FalseLosses(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return FalseLosses(clock.at_sender(spurious.declared_ns), clock.at_sender(spurious.sent_ns))

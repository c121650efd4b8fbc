"""From a run's artefacts to the transfers that rules look at, with the flow control that held each."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.analysis.arrival import offsets
from harness.analysis.connection import FULL, TransferConnection
from harness.analysis.delivery import Delivery, DeliveryTime, Segments
from harness.analysis.direction import LinkDirection
from harness.analysis.link_replay import Fate
from harness.analysis.run_view import RunView, Unavailable
from harness.analysis.shared_flows import flows_of
from harness.analysis.spurious_loss import Spurious, spurious_losses
from harness.analysis.time_breakdown.transfer import (
    NONE,
    RECEIVE_WINDOW,
    Acknowledged,
    Conversation,
    Credit,
    Flags,
    Ints,
    Mistaken,
    SentArrays,
    Steps,
    WindowSamples,
    merged,
)
from harness.analysis.timeseries.lifetimes import client_port, data_port
from harness.analysis.timeseries.sender import usual_payload
from harness.capture.artefacts import TransferWindow as OneTransfer
from harness.capture.capture import ACK, NO_SHIFT, SYN, Capture, Keys
from harness.capture.connections import SentPackets
from harness.capture.matching import MatchedPackets
from harness.capture.quic.frames import NOT_ELICITING
from harness.capture.quic.invariants import Form
from harness.capture.streams import largest_stream

# --- Flow control's credit over time: QUIC's of decrypted packets (RFC 9000 §4.1), TCP's of every segment's header.


#: A sender that goes on so soon after the first credit of a connection had waited for it, ns.
_AT_ONCE = 5_000_000


def credits_of(
    view: RunView, window: OneTransfer, up: MatchedPackets, at_sender: Callable[[Ints], Ints], zero_ns: int
) -> tuple[Credit, ...] | None:
    """Of the answer's stream, and of its connection; None where its packets cannot be decrypted.

    `up`: the client's packets through the link; `at_sender`: from moments at the sender to the conversation's clock.
    """
    answers = [(one, stream) for one in view.opened(window, "server") if (stream := largest_stream(one)) is not None]
    if not answers:
        return None
    opened, stream = max(answers, key=lambda one: len(one[0].t_ns))
    client = [one for one in view.opened(window, "client") if one.connection.client_id == opened.connection.client_id]
    if not client:
        return None
    given = [
        (int(one.t_ns[index]), int(one.key[index]), whose, limit)
        for one in client
        for index, frames in enumerate(one.frames)
        for whose, limit in frames.granted
    ]
    # Of the many packets that grant nothing it is not asked when they came.
    granting = np.isin(up.entered.key, np.array([key for _, key, _, _ in given], np.uint64))
    came = up.out_ns[granting] + _access(up)[granting]
    entered = zip(up.entered.t_ns[granting].tolist(), up.entered.key[granting].tolist(), strict=True)
    heard = dict(zip(entered, came.tolist(), strict=True))
    grants: dict[int | None, list[tuple[int, int]]] = {stream: [], None: []}
    for sent_ns, key, whose, limit in given:
        moment = heard.get((sent_ns, key), -1)
        if whose in grants and moment >= 0:
            grants[whose].append((moment, limit))
    told = _initial(view, window)
    used = _used(opened, stream)
    made = []
    for whose, name in ((stream, "stream"), (None, "connection")):
        t_ns = np.array([moment for moment, _ in grants[whose]], np.int64)
        order = np.argsort(t_ns, kind="stable")
        credit = Credit(
            name, at_sender(t_ns[order]), np.array([limit for _, limit in grants[whose]], np.int64)[order],
            opened.t_ns - zero_ns, used[whose],
        )  # fmt: skip
        made.append(_with_initial(credit, told[name]))
    return tuple(made)


def receive_window(down: MatchedPackets, up: MatchedPackets, at_sender: Callable[[Ints], Ints]) -> Credit | None:
    """TCP's: each segment of the client says up to which byte it takes more (RFC 9293 §3.8.6, RFC 7323 §2).

    `down`, `up`: the packets of one connection through the link. None where its opening was not captured. Shapes:
    g segments of the client that came, u segments of the server.
    """
    sent, told = down.entered, up.entered
    opened, asked = np.flatnonzero(sent.flags & SYN), np.flatnonzero(told.flags & SYN)
    if not len(opened) or not len(asked):
        return None
    initial = int(sent.sequence[opened[0]])
    shifts = sent.shift[opened[0]], told.shift[asked[0]]
    # Either end scales only where both said so, and no SYN's own window is scaled (RFC 7323 §2.2).
    shift = 0 if NO_SHIFT in shifts else int(shifts[1])
    rows = np.flatnonzero(up.arrived & (told.flags & ACK != 0) & (told.flags & SYN == 0))
    heard = up.out_ns[rows] + _access(up)[rows]
    limit = offsets(told.acknowledgement[rows], initial) + (told.window[rows].astype(np.int64) << shift)
    order = np.argsort(heard, kind="stable")
    data = np.flatnonzero(sent.payload > 0)
    used = offsets(sent.sequence[data], initial) + sent.payload[data]
    return Credit(RECEIVE_WINDOW, at_sender(heard[order]), limit[order], at_sender(sent.t_ns[data]), used)


def _access(up: MatchedPackets) -> Ints:
    return up.access_ns if up.access_ns is not None else np.zeros(len(up.out_ns), np.int64)


def _used(opened: SentPackets, stream: int) -> dict[int | None, Ints]:
    """Bytes that each packet shows to be used of one stream's credit, and of the connection's (None), shape (n,)."""
    furthest: dict[int, int] = {}
    ofstream, whole = array("q"), array("q")
    total = 0
    for frames in opened.frames:
        for frame in frames.streams:
            before = furthest.get(frame.stream, 0)
            if frame.end > before:
                furthest[frame.stream] = frame.end
                total += frame.end - before
        ofstream.append(furthest.get(stream, 0))
        whole.append(total)
    return {stream: np.array(ofstream, np.int64), None: np.array(whole, np.int64)}


def _initial(view: RunView, window: OneTransfer) -> dict[str, int | None]:
    """The first limits, as the transport parameters in either end's trace have them (RFC 9000 §18.2)."""
    connection = TransferConnection(view, window)
    client, server = connection.settings("client"), connection.settings("server")
    for said in (client.local if client is not None else None, server.remote if server is not None else None):
        if said is not None and said.initial_max_data is not None:
            stream = said.initial_max_stream_data_bidi_local
            return {"connection": int(said.initial_max_data), "stream": None if stream is None else int(stream)}
    return {"connection": None, "stream": None}


def _with_initial(credit: Credit, initial: int | None) -> Credit:
    """With the first limit. Where nobody tells it, what had been used when the sender went on as soon as the first
    credit came, after it had stood still.
    """
    if initial is None and len(credit.granted_ns):
        moment = int(credit.granted_ns[0])
        at = int(np.searchsorted(credit.used_ns, moment))
        stood = 0 < at < len(credit.used) and moment - int(credit.used_ns[at - 1]) > _AT_ONCE
        if stood and int(credit.used_ns[at]) - moment <= _AT_ONCE:
            initial = int(credit.used[at - 1])
    if initial is None:
        return credit
    return Credit(
        credit.name, np.concatenate([[-1], credit.granted_ns]).astype(np.int64),
        np.concatenate([[initial], credit.limit]).astype(np.int64), credit.used_ns, credit.used,
    )  # fmt: skip


# --- inputs


#: Before all moments, ns.
_EVER = 1 << 62


@dataclass(frozen=True)
class TransferClock:
    """From the time of a run to that of a conversation (see `analysis.time_breakdown.transfer`)."""

    zero_ns: int
    changes_ns: Ints
    """When the delay towards the client changes, shape (p - 1,)."""
    delays_ns: Ints
    """From then on, that of its flow included, shape (p,)."""

    @cached_property
    def _floors(self) -> Ints:
        """When the last packet of all former delays comes, of each phase, shape (p,)."""
        last = self.changes_ns - self.zero_ns + self.delays_ns[:-1]
        floors: Ints = np.concatenate([[-_EVER], np.maximum.accumulate(last)]).astype(np.int64)
        return floors

    def at_sender(self, t_ns: Ints) -> Ints:
        """Moments at the sender, on the client's clock: when a packet that leaves then has come, and all before it.

        So the order of moments stays, also where the delay falls and packets overtake others.
        """
        phase = np.searchsorted(self.changes_ns, t_ns, side="right")
        found: Ints = np.maximum(t_ns - self.zero_ns + self.delays_ns[phase], self._floors[phase])
        return found

    def round_trips(self, up_changes_ns: Ints, up_delays_ns: Ints) -> Steps:
        """The path's own round trip of what the client sends at each moment, by the delays towards the server."""

        def comes(t_ns: Ints) -> Ints:
            there: Ints = t_ns + up_delays_ns[np.searchsorted(up_changes_ns, t_ns, side="right")]
            return there

        # Of an answer to what left just before a delay towards the client changes, and just behind.
        caught = np.concatenate([self.changes_ns - delay for delay in up_delays_ns])
        sent_ns = np.unique(np.concatenate([[self.zero_ns], up_changes_ns, caught]))
        return Steps(sent_ns - self.zero_ns, self.at_sender(comes(sent_ns)) - (sent_ns - self.zero_ns))


def conversation_of(view: RunView, window: OneTransfer) -> Conversation | Unavailable:
    """One transfer's, or why it cannot be told where its time went."""
    ended = _end(view, window)
    if isinstance(ended, Unavailable):
        return ended
    zero_ns, end_ns = ended
    if view.lab is None or not view.is_one_path:
        return Unavailable("several paths carried it" if view.lab is not None else "lab.json is missing")
    if len(view.directions) != 2:
        return Unavailable("there are no captures of both sides")
    down, up = view.directions["to_client"], view.directions["to_server"]
    flow = window.transfer.flow
    facts = next((one for one in view.lab.flows if one.flow == flow), None)
    if facts is None or facts.sender != "server":
        return Unavailable("its data go to the server" if facts is not None else "its flow is not in lab.json")
    if view.capture_drops:
        return Unavailable(f"the captures missed {view.capture_drops} packets")
    access = facts.access_delay_ns
    clock = TransferClock(zero_ns, _starts(down), _delays(down, access))
    mine = _of(down.passage, window)
    port = data_port(down.passage.entered.where(mine), down=True) if window.over_tcp else None
    if port is not None:
        mine &= client_port(down.passage.entered, True) == port
    starts, ends = _service(down)
    delivered = np.where(down.passage.arrived, down.passage.out_ns + access, -1)
    sent = _sent(down, mine, starts, ends, clock)
    bare, needless = _seen_inside(view, window, down.passage.entered.key[mine])
    sent = replace(sent, bare=bare, needless=needless)
    theirs = _of(up.passage, window, port)
    known = _acknowledged(up, theirs, clock, delivered[mine], access)
    first = _first(view, window, zero_ns, down.passage.entered.where(mine), delivered[mine], up)
    if first is None or not len(sent):
        return Unavailable("no answer was captured")
    request_ns, first_ns = first
    others = ~(down.passage.entered.flow == flow) & (starts >= 0)
    return Conversation(
        request_ns=min(request_ns, end_ns),
        first_ns=min(first_ns, end_ns),
        end_ns=end_ns,
        rtt=clock.round_trips(_starts(up), _delays(up, access)),
        rate=Steps(
            clock.at_sender(np.concatenate([[zero_ns], _starts(down)])),
            np.array([phase.rate_bps for phase in down.phases], np.int64),
        ),
        sent=sent,
        acknowledged=known,
        others=merged(np.stack([clock.at_sender(starts[others]), clock.at_sender(ends[others])], axis=1))
        if others.any()
        else NONE,
        credits=_credits(view, window, down.passage.where(mine), up.passage.where(theirs), clock),
        window=_window(view, window, clock),
        mistaken=_mistaken(view, window, clock),
    )


def _starts(direction: LinkDirection) -> Ints:
    """When each phase but the first begins, ns since the epoch."""
    return np.array([phase.start_ns for phase in direction.phases[1:]], np.int64)


def _delays(direction: LinkDirection, access: int) -> Ints:
    """One-way delay of each phase, with the flow's own, ns."""
    return np.array([phase.delay_ns for phase in direction.phases], np.int64) + access


def _end(view: RunView, window: OneTransfer) -> tuple[int, int] | Unavailable:
    """(time zero since the epoch, end since then), ns: of the time that the metric `completion` has."""
    delivery: Delivery | Segments = Delivery(view, window)
    size, zero_ns = window.transfer.size, window.zero_ns
    if not window.has_file:
        found = next((one for one in flows_of(view) if one.number == window.transfer.flow), None)
        amount = window.flow.amount
        if found is None or amount is None:
            return Unavailable("it has no end of its own")
        delivery, size = Segments(found), amount.bytes
        zero_ns = found.lifetime.zero_ns + found.lifetime.start_ns
    if zero_ns is None:
        return Unavailable("no datagram of the client was captured")
    if not delivery.whole:
        return Unavailable("it did not come to its end")
    reached = delivery.reached(size)
    return (zero_ns, round(reached.seconds * 1e9)) if isinstance(reached, DeliveryTime) else reached


def _of(passage: MatchedPackets, window: OneTransfer, port: int | None = None) -> Flags:
    entered = passage.entered
    inside = (entered.t_ns >= window.start_ns) & (entered.t_ns < window.end_ns)
    found: Flags = inside & (entered.flow == window.transfer.flow)
    return found if port is None else found & (client_port(entered, False) == port)


def _service(down: LinkDirection) -> tuple[Ints, Ints]:
    """When the bottleneck began and ended to serve each of n packets, each in its own time at the rate; -1 for one that
    the queue dropped. Where opportunities are random: from when it was its turn. Both of shape (n,).
    """
    passage, replayed = down.passage, down.replayed
    t_ns = passage.entered.t_ns
    rates = np.array([phase.rate_bps for phase in down.phases], np.int64)
    leaves = replayed.departure_ns if not down.served_at_random else down.departures_ns()
    rows = np.flatnonzero((leaves >= 0) & (replayed.fate != Fate.QUEUE_DROP))
    starts, ends = np.full(len(t_ns), -1, np.int64), np.full(len(t_ns), -1, np.int64)
    if not len(rows):
        return starts, ends
    if down.served_at_random:
        ends[rows] = np.maximum.accumulate(leaves[rows])
        starts[rows] = np.maximum(t_ns[rows], np.concatenate([[0], ends[rows][:-1]]))
        return starts, ends
    if down.asked.burst_bytes is None:
        starts[rows], ends[rows] = leaves[rows] - replayed.own_ns[rows], leaves[rows]
        return starts, ends
    own = np.round(passage.entered.length[rows] * 8e9 / np.maximum(rates, 1)[replayed.phase[rows]]).astype(np.int64)
    # Behind a token bucket several leave at once; each is given its time behind the one before.
    whole = np.cumsum(own)
    ends[rows] = whole + np.maximum.accumulate(leaves[rows] - whole)
    starts[rows] = ends[rows] - own
    return starts, ends


def _sent(down: LinkDirection, mine: Flags, starts: Ints, ends: Ints, clock: TransferClock) -> SentArrays:
    passage = down.passage
    t_ns = passage.entered.t_ns[mine]
    served = starts[mine] >= 0
    return SentArrays(
        t_ns=clock.at_sender(t_ns),
        size=passage.entered.payload[mine],
        start_ns=np.where(served, clock.at_sender(starts[mine]), -1),
        end_ns=np.where(served, clock.at_sender(ends[mine]), -1),
        arrived=passage.arrived[mine],
        lost=~passage.arrived[mine] & (down.replayed.fate[mine] != Fate.IN_FLIGHT),
    )


def _seen_inside(view: RunView, window: OneTransfer, keys: Keys) -> tuple[Flags | None, Flags | None]:
    """`bare` and `needless` of the sender's packets with these keys in the capture, by what is in them, shape (n,)."""
    opened = () if window.over_tcp else view.opened(window, "server")
    bare = [
        key
        for one in opened
        for key, frames in zip(one.key.tolist(), one.frames, strict=True)
        if not frames.hidden and NOT_ELICITING.issuperset(frames.types)
    ]
    spurious = spurious_losses(view, window)
    return (
        np.isin(keys, np.array(bare, np.uint64)) if opened else None,
        np.isin(keys, spurious.needless) if isinstance(spurious, Spurious) else None,
    )


def _acknowledged(
    up: LinkDirection, mine: Flags, clock: TransferClock, delivered_ns: Ints, access_ns: int
) -> Acknowledged:
    """What the client's packets acknowledge, at most: all that had come when each left.

    `delivered_ns`: when each packet of the sender came to the client, ns since the epoch, -1 of one that never did.
    """
    passage = up.passage
    rows = np.flatnonzero(mine & passage.arrived)
    heard_ns = passage.out_ns[rows] + access_ns
    order = np.argsort(heard_ns, kind="stable")
    rows, heard_ns = rows[order], heard_ns[order]
    left_ns = passage.entered.t_ns[rows]
    came = np.flatnonzero(delivered_ns >= 0)
    came = came[np.argsort(delivered_ns[came], kind="stable")]
    reached = np.concatenate([[0], np.maximum.accumulate(came + 1)]) if len(came) else np.zeros(1, np.int64)
    known = np.searchsorted(delivered_ns[came], left_ns, side="right")
    return Acknowledged(clock.at_sender(heard_ns), reached[known].astype(np.int64))


def _first(
    view: RunView, window: OneTransfer, zero_ns: int, sent: Capture, delivered_ns: Ints, up: LinkDirection
) -> tuple[int, int] | None:
    """(when the client could ask, when the first byte of the answer had come), ns since time zero.

    `sent`: what the server sent, `delivered_ns` when each came to the client. None where nothing of that was captured.
    """
    assert view.left is not None
    asking = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
    came = delivered_ns >= 0
    if not window.over_tcp:
        rows = np.flatnonzero(asking.one_rtt | (asking.form == Form.ZERO_RTT))
    elif window.has_file:
        answered = delivered_ns[came & (sent.payload > 0)]
        rows = np.flatnonzero((asking.payload > 0) & (len(answered) > 0 and asking.t_ns > answered.min()))
    else:
        rows = np.flatnonzero((asking.t_ns >= zero_ns) & (asking.flags & SYN == 0))
    if not len(rows):
        return None
    asked_ns = int(asking.t_ns[rows[0]])
    first_ns = _first_of_stream(view, window)
    if first_ns is None:
        phase = int(np.searchsorted(_starts(up), asked_ns, side="right"))
        heard_ns = asked_ns + up.phases[phase].delay_ns
        full = came & (sent.t_ns >= heard_ns)
        full &= (sent.payload > 0) if window.over_tcp else (sent.payload >= FULL) & (sent.form == Form.SHORT)
        if not full.any():
            return None
        first_ns = int(delivered_ns[full].min())
    return max(min(asked_ns, first_ns) - zero_ns, 0), max(first_ns - zero_ns, 0)


def _first_of_stream(view: RunView, window: OneTransfer) -> int | None:
    """When the first packet came that has data of the answer, of packets that can be decrypted; ns since the epoch."""
    found = None
    for opened in () if window.over_tcp else view.opened(window, "server"):
        stream = largest_stream(opened)
        for t_ns, frames in zip(opened.t_ns.tolist(), opened.frames, strict=True):
            if any(frame.stream == stream for frame in frames.streams):
                found = t_ns if found is None else min(found, t_ns)
                break
    return found


def _window(view: RunView, window: OneTransfer, clock: TransferClock) -> WindowSamples | None:
    """The congestion window of a transfer's connection, as its sender tells it (qlog, tcp_info)."""
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
    """Flow control's, of a transfer's packets in both directions; None where nobody can know of it."""
    if not window.over_tcp:
        return credits_of(view, window, up, clock.at_sender, clock.zero_ns)
    credit = receive_window(down, up, clock.at_sender)
    return None if credit is None else (credit,)


def _mistaken(view: RunView, window: OneTransfer, clock: TransferClock) -> Mistaken:
    """Packets that the sender took for lost and that came."""
    found = spurious_losses(view, window)
    if not isinstance(found, Spurious):
        return Mistaken(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Mistaken(clock.at_sender(found.taken_ns), clock.at_sender(found.left_ns))

"""When a transfer was in each state: a rule a function, with where it comes from. Pure.

Which state a moment belongs to that several rules claim is `partition.PRECEDENCE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.analysis.time_breakdown.transfer import (
    NO_GAP,
    NONE,
    RECEIVE_WINDOW,
    Conversation,
    Credit,
    Floats,
    Ints,
    WindowSamples,
    both,
    distinct,
    flagged,
    inside,
    merged,
    without,
)
from harness.formatting import counted
from harness.outcome.measured import State

#: A window that grows by less than this in a round trip is not in slow start: RFC 9002 §7.3.1 doubles it, HyStart++'s
#: conservative slow start has half of half (RFC 9406 §4.3: CSS_GROWTH_DIVISOR 4).
GROWTH = 1.2
#: So many round trips with the same bytes are a limit that does not grow: in as many congestion avoidance would have
#: added as many packets (RFC 9002 §7.3.3).
STEADY = 4
#: No probe timeout is shorter than this many of the path's round trips: RFC 9002 §6.2.1 adds four times rttvar, which
#: begins at half a round trip (§5.3), to the round trip, and the receiver's max_ack_delay.
SILENCE = 1.25
#: A bottleneck that is busy for this part of a round trip is full.
FULL = 0.95
#: Bytes in flight that differ by less than this part of them, or by two packets, are the same: TCP's send buffer lets
#: go of a third at once (sk_stream_min_wspace, include/net/sock.h), which shifts their peaks by some packets.
LEVEL = 0.02
#: A packet leaves upon an acknowledgement where it leaves within this part of the mean time between two of them, and a
#: sender sends upon acknowledgements where this part of its bytes leaves so.
CLOCKED, MOSTLY = 1 / 3, 0.9
#: So many times the mean time between two packets without one are a silence.
SILENT = 3
#: Of the congestion window: less room than this, or than two packets, is none.
ROOM = 0.05


def handshake(conv: Conversation) -> Ints:
    """From the client's first datagram until it can ask: its first 1-RTT packet, of TLS over TCP what follows the
    server's first flight (RFC 9001 §4.1.1, §5.7; RFC 8446 §2). With 0-RTT it is nothing.
    """
    return merged([(0, conv.request_ns)])


def request(conv: Conversation) -> Ints:
    """From then until the first byte of the answer is there: a round trip, and what the server takes to begin."""
    return merged([(conv.request_ns, conv.first_ns)])


def line_rate(conv: Conversation) -> Ints:
    """The bottleneck serves this transfer's packets, of those that arrive, without a gap: each for its own time at the
    link's rate, as the replay of the arrivals has it. T-RAT calls such a flow bandwidth-limited (Zhang et al., On the
    Characteristics and Origins of Internet Flow Rates, SIGCOMM 2002, §4.1).
    """
    return conv.served


def slow_start(conv: Conversation) -> Ints:
    """From the answer's first packet until the first loss is detected, or a round trip sends less than 1.2 times what
    the one before it sent: the congestion window grows, and limits (RFC 9002 §7.3.1; T-RAT §4.1: congestion-limited in
    slow start). The window is seen as bytes sent from a packet until its acknowledgement, so no trace is needed.
    """
    return merged([(conv.first_ns, slow_start_end(conv))])


def slow_start_end(conv: Conversation) -> int:
    """When slow start was over, ns; no later than the transfer."""
    begins, sizes = conv.rounds.begin_ns, conv.rounds.size
    loss_ns, _ = conv.detected
    _, last = conv.sending_ns
    end = min(last, int(loss_ns[0]) if len(loss_ns) else last)
    for number in range(1, len(sizes)):
        before, after = int(sizes[number - 1]), int(sizes[number + 1]) if number + 1 < len(sizes) else 0
        grew = sizes[number] >= GROWTH * before or after >= GROWTH**2 * before
        if not grew:
            return min(end, int(begins[number]))
    return end


def recovery(conv: Conversation) -> Ints:
    """Recovery periods: from when the sender can know of a loss until a packet is acknowledged that left after that
    (RFC 9002 §7.3.2; of TCP CA_Recovery, RFC 6675). A period's other losses begin none. What the bottleneck served of
    packets that were lost behind it is in it, and so is the end, where nothing is left to send but what was lost.
    """
    detected_ns, lost = conv.detected
    return merged([*_periods(conv, detected_ns, conv.sent.t_ns[lost]), *conv.wasted.tolist(), *repair(conv)])


def _periods(conv: Conversation, declared_ns: Ints, left_ns: Ints) -> list[tuple[int, int]]:
    """Recovery periods that n packets begin: when each was taken for lost, in order, and when it left, shape (n,)."""
    acknowledged = (
        np.maximum.accumulate(conv.acknowledged.upto) if len(conv.acknowledged.upto) else conv.acknowledged.upto
    )
    periods: list[tuple[int, int]] = []
    recovery_start = -_UNLIMITED
    for moment, left in zip(declared_ns.tolist(), left_ns.tolist(), strict=True):
        if left < recovery_start:
            continue
        recovery_start = moment
        after = int(np.searchsorted(conv.sent.t_ns, moment, side="right"))
        at = int(np.searchsorted(acknowledged, after + 1))
        periods.append((moment, int(conv.acknowledged.t_ns[at]) if at < len(acknowledged) else conv.end_ns))
    return periods


def spurious_recovery(conv: Conversation) -> Ints:
    """Recovery periods that packets begin which were taken for lost and came (RFC 9002 §6.1: reordering beyond the
    thresholds), and then the time in which the congestion window limits and is still smaller than it was before: a
    sender that finds out sets it back (RFC 4015 §3.2). It ends where a packet is lost, for which it would be cut. What
    the bottleneck served of packets that brought nothing but data that had come is in it, too.
    """
    mistaken = conv.mistaken
    periods = merged(_periods(conv, mistaken.t_ns, mistaken.left_ns))
    return merged(np.concatenate([periods, conv.needless, both(_reduced(conv, periods), window_limited(conv))]))


def _reduced(conv: Conversation, periods: Ints) -> Ints:
    """From the beginning of each period until the window, or where the sender does not tell it what a round trip sends,
    is what it was before: spans. One that ends slow start lasts: set back, the window would double once more.
    """
    loss_ns, _ = conv.detected
    doubling = slow_start_end(conv) + conv.rtt_ns
    if conv.window is None:
        moments, values = conv.rounds.begin_ns, conv.rounds.size.astype(np.float64)
    else:
        moments, values = conv.window.t_ns, conv.window.bytes
    spans: list[tuple[int, int]] = []
    for begin in periods[:, 0].tolist():
        if spans and begin < spans[-1][1]:
            continue
        # The window may be told anew just before the loss is.
        before = values[(moments >= begin - 2 * conv.rtt_ns) & (moments < begin)]
        target = np.inf if begin <= doubling else before.max(initial=0)
        after = np.flatnonzero((moments > begin + conv.rtt_ns) & (values >= target))
        later_losses = loss_ns[loss_ns > begin]
        ends = [conv.end_ns, *moments[after[:1]].tolist(), *later_losses[:1].tolist()]
        spans.append((begin, min(ends)))
    return merged(spans)


def repair(conv: Conversation) -> list[tuple[int, int]]:
    """From when the rest to send is no more than what was lost and not sent again: the sender waits for no window, but
    to know what was lost (RFC 9002 §6). Every byte has left once by then; where packets cannot be decrypted, that is
    taken from sizes.
    """
    sent = conv.sent
    lost = np.where(sent.lost, sent.size, 0)
    if not lost.any():
        return []
    if conv.spent_ns < conv.end_ns:
        return [(conv.spent_ns, conv.end_ns)]
    unsent = conv.totals[-1] - conv.totals[1:]
    # What was lost of the last round trip before each packet, and may have to go again.
    since = np.searchsorted(sent.t_ns, sent.t_ns - 2 * conv.rtt.at(sent.t_ns))
    before = np.concatenate([[0], np.cumsum(lost)])
    repairable = before[1:] - before[since]
    left = np.flatnonzero((repairable > 0) & (unsent <= repairable))
    return [(int(sent.t_ns[left[0]]), conv.end_ns)] if len(left) else []


def window_limited(conv: Conversation) -> Ints:
    """After slow start and outside recovery the congestion window is full (RFC 9002 §7.3.3, §7.8), or, where the sender
    does not tell it, what a round trip sends has fallen after a loss or still grows (T-RAT §4.1: congestion-limited).
    """
    return without(_later(conv), steady(conv) if conv.window is None else _room(conv))


def _later(conv: Conversation) -> Ints:
    """From the end of slow start until the sender has nothing left to send."""
    return merged([(slow_start_end(conv), conv.sending_ns[1])])


def flow_control(conv: Conversation) -> Ints:
    """The sender has used the peer's credit, of a stream or of the connection, up to less than a packet, and no new
    one has come (RFC 9000 §4.1: blocked; tcp_info's tcpi_rwnd_limited, which counts the same of a receive window;
    T-RAT §4.1: receiver-window-limited). MAX_DATA and MAX_STREAM_DATA are those of the decrypted packets, TCP's receive
    window is that of every segment's header.
    """
    return merged(np.concatenate([NONE, *(exhausted(credit, conv) for credit in conv.credits or ())]))


def exhausted(credit: Credit, conv: Conversation) -> Ints:
    """When less than a packet was left of one credit: spans."""
    edges = distinct(credit.granted_ns, credit.used_ns, np.array([conv.end_ns]))
    limit = np.concatenate([[_UNLIMITED], np.maximum.accumulate(credit.limit)])
    used = np.concatenate([[0], np.maximum.accumulate(credit.used)])
    granted = limit[np.searchsorted(credit.granted_ns, edges[:-1], side="right")]
    spent = used[np.searchsorted(credit.used_ns, edges[:-1], side="right")]
    return flagged(edges, granted - spent < conv.payload)


def buffer_limited(conv: Conversation) -> Ints:
    """The sender keeps to a buffer: credit and window have room, and what is in flight comes back to the same bytes in
    each round trip, since packets leave only when acknowledgements have made place for them (tcp_info's
    tcpi_sndbuf_limited; T-RAT §4.1: sender-window-limited). Of a sender that does not tell its window, bytes that grow
    by much less than congestion avoidance adds. TCP's send buffer wakes its program when a third is free, and lets it
    write more than there is room for, so that of TCP which tells its window any silence with room in it will do.
    """
    if conv.window is None:
        return both(_level(conv), _open(conv))
    room = both(_room(conv), _open(conv))
    return (
        both(room, _level(conv))
        if not conv.over_tcp
        else merged([span for span in room.tolist() if _waits(conv, *span)])
    )


def _waits(conv: Conversation, start_ns: int, end_ns: int) -> bool:
    """Whether packets leave upon acknowledgements alone for so long, a round trip at least."""
    return _clocked(conv, start_ns, end_ns, max(2, (end_ns - start_ns) // conv.rtt_ns))


def sender_idle(conv: Conversation) -> Ints:
    """Data and window are there, and for a round trip at least the window is never full: nothing is sent, since the
    server has nothing ready, or paces below the path's rate (RFC 9002 §7.8: underutilised; tcp_info's tcpi_busy_time
    without the limits; T-RAT §4.1: application-limited). Of a sender that does not tell its window: the same bytes
    round trip after round trip. Nothing where nobody knows whether credit was there, and nothing once every byte has
    left: then no data are there.
    """
    idle = steady(conv) if conv.window is None else _room(conv)
    return without(both(idle, _open(conv)), buffer_limited(conv))


def _open(conv: Conversation) -> Ints:
    """After slow start, while there are data, and somebody knows of credit: spans."""
    return NONE if conv.credits is None else both(_later(conv), merged([(0, conv.spent_ns)]))


def _level(conv: Conversation) -> Ints:
    """Round trips in a row, `STEADY` at least, in which the most in flight is the same to within `LEVEL`, and in which
    packets leave upon acknowledgements: spans.
    """
    begins, sent = conv.rounds.begin_ns, conv.sent
    if len(begins) < STEADY:
        return NONE
    edges = np.append(begins, conv.end_ns)
    parts = np.split(conv.in_flight(sent.t_ns), np.searchsorted(sent.t_ns, begins[1:]))
    peaks = [int(part.max(initial=0)) for part in parts]
    lost = np.concatenate([conv.detected[0], conv.mistaken.t_ns])
    spans: list[tuple[int, int]] = []
    for start, number in runs(peaks, max(2 * conv.payload, round(LEVEL * max(peaks)))):
        since, until = int(edges[start]), int(edges[number])
        is_level = conv.window is not None or not (
            _grows(peaks[start:number], conv.payload) or ((lost >= since) & (lost < until)).any()
        )
        if number - start >= STEADY and is_level and _clocked(conv, since, until, number - start):
            # The last round trip may have less to send.
            spans.append((since, conv.end_ns if number >= len(peaks) - 1 else until))
    return merged(spans)


def _grows(peaks: Sequence[int], payload: int) -> bool:
    """Whether k round trips carry more and more: by an eighth of a packet each from half to half. Congestion avoidance
    adds half a packet a round trip at least (RFC 9438 §4.3), so a quarter of one from half to half.
    """
    half = len(peaks) // 2
    return half > 0 and max(peaks[half:]) - max(peaks[:half]) > len(peaks) / 8 * payload


def _clocked(conv: Conversation, start_ns: int, end_ns: int, rounds: int) -> bool:
    """Whether there is a silence in each round trip between two moments, and what leaves, leaves as soon as an
    acknowledgement comes, or, of a sender that paces what its buffer holds, stops with as much in flight as ever.
    A sender that only paces leaves its packets evenly.
    """
    ack_ns = conv.acknowledged.t_ns
    ack_ns = ack_ns[(ack_ns >= start_ns) & (ack_ns < end_ns)]
    left = (conv.sent.t_ns >= start_ns) & (conv.sent.t_ns < end_ns) & (conv.sent.size > 0)
    if not len(ack_ns) or not left.any():
        return False
    t_ns, size = conv.sent.t_ns[left], conv.sent.size[left]
    silent = np.diff(t_ns, append=end_ns) >= SILENT * (end_ns - start_ns) / len(t_ns)
    if int(silent.sum()) < rounds - 1:
        return False
    since = t_ns - np.concatenate([[-_UNLIMITED], ack_ns])[np.searchsorted(ack_ns, t_ns, side="right")]
    at_once = since <= CLOCKED * (end_ns - start_ns) / len(ack_ns)
    if size[at_once].sum() >= MOSTLY * size.sum():
        return True
    flight = conv.in_flight(t_ns)
    return int((flight[silent] >= (1 - LEVEL) * flight.max()).sum()) >= rounds - 1


def runs(values: Sequence[int], within: int) -> Iterator[tuple[int, int]]:
    """Runs of values that differ by no more than `within` from each other: where each begins, and the next one does."""
    start = 0
    for number in range(1, len(values) + 1):
        run = values[start : number + 1]
        if number == len(values) or max(run) - min(run) > within:
            yield start, number
            start = number


def steady(conv: Conversation) -> Ints:
    """Round trips in a row, `STEADY` at least, in which bytes sent differ by no more than two packets, and in which
    nothing is lost or taken for lost: spans.
    """
    begins, sizes = conv.rounds.begin_ns, conv.rounds.size
    edges = np.append(begins, conv.end_ns)
    loss_ns = np.concatenate([conv.detected[0], conv.mistaken.t_ns])
    spans: list[tuple[int, int]] = []
    for start, number in runs(sizes.tolist(), 2 * conv.payload):
        is_lossless = not ((loss_ns >= edges[start]) & (loss_ns < edges[number])).any()
        if number - start >= STEADY and is_lossless:
            # The last one may have less to send.
            spans.append((int(edges[start]), conv.end_ns if number >= len(sizes) - 1 else int(edges[number])))
    return merged(spans)


def _room(conv: Conversation) -> Ints:
    """When the window had room for packets, for as long as a round trip at least: spans."""
    assert conv.window is not None
    edges = _edges(conv, conv.window)
    window, flight = conv.window.at(edges[:-1]), conv.in_flight(edges[:-1])
    room = window - flight > np.maximum(2 * conv.payload, ROOM * np.where(np.isfinite(window), window, 0))
    spans = flagged(edges, room & np.isfinite(window))
    return spans[spans[:, 1] - spans[:, 0] >= conv.rtt.at(spans[:, 0])]


def _edges(conv: Conversation, window: WindowSamples) -> Ints:
    """Between which neither the flight nor a window changes."""
    return distinct(conv.sent.t_ns, conv.acknowledged.t_ns, window.t_ns, np.array([conv.end_ns]))


def probe_timeouts(conv: Conversation) -> Ints:
    """From the last packet that got through until a new acknowledgement, around a probe: a packet that leaves though
    others are unacknowledged, and for more than a round trip nothing left and nothing came (RFC 9002 §6.2; of TCP a
    retransmission timeout, tcp_info's total_rto_time).
    """
    sent, acks = conv.sent, conv.acknowledged
    if len(sent) < 2:
        return NONE
    last_ack_ns = np.concatenate([[-_UNLIMITED], acks.t_ns])[np.searchsorted(acks.t_ns, sent.t_ns, side="right")]
    before = np.concatenate([[sent.t_ns[0]], sent.t_ns[:-1]])
    quiet = sent.t_ns - np.maximum(last_ack_ns, before)
    # The sender knows the round trip of what it heard last.
    probes = np.flatnonzero(quiet >= SILENCE * conv.rtt.at(sent.t_ns - quiet))
    probes = probes[(probes > 0) & (sent.t_ns[probes] > conv.first_ns)]
    probes = probes[conv.acknowledged_by(sent.t_ns[probes]) < probes]
    largest_acked = np.maximum.accumulate(acks.upto) if len(acks.upto) else acks.upto
    ends = conv.served[:, 1]
    spans: list[tuple[int, int]] = []
    for probe in probes.tolist():
        moment = int(sent.t_ns[probe])
        served_count = int(np.searchsorted(ends, moment, side="right"))
        since = int(ends[served_count - 1]) if served_count else conv.first_ns
        acknowledged = int(conv.acknowledged_by(np.array([moment]))[0])
        at = int(np.searchsorted(largest_acked, acknowledged + 1))
        spans.append((since, int(acks.t_ns[at]) if at < len(largest_acked) else conv.end_ns))
    return merged(spans)


def shared(conv: Conversation) -> Ints:
    """The bottleneck serves other flows while packets of this one wait for it, or while it is full and this one, after
    slow start, has no more of it than its congestion window (T-RAT §4.1: bandwidth-limited by sharing).
    """
    waits = both(conv.others, conv.queued)
    if not len(conv.others):
        return waits
    all_served = merged(np.concatenate([conv.served, conv.wasted, conv.others]), NO_GAP)
    edges = np.arange(conv.first_ns, conv.end_ns + conv.rtt_ns, max(conv.rtt_ns, 1), dtype=np.int64)
    full = flagged(edges, _busy(all_served, edges) >= FULL)
    return merged(np.concatenate([waits, both(both(conv.others, full), _later(conv))]))


def _busy(spans: Ints, edges: Ints) -> Floats:
    """The part of each of n pieces that spans cover, shape (n,)."""
    covered = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])
    at = np.searchsorted(spans[:, 0], edges, side="right") - 1
    ends = np.where(at >= 0, covered[at] + np.minimum(edges, spans[at, 1]) - spans[np.maximum(at, 0), 0], 0)
    return np.diff(ends) / np.maximum(np.diff(edges), 1)


def acknowledgements(conv: Conversation, waiting: Ints) -> Ints:
    """Of the time in which the sender waits for its window (`waiting`) so much of each round trip as that took longer
    for its acknowledgement: the client held it (RFC 9000 §13.2.1), or it was queued on the return path (RFC 3449 §2.1).
    A window-limited sender sends a window a round trip, so that by this much it would have waited less.
    """
    rounds = conv.rounds
    if not len(rounds.begin_ns):
        return NONE
    edges = np.append(rounds.begin_ns, max(conv.end_ns, int(rounds.begin_ns[-1]) + 1))
    cuts = distinct(edges, waiting.ravel())
    cut = np.stack([cuts[:-1], cuts[1:]], axis=1)[inside(cuts[:-1], waiting)]
    round_index = np.searchsorted(edges, cut[:, 0], side="right") - 1
    cut, round_index = (
        cut[(round_index >= 0) & (round_index < len(rounds.size))],
        round_index[(round_index >= 0) & (round_index < len(rounds.size))],
    )
    durations = cut[:, 1] - cut[:, 0]
    wait_ns = np.bincount(round_index, weights=durations, minlength=len(rounds.size))
    share = np.minimum(rounds.late_ns / np.maximum(wait_ns, 1), 1.0)
    return merged(np.stack([cut[:, 1] - np.round(share[round_index] * durations).astype(np.int64), cut[:, 1]], axis=1))


#: Of a credit before the first, and of a moment before all.
_UNLIMITED = 2**62


# --- What goes with a part: the figure behind it, in few words. Pure.


def notes_of(conv: Conversation) -> dict[State, str]:
    """State → what goes with it; of some there is nothing to say."""
    notes: dict[State, str] = {}
    late = conv.rounds.late_ns
    if len(late):
        size, packets = int(conv.rounds.size[0]), int(conv.rounds.packets[0])
        notes["slow_start"] = f"from {size / 1e3:.1f} kB in {counted(packets, 'packet')}"
    lost = int(conv.sent.lost.sum())
    if lost:
        notes["recovery"] = f"{counted(lost, 'packet')} lost{_overshoot(conv)}"
    if len(conv.mistaken.t_ns):
        notes["spurious_recovery"] = f"{counted(len(conv.mistaken.t_ns), 'packet')} taken for lost that came"
    blocked = [credit for credit in conv.credits or () if len(exhausted(credit, conv))]
    if blocked:
        notes["flow_control"] = _blocked(blocked, conv)
    limited_ns = conv.sent.t_ns[inside(conv.sent.t_ns, buffer_limited(conv))]
    if len(limited_ns):
        notes["buffer_limited"] = f"with up to {conv.in_flight(limited_ns).max() / 1e3:.0f} kB in flight"
    idle = conv.sent.t_ns[inside(conv.sent.t_ns, sender_idle(conv))]
    if len(idle):
        notes["sender_idle"] = f"with {np.median(conv.in_flight(idle)) / 1e3:.0f} kB in flight"
    if len(late):
        notes["acknowledgements"] = f"up to {late.max() / 1e6:.0f} ms late"
    timeouts = len(probe_timeouts(conv))
    if timeouts:
        notes["probe_timeouts"] = counted(timeouts, "silence")
    return notes


def _blocked(credits: Sequence[Credit], conv: Conversation) -> str:
    """Whose credit was used up; of TCP's receive window also how large it was at most meanwhile."""
    (first, *_) = credits
    if first.name != RECEIVE_WINDOW:
        return f"credit of the {' and '.join(credit.name for credit in credits)}"
    ends = exhausted(first, conv)[:, 1]
    return f"receive window of {conv.in_flight(ends - 1).max() / 1e3:.0f} kB"


def _overshoot(conv: Conversation) -> str:
    """How much was in flight when the first loss was detected, in bandwidth-delay products."""
    loss_ns, _ = conv.detected
    before = conv.sent.t_ns[conv.sent.t_ns <= loss_ns[0]] if len(loss_ns) else loss_ns
    if not len(before) or not (bdp := conv.bdp_at(int(before[-1]))):
        return ""
    return f", {int(conv.in_flight(before[-1:])[0]) / bdp:.1f} BDP in flight at the first loss"

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


def handshake(talk: Conversation) -> Ints:
    """From the client's first datagram until it can ask: its first 1-RTT packet, of TLS over TCP what follows the
    server's first flight (RFC 9001 §4.1.1, §5.7; RFC 8446 §2). With 0-RTT it is nothing.
    """
    return merged([(0, talk.request_ns)])


def request(talk: Conversation) -> Ints:
    """From then until the first byte of the answer is there: a round trip, and what the server takes to begin."""
    return merged([(talk.request_ns, talk.first_ns)])


def line_rate(talk: Conversation) -> Ints:
    """The bottleneck serves this transfer's packets, of those that arrive, without a gap: each for its own time at the
    link's rate, as the replay of the arrivals has it. T-RAT calls such a flow bandwidth-limited (Zhang et al., On the
    Characteristics and Origins of Internet Flow Rates, SIGCOMM 2002, §4.1).
    """
    return talk.served


def slow_start(talk: Conversation) -> Ints:
    """From the answer's first packet until the first loss is detected, or a round trip sends less than 1.2 times what
    the one before it sent: the congestion window grows, and limits (RFC 9002 §7.3.1; T-RAT §4.1: congestion-limited in
    slow start). The window is seen as bytes sent from a packet until its acknowledgement, so no trace is needed.
    """
    return merged([(talk.first_ns, slow_start_end(talk))])


def slow_start_end(talk: Conversation) -> int:
    """When slow start was over, ns; no later than the transfer."""
    begins, sizes = talk.rounds.begin_ns, talk.rounds.size
    when, _ = talk.detected
    _, last = talk.sending_ns
    end = min(last, int(when[0]) if len(when) else last)
    for number in range(1, len(sizes)):
        before, after = int(sizes[number - 1]), int(sizes[number + 1]) if number + 1 < len(sizes) else 0
        grew = sizes[number] >= GROWTH * before or after >= GROWTH**2 * before
        if not grew:
            return min(end, int(begins[number]))
    return end


def recovery(talk: Conversation) -> Ints:
    """Recovery periods: from when the sender can know of a loss until a packet is acknowledged that left after that
    (RFC 9002 §7.3.2; of TCP CA_Recovery, RFC 6675). A period's other losses begin none. What the bottleneck served of
    packets that were lost behind it is in it, and so is the end, where nothing is left to send but what was lost.
    """
    when, which = talk.detected
    return merged([*_periods(talk, when, talk.sent.t_ns[which]), *talk.wasted.tolist(), *repair(talk)])


def _periods(talk: Conversation, taken_ns: Ints, left_ns: Ints) -> list[tuple[int, int]]:
    """Recovery periods that n packets begin: when each was taken for lost, in order, and when it left, shape (n,)."""
    reached = np.maximum.accumulate(talk.acknowledged.upto) if len(talk.acknowledged.upto) else talk.acknowledged.upto
    periods: list[tuple[int, int]] = []
    since = -_UNLIMITED
    for moment, left in zip(taken_ns.tolist(), left_ns.tolist(), strict=True):
        if left < since:
            continue
        since = moment
        after = int(np.searchsorted(talk.sent.t_ns, moment, side="right"))
        at = int(np.searchsorted(reached, after + 1))
        periods.append((moment, int(talk.acknowledged.t_ns[at]) if at < len(reached) else talk.end_ns))
    return periods


def spurious_recovery(talk: Conversation) -> Ints:
    """Recovery periods that packets begin which were taken for lost and came (RFC 9002 §6.1: reordering beyond the
    thresholds), and then the time in which the congestion window limits and is still smaller than it was before: a
    sender that finds out sets it back (RFC 4015 §3.2). It ends where a packet is lost, for which it would be cut. What
    the bottleneck served of packets that brought nothing but data that had come is in it, too.
    """
    taken = talk.mistaken
    periods = merged(_periods(talk, taken.t_ns, taken.left_ns))
    return merged(np.concatenate([periods, talk.needless, both(_reduced(talk, periods), window_limited(talk))]))


def _reduced(talk: Conversation, periods: Ints) -> Ints:
    """From the beginning of each period until the window, or where the sender does not tell it what a round trip sends,
    is what it was before: spans. One that ends slow start lasts: set back, the window would double once more.
    """
    when, _ = talk.detected
    doubling = slow_start_end(talk) + talk.rtt_ns
    if talk.window is None:
        moments, values = talk.rounds.begin_ns, talk.rounds.size.astype(np.float64)
    else:
        moments, values = talk.window.t_ns, talk.window.bytes
    found: list[tuple[int, int]] = []
    for begin in periods[:, 0].tolist():
        if found and begin < found[-1][1]:
            continue
        # The window may be told anew just before the loss is.
        before = values[(moments >= begin - 2 * talk.rtt_ns) & (moments < begin)]
        least = np.inf if begin <= doubling else before.max(initial=0)
        after = np.flatnonzero((moments > begin + talk.rtt_ns) & (values >= least))
        lost = when[when > begin]
        ends = [talk.end_ns, *moments[after[:1]].tolist(), *lost[:1].tolist()]
        found.append((begin, min(ends)))
    return merged(found)


def repair(talk: Conversation) -> list[tuple[int, int]]:
    """From when the rest to send is no more than what was lost and not sent again: the sender waits for no window, but
    to know what was lost (RFC 9002 §6). Every byte has left once by then; where packets cannot be decrypted, that is
    taken from sizes.
    """
    sent = talk.sent
    lost = np.where(sent.lost, sent.size, 0)
    if not lost.any():
        return []
    if talk.spent_ns < talk.end_ns:
        return [(talk.spent_ns, talk.end_ns)]
    rest = talk.totals[-1] - talk.totals[1:]
    # What was lost of the last round trip before each packet, and may have to go again.
    since = np.searchsorted(sent.t_ns, sent.t_ns - 2 * talk.rtt.at(sent.t_ns))
    before = np.concatenate([[0], np.cumsum(lost)])
    may = before[1:] - before[since]
    left = np.flatnonzero((may > 0) & (rest <= may))
    return [(int(sent.t_ns[left[0]]), talk.end_ns)] if len(left) else []


def window_limited(talk: Conversation) -> Ints:
    """After slow start and outside recovery the congestion window is full (RFC 9002 §7.3.3, §7.8), or, where the sender
    does not tell it, what a round trip sends has fallen after a loss or still grows (T-RAT §4.1: congestion-limited).
    """
    return without(_later(talk), steady(talk) if talk.window is None else _room(talk))


def _later(talk: Conversation) -> Ints:
    """From the end of slow start until the sender has nothing left to send."""
    return merged([(slow_start_end(talk), talk.sending_ns[1])])


def flow_control(talk: Conversation) -> Ints:
    """The sender has used the peer's credit, of a stream or of the connection, up to less than a packet, and no new
    one has come (RFC 9000 §4.1: blocked; tcp_info's tcpi_rwnd_limited, which counts the same of a receive window;
    T-RAT §4.1: receiver-window-limited). MAX_DATA and MAX_STREAM_DATA are those of the decrypted packets, TCP's receive
    window is that of every segment's header.
    """
    return merged(np.concatenate([NONE, *(exhausted(credit, talk) for credit in talk.credits or ())]))


def exhausted(credit: Credit, talk: Conversation) -> Ints:
    """When less than a packet was left of one credit: spans."""
    edges = distinct(credit.granted_ns, credit.used_ns, np.array([talk.end_ns]))
    limit = np.concatenate([[_UNLIMITED], np.maximum.accumulate(credit.limit)])
    used = np.concatenate([[0], np.maximum.accumulate(credit.used)])
    granted = limit[np.searchsorted(credit.granted_ns, edges[:-1], side="right")]
    spent = used[np.searchsorted(credit.used_ns, edges[:-1], side="right")]
    return flagged(edges, granted - spent < talk.payload)


def buffer_limited(talk: Conversation) -> Ints:
    """The sender keeps to a buffer: credit and window have room, and what is in flight comes back to the same bytes in
    each round trip, since packets leave only when acknowledgements have made place for them (tcp_info's
    tcpi_sndbuf_limited; T-RAT §4.1: sender-window-limited). Of a sender that does not tell its window, bytes that grow
    by much less than congestion avoidance adds. TCP's send buffer wakes its program when a third is free, and lets it
    write more than there is room for, so that of TCP which tells its window any silence with room in it will do.
    """
    if talk.window is None:
        return both(_level(talk), _open(talk))
    room = both(_room(talk), _open(talk))
    return (
        both(room, _level(talk))
        if not talk.over_tcp
        else merged([span for span in room.tolist() if _waits(talk, *span)])
    )


def _waits(talk: Conversation, start_ns: int, end_ns: int) -> bool:
    """Whether packets leave upon acknowledgements alone for so long, a round trip at least."""
    return _clocked(talk, start_ns, end_ns, max(2, (end_ns - start_ns) // talk.rtt_ns))


def sender_idle(talk: Conversation) -> Ints:
    """Data and window are there, and for a round trip at least the window is never full: nothing is sent, since the
    server has nothing ready, or paces below the path's rate (RFC 9002 §7.8: underutilised; tcp_info's tcpi_busy_time
    without the limits; T-RAT §4.1: application-limited). Of a sender that does not tell its window: the same bytes
    round trip after round trip. Nothing where nobody knows whether credit was there, and nothing once every byte has
    left: then no data are there.
    """
    idle = steady(talk) if talk.window is None else _room(talk)
    return without(both(idle, _open(talk)), buffer_limited(talk))


def _open(talk: Conversation) -> Ints:
    """After slow start, while there are data, and somebody knows of credit: spans."""
    return NONE if talk.credits is None else both(_later(talk), merged([(0, talk.spent_ns)]))


def _level(talk: Conversation) -> Ints:
    """Round trips in a row, `STEADY` at least, in which the most in flight is the same to within `LEVEL`, and in which
    packets leave upon acknowledgements: spans.
    """
    begins, sent = talk.rounds.begin_ns, talk.sent
    if len(begins) < STEADY:
        return NONE
    edges = np.append(begins, talk.end_ns)
    parts = np.split(talk.in_flight(sent.t_ns), np.searchsorted(sent.t_ns, begins[1:]))
    most = [int(part.max(initial=0)) for part in parts]
    lost = np.concatenate([talk.detected[0], talk.mistaken.t_ns])
    found: list[tuple[int, int]] = []
    for start, number in runs(most, max(2 * talk.payload, round(LEVEL * max(most)))):
        since, until = int(edges[start]), int(edges[number])
        same = talk.window is not None or not (
            _grows(most[start:number], talk.payload) or ((lost >= since) & (lost < until)).any()
        )
        if number - start >= STEADY and same and _clocked(talk, since, until, number - start):
            # The last round trip may have less to send.
            found.append((since, talk.end_ns if number >= len(most) - 1 else until))
    return merged(found)


def _grows(most: Sequence[int], payload: int) -> bool:
    """Whether k round trips carry more and more: by an eighth of a packet each from half to half. Congestion avoidance
    adds half a packet a round trip at least (RFC 9438 §4.3), so a quarter of one from half to half.
    """
    half = len(most) // 2
    return half > 0 and max(most[half:]) - max(most[:half]) > len(most) / 8 * payload


def _clocked(talk: Conversation, start_ns: int, end_ns: int, rounds: int) -> bool:
    """Whether there is a silence in each round trip between two moments, and what leaves, leaves as soon as an
    acknowledgement comes, or, of a sender that paces what its buffer holds, stops with as much in flight as ever.
    A sender that only paces leaves its packets evenly.
    """
    known = talk.acknowledged.t_ns
    known = known[(known >= start_ns) & (known < end_ns)]
    left = (talk.sent.t_ns >= start_ns) & (talk.sent.t_ns < end_ns) & (talk.sent.size > 0)
    if not len(known) or not left.any():
        return False
    t_ns, size = talk.sent.t_ns[left], talk.sent.size[left]
    silent = np.diff(t_ns, append=end_ns) >= SILENT * (end_ns - start_ns) / len(t_ns)
    if int(silent.sum()) < rounds - 1:
        return False
    since = t_ns - np.concatenate([[-_UNLIMITED], known])[np.searchsorted(known, t_ns, side="right")]
    at_once = since <= CLOCKED * (end_ns - start_ns) / len(known)
    if size[at_once].sum() >= MOSTLY * size.sum():
        return True
    flight = talk.in_flight(t_ns)
    return int((flight[silent] >= (1 - LEVEL) * flight.max()).sum()) >= rounds - 1


def runs(values: Sequence[int], within: int) -> Iterator[tuple[int, int]]:
    """Runs of values that differ by no more than `within` from each other: where each begins, and the next one does."""
    start = 0
    for number in range(1, len(values) + 1):
        run = values[start : number + 1]
        if number == len(values) or max(run) - min(run) > within:
            yield start, number
            start = number


def steady(talk: Conversation) -> Ints:
    """Round trips in a row, `STEADY` at least, in which bytes sent differ by no more than two packets, and in which
    nothing is lost or taken for lost: spans.
    """
    begins, sizes = talk.rounds.begin_ns, talk.rounds.size
    edges = np.append(begins, talk.end_ns)
    when = np.concatenate([talk.detected[0], talk.mistaken.t_ns])
    found: list[tuple[int, int]] = []
    for start, number in runs(sizes.tolist(), 2 * talk.payload):
        calm = not ((when >= edges[start]) & (when < edges[number])).any()
        if number - start >= STEADY and calm:
            # The last one may have less to send.
            found.append((int(edges[start]), talk.end_ns if number >= len(sizes) - 1 else int(edges[number])))
    return merged(found)


def _room(talk: Conversation) -> Ints:
    """When the window had room for packets, for as long as a round trip at least: spans."""
    assert talk.window is not None
    edges = _edges(talk, talk.window)
    window, flight = talk.window.at(edges[:-1]), talk.in_flight(edges[:-1])
    room = window - flight > np.maximum(2 * talk.payload, ROOM * np.where(np.isfinite(window), window, 0))
    spans = flagged(edges, room & np.isfinite(window))
    return spans[spans[:, 1] - spans[:, 0] >= talk.rtt.at(spans[:, 0])]


def _edges(talk: Conversation, window: WindowSamples) -> Ints:
    """Between which neither the flight nor a window changes."""
    return distinct(talk.sent.t_ns, talk.acknowledged.t_ns, window.t_ns, np.array([talk.end_ns]))


def probe_timeouts(talk: Conversation) -> Ints:
    """From the last packet that got through until a new acknowledgement, around a probe: a packet that leaves though
    others are unacknowledged, and for more than a round trip nothing left and nothing came (RFC 9002 §6.2; of TCP a
    retransmission timeout, tcp_info's total_rto_time).
    """
    sent, known = talk.sent, talk.acknowledged
    if len(sent) < 2:
        return NONE
    heard = np.concatenate([[-_UNLIMITED], known.t_ns])[np.searchsorted(known.t_ns, sent.t_ns, side="right")]
    before = np.concatenate([[sent.t_ns[0]], sent.t_ns[:-1]])
    quiet = sent.t_ns - np.maximum(heard, before)
    # The sender knows the round trip of what it heard last.
    places = np.flatnonzero(quiet >= SILENCE * talk.rtt.at(sent.t_ns - quiet))
    places = places[(places > 0) & (sent.t_ns[places] > talk.first_ns)]
    places = places[talk.acknowledged_by(sent.t_ns[places]) < places]
    reached = np.maximum.accumulate(known.upto) if len(known.upto) else known.upto
    ends = talk.served[:, 1]
    found: list[tuple[int, int]] = []
    for place in places.tolist():
        moment = int(sent.t_ns[place])
        done = int(np.searchsorted(ends, moment, side="right"))
        since = int(ends[done - 1]) if done else talk.first_ns
        acknowledged = int(talk.acknowledged_by(np.array([moment]))[0])
        at = int(np.searchsorted(reached, acknowledged + 1))
        found.append((since, int(known.t_ns[at]) if at < len(reached) else talk.end_ns))
    return merged(found)


def shared(talk: Conversation) -> Ints:
    """The bottleneck serves other flows while packets of this one wait for it, or while it is full and this one, after
    slow start, has no more of it than its congestion window (T-RAT §4.1: bandwidth-limited by sharing).
    """
    waits = both(talk.others, talk.queued)
    if not len(talk.others):
        return waits
    every = merged(np.concatenate([talk.served, talk.wasted, talk.others]), NO_GAP)
    edges = np.arange(talk.first_ns, talk.end_ns + talk.rtt_ns, max(talk.rtt_ns, 1), dtype=np.int64)
    full = flagged(edges, _busy(every, edges) >= FULL)
    return merged(np.concatenate([waits, both(both(talk.others, full), _later(talk))]))


def _busy(spans: Ints, edges: Ints) -> Floats:
    """The part of each of n pieces that spans cover, shape (n,)."""
    lasted = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])
    at = np.searchsorted(spans[:, 0], edges, side="right") - 1
    ends = np.where(at >= 0, lasted[at] + np.minimum(edges, spans[at, 1]) - spans[np.maximum(at, 0), 0], 0)
    return np.diff(ends) / np.maximum(np.diff(edges), 1)


def acknowledgements(talk: Conversation, waiting: Ints) -> Ints:
    """Of the time in which the sender waits for its window (`waiting`) so much of each round trip as that took longer
    for its acknowledgement: the client held it (RFC 9000 §13.2.1), or it was queued on the return path (RFC 3449 §2.1).
    A window-limited sender sends a window a round trip, so that by this much it would have waited less.
    """
    rounds = talk.rounds
    if not len(rounds.begin_ns):
        return NONE
    edges = np.append(rounds.begin_ns, max(talk.end_ns, int(rounds.begin_ns[-1]) + 1))
    cuts = distinct(edges, waiting.ravel())
    cut = np.stack([cuts[:-1], cuts[1:]], axis=1)[inside(cuts[:-1], waiting)]
    which = np.searchsorted(edges, cut[:, 0], side="right") - 1
    cut, which = cut[(which >= 0) & (which < len(rounds.size))], which[(which >= 0) & (which < len(rounds.size))]
    lasts = cut[:, 1] - cut[:, 0]
    waited = np.bincount(which, weights=lasts, minlength=len(rounds.size))
    share = np.minimum(rounds.late_ns / np.maximum(waited, 1), 1.0)
    return merged(np.stack([cut[:, 1] - np.round(share[which] * lasts).astype(np.int64), cut[:, 1]], axis=1))


#: Of a credit before the first, and of a moment before all.
_UNLIMITED = 2**62


# --- What goes with a part: the figure behind it, in few words. Pure.


def notes_of(talk: Conversation) -> dict[State, str]:
    """State → what goes with it; of some there is nothing to say."""
    found: dict[State, str] = {}
    late = talk.rounds.late_ns
    if len(late):
        size, packets = int(talk.rounds.size[0]), int(talk.rounds.packets[0])
        found["slow_start"] = f"from {size / 1e3:.1f} kB in {counted(packets, 'packet')}"
    lost = int(talk.sent.lost.sum())
    if lost:
        found["recovery"] = f"{counted(lost, 'packet')} lost{_overshoot(talk)}"
    if len(talk.mistaken.t_ns):
        found["spurious_recovery"] = f"{counted(len(talk.mistaken.t_ns), 'packet')} taken for lost that came"
    blocked = [one for one in talk.credits or () if len(exhausted(one, talk))]
    if blocked:
        found["flow_control"] = _blocked(blocked, talk)
    kept = talk.sent.t_ns[inside(talk.sent.t_ns, buffer_limited(talk))]
    if len(kept):
        found["buffer_limited"] = f"with up to {talk.in_flight(kept).max() / 1e3:.0f} kB in flight"
    idle = talk.sent.t_ns[inside(talk.sent.t_ns, sender_idle(talk))]
    if len(idle):
        found["sender_idle"] = f"with {np.median(talk.in_flight(idle)) / 1e3:.0f} kB in flight"
    if len(late):
        found["acknowledgements"] = f"up to {late.max() / 1e6:.0f} ms late"
    timeouts = len(probe_timeouts(talk))
    if timeouts:
        found["probe_timeouts"] = counted(timeouts, "silence")
    return found


def _blocked(credits: Sequence[Credit], talk: Conversation) -> str:
    """Whose credit was used up; of TCP's receive window also how large it was at most meanwhile."""
    (first, *_) = credits
    if first.name != RECEIVE_WINDOW:
        return f"credit of the {' and '.join(one.name for one in credits)}"
    ends = exhausted(first, talk)[:, 1]
    return f"receive window of {talk.in_flight(ends - 1).max() / 1e3:.0f} kB"


def _overshoot(talk: Conversation) -> str:
    """How much was in flight when the first loss was detected, in bandwidth-delay products."""
    when, _ = talk.detected
    before = talk.sent.t_ns[talk.sent.t_ns <= when[0]] if len(when) else when
    if not len(before) or not (bdp := talk.bdp_at(int(before[-1]))):
        return ""
    return f", {int(talk.in_flight(before[-1:])[0]) / bdp:.1f} BDP in flight at the first loss"

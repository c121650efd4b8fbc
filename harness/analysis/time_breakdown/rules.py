"""When a transfer was in each state: one function per rule, with its source. Pure.

`partition.PRECEDENCE` decides between several rules that claim a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.analysis.time_breakdown.transfer import (
    NO_GAP,
    NO_SPANS,
    RECEIVE_WINDOW,
    Conversation,
    Credit,
    Floats,
    Ints,
    WindowSamples,
    flagged_spans,
    in_spans,
    intersect,
    merge_spans,
    sorted_unique,
    subtract,
)
from harness.formatting import format_count
from harness.outcome.measured import State

#: A window that grows by less than this factor in a round trip is not in slow start. RFC 9002 §7.3.1 doubles it.
#: HyStart++'s conservative slow start grows by a quarter of that (RFC 9406 §4.3: CSS_GROWTH_DIVISOR 4).
GROWTH = 1.2
#: So many round trips with the same bytes are a constant limit: in that time congestion avoidance would have added as
#: many packets (RFC 9002 §7.3.3).
STEADY = 4
#: No probe timeout is shorter than this many of the path's round trips. To the round trip RFC 9002 §6.2.1 adds four
#: times rttvar, which begins at half a round trip (§5.3), and the receiver's max_ack_delay.
SILENCE = 1.25
#: Nor shorter than the granularity of the sender's timer, ns (kGranularity, RFC 9002 §6.1.2).
GRANULARITY_NS = 1_000_000
#: A bottleneck is full if it is busy for this share of a round trip.
FULL = 0.95
#: Bytes in flight are equal if they differ by less than this share, or by two packets. TCP's send buffer frees a third
#: at once (sk_stream_min_wspace, include/net/sock.h), which shifts their peaks by some packets.
LEVEL = 0.02
#: A packet is sent upon an acknowledgement if it leaves within this share of the mean time between two
#: acknowledgements. A sender is ack-clocked if it sends this share of its bytes that way.
CLOCK_SHARE, CLOCKED_BYTES = 1 / 3, 0.9
#: A silence is a time without a packet of so many times the mean time between two packets.
SILENCE_GAPS = 3
#: Less room than this share of the congestion window, or than two packets, is none.
ROOM = 0.05


def handshake(conv: Conversation) -> Ints:
    """From the client's first datagram until it can send its request: its first 1-RTT packet, or for TLS over TCP the
    segment that follows the server's first flight (RFC 9001 §4.1.1, §5.7; RFC 8446 §2). With 0-RTT it is empty.
    """
    return merge_spans([(0, conv.request_ns)])


def request(conv: Conversation) -> Ints:
    """From then until the first byte of the response arrives: a round trip, and the server's response time."""
    return merge_spans([(conv.request_ns, conv.first_byte_ns)])


def line_rate(conv: Conversation) -> Ints:
    """The bottleneck serves this transfer's packets that arrive, without a gap. Each takes its own transmission time at
    the link's rate, by the replay of the arrivals. T-RAT calls such a flow bandwidth-limited (Zhang et al., On the
    Characteristics and Origins of Internet Flow Rates, SIGCOMM 2002, §4.1).
    """
    return conv.useful_service


def slow_start(conv: Conversation) -> Ints:
    """From the response's first packet until the first loss is detected, or a round trip sends less than 1.2 times the
    bytes of the one before it. The congestion window grows, and limits (RFC 9002 §7.3.1; T-RAT §4.1: congestion-limited
    in slow start). The window is seen as bytes sent from a packet until its acknowledgement, so no trace is needed.
    """
    return merge_spans([(conv.first_byte_ns, slow_start_end(conv))])


def slow_start_end(conv: Conversation) -> int:
    """When slow start was over, ns; no later than the transfer."""
    begins, sizes = conv.rounds.begin_ns, conv.rounds.size
    loss_ns, _ = conv.loss_detections
    _, last = conv.sending_ns
    end = min(last, int(loss_ns[0]) if len(loss_ns) else last)
    for number in range(1, len(sizes)):
        before, after = int(sizes[number - 1]), int(sizes[number + 1]) if number + 1 < len(sizes) else 0
        grew = sizes[number] >= GROWTH * before or after >= GROWTH**2 * before
        if not grew:
            return min(end, int(begins[number]))
    return end


def recovery(conv: Conversation) -> Ints:
    """Recovery periods: from when the sender can detect a loss until a packet is acknowledged that was sent after that
    (RFC 9002 §7.3.2; for TCP CA_Recovery, RFC 6675). Other losses in a period begin none. The state includes the time
    in which the bottleneck served packets that were lost after it. It also includes the end, when only lost data are
    left to send.
    """
    detected_ns, lost = conv.loss_detections
    return merge_spans([*_periods(conv, detected_ns, conv.sent.t_ns[lost]), *conv.lost_service.tolist(), *repair(conv)])


def _periods(conv: Conversation, declared_ns: Ints, left_ns: Ints) -> list[tuple[int, int]]:
    """Recovery periods that n packets begin: when each was declared lost, in order, and when it was sent, shape
    (n,).
    """
    acknowledged = conv.largest_acked
    periods: list[tuple[int, int]] = []
    recovery_start = -_UNLIMITED
    for moment, left in zip(declared_ns.tolist(), left_ns.tolist(), strict=True):
        if left < recovery_start:
            continue
        recovery_start = moment
        after = int(np.searchsorted(conv.sent.t_ns, moment, side="right"))
        at = int(np.searchsorted(acknowledged, after + 1))
        periods.append((moment, int(conv.acks.t_ns[at]) if at < len(acknowledged) else conv.end_ns))
    return periods


def spurious_recovery(conv: Conversation) -> Ints:
    """Recovery periods begun by packets that were declared lost and arrived (RFC 9002 §6.1: reordering beyond the
    thresholds). After them it includes the time in which the congestion window limits and is still smaller than before:
    a sender that detects the error restores it (RFC 4015 §3.2). It ends when a packet is really lost, for which the
    window would be cut. The state also includes the time in which the bottleneck served packets with nothing but data
    that had already arrived.
    """
    mistaken = conv.spurious_losses
    periods = merge_spans(_periods(conv, mistaken.t_ns, mistaken.sent_ns))
    return merge_spans(
        np.concatenate([periods, conv.needless, intersect(_reduced_spans(conv, periods), window_limited(conv))])
    )


def _reduced_spans(conv: Conversation, periods: Ints) -> Ints:
    """Spans from the beginning of each period until the window is back at its former size. If the sender does not
    report its window, the bytes of a round trip are used. A period that ends slow start lasts to the end: a restored
    window would double once more.
    """
    loss_ns, _ = conv.loss_detections
    doubling = slow_start_end(conv) + conv.rtt_ns
    if conv.window is None:
        moments, values = conv.rounds.begin_ns, conv.rounds.size.astype(np.float64)
    else:
        moments, values = conv.window.t_ns, conv.window.bytes
    spans: list[tuple[int, int]] = []
    for begin in periods[:, 0].tolist():
        if spans and begin < spans[-1][1]:
            continue
        # The window may be reported again just before the loss is.
        before = values[(moments >= begin - 2 * conv.rtt_ns) & (moments < begin)]
        target = np.inf if begin <= doubling else before.max(initial=0)
        after = np.flatnonzero((moments > begin + conv.rtt_ns) & (values >= target))
        later_losses = loss_ns[loss_ns > begin]
        ends = [conv.end_ns, *moments[after[:1]].tolist(), *later_losses[:1].tolist()]
        spans.append((begin, min(ends)))
    return merge_spans(spans)


def repair(conv: Conversation) -> list[tuple[int, int]]:
    """From when the unsent rest is no more than the lost bytes that have not been sent again. The sender then waits for
    no window, but to detect the losses (RFC 9002 §6). Every byte has been sent once by then; if packets cannot be
    decrypted, that is estimated from sizes.
    """
    sent = conv.sent
    lost = np.where(sent.lost, sent.size, 0)
    if not lost.any():
        return []
    if conv.new_data_end_ns < conv.end_ns:
        return [(conv.new_data_end_ns, conv.end_ns)]
    unsent = conv.totals[-1] - conv.totals[1:]
    # Bytes lost in the last round trip before each packet, which may have to be sent again.
    since = np.searchsorted(sent.t_ns, sent.t_ns - 2 * conv.rtt.at(sent.t_ns))
    before = np.concatenate([[0], np.cumsum(lost)])
    repairable = before[1:] - before[since]
    left = np.flatnonzero((repairable > 0) & (unsent <= repairable))
    return [(int(sent.t_ns[left[0]]), conv.end_ns)] if len(left) else []


def window_limited(conv: Conversation) -> Ints:
    """After slow start and outside recovery the congestion window is full (RFC 9002 §7.3.3, §7.8). If the sender does
    not report it: the bytes of a round trip have fallen after a loss or still grow (T-RAT §4.1: congestion-limited).
    """
    return subtract(_after_slow_start(conv), steady(conv) if conv.window is None else _room_spans(conv))


def _after_slow_start(conv: Conversation) -> Ints:
    """From the end of slow start until the sender has nothing left to send."""
    return merge_spans([(slow_start_end(conv), conv.sending_ns[1])])


def flow_control(conv: Conversation) -> Ints:
    """The sender has used the peer's credit, of a stream or of the connection, up to less than a packet, and no new
    credit has arrived. RFC 9000 §4.1: blocked. T-RAT §4.1: receiver-window-limited. tcp_info's tcpi_rwnd_limited counts
    the same for a receive window. MAX_DATA and MAX_STREAM_DATA are read from decrypted packets, TCP's receive window
    from every segment's header.
    """
    return merge_spans(np.concatenate([NO_SPANS, *(exhausted_spans(credit, conv) for credit in conv.credits or ())]))


def exhausted_spans(credit: Credit, conv: Conversation) -> Ints:
    """When less than a packet was left of one credit: spans."""
    edges = sorted_unique(credit.granted_ns, credit.used_ns, np.array([conv.end_ns]))
    limit = np.concatenate([[_UNLIMITED], np.maximum.accumulate(credit.limit)])
    used = np.concatenate([[0], np.maximum.accumulate(credit.used)])
    granted = limit[np.searchsorted(credit.granted_ns, edges[:-1], side="right")]
    spent = used[np.searchsorted(credit.used_ns, edges[:-1], side="right")]
    return flagged_spans(edges, granted - spent < conv.payload)


def buffer_limited(conv: Conversation) -> Ints:
    """The sender is limited by a buffer. Credit and window have room, and the bytes in flight return to the same peak
    in each round trip, because packets leave only when acknowledgements free space (tcp_info's tcpi_sndbuf_limited;
    T-RAT §4.1: sender-window-limited). If the sender does not report its window, bytes that grow much less than in
    congestion avoidance count. TCP's send buffer wakes its program when a third is free, and lets it write more than
    there is room for. So for TCP with a reported window any silence with room in the window counts.
    """
    if conv.window is None:
        return intersect(_level_spans(conv), _sendable_spans(conv))
    room = intersect(_room_spans(conv), _sendable_spans(conv))
    return (
        intersect(room, _level_spans(conv))
        if not conv.over_tcp
        else merge_spans([span for span in room.tolist() if _is_ack_limited(conv, *span)])
    )


def _is_ack_limited(conv: Conversation, start_ns: int, end_ns: int) -> bool:
    """Whether packets leave only upon acknowledgements for so long, a round trip at least."""
    return _is_ack_clocked(conv, start_ns, end_ns, max(2, (end_ns - start_ns) // conv.rtt_ns))


def sender_idle(conv: Conversation) -> Ints:
    """Data and window are available, and for a round trip at least the window is never full. Nothing is sent, because
    the server has nothing ready, or paces below the path's rate. RFC 9002 §7.8: underutilised. T-RAT §4.1:
    application-limited. tcp_info: tcpi_busy_time without the limits. If the sender does not report its window: the same
    bytes round trip after round trip. Empty if the credit is unknown, and after every byte has been sent, because
    then there are no data.
    """
    idle = steady(conv) if conv.window is None else _room_spans(conv)
    return subtract(intersect(idle, _sendable_spans(conv)), buffer_limited(conv))


def _sendable_spans(conv: Conversation) -> Ints:
    """After slow start, while there are data, if credit is known: spans."""
    return (
        NO_SPANS
        if conv.credits is None
        else intersect(_after_slow_start(conv), merge_spans([(0, conv.new_data_end_ns)]))
    )


def _level_spans(conv: Conversation) -> Ints:
    """Runs of `STEADY` or more round trips in which the peak in flight is the same to within `LEVEL`, and in which
    packets leave upon acknowledgements: spans.
    """
    begins, sent = conv.rounds.begin_ns, conv.sent
    if len(begins) < STEADY:
        return NO_SPANS
    edges = np.append(begins, conv.end_ns)
    parts = np.split(conv.in_flight(sent.t_ns), np.searchsorted(sent.t_ns, begins[1:]))
    peaks = [int(part.max(initial=0)) for part in parts]
    lost = np.concatenate([conv.loss_detections[0], conv.spurious_losses.t_ns])
    spans: list[tuple[int, int]] = []
    for start, number in value_runs(peaks, max(2 * conv.payload, round(LEVEL * max(peaks)))):
        since, until = int(edges[start]), int(edges[number])
        is_level = conv.window is not None or not (
            _is_growing(peaks[start:number], conv.payload) or ((lost >= since) & (lost < until)).any()
        )
        if number - start >= STEADY and is_level and _is_ack_clocked(conv, since, until, number - start):
            # The last round trip may have less to send.
            spans.append((since, conv.end_ns if number >= len(peaks) - 1 else until))
    return merge_spans(spans)


def _is_growing(peaks: Sequence[int], payload: int) -> bool:
    """Whether k round trips carry more and more: by an eighth of a packet each from half to half. Congestion avoidance
    adds half a packet a round trip at least (RFC 9438 §4.3), so a quarter of one from half to half.
    """
    half = len(peaks) // 2
    return half > 0 and max(peaks[half:]) - max(peaks[:half]) > len(peaks) / 8 * payload


def _is_ack_clocked(conv: Conversation, start_ns: int, end_ns: int, rounds: int) -> bool:
    """Whether there is a silence in each round trip between two moments, and packets leave as soon as an
    acknowledgement arrives. A sender that paces what its buffer holds counts too, if it stops with as much in flight as
    ever. A sender that only paces sends its packets evenly.
    """
    ack_ns = conv.acks.t_ns
    ack_ns = ack_ns[(ack_ns >= start_ns) & (ack_ns < end_ns)]
    left = (conv.sent.t_ns >= start_ns) & (conv.sent.t_ns < end_ns) & (conv.sent.size > 0)
    if not len(ack_ns) or not left.any():
        return False
    t_ns, size = conv.sent.t_ns[left], conv.sent.size[left]
    silent = np.diff(t_ns, append=end_ns) >= SILENCE_GAPS * (end_ns - start_ns) / len(t_ns)
    if int(silent.sum()) < rounds - 1:
        return False
    since = t_ns - np.concatenate([[-_UNLIMITED], ack_ns])[np.searchsorted(ack_ns, t_ns, side="right")]
    at_once = since <= CLOCK_SHARE * (end_ns - start_ns) / len(ack_ns)
    if size[at_once].sum() >= CLOCKED_BYTES * size.sum():
        return True
    flight = conv.in_flight(t_ns)
    return int((flight[silent] >= (1 - LEVEL) * flight.max()).sum()) >= rounds - 1


def value_runs(values: Sequence[int], within: int) -> Iterator[tuple[int, int]]:
    """Runs of values that differ by no more than `within` from each other: (index of the first, index after the
    last).
    """
    start = 0
    for number in range(1, len(values) + 1):
        run = values[start : number + 1]
        if number == len(values) or max(run) - min(run) > within:
            yield start, number
            start = number


def steady(conv: Conversation) -> Ints:
    """Runs of `STEADY` or more round trips in which bytes sent differ by no more than two packets, and in which nothing
    is lost or declared lost: spans.
    """
    begins, sizes = conv.rounds.begin_ns, conv.rounds.size
    edges = np.append(begins, conv.end_ns)
    loss_ns = np.concatenate([conv.loss_detections[0], conv.spurious_losses.t_ns])
    spans: list[tuple[int, int]] = []
    for start, number in value_runs(sizes.tolist(), 2 * conv.payload):
        is_lossless = not ((loss_ns >= edges[start]) & (loss_ns < edges[number])).any()
        if number - start >= STEADY and is_lossless:
            # The last one may have less to send.
            spans.append((int(edges[start]), conv.end_ns if number >= len(sizes) - 1 else int(edges[number])))
    return merge_spans(spans)


def _room_spans(conv: Conversation) -> Ints:
    """When the window had room for packets, for as long as a round trip at least: spans."""
    assert conv.window is not None
    edges = _edges(conv, conv.window)
    window, flight = conv.window.at(edges[:-1]), conv.in_flight(edges[:-1])
    room = window - flight > np.maximum(2 * conv.payload, ROOM * np.where(np.isfinite(window), window, 0))
    spans = flagged_spans(edges, room & np.isfinite(window))
    return spans[spans[:, 1] - spans[:, 0] >= conv.rtt.at(spans[:, 0])]


def _edges(conv: Conversation, window: WindowSamples) -> Ints:
    """Moments between which neither the flight nor a window changes."""
    return sorted_unique(conv.sent.t_ns, conv.acks.t_ns, window.t_ns, np.array([conv.end_ns]))


def probe_timeouts(conv: Conversation) -> Ints:
    """From the last delivered packet until a new acknowledgement, around a probe. A probe is a packet that leaves while
    others are unacknowledged, after more than a round trip in which nothing was sent or received (RFC 9002 §6.2; for
    TCP a retransmission timeout, tcp_info's total_rto_time).
    """
    sent, acks = conv.sent, conv.acks
    if len(sent) < 2:
        return NO_SPANS
    last_ack_ns = np.concatenate([[-_UNLIMITED], acks.t_ns])[np.searchsorted(acks.t_ns, sent.t_ns, side="right")]
    before = np.concatenate([[sent.t_ns[0]], sent.t_ns[:-1]])
    quiet = sent.t_ns - np.maximum(last_ack_ns, before)
    # The sender knows the round trip of the last packet it received.
    shortest = np.maximum(SILENCE * conv.rtt.at(sent.t_ns - quiet), GRANULARITY_NS)
    probes = np.flatnonzero(quiet >= shortest)
    probes = probes[(probes > 0) & (sent.t_ns[probes] > conv.first_byte_ns)]
    acknowledged = conv.acknowledged_by(sent.t_ns[probes])
    probes, acknowledged = probes[acknowledged < probes], acknowledged[acknowledged < probes]
    ends = conv.useful_service[:, 1]
    spans: list[tuple[int, int]] = []
    for moment, count in zip(sent.t_ns[probes].tolist(), acknowledged.tolist(), strict=True):
        served_count = int(np.searchsorted(ends, moment, side="right"))
        since = int(ends[served_count - 1]) if served_count else conv.first_byte_ns
        at = int(np.searchsorted(conv.largest_acked, count + 1))
        spans.append((since, int(acks.t_ns[at]) if at < len(acks.t_ns) else conv.end_ns))
    return merge_spans(spans)


def shared(conv: Conversation) -> Ints:
    """The bottleneck serves other flows while packets of this one wait for it. Or it is full, and this flow, after slow
    start, has only the share that its congestion window gives it (T-RAT §4.1: bandwidth-limited by sharing).
    """
    waits = intersect(conv.other_flows, conv.queued)
    if not len(conv.other_flows):
        return waits
    all_served = merge_spans(np.concatenate([conv.useful_service, conv.lost_service, conv.other_flows]), NO_GAP)
    edges = np.arange(conv.first_byte_ns, conv.end_ns + conv.rtt_ns, max(conv.rtt_ns, 1), dtype=np.int64)
    full = flagged_spans(edges, _coverage(all_served, edges) >= FULL)
    return merge_spans(np.concatenate([waits, intersect(intersect(conv.other_flows, full), _after_slow_start(conv))]))


def _coverage(spans: Ints, edges: Ints) -> Floats:
    """The share of each of n pieces that spans cover, shape (n,)."""
    covered = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])
    at = np.searchsorted(spans[:, 0], edges, side="right") - 1
    ends = np.where(at >= 0, covered[at] + np.minimum(edges, spans[at, 1]) - spans[np.maximum(at, 0), 0], 0)
    return np.diff(ends) / np.maximum(np.diff(edges), 1)


def acknowledgements(conv: Conversation, waiting: Ints) -> Ints:
    """Of the time in which the sender waits for its window (`waiting`), the part of each round trip by which its
    acknowledgement was late. The client delayed it (RFC 9000 §13.2.1), or it was queued on the return path (RFC 3449
    §2.1). A window-limited sender sends a window per round trip, so it would have waited that much less.
    """
    rounds = conv.rounds
    if not len(rounds.begin_ns):
        return NO_SPANS
    edges = np.append(rounds.begin_ns, max(conv.end_ns, int(rounds.begin_ns[-1]) + 1))
    cuts = sorted_unique(edges, waiting.ravel())
    cut = np.stack([cuts[:-1], cuts[1:]], axis=1)[in_spans(cuts[:-1], waiting)]
    round_index = np.searchsorted(edges, cut[:, 0], side="right") - 1
    cut, round_index = (
        cut[(round_index >= 0) & (round_index < len(rounds.size))],
        round_index[(round_index >= 0) & (round_index < len(rounds.size))],
    )
    durations = cut[:, 1] - cut[:, 0]
    wait_ns = np.bincount(round_index, weights=durations, minlength=len(rounds.size))
    share = np.minimum(rounds.late_ns / np.maximum(wait_ns, 1), 1.0)
    return merge_spans(
        np.stack([cut[:, 1] - np.round(share[round_index] * durations).astype(np.int64), cut[:, 1]], axis=1)
    )


#: Stands for a credit before the first, and for a moment before all others.
_UNLIMITED = 2**62


# --- Notes: the figure behind each state, in few words. Pure.


def notes_of(conv: Conversation) -> dict[State, str]:
    """State → its note; some states have none."""
    notes: dict[State, str] = {}
    late = conv.rounds.late_ns
    if len(late):
        size, packets = int(conv.rounds.size[0]), int(conv.rounds.packets[0])
        notes["slow_start"] = f"from {size / 1e3:.1f} kB in {format_count(packets, 'packet')}"
    lost = int(conv.sent.lost.sum())
    if lost:
        notes["recovery"] = f"{format_count(lost, 'packet')} lost{_overshoot_note(conv)}"
    if len(conv.spurious_losses.t_ns):
        notes["spurious_recovery"] = (
            f"{format_count(len(conv.spurious_losses.t_ns), 'packet')} taken for lost that came"
        )
    blocked = [credit for credit in conv.credits or () if len(exhausted_spans(credit, conv))]
    if blocked:
        notes["flow_control"] = _blocked_note(blocked, conv)
    limited_ns = conv.sent.t_ns[in_spans(conv.sent.t_ns, buffer_limited(conv))]
    if len(limited_ns):
        notes["buffer_limited"] = f"with up to {conv.in_flight(limited_ns).max() / 1e3:.0f} kB in flight"
    idle = conv.sent.t_ns[in_spans(conv.sent.t_ns, sender_idle(conv))]
    if len(idle):
        notes["sender_idle"] = f"with {np.median(conv.in_flight(idle)) / 1e3:.0f} kB in flight"
    if len(late):
        notes["acknowledgements"] = f"up to {late.max() / 1e6:.0f} ms late"
    timeouts = len(probe_timeouts(conv))
    if timeouts:
        notes["probe_timeouts"] = format_count(timeouts, "silence")
    return notes


def _blocked_note(credits: Sequence[Credit], conv: Conversation) -> str:
    """Whose credit was used up; for TCP's receive window also its largest size meanwhile."""
    (first, *_) = credits
    if first.name != RECEIVE_WINDOW:
        return f"credit of the {' and '.join(credit.name for credit in credits)}"
    ends = exhausted_spans(first, conv)[:, 1]
    return f"receive window of {conv.in_flight(ends - 1).max() / 1e3:.0f} kB"


def _overshoot_note(conv: Conversation) -> str:
    """How much was in flight when the first loss was detected, in bandwidth-delay products."""
    loss_ns, _ = conv.loss_detections
    before = conv.sent.t_ns[conv.sent.t_ns <= loss_ns[0]] if len(loss_ns) else loss_ns
    if not len(before) or not (bdp := conv.bdp_at(int(before[-1]))):
        return ""
    return f", {int(conv.in_flight(before[-1:])[0]) / bdp:.1f} BDP in flight at the first loss"

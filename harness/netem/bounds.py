"""Sizes and times that follow from a path: BDP, queue bytes, token bucket, reference times."""

from __future__ import annotations

import math
from typing import Literal

from harness.netem.timeline import Timeline
from harness.scenario.schema import FRAME_HEADER, MTU, Link, Path, Policer, Reorder
from harness.units import Duration, QueueSize, Rate, Size

#: The server of a queue with constant service, unless a scenario configures a bucket: in virtual time one packet after
#: the other (serial); in real time, where timers are late, a token bucket.
Server = Literal["serial", "bucket"]
#: A full frame as tc counts it, bytes.
FRAME = MTU + FRAME_HEADER
#: How late a timer may wake tbf in real time before capacity is lost, seconds.
#: `make bench` prints the table: the share of its rate at which a full queue is served, by bucket. On two virtual
#: cores with other work on both (load 3 to 4), lab kernel, 1294-byte frames: 2 Mbit/s, one frame 100.0 %; 10 Mbit/s,
#: one frame 99.7 %, two 99.9 %, 4 ms 100.0 %; 50 Mbit/s, one frame 98.3 %, two 99.0 %, 1 ms 98.4 and 99.2 %, 2 ms 99.5
#: to 99.8 %, 4 ms 99.6 to 99.8 %. Real endpoints need more than that sender: with 2 ms at 20 Mbit/s three of twelve
#: transfers lost 2.4 to 4 % there. At 250 Mbit/s that machine had no time left (2 ms 81 to 99.6 %, 4 ms 84 to 96 %).
WAKE_UP_DELAY = 0.004
#: The slowest rate that tc has for tbf: it stands for a rate of 0.
SLOWEST_TBF_RATE = Rate(8)
#: RFC 9002 §7.2: ten datagrams of 1200 bytes.
INITIAL_WINDOW = 12_000
#: IP version → the smallest packet with a QUIC Initial (RFC 9000 §14.1: 1200 B of payload), headers included, bytes.
SMALLEST_INITIAL = {4: 1228, 6: 1248}
#: An acknowledgement as tc counts it: Ethernet, IPv4 and UDP headers, a short-header packet with an ACK frame, bytes.
ACK_FRAME = FRAME_HEADER + 28 + 42
#: File bytes in a full datagram: 1500 less the headers of IPv4, UDP, a short-header packet and a frame.
DATA_PAYLOAD = MTU - 28 - 32


def bdp_bytes(rate: Rate, rtt: Duration) -> int:
    """Bandwidth-delay product in bytes, with the direction's own rate."""
    return rate.bytes_in(rtt)


def queue_bytes(link: Link, rtt: Duration) -> int:
    """The hard limit of the link's queue in bytes (packets count as full frames)."""
    return link.queue.capacity.bytes_at(link.rate, rtt, FRAME)


def size_bytes(size: QueueSize, link: Link, rtt: Duration) -> int:
    """Any queue size of a link in bytes."""
    return size.bytes_at(link.rate, rtt, FRAME)


def burst_bytes(link: Link, server: Server, mtu: int = MTU) -> int | None:
    """Bytes of the link's token bucket: as configured, else what the server needs; None where there is no bucket.

    In real time a timer wakes up late. A bucket smaller than the bytes that pass meanwhile loses capacity for good, and
    a larger one lets bursts through. So it has two frames, or the bytes that pass while a timer may be late, if more.
    `mtu`: of the interfaces; a bucket smaller than a frame would drop it.
    """
    if link.poisson is not None or link.follows_rate:
        return None
    if isinstance(link.queue, Policer):
        return link.queue.burst.bytes
    if link.burst is not None:
        return link.burst.bytes
    if server == "serial":
        return None
    return default_bucket_bytes(link.rate.value, WAKE_UP_DELAY, full_frame(mtu))


def full_frame(mtu: int) -> int:
    """A full frame of a path as tc counts it, bytes; on a path of a small MTU still Ethernet's."""
    return max(FRAME, mtu + FRAME_HEADER)


def default_bucket_bytes(rate_bps: int, wake_up: float, frame: int = FRAME) -> int:
    """Bytes of the default token bucket: two frames, or the bytes that pass in `wake_up` s, whichever is more."""
    return max(2 * frame, math.ceil(rate_bps * wake_up / 8))


def bucket_share(link: Link, burst: int, rtt: Duration) -> float:
    """The share of the RTT or of the queue by which a token bucket of `burst` bytes differs from a serial link.

    The larger of both shares. R_k = max(A_k, F_k - 8·burst/rate), where F_k is the end of service on a serial link: a
    packet leaves earlier by its whole wait and its own time, up to what the bucket holds.
    """
    return max(link.rate.time_for(burst) / rtt.seconds if rtt.value else 0.0, burst / max(queue_bytes(link, rtt), 1))


def opportunity_gap(link: Link, mtu: int = MTU) -> Duration:
    """Mean time between two opportunities of a service process: a full frame's time at the link's rate."""
    return Duration(round((mtu + FRAME_HEADER) * 8 * 10**9 / link.rate.value))


def netem_limit(link: Link) -> int:
    """Packets that netem must hold so that it never drops: the smallest frames that fit into the delay."""
    wait = 0.0 if link.slots is None else link.slots.gaps[1].seconds
    in_flight = link.rate.value * (link.delay.seconds + link.variation.largest.seconds + wait) / 8 / 60
    return 1000 + math.ceil(1.25 * in_flight)


def overtaking_share(link: Link, frame: int = FRAME) -> float:
    """The share of the packets of a full link that a later one overtakes, with a uniform jitter that keeps no order.

    A packet whose deviation is x is overtaken by the k-th behind it if that one's is below x - k·gap, the gap being a
    frame's transmission time. NaN for other distributions.
    """
    variation = link.variation
    if variation.distribution != "uniform" or variation.correlation.value:
        return math.nan
    span, gap = 2 * variation.deviation.seconds, link.rate.time_for(frame)
    steps = 1000
    kept = 0.0
    for step in range(steps):
        remaining, stays = span * (step + 0.5) / steps - gap, 1.0
        while remaining > 0 and stays > 1e-9:
            stays *= 1 - remaining / span
            remaining -= gap
        kept += stays / steps
    return 1 - kept


def early_share(reorder: Reorder) -> float:
    """The long-run share of packets that leave early: after each, gap - 1 may not (sch_netem.c, netem_enqueue)."""
    return 1 / (reorder.gap - 1 + 1 / reorder.share.fraction)


#: tc counts a service curve in whole bytes per second, the kernel its inverse slope in 2^-14 ticks of 64 ns per byte
#: (net/sched/sch_hfsc.c, m2ism with ISM_SHIFT 14 and PSCHED_SHIFT 6).
_SLOPE = (10**9 >> 6) << 14


def curve_rate(rate: Rate) -> int:
    """The rate of an hfsc curve that is never slower than `rate`, and hardly faster: bit/s, whole bytes per second.

    The kernel rounds the time of a byte up, so that most curves are slower than configured, by 1 part in 10^4 at
    250 Mbit/s. This one is faster by no more than that.
    """
    slope = _SLOPE * 8 // rate.value
    return 8 * -(-_SLOPE // slope)


def ideal_time(course: Timeline, size: Size) -> float:
    """Seconds from the first datagram to the last byte at line rate at once: two round trips, then the bytes.

    One round trip for the handshake (RFC 9001 §4.1), one for the request; of an upload, half of one. No headers, loss
    or queue. A policer lets the bytes of its bucket pass at once. Infinite where the path never carries so much.
    """
    return course.at_client(course.carried(max(0.0, size.bytes * 8 - course.bucket_bits), course.data_start))


def ack_limited_rate(path: Path, ack_ratio: float) -> float:
    """The rate of a file (bytes/s) at which its acknowledgements fill the direction client to server. Of an upload, the
    path's ends are exchanged.

    `ack_ratio` full datagrams are acknowledged by one packet; ACKs are neither lost nor queued for long.
    """
    return path.to_server.rate.value / 8 / ACK_FRAME * ack_ratio * DATA_PAYLOAD


def ack_limited_time(path: Path, course: Timeline, size: Size, ack_ratio: float) -> float:
    """Seconds when a file comes no faster than the return path carries its acknowledgements, from the start.

    `course`: the path over time.
    """
    return max(ideal_time(course, size), 2 * path.rtt.seconds + size.bytes / ack_limited_rate(path, ack_ratio))


def slow_start_time(course: Timeline, size: Size, initial_window: int = INITIAL_WINDOW) -> float:
    """Seconds with textbook slow start: the window doubles each round trip until it fills the link.

    RFC 9002 §7.3.1 without loss, overshoot, flow-control or ACK limits; headers are not counted. Infinite where the
    path never carries so much.
    """
    remaining, window = size.bytes, initial_window
    round_start = link_free = course.data_start
    while math.isfinite(link_free):
        # A round starts when the first ACK of the last one is back, or when the link is free again.
        link_free = course.carried(min(window, remaining) * 8, max(round_start, link_free))
        if window >= remaining:
            return course.at_client(max(round_start, link_free - course.head_start(link_free)))
        remaining -= window
        window *= 2
        round_start += course.round_trip(round_start)
    return math.inf

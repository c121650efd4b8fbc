"""The ingress of a path: the bottleneck's queue, and its server."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

from harness.netem.bounds import (
    FRAME,
    SLOWEST_TBF_RATE,
    Server,
    burst_bytes,
    curve_rate,
    opportunity_gap,
    queue_bytes,
    size_bytes,
)
from harness.netem.program import Command, Side
from harness.scenario.schema import DropTail, Link, Red
from harness.units import Duration, Rate

# --- RED's weight and burst as iproute2 computes them, and the RED settings that it or the kernel refuses.


#: Bits of the average, the weight's logarithm below the point (include/net/red.h, red_check_params).
_AVERAGE_BITS = 32
#: Ticks of the packet scheduler in a second: 64 ns each (net/sched/sch_api.c, psched_show).
_TICKS = 10**9 / 64
#: Bits that tc has for the shift of the table by which an idle queue's average decays, and the ticks it must fall below
#: (tc/tc_red.c, tc_red_eval_idle_damping).
_CELL_LOGS, _CELL_TICKS = 32, 512
#: The average falls to zero within so many halvings.
_DECAY = 31


def red_log_weight(minimum: int, burst: int, average_packet: int) -> int | None:
    """The Wlog that iproute2 takes for these values (tc/tc_red.c, tc_red_eval_ewma), or None."""
    excess = burst + 1 - minimum / average_packet
    if excess < 1:
        return None
    # The sum below is at most one over the weight: no weight is tried that is too large for it.
    first = max(1, (math.ceil(excess) - 1).bit_length())
    weight = 0.5**first
    for log in range(first, 32):
        if excess <= (1 - (1 - weight) ** burst) / weight:
            return log
        weight /= 2
    return None


def red_burst(wq: float, minimum: int, average_packet: int) -> int:
    """The burst for which iproute2 takes the power of two nearest to `wq`; ValueError if there is none."""
    log_weight = min(range(1, 32), key=lambda log: abs(wq - 2.0**-log) / wq)

    def weight(burst: int) -> int:
        """iproute2's log weight, which grows with the burst; 0 below all bursts that it accepts, 32 above."""
        log = red_log_weight(minimum, burst, average_packet)
        return log if log is not None else 0 if burst + 1 - minimum / average_packet < 1 else 32

    first = max(1, minimum // average_packet)
    bursts = range(first, first + 100_000)
    begin, end = bisect_left(bursts, log_weight, key=weight), bisect_right(bursts, log_weight, key=weight)
    if begin == end:
        raise ValueError(f"tc has no burst for wq {wq} with min {minimum} B and avpkt {average_packet} B")
    return bursts[begin + (end - begin) // 2]


def find_red_mistake(queue: Red, low: int, high: int, rate: Rate, frame: int) -> tuple[str, str, str] | None:
    """(key, problem, hint) of a RED queue that tc or the kernel would refuse; None where both accept it.

    `low` and `high`: its thresholds in bytes on the link, `frame`: the largest packet in bytes.
    """
    average = queue.average_packet.bytes
    if not 0 < average <= frame:
        return "average_packet", f"a packet has 1 to {frame} B, not {average}", "write '1000 B', say"
    key = "wq" if queue.burst is None else "burst"
    try:
        burst = queue.burst if queue.burst is not None else red_burst(queue.wq or 0.0, low, average)
    except (ValueError, ArithmeticError):
        return (
            key,
            f"tc has no weight as small as {queue.wq} with min {low} B",
            "write 0.002, as Floyd and Jacobson do",
        )
    log = red_log_weight(low, burst, average)
    if log is None:
        least = max(1, math.ceil(low / average))
        text = f"tc has no weight for a burst of {burst} packets of {average} B with min {low} B"
        return key, text, f"write {least} or more" if burst < least else f"{2 * least} would do"
    if high.bit_length() + log >= _AVERAGE_BITS:
        text = f"a weight of 2^-{log} and max {high} B are more than the {_AVERAGE_BITS} bits of the kernel's average"
        return key, text, "write a larger wq or a smaller burst, or smaller thresholds"
    if queue.probability.fraction / (high - low) * 2.0 ** (_AVERAGE_BITS - 1) <= 1:
        text = f"tc has no probability as small as {queue.probability} between min {low} B and max {high} B"
        return "probability", text, "write '10 %', say"
    if _decay_ticks(log, average, rate) / 2 ** (_CELL_LOGS - 1) >= _CELL_TICKS:
        return key, f"tc has no table for an average that decays so slowly at {rate}", "write a larger wq"
    return None


def _decay_ticks(log: int, average: int, rate: Rate) -> float:
    """Ticks in which the average of an idle queue falls to zero."""
    packet = math.ceil(_TICKS * average * 8 / rate.value)
    return _DECAY * packet / -math.log1p(-(2.0**-log))


# --- bottleneck


#: TCP port on which the simulator announces that the path is up.
READY_PORT = 57832
#: Ahead of a queue with a service process: cuts super-packets and never holds one back (tc tbf rate, burst).
UNLIMITED_BUCKET = ("10gbit", 2 * FRAME)
#: Quantiles of the exponential distribution for netem (images/sim/exponential.py), and the mean and deviation given to
#: tc, in mean gaps: they give the table the range from zero to ten mean gaps.
_EXPONENTIAL, _CENTRE, _DEVIATION = "exponential", 5.0, 1.25
#: The kernel cuts a slot's deviation to what 32 bits hold, ns.
_LARGEST_DEVIATION = (1 << 31) - 1
#: One opportunity every so often during a cold start (the traces of Pantheon's --cold-start).
COLD_GAP = Duration.parse("100 ms")
#: For how long a cold start comes again.
COLD_START_HORIZON = Duration.parse("10 min")


def poisson_rate_error(link: Link, mtu: int) -> str:
    """Why netem cannot make a link's opportunities a Poisson process; empty where it can."""
    if round(_DEVIATION * opportunity_gap(link, mtu).value) <= _LARGEST_DEVIATION:
        return ""
    return f"netem has no Poisson process as slow as {link.rate}: its gaps end at 10 × 1.7 s"


def _slot_command(verb: str, link: Link, device: str, limit: int, mtu: int, seed: int, *, cold: bool) -> Command:
    """The server of a queue with a service process: one packet when an opportunity comes (netem's slots).

    net/sched/sch_netem.c (netem_dequeue, get_slot_next) draws the gap to the next opportunity when a packet leaves. A
    packet that arrives at a queue which has been empty beyond that opportunity draws a new gap from then on.
    Exponential gaps have no memory, so both are equal to a Poisson process that runs all the time and wastes
    opportunities on an empty queue.

    There are four differences from mahimahi. An opportunity is one packet of any size, not 1504 bytes. In a cold start
    a packet that arrives at an empty queue waits 100 ms, not the rest of them. Gaps are not whole milliseconds. In real
    time a late timer makes a gap longer for good, by 0.1 ms in the lab kernel, which is 2 % of the mean gap at
    2.64 Mbit/s.

    A change reseeds the process. So it repeats itself from period to period, as a trace in a loop does, and begins with
    an opportunity. The limit counts the packet in service.
    """
    gap = opportunity_gap(link, mtu).value
    # A change cannot remove the table, so a cold start has it too, with a deviation of almost zero.
    if why := poisson_rate_error(link, mtu):
        raise ValueError(why)
    mean, deviation = (COLD_GAP.value, 1) if cold else (round(_CENTRE * gap), round(_DEVIATION * gap))
    parent = "10:1" if isinstance(link.queue, Red) else "1:"
    return (
        "tc",
        "qdisc",
        verb,
        "dev",
        device,
        "parent",
        parent,
        "handle",
        "20:",
        "netem",
        "limit",
        str(limit),
        "slot",
        "distribution",
        _EXPONENTIAL,
        f"{mean}ns",
        f"{deviation}ns",
        "packets",
        "1",
        "seed",
        str(seed),
    )


def tbf_command(verb: str, device: str, rate: Rate, burst: int, limit: int) -> Command:
    """A token bucket with its own drop-tail queue of bytes. tc has no rate of 0 for it, so 1 byte/s stands for that."""
    return (
        "tc",
        "qdisc",
        verb,
        "dev",
        device,
        "root",
        "handle",
        "1:",
        "tbf",
        "rate",
        f"{max(rate.value, SLOWEST_TBF_RATE.value)}bit",
        "burst",
        str(burst),
        "limit",
        str(limit),
    )


def serial_command(verb: str, device: str, rate: Rate) -> Command:
    """A serial server whose rate changes: the lab kernel's own discipline (images/lab-kernel/sch_serial.c).

    On a change the packet in service continues with its remaining bits at the new rate, which may be 0. hfsc would
    restart its curve and let the next packet go (hfsc_change_usc). netem would keep the end of service that it computed
    at the former rate (netem_enqueue).
    """
    return ("tc", "qdisc", verb, "dev", device, "root", "handle", "1:", "serial", "rate", f"{rate.value}bit")


def hfsc_class_command(verb: str, device: str, rate: Rate) -> Command:
    """The first half of a serial server: one class of hfsc, which may have the link's rate and no more.

    net/sched/sch_hfsc.c: a packet leaves the queue when all before it have been sent, as far as the upper limit allows
    (update_vf: rtsc_y2x of the bytes so far), and an idle link accumulates no credit (init_vf: rtsc_min). So the packet
    in service is outside the queue, as in a device that transmits, and the egress takes its transmission time
    (`transmission_command`). A real-time curve (rt) would ignore the upper limit. tbf with a bucket of one frame keeps
    the same times with that egress, but releases a bucket of bytes early: twenty ACKs in place of one packet.
    """
    rate_curve = ("rate", f"{curve_rate(rate)}bit")
    return (
        "tc",
        "class",
        verb,
        "dev",
        device,
        "parent",
        "1:",
        "classid",
        "1:1",
        "hfsc",
        "ls",
        *rate_curve,
        "ul",
        *rate_curve,
    )


def _queue_command(link: Link, device: str, rtt: Duration, parent: str = "1:") -> Command:
    """The queue behind `parent`."""
    child = ("tc", "qdisc", "add", "dev", device, "parent", parent, "handle", "10:")
    queue = link.queue
    if isinstance(queue, DropTail):
        if queue.size.unit == "packets":
            return (*child, "pfifo", "limit", str(round(queue.size.amount)))
        return (*child, "bfifo", "limit", str(queue_bytes(link, rtt)))
    limit, low, high = (size_bytes(size, link, rtt) for size in (queue.limit, queue.min, queue.max))
    average = queue.average_packet.bytes
    burst = queue.burst if queue.burst is not None else red_burst(queue.wq or 0.002, low, average)
    words = [
        "red",
        "limit",
        str(limit),
        "min",
        str(low),
        "max",
        str(high),
        "avpkt",
        str(average),
        "burst",
        str(burst),
        "bandwidth",
        f"{link.rate.value}bit",
        "probability",
        f"{queue.probability.fraction:g}",
    ]
    return (*child, *words, *(["ecn"] if queue.ecn else []))


def redirect_commands(side: Side, device: str, reserved: int = 0) -> tuple[Command, ...]:
    """Send all entering packets through the bottleneck, except those that endpoints send to their neighbours only.

    No router forwards these: IPv6's multicast reports and solicitations (RFC 3810, RFC 4861), which a kernel sends at
    times of its own, and queries to the simulator whether the path is up. A report of 110 bytes would delay the flows'
    packets by 0.18 ms at 5 Mbit/s. `reserved`: the number of priorities left for rules ahead of these.
    """
    first, second, third, fourth = (str(reserved + number) for number in range(1, 5))
    filter_prefix = ("tc", "filter", "add", "dev", side, "parent", "ffff:", "protocol")
    mirred = ("action", "mirred", "egress", "redirect", "dev", device)
    match_all = ("u32", "match", "u32", "0", "0", *mirred)
    rules = (
        (
            *filter_prefix,
            "ip",
            "prio",
            first,
            "u32",
            "match",
            "ip",
            "protocol",
            "6",
            "0xff",
            "match",
            "ip",
            "dport",
            str(READY_PORT),
            "0xffff",
            "action",
            "pass",
        ),
        (*filter_prefix, "ip", "prio", second, *match_all),
        (*filter_prefix, "ipv6", "prio", third, "u32", "match", "ip6", "dst", "ff00::/8", "action", "pass"),
        (*filter_prefix, "ipv6", "prio", fourth, *match_all),
    )
    return (
        ("ip", "link", "add", device, "type", "ifb"),
        ("ip", "link", "set", "dev", device, "up"),
        ("tc", "qdisc", "add", "dev", side, "handle", "ffff:", "ingress"),
        *rules,
    )


def bottleneck_commands(
    link: Link, device: str, rtt: Duration, mtu: int, seed: int, server: Server, *, changing: bool
) -> tuple[Command, ...]:
    """The queue of one direction and its server. `changing`: its rate will change.

    Below hfsc, too, RED sees neither idle times nor the packet in service: nothing asks an empty queue for a packet.
    With a service process there are three disciplines: tbf, which takes whatever its child releases; RED, if
    configured, which sees all waiting packets as the backlog of its child; and the server. tbf peeks, so that RED does
    not take the time between opportunities for idle time. RED must then dequeue the very packet that was peeked at
    (net/sched/sch_red.c, red_dequeue: qdisc_dequeue_peeked). The lab kernel's does, but on an older one netem's first
    packet never leaves.
    """
    if link.service is not None:
        return _service_process_commands(link, device, rtt, mtu, seed)
    burst = burst_bytes(link, server)
    if burst is None and changing:
        return (serial_command("add", device, link.rate), _queue_command(link, device, rtt, "1:1"))
    if burst is None:
        root = ("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "hfsc")
        # A default class would do, but tc then writes counters that are no JSON (iproute2, tc/q_hfsc.c).
        match_all = ("protocol", "all", "matchall", "classid", "1:1")
        into_class = ("tc", "filter", "add", "dev", device, "parent", "1:", *match_all)
        return (
            root,
            hfsc_class_command("add", device, link.rate),
            into_class,
            _queue_command(link, device, rtt, "1:1"),
        )
    bucket = tbf_command("add", device, link.rate, burst, queue_bytes(link, rtt))
    # tbf's own queue counts bytes.
    own = isinstance(link.queue, DropTail) and link.queue.size.unit != "packets"
    return (bucket,) if own else (bucket, _queue_command(link, device, rtt))


def _service_process_commands(link: Link, device: str, rtt: Duration, mtu: int, seed: int) -> tuple[Command, ...]:
    assert link.service is not None
    rate, burst = UNLIMITED_BUCKET
    limit = round(link.held.amount)
    shaper = (
        "tc",
        "qdisc",
        "add",
        "dev",
        device,
        "root",
        "handle",
        "1:",
        "tbf",
        "rate",
        rate,
        "burst",
        str(burst),
        "limit",
        str(limit * FRAME),
    )
    cold = bool(link.service.cold_start.value)
    # The server has its own drop-tail queue.
    queue = (_queue_command(link, device, rtt),) if isinstance(link.queue, Red) else ()
    return (shaper, *queue, _slot_command("add", link, device, limit, mtu, seed, cold=cold))


def cold_start_commands(link: Link, device: str, mtu: int, seed: int) -> list[tuple[int, Command]]:
    """(time in ns, command) each time that a service process leaves its cold start or enters it again."""
    service = link.service
    if service is None or not service.cold_start.value:
        return []
    limit = round(link.held.amount)
    timed, begin = [], 0
    while begin < COLD_START_HORIZON.value:
        if begin:
            timed.append((begin, _slot_command("change", link, device, limit, mtu, seed, cold=True)))
        timed.append(
            (begin + service.cold_start.value, _slot_command("change", link, device, limit, mtu, seed, cold=False))
        )
        if service.period is None:
            break
        begin += service.period.value
    return timed

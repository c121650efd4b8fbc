"""The ingress of a path: the bottleneck's queue, and its server."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import cast

from harness.netem.bounds import (
    FRAME,
    SLOWEST_TBF_RATE,
    Server,
    burst_bytes,
    curve_rate,
    full_frame,
    opportunity_gap,
    queue_bytes,
    size_bytes,
)
from harness.netem.program import Command, Direction, LinkSeries, Side
from harness.scenario.schema import (
    Cake,
    Codel,
    DropTail,
    DualPi2,
    FqCodel,
    FqPie,
    Link,
    Pie,
    Policer,
    Red,
    Sfq,
    StepMarker,
)
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
UNLIMITED_RATE = "10gbit"
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
    at the former rate (netem_enqueue). A queue that has become empty is asked for a packet once, so that RED's average
    decays from then on.
    """
    return ("tc", "qdisc", verb, "dev", device, "root", "handle", "1:", "serial", "rate", f"{rate.value}bit")


def trace_command(device: str, series: LinkSeries) -> Command:
    """The same server with a rate, or opportunities, from a series. Its file is in the simulator's folder."""
    words = ("serial", "trace", series.file, "offset", f"{series.offset_ns}ns")
    return ("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", *words)


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
    if isinstance(queue, Red):
        return (*child, *_red_words(queue, link, rtt))
    assert not isinstance(queue, Policer), "a policer has no queue"
    return (*child, *_aqm_words(queue, max(1, queue_bytes(link, rtt) // FRAME)))


def queue_change_command(link: Link, device: str, limit: int, parent: str) -> Command:
    """Give the queue behind `parent` another limit, which tc counts in packets, or in bytes for CAKE and a bfifo.

    The other parameters stay: FQ-CoDel and FQ-PIE refuse them in a change (net/sched/sch_fq_codel.c, fq_codel_change).
    """
    queue = link.queue
    change = ("tc", "qdisc", "change", "dev", device, "parent", parent, "handle", "10:")
    if isinstance(queue, DropTail):
        return (*change, "pfifo" if queue.size.unit == "packets" else "bfifo", "limit", str(limit))
    if isinstance(queue, Cake):
        return (*change, "cake", "memlimit", str(limit))
    return (*change, "codel" if isinstance(queue, StepMarker) else queue.discipline, "limit", str(limit))


#: In place of CoDel's target and interval: it never drops.
_NEVER = Duration.parse("1000 s")
#: Room for a packet in the kernel's memory, bytes: the disciplines that count memory are to count packets.
_PACKET_MEMORY = 4096


def _microseconds(duration: Duration) -> str:
    return f"{duration.value // 1000}us"


def _aqm_words(queue: Codel | Pie | Cake | Sfq | DualPi2 | StepMarker, packets: int) -> list[str]:
    """Tc's words for a discipline that may hold so many packets."""
    if isinstance(queue, Cake):
        ack_filter = "ack-filter" if queue.ack_filter else "no-ack-filter"
        limit = ["memlimit", str(queue.limit.bytes), "rtt", _microseconds(queue.rtt)]
        # The packets are those of the wire already, and their addresses are the hosts' own.
        return ["cake", "unlimited", queue.priorities, queue.isolation, "nonat", "nowash", ack_filter, "raw", *limit]
    words = [queue.discipline, "limit", str(packets)]
    if isinstance(queue, StepMarker):
        never = _microseconds(_NEVER)
        threshold = ["ce_threshold", _microseconds(queue.threshold)]
        return ["codel", *words[1:], "target", never, "interval", never, *threshold, "noecn"]
    if isinstance(queue, Sfq):
        return [*words, "depth", str(queue.depth), "quantum", str(queue.quantum.bytes)]
    if isinstance(queue, DualPi2):
        words += ["target", _microseconds(queue.target), "tupdate", _microseconds(queue.tupdate)]
        words += ["step_thresh", _microseconds(queue.step_threshold), "coupling_factor", str(queue.coupling)]
        return [*words, "c_protection", str(round(queue.classic_protection.fraction * 100))]
    if isinstance(queue, FqCodel | FqPie):
        memory = str(max(32 << 20, packets * _PACKET_MEMORY))
        words += ["flows", str(queue.flows), "quantum", str(queue.quantum.bytes), "memory_limit", memory]
    if isinstance(queue, Codel):
        words += ["target", _microseconds(queue.target), "interval", _microseconds(queue.interval)]
        words += [] if queue.ce_threshold is None else ["ce_threshold", _microseconds(queue.ce_threshold)]
    else:
        words += ["target", _microseconds(queue.target), "tupdate", _microseconds(queue.tupdate)]
        words += ["alpha", str(queue.alpha), "beta", str(queue.beta)]
    return [*words, "ecn" if queue.ecn else "noecn"]


def _red_words(queue: Red, link: Link, rtt: Duration) -> list[str]:
    """Tc's words for RED."""
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
    return [*words, *(["ecn"] if queue.ecn else [])]


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
    link: Link,
    device: str,
    rtt: Duration,
    mtu: int,
    seed: int,
    server: Server,
    *,
    serial: bool,
    series: LinkSeries | None = None,
) -> tuple[Command, ...]:
    """The queue of one direction and its server. `serial`: that is the lab kernel's own (`serial_command`), with the
    rate of a `series` if there is one.

    Below tbf, RED does not see idle times: nothing asks an empty queue for a packet. The lab kernel's own server does.
    With a service process there are three disciplines: tbf, which takes whatever its child releases; RED, if
    configured, which sees all waiting packets as the backlog of its child; and the server. tbf peeks, so that RED does
    not take the time between opportunities for idle time. RED must then dequeue the very packet that was peeked at
    (net/sched/sch_red.c, red_dequeue: qdisc_dequeue_peeked). The lab kernel's does, but on an older one netem's first
    packet never leaves.
    """
    if link.poisson is not None:
        return _service_process_commands(link, device, rtt, mtu, seed)
    if isinstance(link.queue, Policer):
        return _policer_commands(link.queue, link.rate, device)
    burst = burst_bytes(link, server, mtu)
    if serial:
        root = serial_command("add", device, link.rate) if series is None else trace_command(device, series)
        return (root, _queue_command(link, device, rtt, "1:1"))
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


# --- policer


#: The number of the police action of each direction in its network namespace: its rate is changed by it.
POLICERS: Mapping[Direction, int] = {"to_client": 1, "to_server": 2}
#: The kernel counts the time in which a bucket fills in 32 bits of these ticks (struct tc_police; tc_calc_xmittime).
MAX_BUCKET_TICKS = (1 << 32) - 1
#: Mark of packets that a policer has remarked, on their way to nftables.
REMARKED = 0x9C
#: Packets that the device's own queue holds while the kernel has no time to pass them on.
_PASSING = 10_000


def bucket_ticks(burst: int, rate: Rate) -> int:
    """The time in which a policer's bucket fills, in the kernel's ticks of 64 ns."""
    return math.ceil(_TICKS * burst * 8 / rate.value)


def police_words(queue: Policer, rate: Rate, index: int) -> Command:
    """Tc's words for the token bucket.

    net/sched/act_police.c, tcf_police_act: the bucket is counted in ns of the rate, and a packet takes the time of its
    length (psched_l2t_ns). The length is that on the ifb, where the frame has its Ethernet header. Larger packets than
    `mtu` would exceed it always, and the default is 2 kB.
    """
    bucket = ("rate", f"{rate.value}bit", "burst", str(queue.burst.bytes), "mtu", "65535")
    return ("police", *bucket, "conform-exceed", "drop/ok" if queue.drops else "pipe/ok", "index", str(index))


def _policer_commands(queue: Policer, rate: Rate, device: str) -> tuple[Command, ...]:
    """A policer as the filter of the device's discipline, which counts what the filter drops (net/sched/sch_prio.c).

    One filter for both versions of IP, so that they have one bucket.
    """
    root = ("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "prio", "bands", "2", "priomap", *["0"] * 16)
    passing = ("tc", "qdisc", "add", "dev", device, "parent", "1:1", "handle", "10:", "pfifo", "limit", str(_PASSING))
    match_all = ("protocol", "all", "matchall", "classid", "1:1")
    remark = () if queue.drops else ("action", "skbedit", "mark", str(REMARKED))
    action = ("action", *police_words(queue, rate, POLICERS[cast(Direction, device)]), *remark)
    return (root, passing, ("tc", "filter", "add", "dev", device, "parent", "1:", *match_all, *action))


def policer_change_command(queue: Policer, rate: Rate, device: str) -> Command:
    """Another rate for a policer, whose bucket is full then (net/sched/act_police.c, tcf_police_init)."""
    return ("tc", "actions", "replace", "action", *police_words(queue, rate, POLICERS[cast(Direction, device)]))


def _service_process_commands(link: Link, device: str, rtt: Duration, mtu: int, seed: int) -> tuple[Command, ...]:
    assert link.poisson is not None
    rate, burst = UNLIMITED_RATE, 2 * full_frame(mtu)
    limit = round(link.queue.capacity.amount)
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
        str(limit * full_frame(mtu)),
    )
    cold = bool(link.poisson.cold_start.value)
    # The server has its own drop-tail queue.
    queue = (_queue_command(link, device, rtt),) if isinstance(link.queue, Red) else ()
    return (shaper, *queue, _slot_command("add", link, device, limit, mtu, seed, cold=cold))


def cold_start_commands(link: Link, device: str, mtu: int, seed: int) -> list[tuple[int, Command]]:
    """(time in ns, command) each time that a service process leaves its cold start or enters it again."""
    service = link.poisson
    if service is None or not service.cold_start.value:
        return []
    limit = round(link.queue.capacity.amount)
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

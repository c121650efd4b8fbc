"""RED's weight and burst as iproute2 reckons them, and what of RED neither it nor the kernel takes."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

from harness.scenario.schema import Red
from harness.units import Rate

#: Bits of the average, the weight's logarithm below the point (include/net/red.h, red_check_params).
_AVERAGE_BITS = 32
#: Ticks of the packet scheduler in a second: 64 ns each (net/sched/sch_api.c, psched_show).
_TICKS = 10**9 / 64
#: Bits that tc has for the shift of the table by which an idle queue's average decays, and what it must come down to
#: (tc/tc_red.c, tc_red_eval_idle_damping).
_CELL_LOGS, _CELL_TICKS = 32, 512
#: The average falls to nothing within so many halvings.
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
    wanted = min(range(1, 32), key=lambda log: abs(wq - 2.0**-log) / wq)

    def weight(burst: int) -> int:
        """What iproute2 takes: the more, the larger the burst; 0 below all bursts that it has one for, 32 above."""
        log = red_log_weight(minimum, burst, average_packet)
        return log if log is not None else 0 if burst + 1 - minimum / average_packet < 1 else 32

    first = max(1, minimum // average_packet)
    bursts = range(first, first + 100_000)
    begin, end = bisect_left(bursts, wanted, key=weight), bisect_right(bursts, wanted, key=weight)
    if begin == end:
        raise ValueError(f"tc has no burst for wq {wq} with min {minimum} B and avpkt {average_packet} B")
    return bursts[begin + (end - begin) // 2]


def red_mistake(queue: Red, low: int, high: int, rate: Rate, frame: int) -> tuple[str, str, str] | None:
    """(key, what is wrong, hint) of a RED queue that tc or the kernel would not take; None where both do.

    `low` and `high`: its thresholds in bytes on the link, `frame`: the largest packet in bytes.
    """
    average = queue.average_packet.bytes
    if not 0 < average <= frame:
        return "average_packet", f"a packet has 1 to {frame} B, not {average}", "write '1000 B', say"
    named = "wq" if queue.burst is None else "burst"
    try:
        burst = queue.burst if queue.burst is not None else red_burst(queue.wq or 0.0, low, average)
    except (ValueError, ArithmeticError):
        return (
            named,
            f"tc has no weight as small as {queue.wq} with min {low} B",
            "write 0.002, as Floyd and Jacobson do",
        )
    log = red_log_weight(low, burst, average)
    if log is None:
        least = max(1, math.ceil(low / average))
        text = f"tc has no weight for a burst of {burst} packets of {average} B with min {low} B"
        return named, text, f"write {least} or more" if burst < least else f"{2 * least} would do"
    if high.bit_length() + log >= _AVERAGE_BITS:
        text = f"a weight of 2^-{log} and max {high} B are more than the {_AVERAGE_BITS} bits of the kernel's average"
        return named, text, "write a larger wq or a smaller burst, or smaller thresholds"
    if queue.probability.fraction / (high - low) * 2.0 ** (_AVERAGE_BITS - 1) <= 1:
        text = f"tc has no probability as small as {queue.probability} between min {low} B and max {high} B"
        return "probability", text, "write '10 %', say"
    if _decay_ticks(log, average, rate) / 2 ** (_CELL_LOGS - 1) >= _CELL_TICKS:
        return named, f"tc has no table for an average that decays so slowly at {rate}", "write a larger wq"
    return None


def _decay_ticks(log: int, average: int, rate: Rate) -> float:
    """Ticks in which the average of an idle queue falls to nothing."""
    packet = math.ceil(_TICKS * average * 8 / rate.value)
    return _DECAY * packet / -math.log1p(-(2.0**-log))

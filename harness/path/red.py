"""RED's weight and burst as iproute2 reckons them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


def red_log_weight(minimum: int, burst: int, average_packet: int) -> int | None:
    """The Wlog that iproute2 takes for these values (tc/tc_red.c, tc_red_eval_ewma), or None."""
    excess = burst + 1 - minimum / average_packet
    if excess < 1:
        return None
    weight = 0.5
    for log in range(1, 32):
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

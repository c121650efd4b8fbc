"""The exponential distribution as a table for netem; iproute2 brings none: `exponential.py >exponential.dist`.

netem draws a table entry t, each as likely as any other, and takes mean + deviation · t / 8192 for a gap
(net/sched/sch_netem.c, tabledist). An entry has 16 bits, so that with the deviation alone an exponential variable
would end at 5 mean gaps: here `mean` of tc is 5 and `deviation` 1.25 mean gaps, and the table reaches from 0 to 10 of
them (harness/netem/program.py gives tc these two).
"""

from __future__ import annotations

import math

#: Entries. The kernel would take twice as many (NETEM_DIST_MAX), but they do not fit into a message of tc's.
ENTRIES = 8 * 1024
#: An entry that stands for one deviation (NETEM_DIST_SCALE).
SCALE = 8192
#: What tc is told in units of the mean gap: its mean, and its deviation.
CENTRE, DEVIATION = 5.0, 1.25


def table() -> list[int]:
    """Quantiles of the exponential distribution at (i + ½) / ENTRIES, as table entries; the last is 9.7 mean gaps."""
    quantiles = (-math.log1p(-(index + 0.5) / ENTRIES) for index in range(ENTRIES))
    return [round((value - CENTRE) / DEVIATION * SCALE) for value in quantiles]


def main() -> None:
    """Print the table in the form of tc's own (/usr/lib/<machine>/tc/*.dist)."""
    entries = table()
    print("# Quantiles of the exponential distribution of mean 1: 5 + 1.25 t / 8192 for an entry t.")
    for start in range(0, ENTRIES, 8):
        print(*entries[start : start + 8])


if __name__ == "__main__":
    main()

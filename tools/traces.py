"""The traces beside the scenarios, drawn from stated laws: `python -m tools.traces` writes them again.

They are no recordings. Whoever has one puts it beside a scenario of their own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What an opportunity of a packet-delivery trace carries, bits.
_OPPORTUNITY = 1504 * 8


def cellular() -> str:
    """A packet-delivery trace of 15 s: each 100 ms the rate is multiplied by a factor from 0.7 to 1.4, within 1 and
    20 Mbit/s; opportunities come at random within each millisecond's share. For 0.4 s nothing is delivered.
    """
    rng, rate, lines = random.Random(1), 8e6, list[str]()
    for step in range(150):
        rate = min(20e6, max(1e6, rate * rng.uniform(0.7, 1.4)))
        if 80 <= step < 84:
            continue
        for millisecond in range(100 * step + 1, 100 * step + 101):
            mean = rate / 1000 / _OPPORTUNITY
            lines += [f"{millisecond}\n"] * (int(mean) + (rng.random() < mean % 1))
    return "".join(lines)


def low_orbit() -> str:
    """A series of 60 s in steps of 20 ms: every 15 s another delay from 18 to 32 ms and another rate from 60 to
    180 Mbit/s, and a loss of 90 % for 60 ms; in between the delay varies by up to 3 ms, the rate by a tenth.
    """
    rng, rows = random.Random(2), ["t_ms,rate_mbps,delay_ms,loss_percent\n"]
    delay = rate = 0.0
    for step in range(3000):
        if step % 750 == 0:
            delay, rate = rng.uniform(18, 32), rng.uniform(60, 180)
        loss = 90 if step >= 750 and step % 750 < 3 else 0
        rows.append(f"{20 * step},{rate * rng.uniform(0.9, 1.1):.1f},{delay + rng.uniform(0, 3):.2f},{loss}\n")
    return "".join(rows)


#: File below scenarios/ → its content.
TRACES: Mapping[str, str] = {"links/cellular.trace": cellular(), "links/low-orbit.csv": low_orbit()}


def main() -> None:
    """Write the files."""
    for name, content in TRACES.items():
        (ROOT / "scenarios" / name).write_text(content)


if __name__ == "__main__":
    main()

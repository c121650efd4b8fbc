"""When how much is sent: laws of sizes and gaps, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Law:
    """Sizes and gaps of a flow that decides for itself when to send."""

    model: str
    """cbr: equal gaps; poisson: exponential gaps; uniform: gaps and sizes equally likely within their ranges."""
    packet: tuple[int, int]
    """Smallest and largest amount sent at once, bytes."""
    gap: tuple[float, float]
    """Shortest and longest gap of uniform, seconds; of the others both are the mean gap, packet · 8 / rate."""
    rate: float | None = None
    """Mean rate that was asked for, bit/s; None where it follows from sizes and gaps."""

    @classmethod
    def read(cls, raw: dict[str, Any]) -> Law | None:
        """The law of the harness's `traffic`; None for bulk. KeyError, TypeError or ValueError when it is none."""
        model = raw["model"]
        if model == "bulk":
            return None
        smallest, largest = (int(size) for size in raw["packet"])
        if model == "uniform":
            shortest, longest = (float(gap) for gap in raw["gap"])
            rate = None
        elif model in ("cbr", "poisson"):
            rate = float(raw["rate"])
            if rate <= 0:
                raise ValueError(f"a rate of {rate:g} bit/s")
            shortest = longest = (smallest + largest) / 2 * 8 / rate
        else:
            raise ValueError(f"no model of traffic is called {model!r}")
        if not 0 < smallest <= largest or not 0 <= shortest <= longest or longest <= 0:
            raise ValueError(f"sizes of {smallest} to {largest} B with gaps of {shortest:g} to {longest:g} s")
        return cls(model, (smallest, largest), (shortest, longest), rate)

    def departures(self, seed: int, seconds: float) -> Iterator[tuple[float, int]]:
        """(seconds since the start, bytes) of everything sent in a time; each gap counts from the departure before.

        The first comes a gap after the start, so that a Poisson process is one from its beginning.
        """
        draw = random.Random(seed)
        at = self._next_gap(draw)
        while at < seconds:
            yield at, self._next_size(draw)
            at += self._next_gap(draw)

    def _next_gap(self, draw: random.Random) -> float:
        if self.model == "poisson":
            return draw.expovariate(1 / self.gap[0])
        return self.gap[0] if self.model == "cbr" else draw.uniform(*self.gap)

    def _next_size(self, draw: random.Random) -> int:
        return self.packet[0] if self.packet[0] == self.packet[1] else draw.randint(*self.packet)

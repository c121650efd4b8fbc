"""Which faults are done: a seed's schedule, in which each fault is known by its number alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from harness.outcome import EngineName
from tests.chaos.kinds import Kind

#: Of this many faults one is in real time, where a fault takes three times as long.
SHARE = 4


@dataclass(frozen=True)
class Planned:
    """One fault of a schedule."""

    number: int
    """From 1 on."""
    kind: Kind
    seed: str
    """What its chances are drawn from."""

    @property
    def name(self) -> str:
        """What it is called in what people read."""
        return f"{self.kind.engine}: {self.kind.name}"


def schedule(kinds: Sequence[Kind], count: int, seed: int, share: int = SHARE) -> list[Planned]:
    """So many faults by a seed, kinds in turn: none comes a second time before all of its engine have come.

    The first faults of a longer schedule are those of a shorter one. `share`: of so many one is in real time.
    """
    engines: tuple[EngineName, EngineName] = ("virtual", "compose")
    rows = {engine: _in_turn([kind for kind in kinds if kind.engine == engine], count, seed) for engine in engines}
    planned = []
    for number in range(1, count + 1):
        engine = engines[number % share == 0]
        row = rows[engine] or rows[engines[engine == "virtual"]]
        planned.append(Planned(number, row.pop(0), f"{seed}:{number}"))
    return planned


def _in_turn(kinds: Sequence[Kind], count: int, seed: int) -> list[Kind]:
    """So many of some kinds, all of them in a random order, then all of them in another."""
    chance = random.Random(seed)
    kinds_in_turn: list[Kind] = []
    while kinds and len(kinds_in_turn) < count:
        kinds_in_turn += chance.sample(list(kinds), len(kinds))
    return kinds_in_turn

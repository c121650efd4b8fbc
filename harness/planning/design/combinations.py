"""A design and how many levels factors have → the combinations that are run, and what these cannot tell apart. Pure."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.planning.design.fraction import Rows, fraction
from harness.scenario.schema import DesignKind, Experiment

#: Combinations of one pair: what more than that many are is a slip.
MOST_COMBINATIONS = 1000
#: Draws of a random design that are looked at for one that tells all main effects apart.
_DRAWS = 200


@dataclass(frozen=True)
class Aliases:
    """What a fraction cannot tell apart, by factors' numbers."""

    of_main: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    """A factor, and the interactions of two that change with it."""
    together: tuple[tuple[tuple[int, int], ...], ...]
    """Interactions of two that change alike."""


def size(kind: DesignKind, number: int, counts: Sequence[int]) -> int:
    """How many combinations a design has."""
    every = math.prod(counts)
    if kind == "one-at-a-time":
        return 1 + sum(count - 1 for count in counts)
    if kind == "random":
        return min(number, every)
    return len(fraction(len(counts), number)) if kind == "fractional" else every


def most_cells(study: Experiment) -> int:
    """How many cells a pair has that honours everything."""
    if study.profiles:
        return 1 + len(study.profiles)
    return size(study.kind, study.number, [len(levels) for levels in study.factors.values()])


def combinations(kind: DesignKind, number: int, counts: Sequence[int], seed: str) -> Rows:
    """The level of each factor (columns) in each combination that is run (rows), the base first where it is among them.

    `counts`: levels of each factor; of a fraction all are 2. `seed`: what a random design is drawn by.
    """
    if not counts:
        return []
    if kind == "one-at-a-time":
        base = (0,) * len(counts)
        return [
            base,
            *((*base[:n], level, *base[n + 1 :]) for n, count in enumerate(counts) for level in range(1, count)),
        ]
    if kind == "fractional":
        return fraction(len(counts), number)
    if kind == "random" and number < math.prod(counts):
        return _drawn(number, counts, seed)
    return list(itertools.product(*map(range, counts)))


def least_of_random(counts: Sequence[int]) -> int:
    """Combinations that it takes at least to tell all main effects apart: one, and one for each further level."""
    return 1 + sum(count - 1 for count in counts)


def _drawn(number: int, counts: Sequence[int], seed: str) -> Rows:
    """So many of all combinations, each as likely: of several draws the first that tells all main effects apart."""
    every, rows = math.prod(counts), Rows()
    for draw in range(_DRAWS):
        # Of a text's seed and of random() alone Python promises that they stay as they are.
        source = random.Random(f"{seed} {draw}")
        chosen: dict[int, None] = {}
        while len(chosen) < number:
            chosen[int(source.random() * every)] = None
        rows = [_combination(place, counts) for place in sorted(chosen)]
        if np.linalg.matrix_rank(_main_columns(rows, counts)) == least_of_random(counts):
            break
    return rows


def _combination(place: int, counts: Sequence[int]) -> tuple[int, ...]:
    made = []
    for count in reversed(counts):
        place, level = divmod(place, count)
        made.append(level)
    return tuple(reversed(made))


def _main_columns(rows: Rows, counts: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    columns = [[1.0] * len(rows)]
    columns += [[float(row[n] == level) for row in rows] for n, count in enumerate(counts) for level in range(1, count)]
    return np.array(columns).T


def aliases(rows: Rows) -> Aliases:
    """What rows of two levels each cannot tell apart: columns that are the same, or each other's opposite."""
    if not rows:
        return Aliases((), ())
    signs = 2 * np.array(rows) - 1
    count = signs.shape[1]
    pairs = list(itertools.combinations(range(count), 2))

    def alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        product = signs[:, list(one)].prod(axis=1) * signs[:, list(other)].prod(axis=1)
        return abs(int(product.sum())) == len(rows)

    of_main = [(n, tuple(pair for pair in pairs if n not in pair and alike((n,), pair))) for n in range(count)]
    groups: list[list[tuple[int, int]]] = []
    for pair in pairs:
        home = next((group for group in groups if alike(group[0], pair)), None)
        if home is None:
            groups.append([pair])
        else:
            home.append(pair)
    return Aliases(
        tuple((n, found) for n, found in of_main if found), tuple(tuple(group) for group in groups if len(group) > 1)
    )

"""A design and how many levels factors have → the combinations that are run, and what these cannot tell apart. Pure."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.scenario.schema import DesignKind, Experiment

# --- Regular two-level fractions: so many factors and a resolution → rows of 0 and 1. Pure.
#
# A fraction of 2^p runs has p basic factors in all combinations; each further one is the product of some of them, its
# generator. The words of the defining relation are all products of generators; the length of the shortest is the
# resolution (G. E. P. Box, J. S. Hunter, The 2^(k-p) fractional factorial designs, Technometrics 3, 1961). No table
# stands here: generators are searched for, and every word is looked at. pyDOE3 1.6 (fracfact_by_res) looks at the
# lengths of generators alone, not at their products: its 7 factors of "resolution V" in 32 runs have resolution IV.


#: A run a row: the number of each factor's level, from 0.
Rows = list[tuple[int, ...]]


def fraction(factors: int, least: int) -> Rows:
    """The levels, 0 or 1, of each run (rows) and factor (columns), in as few runs as the search finds.

    The resolution is at least `least`; with too few factors for any fraction all combinations. ValueError for less than
    one factor.
    """
    if factors < 1:
        raise ValueError("a fraction needs a factor")
    basic, generators = _generators(factors, least)
    runs = np.arange(2**basic)
    columns = [(runs >> (basic - 1 - place)) & 1 for place in range(basic)]
    for word in generators:
        # The product of levels -1 and +1, of an even number the negative one: so all are low together in the first run.
        columns.append(np.bitwise_xor.reduce([columns[place] for place in _places(word)]))
    return [tuple(int(level) for level in row) for row in zip(*columns, strict=True)]


def _places(word: int) -> Iterator[int]:
    return (place for place in range(word.bit_length()) if word >> place & 1)


@lru_cache(maxsize=64)
def _generators(factors: int, least: int) -> tuple[int, tuple[int, ...]]:
    """The number of basic factors, and for each further one those that it is the product of, as a set of bits."""
    # 2^p runs tell 2^p - 1 columns apart.
    for basic in range(factors.bit_length(), factors):
        generators = _search(basic, factors - basic, least)
        if generators is not None:
            return basic, generators
    return factors, ()


def _search(basic: int, number: int, least: int) -> tuple[int, ...] | None:
    """So many generators of so many basic factors, no word shorter than `least`; None where the search finds none.

    Generators of an odd number of factors come first: products of any number of them are no shorter than four.
    """
    candidates = sorted(
        (mask for mask in range(1, 2**basic) if mask.bit_count() + 1 >= least),
        key=lambda mask: (mask.bit_count() % 2 == 0, mask.bit_count(), mask),
    )
    generators: list[int] = []
    # Basic factors of a product of generators → of how many, at least. A word is both together.
    words: dict[int, int] = {}
    for mask in candidates:
        if len(generators) == number:
            break
        products = {mask: 1}
        for word, count in words.items():
            products[word ^ mask] = min(count + 1, products.get(word ^ mask, count + 1))
        if all(word.bit_count() + count >= least for word, count in products.items()):
            generators.append(mask)
            words |= {word: min(count, words.get(word, count)) for word, count in products.items()}
    return tuple(generators) if len(generators) == number else None


def resolution(rows: Sequence[Sequence[int]]) -> int:
    """The length of the shortest word of a regular two-level fraction, by its rows alone; one more than its factors
    where there is none.
    """
    signs = 2 * np.array(rows) - 1
    count = signs.shape[1]
    best = count + 1
    for word in range(1, 2**count):
        if word.bit_count() < best and abs(int(np.prod(signs[:, list(_places(word))], axis=1).sum())) == len(signs):
            best = word.bit_count()
    return int(best)


# --- combinations


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
    total = math.prod(counts)
    if kind == "one-at-a-time":
        return 1 + sum(count - 1 for count in counts)
    if kind == "random":
        return min(number, total)
    return len(fraction(len(counts), number)) if kind == "fractional" else total


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
    total, rows = math.prod(counts), Rows()
    for draw in range(_DRAWS):
        # Of a text's seed and of random() alone Python promises that they stay as they are.
        source = random.Random(f"{seed} {draw}")
        indices: dict[int, None] = {}
        while len(indices) < number:
            indices[int(source.random() * total)] = None
        rows = [_combination(index, counts) for index in sorted(indices)]
        if np.linalg.matrix_rank(_main_columns(rows, counts)) == least_of_random(counts):
            break
    return rows


def _combination(index: int, counts: Sequence[int]) -> tuple[int, ...]:
    levels = []
    for count in reversed(counts):
        index, level = divmod(index, count)
        levels.append(level)
    return tuple(reversed(levels))


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

    def alike(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
        product = signs[:, list(left)].prod(axis=1) * signs[:, list(right)].prod(axis=1)
        return abs(int(product.sum())) == len(rows)

    of_main = [(n, tuple(pair for pair in pairs if n not in pair and alike((n,), pair))) for n in range(count)]
    groups: list[list[tuple[int, int]]] = []
    for pair in pairs:
        match = next((group for group in groups if alike(group[0], pair)), None)
        if match is None:
            groups.append([pair])
        else:
            match.append(pair)
    return Aliases(
        tuple((n, confounded) for n, confounded in of_main if confounded),
        tuple(tuple(group) for group in groups if len(group) > 1),
    )

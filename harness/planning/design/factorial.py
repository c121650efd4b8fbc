"""A design and the number of levels of each factor → the combinations that run, and their aliases. Pure."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.scenario.schema import DesignKind, Experiment

if TYPE_CHECKING:
    import numpy as np

# --- Regular two-level fractions: a number of factors and a resolution → rows of 0 and 1. Pure.
#
# A fraction of 2^p runs has p basic factors in all combinations. Each of the other factors is the product of some of
# them, its generator. The words of the defining relation are all products of generators. The length of the shortest
# word is the resolution (G. E. P. Box, J. S. Hunter, The 2^(k-p) fractional factorial designs, Technometrics 3, 1961).
# There is no table: the code searches for generators and checks every word. pyDOE3 1.6 (fracfact_by_res) checks the
# lengths of generators alone, not of their products: its 7 factors of "resolution V" in 32 runs have resolution IV.


#: One row per run, with the index of each factor's level, from 0.
Rows = list[tuple[int, ...]]


def fraction(factors: int, least: int) -> Rows:
    """The levels, 0 or 1, of each run (rows) and factor (columns), in as few runs as the search finds.

    The resolution is at least `least`. With too few factors for any fraction, the rows are all combinations. Raises
    ValueError for less than one factor.
    """
    import numpy as np

    if factors < 1:
        raise ValueError("a fraction needs a factor")
    basic, generators = _generators(factors, least)
    runs = np.arange(2**basic)
    columns = [(runs >> (basic - 1 - place)) & 1 for place in range(basic)]
    for word in generators:
        # The product of levels -1 and +1, negated for an even number of factors: so all are low in the first run.
        columns.append(np.bitwise_xor.reduce([columns[place] for place in _set_bits(word)]))
    return [tuple(int(level) for level in row) for row in zip(*columns, strict=True)]


def _set_bits(word: int) -> Iterator[int]:
    return (place for place in range(word.bit_length()) if word >> place & 1)


@lru_cache(maxsize=64)
def _generators(factors: int, least: int) -> tuple[int, tuple[int, ...]]:
    """The number of basic factors, and the generator of each other factor, as a bit mask of basic factors."""
    # 2^p runs tell 2^p - 1 columns apart.
    for basic in range(factors.bit_length(), factors):
        generators = _search(basic, factors - basic, least)
        if generators is not None:
            return basic, generators
    return factors, ()


def _search(basic: int, number: int, least: int) -> tuple[int, ...] | None:
    """`number` generators from `basic` factors, with no word shorter than `least`; None where the search finds none.

    Generators with an odd number of factors come first: their products give words of length four or more.
    """
    candidates = sorted(
        (mask for mask in range(1, 2**basic) if mask.bit_count() + 1 >= least),
        key=lambda mask: (mask.bit_count() % 2 == 0, mask.bit_count(), mask),
    )
    generators: list[int] = []
    # Bit mask of a product of generators → the least number of generators in it. A word consists of both.
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


def design_resolution(rows: Sequence[Sequence[int]]) -> int:
    """The length of the shortest word of a regular two-level fraction, from its rows alone; the number of factors plus
    one where there is no word.
    """
    import numpy as np

    signs = 2 * np.array(rows) - 1
    count = signs.shape[1]
    best = count + 1
    for word in range(1, 2**count):
        if word.bit_count() < best and abs(int(np.prod(signs[:, list(_set_bits(word))], axis=1).sum())) == len(signs):
            best = word.bit_count()
    return int(best)


# --- combinations


#: The most combinations of one pair; more than that are a mistake.
MOST_COMBINATIONS = 1000
#: The most draws of a random design, until one tells all main effects apart.
_DRAWS = 200


@dataclass(frozen=True)
class Aliases:
    """Effects that a fraction cannot tell apart, by the factors' indices."""

    of_main: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    """(factor, two-factor interactions aliased with it)."""
    together: tuple[tuple[tuple[int, int], ...], ...]
    """Groups of two-factor interactions that are aliased with each other."""


def design_size(kind: DesignKind, number: int, counts: Sequence[int]) -> int:
    """How many combinations a design has."""
    total = math.prod(counts)
    if kind == "one-at-a-time":
        return 1 + sum(count - 1 for count in counts)
    if kind == "random":
        return min(number, total)
    return len(fraction(len(counts), number)) if kind == "fractional" else total


def max_cells(study: Experiment) -> int:
    """The number of cells of a pair that honours all factors or profiles."""
    if study.profiles:
        return 1 + len(study.profiles)
    return design_size(study.kind, study.number, [len(levels) for levels in study.factors.values()])


def combinations(kind: DesignKind, number: int, counts: Sequence[int], seed: str) -> Rows:
    """The level of each factor (columns) in each combination that runs (rows); the base comes first if it is included.

    `counts`: number of levels of each factor, all 2 for a fraction. `seed`: seed of a random design.
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
        return _draw_combinations(number, counts, seed)
    return list(itertools.product(*map(range, counts)))


def least_random_runs(counts: Sequence[int]) -> int:
    """The least number of combinations that tells all main effects apart: one, plus one for each level after a
    factor's first.
    """
    return 1 + sum(count - 1 for count in counts)


def _draw_combinations(number: int, counts: Sequence[int], seed: str) -> Rows:
    """`number` of all combinations, drawn uniformly: the first of several draws that tells all main effects apart."""
    import numpy as np

    total, rows = math.prod(counts), Rows()
    for draw in range(_DRAWS):
        # Python guarantees a stable sequence across versions only for random() and a seed that is a string.
        source = random.Random(f"{seed} {draw}")
        indices: dict[int, None] = {}
        while len(indices) < number:
            indices[int(source.random() * total)] = None
        rows = [_combination(index, counts) for index in sorted(indices)]
        if np.linalg.matrix_rank(_main_columns(rows, counts)) == least_random_runs(counts):
            break
    return rows


def _combination(index: int, counts: Sequence[int]) -> tuple[int, ...]:
    levels = []
    for count in reversed(counts):
        index, level = divmod(index, count)
        levels.append(level)
    return tuple(reversed(levels))


def _main_columns(rows: Rows, counts: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    import numpy as np

    columns = [[1.0] * len(rows)]
    columns += [[float(row[n] == level) for row in rows] for n, count in enumerate(counts) for level in range(1, count)]
    return np.array(columns).T


def find_aliases(rows: Rows) -> Aliases:
    """Effects that two-level rows cannot tell apart, because their columns are equal or opposite."""
    import numpy as np

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

"""Regular two-level fractions: so many factors and a resolution → rows of 0 and 1. Pure.

A fraction of 2^p runs has p basic factors in all combinations; each further one is the product of some of them, its
generator. The words of the defining relation are all products of generators; the length of the shortest is the
resolution (G. E. P. Box, J. S. Hunter, The 2^(k-p) fractional factorial designs, Technometrics 3, 1961). No table
stands here: generators are searched for, and every word is looked at. pyDOE3 1.6 (fracfact_by_res) looks at the
lengths of generators alone, not at their products: its 7 factors of "resolution V" in 32 runs have resolution IV.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

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
        found = _search(basic, factors - basic, least)
        if found is not None:
            return basic, found
    return factors, ()


def _search(basic: int, wanted: int, least: int) -> tuple[int, ...] | None:
    """So many generators of so many basic factors, no word shorter than `least`; None where the search finds none.

    Generators of an odd number of factors come first: products of any number of them are no shorter than four.
    """
    candidates = sorted(
        (mask for mask in range(1, 2**basic) if mask.bit_count() + 1 >= least),
        key=lambda mask: (mask.bit_count() % 2 == 0, mask.bit_count(), mask),
    )
    chosen: list[int] = []
    # Basic factors of a product of generators → of how many, at least. A word is both together.
    words: dict[int, int] = {}
    for mask in candidates:
        if len(chosen) == wanted:
            break
        made = {mask: 1}
        for word, count in words.items():
            made[word ^ mask] = min(count + 1, made.get(word ^ mask, count + 1))
        if all(word.bit_count() + count >= least for word, count in made.items()):
            chosen.append(mask)
            words |= {word: min(count, words.get(word, count)) for word, count in made.items()}
    return tuple(chosen) if len(chosen) == wanted else None


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

"""A linear model of a design's factors and their interactions of two, fitted by least squares. Pure.

Levels are coded by deviations from their mean (sum coding), so that the intercept is the mean over all combinations and
a level's coefficient how far it lies from that, whatever the other factors: D. C. Montgomery, Design and Analysis of
Experiments, 8th ed., §5.3 and §10.3. Least squares are scipy's (the pseudoinverse).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from harness.planning.design import Rows

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
#: A factor's number, or those of two that interact.
Term = tuple[int, ...]
#: Below this a coefficient is a rounding error.
_NOTHING = 1e-8


def pseudoinverse(matrix: Array) -> Array:
    """Of least squares."""
    # It takes half a second to import, and only who looks at a study needs it.
    from scipy.linalg import pinv

    return np.asarray(pinv(matrix), dtype=np.float64)


@dataclass(frozen=True)
class Linear:
    """The terms that a design's combinations can tell apart, and what each of them is not told from."""

    counts: tuple[int, ...]
    """Levels of each factor."""
    terms: tuple[Term, ...]
    """The factors, then the interactions."""
    aliased: Mapping[Term, tuple[Term, ...]]
    """Term → interactions that are not in the model, whose effects would be taken for its own."""

    def columns(self, rows: Rows) -> Array:
        """The model's matrix: a row a combination."""
        return _matrix(rows, self.counts, self.terms)

    def contrast(self, levels: Mapping[int, int]) -> Array:
        """What to multiply coefficients by for the mean at these levels, over all of those of the other factors."""
        parts = [np.ones(1)]
        for term in self.terms:
            coded = np.ones(1)
            for factor in term:
                count = self.counts[factor]
                own = _codes(count)[levels[factor]] if factor in levels else np.zeros(count - 1)
                coded = np.outer(coded, own).ravel()
            parts.append(coded)
        return np.concatenate(parts)

    @cached_property
    def interactions(self) -> tuple[Term, ...]:
        """Those of two factors that are in the model."""
        return tuple(term for term in self.terms if len(term) == 2)


def linear(rows: Rows, counts: Sequence[int]) -> Linear | None:
    """The model of a design; None where even its main effects cannot be told apart.

    Interactions are in it where all that are not are just another term's alias, as in a regular fraction; else there
    are none.
    """
    mains: list[Term] = [(n,) for n in range(len(counts))]
    pairs: list[Term] = list(itertools.combinations(range(len(counts)), 2))
    counts = tuple(counts)
    matrix = _matrix(rows, counts, mains)
    if not _full(matrix):
        return None
    kept, left = list(mains), list[Term]()
    for pair in pairs:
        wider = np.hstack([matrix, _columns(rows, counts, pair)])
        if _full(wider):
            kept.append(pair)
            matrix = wider
        else:
            left.append(pair)
    made = _with_aliases(rows, counts, kept, left)
    if all(sum(pair in others for others in made.aliased.values()) == 1 for pair in left):
        return made
    return _with_aliases(rows, counts, mains, pairs)


def _with_aliases(rows: Rows, counts: tuple[int, ...], kept: Sequence[Term], left: Sequence[Term]) -> Linear:
    matrix = _matrix(rows, counts, kept)
    inverse = pseudoinverse(matrix)
    aliased: dict[Term, list[Term]] = {}
    for pair in left:
        weights = np.abs(inverse @ _columns(rows, counts, pair)).max(axis=1)
        place = 1
        for term in kept:
            width = _width(counts, term)
            if weights[place : place + width].max() > _NOTHING:
                aliased.setdefault(term, []).append(pair)
            place += width
    return Linear(counts, tuple(kept), {term: tuple(found) for term, found in aliased.items()})


def _full(matrix: Array) -> bool:
    return int(np.linalg.matrix_rank(matrix)) == matrix.shape[1]


def _width(counts: Sequence[int], term: Term) -> int:
    return int(np.prod([counts[factor] - 1 for factor in term]))


@cache
def _codes(count: int) -> Array:
    """What stands for each level of a factor. Shape (levels, levels - 1)."""
    return np.vstack([np.eye(count - 1), -np.ones(count - 1)])


def _columns(rows: Rows, counts: Sequence[int], term: Term) -> Array:
    made = np.ones((len(rows), 1))
    for factor in term:
        own = _codes(counts[factor])[[row[factor] for row in rows]]
        made = (made[:, :, None] * own[:, None, :]).reshape(len(rows), -1)
    return made


def _matrix(rows: Rows, counts: Sequence[int], terms: Sequence[Term]) -> Array:
    return np.hstack([np.ones((len(rows), 1)), *(_columns(rows, counts, term) for term in terms)])

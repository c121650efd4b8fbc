"""Effects of each factor of a study, and of each two-factor interaction, on one time, in seconds. Pure.

A repetition has the same seed in every cell (`harness.topology.run_seed`). So it has the same random losses and the
same drawn values, such as a delay's phase. Each repetition is thus one replicate of the whole study and gives one value
of each effect. The interval is computed from these values (`harness.stats.intervals.interval`) and assumes no
distribution. It does not include the residuals of the model of factors and two-factor interactions: in virtual time
they are not noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from harness.doe.effects.samples import StudySample, group_studies, metrics_of
from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.planning.design import Rows
from harness.scenario.parameters import ParameterValue
from harness.stats.intervals import interval

# --- A linear model of a design's factors and their two-factor interactions, fitted by least squares. Pure.
#
# Levels are coded by deviations from their mean (sum coding). So the intercept is the mean over all combinations. A
# level's coefficient is its deviation from that mean, over all levels of the other factors: D. C. Montgomery, Design
# and Analysis of Experiments, 8th ed., §5.3 and §10.3. The least-squares fit uses scipy's pseudoinverse.


Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
#: A factor's index, or the indices of two factors that interact.
Term = tuple[int, ...]
#: A smaller coefficient is a rounding error.
_ROUNDING = 1e-8


def pseudoinverse(matrix: Array) -> Array:
    """The pseudoinverse of a matrix, for least squares."""
    # The import takes half a second, and only the analysis of a study needs it.
    from scipy.linalg import pinv

    return np.asarray(pinv(matrix), dtype=np.float64)


@dataclass(frozen=True)
class LinearModel:
    """The terms that a design's combinations can tell apart, and the aliases of each term."""

    counts: tuple[int, ...]
    """Number of levels of each factor."""
    terms: tuple[Term, ...]
    """The main effects, then the interactions."""
    aliased: Mapping[Term, tuple[Term, ...]]
    """Term → interactions outside the model whose effects the term's coefficient includes."""

    def columns(self, rows: Rows) -> Array:
        """The model's matrix: one row per combination, one column per coefficient."""
        return _matrix(rows, self.counts, self.terms)

    def contrast(self, levels: Mapping[int, int]) -> Array:
        """Weights of the coefficients for the mean at these levels, over all levels of the other factors."""
        parts = [np.ones(1)]
        for term in self.terms:
            coded = np.ones(1)
            for factor in term:
                count = self.counts[factor]
                codes = _sum_coding(count)[levels[factor]] if factor in levels else np.zeros(count - 1)
                coded = np.outer(coded, codes).ravel()
            parts.append(coded)
        return np.concatenate(parts)

    @cached_property
    def interactions(self) -> tuple[Term, ...]:
        """The two-factor interactions in the model."""
        return tuple(term for term in self.terms if len(term) == 2)


def fit_terms(rows: Rows, counts: Sequence[int]) -> LinearModel | None:
    """The model of a design; None where even its main effects cannot be told apart.

    It includes interactions if each excluded interaction is an alias of exactly one term, as in a regular fraction.
    Otherwise it includes none.
    """
    mains: list[Term] = [(n,) for n in range(len(counts))]
    pairs: list[Term] = list(itertools.combinations(range(len(counts)), 2))
    counts = tuple(counts)
    matrix = _matrix(rows, counts, mains)
    if not _has_full_rank(matrix):
        return None
    terms, excluded = list(mains), list[Term]()
    for pair in pairs:
        wider = np.hstack([matrix, _columns(rows, counts, pair)])
        if _has_full_rank(wider):
            terms.append(pair)
            matrix = wider
        else:
            excluded.append(pair)
    model = _with_aliases(rows, counts, terms, excluded)
    if all(sum(pair in aliases for aliases in model.aliased.values()) == 1 for pair in excluded):
        return model
    return _with_aliases(rows, counts, mains, pairs)


def _with_aliases(rows: Rows, counts: tuple[int, ...], terms: Sequence[Term], excluded: Sequence[Term]) -> LinearModel:
    matrix = _matrix(rows, counts, terms)
    inverse = pseudoinverse(matrix)
    aliased: dict[Term, list[Term]] = {}
    for pair in excluded:
        weights = np.abs(inverse @ _columns(rows, counts, pair)).max(axis=1)
        place = 1
        for term in terms:
            width = _width(counts, term)
            if weights[place : place + width].max() > _ROUNDING:
                aliased.setdefault(term, []).append(pair)
            place += width
    return LinearModel(counts, tuple(terms), {term: tuple(pairs) for term, pairs in aliased.items()})


def _has_full_rank(matrix: Array) -> bool:
    return int(np.linalg.matrix_rank(matrix)) == matrix.shape[1]


def _width(counts: Sequence[int], term: Term) -> int:
    return int(np.prod([counts[factor] - 1 for factor in term]))


@cache
def _sum_coding(count: int) -> Array:
    """Sum coding of the levels of a factor. Shape (levels, levels - 1)."""
    return np.vstack([np.eye(count - 1), -np.ones(count - 1)])


def _columns(rows: Rows, counts: Sequence[int], term: Term) -> Array:
    columns = np.ones((len(rows), 1))
    for factor in term:
        codes = _sum_coding(counts[factor])[[row[factor] for row in rows]]
        columns = (columns[:, :, None] * codes[:, None, :]).reshape(len(rows), -1)
    return columns


def _matrix(rows: Rows, counts: Sequence[int], terms: Sequence[Term]) -> Array:
    return np.hstack([np.ones((len(rows), 1)), *(_columns(rows, counts, term) for term in terms)])


# --- analysis


#: A share of the median time: a smaller effect counts as zero in the search for conditional effects.
NEGLIGIBLE_SHARE = 0.01


@dataclass(frozen=True)
class Effect:
    """The effect of a factor, or of the interaction of two."""

    factors: tuple[str, ...]
    worse: tuple[ParameterValue, ...]
    """The level with the longest time. For two factors: the worse level of each."""
    better: tuple[ParameterValue, ...]
    saving: Interval
    """Seconds, one value per repetition. For two factors: half the difference between what the first saves at the
    second's better level and at its worse, that is, the part that is not the sum of both effects."""
    aliased: tuple[tuple[str, ...], ...]
    """Interactions whose effects the figure includes and cannot be told from."""

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero; False for one repetition, which has no interval."""
        return self.saving.n > 1 and not self.saving.low <= 0 <= self.saving.high


@dataclass(frozen=True)
class Response:
    """The mean time at each level of one factor, over all levels of the others."""

    factor: str
    levels: tuple[ParameterValue, ...]
    seconds: tuple[Interval, ...]


@dataclass(frozen=True)
class Conditional:
    """The effect of a factor at each level of another."""

    factor: str
    other_factor: str
    levels: tuple[ParameterValue, ...]
    """Of the other one."""
    saving: tuple[Interval, ...]


@dataclass(frozen=True)
class Analysis:
    """The analysis of one time of one study."""

    sample: StudySample
    metric: str
    """milestone_2MB …, of the first transfer."""
    median: float
    """Of all runs, seconds."""
    main_effects: tuple[Effect, ...]
    """The greatest first."""
    interactions: tuple[Effect, ...]
    """Interactions of two, the greatest first."""
    responses: tuple[Response, ...]
    conditionals: tuple[Conditional, ...]
    """Of interactions that the design tells from others."""
    runs: int
    censored: int
    """Runs that had not reached this point at the timeout. They count as the timeout, a lower bound (censored)."""
    cells_without_time: tuple[tuple[str, str], ...]
    """Cells without any time → why."""
    problem: str = ""
    """Why there are no effects; empty where there are."""


@dataclass(frozen=True)
class _Fits:
    """A model's coefficients, one row per repetition."""

    model: LinearModel
    coefficients: Array

    def span(self, contrast: Array) -> Interval:
        # Rounded to a nanosecond, which removes rounding errors; + 0.0 turns -0.0 into 0.0.
        return interval(round(float(value), 9) + 0.0 for value in self.coefficients @ contrast)


def analyse_all(results: Iterable[CellResult]) -> list[Analysis]:
    """Analyses of every time of every study among stored cells."""
    return [analyse(study, metric) for study in group_studies(results) for metric in metrics_of(study.scenario)]


def analyse(study: StudySample, metric: str) -> Analysis:
    """The effects of a study's factors on one time."""
    full_study, study = study, _with_times(study, metric)
    times = {cell.levels: cell.times(metric) for cell in study.cells}
    late = sum(timed_out for runs in times.values() for _, timed_out in runs.values())
    values = [seconds for runs in times.values() for seconds, _ in runs.values()]
    without = tuple(
        (cell.result.name, cell.result.shortfall or "it was not measured")
        for cell in full_study.cells
        if not cell.times(metric)
    )

    def build(fits: _Fits | None = None, problem: str = "") -> Analysis:
        main, together, responses, conditionals = _effects(study, fits) if fits is not None else ((), (), (), ())
        return Analysis(
            study,
            metric,
            float(np.median(values)) if values else 0.0,
            main,
            together,
            responses,
            conditionals,
            len(values),
            late,
            without,
            problem,
        )

    if not study.factors:
        return build(problem="no factor has two levels among the stored cells")
    rows = [levels for levels, runs in times.items() if runs]
    model = fit_terms(rows, [len(levels) for levels in study.factors.values()]) if rows else None
    if model is None:
        return build(problem=f"the {len(rows)} cells that have a time do not tell the factors apart")
    coefficients = _fit_coefficients(model, times)
    if not len(coefficients):
        return build(problem="no repetition has enough cells to tell the factors apart")
    return build(_Fits(model, coefficients))


def _with_times(study: StudySample, metric: str) -> StudySample:
    """A study without levels that have no time in any cell, and then without factors that have only one level left."""
    timed = [cell for cell in study.cells if cell.times(metric)]
    level_indices = [sorted({cell.levels[n] for cell in timed}) for n in range(len(study.factors))]
    varying = [n for n, places in enumerate(level_indices) if len(places) > 1]
    names = list(study.factors)
    factors = {names[n]: tuple(study.factors[names[n]][place] for place in level_indices[n]) for n in varying}
    cells = tuple(
        replace(cell, levels=tuple(level_indices[n].index(cell.levels[n]) for n in varying)) for cell in timed
    )
    return replace(study, factors=factors, cells=cells)


def _fit_coefficients(model: LinearModel, times: dict[tuple[int, ...], dict[int, tuple[float, bool]]]) -> Array:
    """The model's coefficients (columns) for each repetition (rows) that has enough cells for a fit."""
    inverses: dict[tuple[tuple[int, ...], ...], Array | None] = {}
    coefficients = []
    for repetition in sorted({number for runs in times.values() for number in runs}):
        rows = tuple(levels for levels, runs in times.items() if repetition in runs)
        if rows not in inverses:
            matrix = model.columns(list(rows))
            full_rank = np.linalg.matrix_rank(matrix) == matrix.shape[1]
            inverses[rows] = pseudoinverse(matrix) if full_rank else None
        inverse = inverses[rows]
        if inverse is not None:
            coefficients.append(inverse @ np.array([times[levels][repetition][0] for levels in rows]))
    return np.array(coefficients)


def _effects(
    study: StudySample, fits: _Fits
) -> tuple[tuple[Effect, ...], tuple[Effect, ...], tuple[Response, ...], tuple[Conditional, ...]]:
    names, levels = list(study.factors), list(study.factors.values())
    responses = tuple(
        Response(name, levels[n], tuple(fits.span(fits.model.contrast({n: place})) for place in range(len(levels[n]))))
        for n, name in enumerate(names)
    )
    main = tuple(_main_effect(fits, n, name, levels[n], responses[n], names) for n, name in enumerate(names))
    together = tuple(_interaction_effect(fits, term, names, levels) for term in fits.model.interactions)
    conditionals = tuple(
        _conditional(fits, factor, condition, names, levels)
        for term in fits.model.interactions
        if not fits.model.aliased.get(term)
        for factor, condition in (term, term[::-1])
    )
    return _rank_effects(main), _rank_effects(together), responses, conditionals


def _rank_effects(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    # Rounded to a microsecond, so that rounding errors do not rank equal effects.
    return tuple(sorted(effects, key=lambda effect: (-round(abs(effect.saving.median), 6), effect.factors)))


def _alias_names(fits: _Fits, term: Term, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(names[n] for n in alias) for alias in fits.model.aliased.get(term, ()))


def _main_effect(
    fits: _Fits, n: int, name: str, levels: Sequence[ParameterValue], response: Response, names: Sequence[str]
) -> Effect:
    order = sorted(range(len(levels)), key=lambda place: response.seconds[place].median)
    better, worse = order[0], order[-1]
    saved = fits.span(fits.model.contrast({n: worse}) - fits.model.contrast({n: better}))
    return Effect((name,), (levels[worse],), (levels[better],), saved, _alias_names(fits, (n,), names))


def _interaction_effect(
    fits: _Fits, term: Term, names: Sequence[str], levels: Sequence[Sequence[ParameterValue]]
) -> Effect:
    """The interaction of two factors, between the two levels of each where it is greatest."""
    factor, condition = term
    candidates: list[tuple[Interval, tuple[int, int], tuple[int, int]]] = []
    for a in itertools.permutations(range(len(levels[factor])), 2):
        for b in itertools.combinations(range(len(levels[condition])), 2):
            first = _contrast_between(fits, factor, a, condition, b[0])
            second = _contrast_between(fits, factor, a, condition, b[1])
            candidates.append((fits.span((second - first) / 2), a, b))
    saved, a, b = max(candidates, key=lambda candidate: candidate[0].median)
    worse, better = (levels[factor][a[0]], levels[condition][b[0]]), (levels[factor][a[1]], levels[condition][b[1]])
    return Effect((names[factor], names[condition]), worse, better, saved, _alias_names(fits, term, names))


def _contrast_between(fits: _Fits, factor: int, places: tuple[int, int], condition: int, level: int) -> Array:
    """The contrast between two levels of a factor, at a level of another factor (`condition`)."""
    worse, better = ({factor: place, condition: level} for place in places)
    return fits.model.contrast(worse) - fits.model.contrast(better)


def _conditional(
    fits: _Fits, factor: int, condition: int, names: Sequence[str], levels: Sequence[Sequence[ParameterValue]]
) -> Conditional:
    saved = []
    for place in range(len(levels[condition])):
        spans = [
            fits.span(_contrast_between(fits, factor, pair, condition, place))
            for pair in itertools.permutations(range(len(levels[factor])), 2)
        ]
        saved.append(max(spans, key=lambda span: span.median))
    return Conditional(names[factor], names[condition], tuple(levels[condition]), tuple(saved))

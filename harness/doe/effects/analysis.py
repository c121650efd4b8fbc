"""Effects of each factor of a study, and of each two-factor interaction, on one time. Pure.

The model is of the logarithm of the time: an effect is a ratio of two levels' geometric means, and is shown in seconds
between them. So a run of ten times the others' time weighs as much as one of a tenth.

A repetition has the same seed in every cell (`harness.topology.run_seed`). So it has the same random losses and the
same drawn values, such as a delay's phase. Each repetition is thus one replicate of the whole study and gives one value
of each effect.

Where chance plays a part (`has_chance`), a permutation test decides (`harness.doe.effects.evidence`). Where none does,
a cell is what it is, and one run is all there is to know of it: an effect is shown unless it rests on a single run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from harness.doe.effects.evidence import (
    ALPHA,
    Array,
    Residual,
    adjust_p_values,
    influence,
    largest_residual,
    permutation_p,
    pseudoinverse,
)
from harness.doe.effects.failing_modes import FailingMode, failing_modes, without_failing_modes
from harness.doe.effects.levels import as_observed
from harness.doe.effects.samples import StudySample, TimedRun, group_studies, metrics_of
from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.planning.design import Rows
from harness.planning.sampling import is_random
from harness.scenario.parameters import ParameterValue
from harness.stats.intervals import MIN_VALUES, interval

# --- A linear model of a design's factors and their two-factor interactions, fitted by least squares. Pure.
#
# Levels are coded by deviations from their mean (sum coding). So the intercept is the mean over all combinations. A
# level's coefficient is its deviation from that mean, over all levels of the other factors: D. C. Montgomery, Design
# and Analysis of Experiments, 8th ed., §5.3 and §10.3. The least-squares fit uses scipy's pseudoinverse.


#: A factor's index, or the indices of two factors that interact.
Term = tuple[int, ...]
#: A smaller coefficient is a rounding error.
_ROUNDING = 1e-8


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


#: A share of the time: a smaller effect counts as zero in sentences, tables, and the search for conditional effects.
NEGLIGIBLE_SHARE = 0.01
#: Of the smaller main effect of two factors: an interaction as large as that stands before both of them.
DOMINANT_SHARE = 0.8
#: A share of a difference from the base, within which another one is alike, and how many other factors make it shared.
_ALIKE, _OTHERS = 0.1, 2
#: Of the time: a smaller interaction does not stand before the effects of its factors.
_CLEAR_SHARE = 0.05


@dataclass(frozen=True)
class Effect:
    """The effect of a factor, or of the interaction of two."""

    factors: tuple[str, ...]
    worse: tuple[ParameterValue, ...]
    """The level with the longest time. For two factors: the worse level of each."""
    better: tuple[ParameterValue, ...]
    saving: Interval
    """Seconds between the geometric means at both levels, one value per repetition. For two factors: what they save
    together beyond the product of what each saves alone, of the geometric mean of all runs."""
    ratio: Interval
    """The time at the worse level in units of that at the better one. For two factors: the square root of the ratio of
    the first's ratios at the second's better and worse level."""
    aliased: tuple[tuple[str, ...], ...]
    """Interactions whose effects the figure includes and cannot be told from."""
    holds_at_base: bool
    """Whether the design varies one factor at a time: the effect is that at the base of all others, alone."""
    ratio_without_run: float | None
    """The ratio without the run that it rests on most; None where no run can be left out."""
    is_shared: bool
    """Whether cells of two other factors differ from the base by as much: then it is no factor's effect."""
    p: float | None
    """Of the permutation test over repetitions. None where chance plays no part, or repetitions are too few, and for
    interactions, which are not tested."""
    adjusted_p: float | None
    """The same, adjusted for all effects of the scenario (false discovery rate)."""
    chance: bool
    """Whether chance plays a part in the times."""
    late: tuple[float, float]
    """Share of the runs at the worse and at the better level that had not come so far in time."""

    @property
    def is_identifiable(self) -> bool:
        """Whether the design tells the effect from interactions; at a base there is nothing to tell it from."""
        return self.holds_at_base or not self.aliased

    @property
    def rests_on_one_run(self) -> bool:
        """Whether less than half of the effect is left without one run."""
        if self.ratio_without_run is None:
            return False
        return bool(np.log(self.ratio_without_run) < np.log(self.ratio.median) / 2)

    @property
    def is_significant(self) -> bool:
        """Whether the runs show the effect, and show it as this factor's."""
        if not self.is_identifiable or self.rests_on_one_run or self.is_shared or self.ratio.median <= 1:
            return False
        return not self.chance or (self.adjusted_p is not None and self.adjusted_p <= ALPHA)

    @property
    def size(self) -> float:
        """The logarithm of the ratio, by which effects are ranked."""
        return abs(float(np.log(self.ratio.median)))


@dataclass(frozen=True)
class Response:
    """The geometric mean of the time at each level of one factor, over all levels of the others, or at their base."""

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
    repetitions: int
    """Those that have enough cells for a fit."""
    censored: int
    """Runs that had not reached this point at the timeout. They count as the timeout, a lower bound (censored)."""
    cells_without_time: tuple[tuple[str, str], ...]
    """Cells without any time → why."""
    chance: bool = False
    """Whether chance plays a part in the times."""
    residual: Residual | None = None
    """The run that the model fits worst; None where it fits all."""
    problem: str = ""
    """Why there are no effects; empty where there are."""

    @property
    def is_decided(self) -> bool:
        """Whether the runs can show an effect."""
        return not self.chance or self.repetitions >= MIN_VALUES

    def dominant_interactions(self) -> list[Effect]:
        """Interactions without which a main effect says little: as large as the smaller one of their factors, nearly.

        Of interactions that the design does not tell apart, the one of the factors with the greatest effects stands for
        all (effect heredity: C. F. J. Wu and M. S. Hamada, Experiments, 2nd ed., §4.6).
        """
        sizes = {effect.factors[0]: effect.size for effect in self.main_effects}
        dominant = [
            effect
            for effect in self.interactions
            if effect.ratio.median - 1 >= _CLEAR_SHARE
            and not effect.rests_on_one_run
            and effect.size >= DOMINANT_SHARE * min(sizes[name] for name in effect.factors)
        ]
        return [_by_heredity(effect, sizes) for effect in dominant]


def _by_heredity(effect: Effect, sizes: Mapping[str, float]) -> Effect:
    """An interaction by the name of the most probable of its aliases."""
    names = [effect.factors, *effect.aliased]
    likely = max(names, key=lambda pair: min(sizes.get(name, 0.0) for name in pair))
    if likely == effect.factors:
        return effect
    rest = tuple(pair for pair in names if pair != likely)
    return replace(effect, factors=likely, aliased=rest, worse=(), better=())


@dataclass(frozen=True)
class _Fits:
    """A model's coefficients for the logarithms of times, one row per repetition."""

    model: LinearModel
    coefficients: Array

    def seconds(self, contrast: Array) -> Array:
        """The geometric mean at some levels, one value per repetition."""
        return np.asarray(np.exp(self.coefficients @ contrast))

    def logs(self, contrast: Array) -> Array:
        """A contrast of logarithms, one value per repetition."""
        return np.asarray(self.coefficients @ contrast)


def _span(values: Iterable[float]) -> Interval:
    # Rounded to a nanosecond, which removes rounding errors; + 0.0 turns -0.0 into 0.0.
    return interval(round(float(value), 9) + 0.0 for value in values)


def analyse_all(results: Iterable[CellResult]) -> list[Analysis]:
    """Analyses of every time of every study among stored cells, without modes that fail and levels not reached."""
    results = list(results)
    return analyse_samples(group_studies(results), failing_modes(results))


def analyse_samples(samples: Sequence[StudySample], modes: Sequence[FailingMode]) -> list[Analysis]:
    """Analyses of every time of samples, without these modes and without levels not reached."""
    observed = as_observed(without_failing_modes(samples, modes))
    return adjust([analyse(study, metric) for study in observed for metric in metrics_of(study.scenario)])


def adjust(analyses: Sequence[Analysis]) -> list[Analysis]:
    """Analyses whose p-values are adjusted for all factors, pairs and times of one scenario together."""
    adjusted = list(analyses)
    for scenario in dict.fromkeys(analysis.sample.scenario.name for analysis in analyses):
        places = [n for n, analysis in enumerate(analyses) if analysis.sample.scenario.name == scenario]
        p_values = iter(adjust_p_values([effect.p for n in places for effect in analyses[n].main_effects]))
        for n in places:
            main = tuple(replace(effect, adjusted_p=next(p_values)) for effect in analyses[n].main_effects)
            adjusted[n] = replace(analyses[n], main_effects=main)
    return adjusted


def analyse(study: StudySample, metric: str) -> Analysis:
    """The effects of a study's factors on one time. p-values are not adjusted yet (`adjust`)."""
    full_study, study = study, _with_times(study, metric)
    runs = study.timed_runs(metric)
    without = tuple(
        (cell.result.name, cell.result.shortfall or "it was not measured")
        for cell in full_study.cells
        if not cell.times(metric)
    )
    analysis = Analysis(
        study,
        metric,
        float(np.median([run.seconds for run in runs])) if runs else 0.0,
        main_effects=(),
        interactions=(),
        responses=(),
        conditionals=(),
        runs=len(runs),
        repetitions=0,
        censored=sum(run.late for run in runs),
        cells_without_time=without,
        chance=_has_chance(study),
    )
    if not study.factors:
        return replace(analysis, problem="no factor has two levels among the stored cells")
    rows = [cell.levels for cell in study.cells]
    model = fit_terms(rows, [len(levels) for levels in study.factors.values()]) if rows else None
    if model is None:
        return replace(analysis, problem=f"the {len(rows)} cells that have a time do not tell the factors apart")
    coefficients = _fit_coefficients(model, runs)
    if not len(coefficients):
        return replace(analysis, problem="no repetition has enough cells to tell the factors apart")
    fits = _Fits(model, coefficients)
    return _EffectBuilder(study, fits, runs, analysis.chance).fill(replace(analysis, repetitions=len(coefficients)))


def _has_chance(study: StudySample) -> bool:
    """Whether another seed may give other times: not for a value that is drawn and then the same in all cells."""
    if not study.cells:
        return False
    cell = study.cells[0].result.cell
    return is_random(cell.model_copy(update={"scenario": cell.scenario.model_copy(update={"draw": {}})}))


def _with_times(study: StudySample, metric: str) -> StudySample:
    """A study without levels that have no time in any cell, and then without factors that have only one level left."""
    timed = tuple(cell for cell in study.cells if cell.times(metric))
    return replace(study, cells=timed).with_occurring_levels()


def _fit_coefficients(model: LinearModel, runs: Sequence[TimedRun]) -> Array:
    """The model's coefficients (columns) for each repetition (rows) that has enough cells for a fit."""
    inverses: dict[tuple[tuple[int, ...], ...], Array | None] = {}
    coefficients = []
    for repetition in sorted({run.repetition for run in runs}):
        mine = [run for run in runs if run.repetition == repetition]
        rows = tuple(run.levels for run in mine)
        if rows not in inverses:
            matrix = model.columns(list(rows))
            inverses[rows] = pseudoinverse(matrix) if _has_full_rank(matrix) else None
        inverse = inverses[rows]
        if inverse is not None:
            coefficients.append(inverse @ np.log([run.seconds for run in mine]))
    return np.array(coefficients)


@dataclass(frozen=True)
class _EffectBuilder:
    """Makes the effects of one fitted study."""

    study: StudySample
    fits: _Fits
    runs: Sequence[TimedRun]
    chance: bool

    @cached_property
    def names(self) -> list[str]:
        return list(self.study.factors)

    @cached_property
    def levels(self) -> list[tuple[ParameterValue, ...]]:
        return list(self.study.factors.values())

    @cached_property
    def _main_model(self) -> LinearModel:
        """The model without interactions: the one to check runs by, where the other one fits each of them alone."""
        model = self.fits.model
        return LinearModel(model.counts, tuple(term for term in model.terms if len(term) == 1), {})

    @cached_property
    def _checked_model(self) -> LinearModel:
        """The model whose residuals are checked: with interactions, if it leaves runs to check it by."""
        model, rows = self.fits.model, [run.levels for run in self.runs]
        columns = model.columns(rows)
        return model if len(rows) > columns.shape[1] else self._main_model

    def fill(self, analysis: Analysis) -> Analysis:
        """The analysis with its effects."""
        model = self.fits.model
        responses = tuple(
            Response(
                name,
                self.levels[n],
                tuple(_span(self.fits.seconds(self._mean(model, n, place))) for place in range(len(self.levels[n]))),
            )
            for n, name in enumerate(self.names)
        )
        conditionals = tuple(
            self._conditional(factor, condition)
            for term in model.interactions
            if not model.aliased.get(term)
            for factor, condition in (term, term[::-1])
        )
        rows = [run.levels for run in self.runs]
        main = [self._main_effect(n, responses[n]) for n in range(len(self.names))]
        return replace(
            analysis,
            main_effects=_rank_effects(self._with_larger_triples(main)),
            interactions=_rank_effects(map(self._interaction_effect, model.interactions)),
            responses=responses,
            conditionals=conditionals,
            residual=largest_residual(self._checked_model.columns(rows), self.runs),
        )

    def _aliases(self, term: Term) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(self.names[n] for n in alias) for alias in self.fits.model.aliased.get(term, ()))

    def _with_larger_triples(self, main: Sequence[Effect]) -> list[Effect]:
        """Main effects with those interactions of three that they are aliased with and that may be all there is to it.

        A fraction of resolution IV aliases main effects with interactions of three factors. Where each of the three has
        the larger effect, theirs together is as probable an explanation as the fourth factor (effect heredity).
        """
        study = self.study.scenario.study
        if study is None or study.kind != "fractional":
            return list(main)
        signs = 2 * np.array([cell.levels for cell in self.study.cells]) - 1
        marked = list(main)
        for n, effect in enumerate(main):
            larger = [k for k, rival in enumerate(main) if rival.size > effect.size]
            triples = [
                tuple(self.names[k] for k in triple)
                for triple in itertools.combinations(larger, 3)
                if abs(int((signs[:, n] * signs[:, list(triple)].prod(axis=1)).sum())) == len(signs)
            ]
            marked[n] = replace(effect, aliased=(*effect.aliased, *triples))
        return marked

    def _late_share(self, n: int, place: int) -> float:
        mine = [run.late for run in self.runs if run.levels[n] == place]
        return sum(mine) / len(mine) if mine else 0.0

    def _without_run(self, model: LinearModel, contrast: Array) -> float | None:
        rows = [run.levels for run in self.runs]
        least = influence(model.columns(rows), np.log([run.seconds for run in self.runs]), contrast)
        return None if least is None else float(np.exp(least))

    def _is_shared(self, n: int, worse: int, better: int) -> bool:
        """Whether cells of two other factors differ from the base by as much as the levels of this one, to a tenth.

        Such a jump is the base's, or that of a sender which any change tips over; it is no factor's. Of studies whose
        cells ran once beside one base: others have runs to check it by.
        """
        logs = {run.levels: float(np.log(run.seconds)) for run in self.runs}
        base = logs.get((0,) * len(self.names))
        if not self._holds_at_base or len(logs) < len(self.runs) or base is None or 0 not in (worse, better):
            return False
        steps = [(levels, value - base) for levels, value in logs.items() if any(levels)]
        own = next(step for levels, step in steps if levels[n] == worse + better)
        like = {
            next(k for k, level in enumerate(levels) if level)
            for levels, step in steps
            if not levels[n] and abs(step - own) <= _ALIKE * abs(own)
        }
        return len(like) >= _OTHERS

    @property
    def _holds_at_base(self) -> bool:
        study = self.study.scenario.study
        return study is not None and study.kind == "one-at-a-time"

    def _mean(self, model: LinearModel, n: int, place: int) -> Array:
        """The contrast for the mean at a level of a factor: over all levels of the others, or at their base."""
        base = dict.fromkeys(range(len(self.names)), 0) if self._holds_at_base else {}
        return model.contrast({**base, n: place})

    def _main_effect(self, n: int, response: Response) -> Effect:
        levels, model = self.levels[n], self.fits.model
        order = sorted(range(len(levels)), key=lambda place: response.seconds[place].median)
        better, worse = order[0], order[-1]
        slow, fast = self._mean(model, n, worse), self._mean(model, n, better)
        checked = self._checked_model
        without = self._without_run(checked, checked.contrast({n: worse}) - checked.contrast({n: better}))
        p = None
        if self.chance:
            p = permutation_p([self.fits.logs(self._mean(model, n, place)) for place in range(len(levels))])
        return Effect(
            (self.names[n],),
            (levels[worse],),
            (levels[better],),
            saving=_span(self.fits.seconds(slow) - self.fits.seconds(fast)),
            ratio=_span(np.exp(self.fits.logs(slow - fast))),
            aliased=self._aliases((n,)),
            holds_at_base=self._holds_at_base,
            ratio_without_run=without,
            is_shared=self._is_shared(n, worse, better),
            p=p,
            adjusted_p=p,
            chance=self.chance,
            late=(self._late_share(n, worse), self._late_share(n, better)),
        )

    def _interaction_effect(self, term: Term) -> Effect:
        """The interaction of two factors, between the two levels of each where it is greatest."""
        factor, condition = term
        candidates: list[tuple[float, tuple[int, int], tuple[int, int]]] = []
        for a in itertools.permutations(range(len(self.levels[factor])), 2):
            for b in itertools.combinations(range(len(self.levels[condition])), 2):
                difference = self._between(factor, a, condition, b[1]) - self._between(factor, a, condition, b[0])
                candidates.append((float(np.median(self.fits.logs(difference / 2))), a, b))
        _, a, b = max(candidates, key=lambda candidate: candidate[0])
        first, second = self._between(factor, a, condition, b[0]), self._between(factor, a, condition, b[1])
        half = (second - first) / 2
        checked = self._checked_model
        mean = np.exp(self.fits.coefficients[:, 0])
        late = max(self._late_share(factor, a[0]), self._late_share(condition, b[0]))
        return Effect(
            (self.names[factor], self.names[condition]),
            (self.levels[factor][a[0]], self.levels[condition][b[0]]),
            (self.levels[factor][a[1]], self.levels[condition][b[1]]),
            saving=_span(mean * (np.exp(self.fits.logs(half)) - 1)),
            ratio=_span(np.exp(self.fits.logs(half))),
            aliased=self._aliases(term),
            holds_at_base=False,
            ratio_without_run=self._without_run(checked, half) if checked is self.fits.model else None,
            is_shared=False,
            p=None,
            adjusted_p=None,
            chance=self.chance,
            late=(late, late),
        )

    def _between(self, factor: int, places: tuple[int, int], condition: int, level: int) -> Array:
        """The contrast between two levels of a factor, at a level of another factor (`condition`)."""
        worse, better = ({factor: place, condition: level} for place in places)
        return self.fits.model.contrast(worse) - self.fits.model.contrast(better)

    def _conditional(self, factor: int, condition: int) -> Conditional:
        saved = []
        for place in range(len(self.levels[condition])):
            means = [
                self.fits.seconds(self.fits.model.contrast({factor: level, condition: place}))
                for level in range(len(self.levels[factor]))
            ]
            spans = [_span(slow - fast) for slow, fast in itertools.permutations(means, 2)]
            saved.append(max(spans, key=lambda span: span.median))
        return Conditional(self.names[factor], self.names[condition], tuple(self.levels[condition]), tuple(saved))


def _rank_effects(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    # Rounded to a millionth, so that rounding errors do not rank equal effects.
    return tuple(sorted(effects, key=lambda effect: (-round(effect.size, 6), effect.factors)))

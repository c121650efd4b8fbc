"""Conclusions from a study, one sentence per time. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.doe.effects.analysis import NEGLIGIBLE_SHARE, Analysis, Conditional, Effect
from harness.doe.effects.samples import StudySample, foreign_bases
from harness.formatting import format_count
from harness.outcome import Interval
from harness.scenario.parameters import ParameterValue
from harness.stats.intervals import MIN_VALUES

#: The most decimals of a time in seconds.
_MAX_DECIMALS = 3
#: An effect is reported as conditional if it is at least this many times the threshold of a negligible effect.
_CLEAR_RATIO = 5


def metric_label(metric: str) -> str:
    """A time for people: '2 MB' for milestone_2MB."""
    size = metric.removeprefix("milestone_")
    if size == metric:
        return "the whole"
    digits = size.rstrip("kMGTiB")
    return f"{digits} {size[len(digits) :]}"


def format_seconds(span: Interval, analysis: Analysis) -> str:
    """A time in seconds with its interval; for one repetition without."""
    middle, low, high = (round_seconds(value, analysis) for value in (span.median, span.low, span.high))
    return f"{middle} s" if span.n < 2 or low == high else f"{middle} s [{low}, {high}]"


def round_seconds(value: float, analysis: Analysis) -> str:
    """Seconds to one decimal, or more decimals where 0.1 s is more than a fiftieth of the study's median time."""
    digits = min(_MAX_DECIMALS, max(1, math.ceil(-math.log10(analysis.median / 50)))) if analysis.median > 0 else 1
    # + 0.0 turns -0.0 into 0.0.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def foreign_base_texts(sample: StudySample) -> list[str]:
    """The base of a study of one factor at a time, a text per factor, where the pair's own default differs."""
    return [f"{name} {base} (its own: {own})" for name, (base, own) in foreign_bases(sample).items()]


def is_negligible(effect: Effect) -> bool:
    """Whether an effect is less than a hundredth of the time at the better level."""
    return effect.ratio.median - 1 < NEGLIGIBLE_SHARE


#: Share of late runs from which on the median of a level is late itself.
_HALF = 0.5


def is_hidden(effect: Effect) -> bool:
    """Whether timeouts hide an effect: half of the runs and more at both levels had not come so far."""
    return min(effect.late) >= _HALF


def is_lower_bound(effect: Effect) -> bool:
    """Whether an effect is worth what is shown at least: runs at the worse level alone had not come so far."""
    return effect.late[0] > 0 and effect.late[1] == 0


def summarise(analysis: Analysis) -> str:
    """The effects on one time: interactions that hide the rest, then factors, the greatest first, and what it rests on.

    Then the factors that matter only at a level of another factor.
    """
    subject = f"{metric_label(analysis.metric)} (median {round_seconds(analysis.median, analysis)} s)"
    if analysis.problem:
        return f"{subject}: nothing can be said: {analysis.problem}."
    large = [effect for effect in analysis.main_effects if not is_negligible(effect)]
    hidden = [effect.factors[0] for effect in analysis.main_effects if is_negligible(effect) and is_hidden(effect)]
    small = [effect.factors[0] for effect in analysis.main_effects if is_negligible(effect) and not is_hidden(effect)]
    conditions = conditional_effects(analysis)
    conditional = {frozenset((condition.factor, condition.other_factor)) for condition in conditions}
    together = [effect for effect in analysis.dominant_interactions() if frozenset(effect.factors) not in conditional]
    parts = [_interaction_text(effect, analysis) for effect in together]
    parts += [_effect_text(effect, analysis, first=number == 0) for number, effect in enumerate(large)]
    if small:
        verb = "" if large else "are worth " if len(small) > 1 else "is worth "
        parts.append(f"{_join_names(small)} {verb}less than {NEGLIGIBLE_SHARE:.0%} of it")
    if hidden:
        parts.append(f"timeouts hide what {_join_names(hidden)} {'is' if len(hidden) == 1 else 'are'} worth")
    text = f"{subject}: {', '.join(parts)}"
    text += "".join(f". {_condition_text(condition, analysis)}" for condition in conditions)
    if analysis.censored:
        text += (
            f". {format_count(analysis.censored, 'run')} of {analysis.runs} had not come so far in time and "
            f"{'counts' if analysis.censored == 1 else 'count'} as {analysis.sample.scenario.timeout}. "
            "This hides what is beyond"
        )
    if not analysis.is_decided:
        text += f". Chance plays a part, and {format_count(analysis.repetitions, 'repetition')} of {MIN_VALUES} decide "
        text += "nothing"
    return text + "."


def _interaction_text(effect: Effect, analysis: Analysis) -> str:
    """An interaction that is as large as the effects of its factors: how much it is worth beyond both."""
    text = f"{effect.factors[0]} and {effect.factors[1]} together {format_seconds(effect.saving, analysis)} beyond both"
    if effect.aliased:
        text += f" (not told from {format_count(len(effect.aliased), 'other pair')})"
    return text


def _effect_text(effect: Effect, analysis: Analysis, first: bool) -> str:
    change = f"({effect.worse[0]} → {effect.better[0]})"
    verb = " is worth" if first else ""
    size = f"{'at least ' if is_lower_bound(effect) else ''}{format_seconds(effect.saving, analysis)}"
    return f"{effect.factors[0]}{verb} {size} {change}{_doubt_text(effect)}"


def _doubt_text(effect: Effect) -> str:
    """Why a figure does not show an effect of its factor; empty where it does, or where the whole study does not."""
    if not effect.is_identifiable:
        pairs = [" × ".join(pair) for pair in effect.aliased]
        return f", not told from {pairs[0] if len(pairs) == 1 else f'{len(pairs)} interactions'}"
    if effect.rests_on_one_run and effect.ratio_without_run is not None:
        left = effect.ratio_without_run - 1
        return f", {left:.0%} of the time without one run" if left >= NEGLIGIBLE_SHARE else ", nothing without one run"
    if effect.is_shared:
        return ", as much as other factors' cells differ from the base"
    if effect.adjusted_p is not None and not effect.is_significant:
        return f", which the runs do not show (p = {effect.adjusted_p:.2f})"
    return ""


def residual_text(analysis: Analysis) -> str:
    """The run that the model fits worst; that all runs fit, where no run stands out."""
    residual, label = analysis.residual, metric_label(analysis.metric)
    if residual is None:
        return f"{label}: the model fits every run, or has no more runs than coefficients: no residual tells anything"
    size = "far beyond" if math.isinf(residual.studentised) else f"{residual.studentised:+.1f} standard deviations of"
    weight = f"leverage at most {residual.highest_leverage:.2f}, {residual.degrees} degrees of freedom"
    if not residual.is_outlier:
        return f"{label}: no outlier: the largest residual is {size} the other runs ({weight})"
    run = residual.run
    settings = ", ".join(
        f"{name.rpartition('.')[2]} {levels[place]}"
        for (name, levels), place in zip(analysis.sample.factors.items(), run.levels, strict=True)
    )
    return (
        f"{label}: an outlier: repetition {run.repetition} with {settings} took "
        f"{round_seconds(run.seconds, analysis)} s, the model says {round_seconds(residual.fitted, analysis)} s: "
        f"{size} the other runs "
        f"(its leverage {residual.leverage:.2f}, {weight})"
    )


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def conditional_effects(analysis: Analysis) -> list[Conditional]:
    """Factors that have an effect at one level of another factor, and less than 1 % of the time at its other levels.

    Of two factors that depend on each other, only the one with the greater effect is listed.
    """
    little = NEGLIGIBLE_SHARE * analysis.median
    rank = [effect.factors[0] for effect in analysis.main_effects]
    by_pair: dict[frozenset[str], Conditional] = {}
    for conditional in sorted(analysis.conditionals, key=lambda conditional: rank.index(conditional.factor)):
        matters = [span for span in conditional.saving if span.median >= little and (span.n < 2 or span.low > 0)]
        # The effect must be several times the threshold: a small excess over it would be a matter of degree.
        if len(matters) == 1 and matters[0].median >= _CLEAR_RATIO * little and len(conditional.saving) > 1:
            by_pair.setdefault(frozenset((conditional.factor, conditional.other_factor)), conditional)
    return list(by_pair.values())


def _condition_text(condition: Conditional, analysis: Analysis) -> str:
    place = max(range(len(condition.saving)), key=lambda n: condition.saving[n].median)
    elsewhere = max((span.median for n, span in enumerate(condition.saving) if n != place), default=0.0)
    at_level, otherwise = (
        format_seconds(condition.saving[place], analysis),
        round_seconds(max(0.0, elsewhere), analysis),
    )
    return (
        f"The factor {condition.factor} matters only with {condition.other_factor} {condition.levels[place]}: "
        f"{at_level} there, {otherwise} s otherwise"
    )


# --- The mean time at the levels of two factors together. Pure.


@dataclass(frozen=True)
class LevelPair:
    """One level of each of two factors."""

    first: ParameterValue
    second: ParameterValue
    seconds: float
    """Mean over the cells of their medians."""
    cells: int


def mean_surface(study: StudySample, metric: str, x_factor: str, y_factor: str) -> list[LevelPair]:
    """Each pair of levels of two factors that occurs in a cell with a time. Raises KeyError for a name of no factor."""
    names = list(study.factors)
    if x_factor not in names or y_factor not in names:
        raise KeyError(x_factor if x_factor not in names else y_factor)
    first, second = names.index(x_factor), names.index(y_factor)
    medians: dict[tuple[int, int], list[float]] = {}
    for cell in study.cells:
        if times := cell.times(metric):
            place = cell.levels[first], cell.levels[second]
            medians.setdefault(place, []).append(statistics.median(seconds for seconds, _ in times.values()))
    return [
        LevelPair(study.factors[x_factor][a], study.factors[y_factor][b], statistics.fmean(times), len(times))
        for (a, b), times in sorted(medians.items())
    ]

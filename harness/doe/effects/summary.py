"""Conclusions from a study, one sentence per time. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.doe.effects.analysis import NEGLIGIBLE_SHARE, Analysis, Conditional, Effect
from harness.doe.effects.samples import StudySample
from harness.formatting import format_count
from harness.outcome import Interval
from harness.scenario.parameters import ParameterValue

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


def is_negligible(span: Interval, analysis: Analysis) -> bool:
    """Whether an effect is less than a hundredth of the study's median time."""
    return abs(span.median) < NEGLIGIBLE_SHARE * analysis.median


def summarise(analysis: Analysis) -> str:
    """The effects on one time, the greatest first, and the factors that matter only at a level of another factor."""
    subject = f"{metric_label(analysis.metric)} (median {round_seconds(analysis.median, analysis)} s)"
    if analysis.problem:
        return f"Of {subject} nothing can be said: {analysis.problem}."
    large = [effect for effect in analysis.main_effects if not is_negligible(effect.saving, analysis)]
    small = [effect.factors[0] for effect in analysis.main_effects if is_negligible(effect.saving, analysis)]
    parts = [_effect_text(effect, analysis, first=number == 0) for number, effect in enumerate(large)]
    if small:
        verb = "" if large else "are worth " if len(small) > 1 else "is worth "
        parts.append(f"{_join_names(small)} {verb}less than {NEGLIGIBLE_SHARE:.0%} of it")
    text = f"Of {subject} {', '.join(parts)}"
    text += "".join(f"; {_condition_text(condition, analysis)}" for condition in conditional_effects(analysis))
    if analysis.censored:
        text += (
            f"; {format_count(analysis.censored, 'run')} of {analysis.runs} had not come so far in time and "
            f"{'counts' if analysis.censored == 1 else 'count'} as {analysis.sample.scenario.timeout}, "
            "which hides what is beyond"
        )
    return text + "."


def _effect_text(effect: Effect, analysis: Analysis, first: bool) -> str:
    change = f"({effect.worse[0]} → {effect.better[0]})"
    verb = " is worth" if first else ""
    unsure = "" if effect.is_significant or effect.saving.n < 2 else ", which its interval does not show"
    return f"{effect.factors[0]}{verb} {format_seconds(effect.saving, analysis)} {change}{unsure}"


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
        f"{condition.factor} matters only with {condition.other_factor} {condition.levels[place]}: {at_level} there, "
        f"{otherwise} s otherwise"
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

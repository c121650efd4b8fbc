"""What a study supports, in a sentence a time. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.doe.effects.analysis import LITTLE, Analysis, Conditional, Effect
from harness.doe.effects.samples import Studied
from harness.formatting import counted
from harness.outcome import Interval
from harness.scenario.parameters import ParameterValue

#: Decimals of seconds at most.
_FINEST = 3
#: How many times as much as what counts for nothing a factor is worth where it is said to matter there alone.
_SEVERAL = 5


def called(metric: str) -> str:
    """A time for people: '2 MB' for milestone_2MB."""
    size = metric.removeprefix("milestone_")
    if size == metric:
        return "the whole"
    digits = size.rstrip("kMGTiB")
    return f"{digits} {size[len(digits) :]}"


def seconds(span: Interval, one: Analysis) -> str:
    """A figure with its interval; of one repetition the figure alone."""
    middle, low, high = (rounded(value, one) for value in (span.median, span.low, span.high))
    return f"{middle} s" if span.n < 2 or low == high else f"{middle} s [{low}, {high}]"


def rounded(value: float, one: Analysis) -> str:
    """In tenths of a second, or finer where a tenth is more than a fiftieth of the study's time."""
    digits = min(_FINEST, max(1, math.ceil(-math.log10(one.median / 50)))) if one.median > 0 else 1
    # No zero has a sign.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def is_little(span: Interval, one: Analysis) -> bool:
    """Whether a figure is less than a hundredth of the study's time."""
    return abs(span.median) < LITTLE * one.median


def sentence(one: Analysis) -> str:
    """What the factors are worth of one time, the greatest first, and which of them matter only with another."""
    what = f"{called(one.metric)} (median {rounded(one.median, one)} s)"
    if one.problem:
        return f"Of {what} nothing can be said: {one.problem}."
    large = [effect for effect in one.main if not is_little(effect.saved, one)]
    small = [effect.factors[0] for effect in one.main if is_little(effect.saved, one)]
    parts = [_worth(effect, one, first=number == 0) for number, effect in enumerate(large)]
    if small:
        verb = "" if large else "are worth " if len(small) > 1 else "is worth "
        parts.append(f"{_listed(small)} {verb}less than {LITTLE:.0%} of it")
    made = f"Of {what} {', '.join(parts)}"
    made += "".join(f"; {_matters(found, one)}" for found in conditions(one))
    if one.late:
        made += (
            f"; {counted(one.late, 'run')} of {one.runs} had not come so far in time and "
            f"{'counts' if one.late == 1 else 'count'} as {one.of.scenario.timeout}, which hides what is beyond"
        )
    return made + "."


def _worth(effect: Effect, one: Analysis, first: bool) -> str:
    change = f"({effect.worse[0]} → {effect.better[0]})"
    verb = " is worth" if first else ""
    unsure = "" if effect.shown or effect.saved.n < 2 else ", which its interval does not show"
    return f"{effect.factors[0]}{verb} {seconds(effect.saved, one)} {change}{unsure}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def conditions(one: Analysis) -> list[Conditional]:
    """Factors that are worth something at one level of another, and at the others less than a hundredth of the time.

    Of two that need each other the one that is worth more.
    """
    little = LITTLE * one.median
    rank = [effect.factors[0] for effect in one.main]
    found: dict[frozenset[str], Conditional] = {}
    for each in sorted(one.conditionals, key=lambda each: rank.index(each.factor)):
        matters = [span for span in each.saved if span.median >= little and (span.n < 2 or span.low > 0)]
        # Several times as much as what counts for nothing, lest it be a matter of degree.
        if len(matters) == 1 and matters[0].median >= _SEVERAL * little and len(each.saved) > 1:
            found.setdefault(frozenset((each.factor, each.given)), each)
    return list(found.values())


def _matters(found: Conditional, one: Analysis) -> str:
    place = max(range(len(found.saved)), key=lambda n: found.saved[n].median)
    others = max((span.median for n, span in enumerate(found.saved) if n != place), default=0.0)
    there, otherwise = seconds(found.saved[place], one), rounded(max(0.0, others), one)
    return (
        f"{found.factor} matters only with {found.given} {found.levels[place]}: {there} there, {otherwise} s otherwise"
    )


# --- The mean time at the levels of two factors together. Pure.


@dataclass(frozen=True)
class LevelPair:
    """One level of each of two factors."""

    one: ParameterValue
    other: ParameterValue
    seconds: float
    """Mean over the cells of their medians."""
    cells: int


def surface(of: Studied, metric: str, one: str, other: str) -> list[LevelPair]:
    """Every two levels of two factors that some cell with a time has. KeyError for a name that is no factor."""
    names = list(of.factors)
    if one not in names or other not in names:
        raise KeyError(one if one not in names else other)
    first, second = names.index(one), names.index(other)
    found: dict[tuple[int, int], list[float]] = {}
    for cell in of.cells:
        if times := cell.times(metric):
            place = cell.levels[first], cell.levels[second]
            found.setdefault(place, []).append(statistics.median(seconds for seconds, _ in times.values()))
    return [
        LevelPair(of.factors[one][a], of.factors[other][b], statistics.fmean(times), len(times))
        for (a, b), times in sorted(found.items())
    ]

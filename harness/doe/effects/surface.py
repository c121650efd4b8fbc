"""The mean time at the levels of two factors together. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from harness.doe.effects.samples import Studied
from harness.scenario.parameters import ParameterValue


@dataclass(frozen=True)
class Square:
    """One level of each of two factors."""

    one: ParameterValue
    other: ParameterValue
    seconds: float
    """Mean over the cells of their medians."""
    cells: int


def surface(of: Studied, metric: str, one: str, other: str) -> list[Square]:
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
        Square(of.factors[one][a], of.factors[other][b], statistics.fmean(times), len(times))
        for (a, b), times in sorted(found.items())
    ]

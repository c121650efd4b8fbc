"""What a table of several cells amounts to, in sentences: who is best, and how far the others are from it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.evaluation.ranking import Ranked, Ranking
from harness.formatting import counted
from harness.report.layout import number, shown_unit

#: Before the best of a ranking.
BEST = "★"
#: Cells of a ranking that sentences tell of; of more, these and the last.
MOST = 10
#: What a factor is called, by whether more of a metric is better, less, or neither.
_WORDS = {"lower": "more", "higher": "less", "neutral": "more"}
_TIMES = ("s", "ms")
#: Factors below this one are told in per cent; and per cents below which nobody cares.
_PERCENT, _SAME = 1.1, 0.01
#: Paths of a sweep that have a sentence each; of more it is counted who comes first.
MOST_PATHS = 6


def text(ranking: Ranking) -> list[str]:
    """A ranking in lines: one where two cells are compared, else one a cell below a heading."""
    first, *others = _labelled(ranking)
    if not others[1:]:
        where = f" ({ranking.where})" if ranking.where else ""
        return [f"{ranking.name}{where}: {first}; {others[0]}", *_without(ranking)]
    shown = others if len(others) < MOST else [*others[: MOST - 2], others[-1]]
    lines = [_heading(ranking), f"  {first}", *(f"  {other}" for other in shown)]
    if len(shown) < len(others):
        lines.insert(-1, f"  … {counted(len(others) - len(shown), 'cell')} between them (--json has all)")
    return [*lines, *_without(ranking)]


def _heading(ranking: Ranking) -> str:
    where = f", {ranking.where}" if ranking.where else ""
    order = "smallest first" if ranking.better == "neutral" else "best first"
    tested = ""
    if ranking.comparisons:
        several = f", {ranking.comparisons} comparisons with the first (Holm)" if ranking.comparisons > 1 else ""
        tested = f"; by Mann and Whitney's test{several}"
    return f"{ranking.name}{where}: {counted(len(ranking.cells), 'cell')}, {order}{tested}"


def _labelled(ranking: Ranking) -> list[str]:
    """A sentence a cell. What all their labels begin with is said once."""
    common = _common([one.label.split() for one in ranking.cells])
    best, *others = ranking.cells
    mark = "" if ranking.better == "neutral" else f"{BEST} "
    alone = f", n = {best.span.n}" if len({one.span.n for one in ranking.cells}) > 1 else ""
    lines = [f"{mark}{best.label}: {_figure(best, ranking.unit)}{alone}"]
    for one in others:
        label = " ".join(one.label.split()[len(common) :]) or one.label
        lines.append(f"{label}: {_figure(one, ranking.unit)}, {distance(one, ranking)}")
    return lines


def _common(labels: Sequence[Sequence[str]]) -> Sequence[str]:
    """The words that all labels begin with."""
    count = next((at for at, words in enumerate(zip(*labels, strict=False)) if len(set(words)) > 1), 0)
    return labels[0][:count]


def _figure(one: Ranked, unit: str) -> str:
    """Median and interval, and how many runs did not finish."""
    suffix = f" {shown_unit(unit)}" if shown_unit(unit) else ""
    found = f"{number(one.span.median)}{suffix if math.isfinite(one.span.median) else ''}"
    if one.span.n > 1 and math.isfinite(one.span.low):
        found += f" [{number(one.span.low)}, {number(one.span.high)}]"
    return found + (f", {one.unfinished} of {len(one.values)} {one.how}" if one.unfinished else "")


def distance(one: Ranked, ranking: Ranking) -> str:
    """How far a cell is from the best, and whether that shows."""
    beside = one.beside
    assert beside is not None, "the best is not beside itself"
    n, base = one.span.n, ranking.cells[0].span.n
    runs = f"n = {n}" if n == base else f"n = {n} beside {base}"
    if beside.constant:
        same = "the same" if beside.factor == 1 else _factor(one, ranking, interval=False)
        return f"{same} ({runs}, each the same in every repetition)"
    if one.p is None or beside.p is None:
        return f"{_factor(one, ranking, interval=False)} ({runs}: nothing can be tested)"
    if one.differs:
        return f"{_factor(one, ranking, interval=True)} ({_shown(one.p)}, {runs})"
    if beside.p <= beside.least * (1 + 1e-9):
        few = f"{runs}: too few to show a difference, {ranking.needed} of each could"
        return f"{_factor(one, ranking, interval=True)} in all runs ({few})"
    return f"no difference shown ({_shown(one.p)}, {runs})"


def _factor(one: Ranked, ranking: Ranking, *, interval: bool) -> str:
    """'12.6 times slower [10.4, 13.9]', '2.3 % less [1.1, 3.6]'; without a number where there is none."""
    assert one.beside is not None
    word = "slower" if ranking.unit in _TIMES and ranking.better == "lower" else _WORDS[ranking.better]
    factor, low, high = one.beside.factor, one.beside.low, one.beside.high
    if factor is None:
        return word
    less = ranking.better == "higher"
    if less:
        factor, low, high = 1 / factor, *(math.inf if end <= 0 else 1 / end for end in (high, low))
    if factor < _PERCENT:
        amounts = [100 * (1 - 1 / end if less and end else end - 1) for end in (factor, low, high)]
        middle, *ends = ("∞" if math.isinf(amount) else f"{amount:.2g}" for amount in amounts)
        around = f" [{', '.join(ends)}]" if interval else ""
        return f"{middle} % {word}{around}" if abs(amounts[0]) >= _SAME else "the same to a part in ten thousand"
    around = f" [{_times(low)}, {_times(high)}]" if interval else ""
    return f"{_times(factor)} times {word}{around}"


def _times(factor: float) -> str:
    return "∞" if math.isinf(factor) else f"{factor:.3g}" if factor < 1000 else f"{factor:,.0f}"


def _shown(p: float) -> str:
    """A probability: by the steps that people know where it shows a difference."""
    for step in (0.001, 0.01, 0.05):
        if p < step:
            return f"p < {step:g}"
    return f"p = {p:.1g}"


def _without(ranking: Ranking) -> list[str]:
    return [f"  without {ranking.name}: {', '.join(ranking.without)}"] if ranking.without else []


def report(ranking: Ranking) -> dict[str, Any]:
    """The same as plain data. What is infinite is a word, as in the store's files."""
    return {
        "scenario": ranking.scenario.name,
        "engine": ranking.engine,
        "metric": ranking.name,
        "unit": ranking.unit,
        "better": ranking.better,
        "where": ranking.where,
        "cells": [_cell(one) for one in ranking.cells],
        "without": list(ranking.without),
        "text": text(ranking),
    }


def _cell(one: Ranked) -> dict[str, Any]:
    beside = one.beside
    content: dict[str, Any] = {
        "key": one.result.cell.key, "label": one.label, "timed_out": one.unfinished,
        "interval": json.loads(one.span.model_dump_json()), "factor": None, "p": None, "differs": one.differs,
    }  # fmt: skip
    if beside is not None:
        content["factor"] = {
            "median": beside.factor, "low": plain(beside.low), "high": plain(beside.high),
            "coverage": beside.coverage,
        }  # fmt: skip
        content["p"] = {"alone": beside.p, "adjusted": one.p}
    return content


def plain(value: float) -> float | str:
    """A number for JSON, which has none for infinity."""
    return value if math.isfinite(value) else str(value).replace("inf", "Infinity")


def lines(found: Sequence[Ranking]) -> list[str]:
    """Several rankings below each other; of very many paths how often each contestant comes first."""
    made: list[str] = []
    for name in dict.fromkeys(ranking.name for ranking in found):
        alike = [ranking for ranking in found if ranking.name == name]
        if len(alike) <= MOST_PATHS:
            made += [line for ranking in alike for line in text(ranking)]
        else:
            made.append(_counted(alike))
    return made


def _counted(found: Sequence[Ranking]) -> str:
    """Who comes first on how many paths, and of how many the distance from the best shows."""
    firsts = Counter(ranking.cells[0].label for ranking in found)
    parts = ", ".join(
        f"{label} on {count}" for label, count in sorted(firsts.items(), key=lambda one: (-one[1], one[0]))
    )
    shown = sum(one.differs for ranking in found for one in ranking.cells[1:])
    others = sum(len(ranking.cells) - 1 for ranking in found)
    tests = f"{shown} of {others} distances from the best shown (Mann and Whitney, Holm on each path)"
    untested = all(one.p is None for ranking in found for one in ranking.cells[1:])
    said = "none can be tested" if untested and not shown else tests
    return f"{found[0].name} on {len(found)} paths: first is {parts}; {said}; --json has each"

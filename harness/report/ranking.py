"""Rankings of cells in sentences: which cell is best, and how far the others are from it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from harness.evaluation.ranking import RankedCell, Ranking
from harness.formatting import format_count, name_first
from harness.report.document import Block, BulletList, Paragraph
from harness.report.numbers import json_number, number_text, unit_text

#: Mark before the best cell of a ranking.
BEST_MARK = "★"
#: Sentences describe this many cells of a ranking. In a longer one the last cell is among them.
MAX_CELLS = 10
#: Word for a factor, by the direction in which a metric is better.
_WORDS = {"lower": "more", "higher": "less", "neutral": "more"}
_TIMES = ("s", "ms")
#: Factors below the first appear in per cent. Per cents below the second count as no difference.
_PERCENT_BELOW, _MIN_PERCENT = 1.1, 0.01
#: A line names this many cells that lack a metric, and the number of the others. The data name all of them.
_NAMED = 3
#: This many paths of a sweep have a sentence each. With more, a count says which cells come first.
MAX_PATHS = 6


def ranking_text(ranking: Ranking) -> list[str]:
    """A ranking in lines: one where two cells are compared, else one a cell below a heading."""
    first, *runners_up = _cell_lines(ranking)
    if not runners_up[1:]:
        scope = f" ({ranking.path_label})" if ranking.path_label else ""
        return [f"{ranking.name}{scope}: {first}; {runners_up[0]}", *_missing_lines(ranking)]
    rows = list(zip(ranking.cells[1:], runners_up, strict=True))
    shown = rows if len(rows) < MAX_CELLS else [*rows[: MAX_CELLS - 2], rows[-1]]
    lines = [_heading(ranking), f"  {first}", *(f"  {label}" for _, label in shown)]
    if len(shown) < len(runners_up):
        lines.insert(-1, f"  … {format_count(len(runners_up) - len(shown), 'cell')} between them (--json has all)")
    if any(_is_too_few(cell) for cell, _ in shown):
        lines.append(f"  too few: {ranking.runs_needed} runs of each cell could show a difference")
    return [*lines, *_missing_lines(ranking)]


def _heading(ranking: Ranking) -> str:
    scope = f", {ranking.path_label}" if ranking.path_label else ""
    order = "smallest first" if ranking.better == "neutral" else "best first"
    tested = ""
    if ranking.comparisons:
        several = f", {ranking.comparisons} comparisons with the first (Holm)" if ranking.comparisons > 1 else ""
        tested = f"; by Mann and Whitney's test{several}"
    return f"{ranking.name}{scope}: {format_count(len(ranking.cells), 'cell')}, {order}{tested}"


def _cell_lines(ranking: Ranking) -> list[str]:
    """A sentence per cell. The common beginning of all labels appears once."""
    common = _common_words([cell.label.split() for cell in ranking.cells])
    best, *runners_up = ranking.cells
    mark = f"{BEST_MARK} " if ranking.has_clear_best else ""
    runs = f", n = {best.span.n}" if len({cell.span.n for cell in ranking.cells}) > 1 else ""
    lines = [f"{mark}{best.label}: {_figure(best, ranking.unit)}{runs}"]
    for cell in runners_up:
        label = " ".join(cell.label.split()[len(common) :]) or cell.label
        lines.append(f"{label}: {_figure(cell, ranking.unit)}, {_distance(cell, ranking)}")
    return lines


def _common_words(labels: Sequence[Sequence[str]]) -> Sequence[str]:
    """The words that all labels begin with."""
    count = next((index for index, words in enumerate(zip(*labels, strict=False)) if len(set(words)) > 1), 0)
    return labels[0][:count]


def _figure(cell: RankedCell, unit: str) -> str:
    """Median and interval, and how many runs did not finish."""
    suffix = f" {unit_text(unit)}" if unit_text(unit) else ""
    figure = f"{number_text(cell.span.median)}{suffix if math.isfinite(cell.span.median) else ''}"
    if cell.span.n > 1 and math.isfinite(cell.span.low):
        figure += f" [{number_text(cell.span.low)}, {number_text(cell.span.high)}]"
    return figure + (f", {cell.unfinished} of {len(cell.values)} {cell.ending}" if cell.unfinished else "")


def _is_too_few(cell: RankedCell) -> bool:
    """Whether all runs of a cell are on one side of the best's, and there are too few of them to show a difference."""
    beside = cell.comparison
    if beside is None or beside.constant or beside.p is None or cell.p is None or cell.differs:
        return False
    return beside.p <= beside.minimum_p * (1 + 1e-9)


def _distance(cell: RankedCell, ranking: Ranking) -> str:
    """Distance of a cell from the best, and whether it is significant. Below many cells a line says what would do."""
    beside = cell.comparison
    assert beside is not None, "the best is not beside itself"
    n, base = cell.span.n, ranking.cells[0].span.n
    runs = f"n = {n}" if n == base else f"n = {n} beside {base}"
    if beside.constant:
        extent = "the same" if beside.factor == 1 else _factor(cell, ranking, interval=False)
        return f"{extent} ({runs}, each the same in every repetition)"
    if cell.p is None or beside.p is None:
        return f"{_factor(cell, ranking, interval=False)} ({runs}: nothing can be tested)"
    if cell.differs:
        return f"{_factor(cell, ranking, interval=True)} ({_p_text(cell.p)}, {runs})"
    if _is_too_few(cell):
        remedy = "" if ranking.cells[2:] else f" to show a difference, {ranking.runs_needed} of each could"
        return f"{_factor(cell, ranking, interval=True)} in all runs ({runs}: too few{remedy})"
    return f"no difference shown ({_p_text(cell.p)}, {runs})"


def _factor(cell: RankedCell, ranking: Ranking, *, interval: bool) -> str:
    """'12.6 times slower [10.4, 13.9]', '2.3 % less [1.1, 3.6]'; without a number where there is none."""
    assert cell.comparison is not None
    word = "slower" if ranking.unit in _TIMES and ranking.better == "lower" else _WORDS[ranking.better]
    factor, low, high = cell.comparison.factor, cell.comparison.low, cell.comparison.high
    if factor is None:
        return word
    inverted = ranking.better == "higher"
    if inverted:
        factor, low, high = 1 / factor, *(math.inf if bound <= 0 else 1 / bound for bound in (high, low))
    if factor < _PERCENT_BELOW:
        amounts = [100 * (1 - 1 / bound if inverted and bound else bound - 1) for bound in (factor, low, high)]
        middle, *bounds = ("∞" if math.isinf(amount) else f"{amount:.2g}" for amount in amounts)
        interval_text = f" [{', '.join(bounds)}]" if interval else ""
        return (
            f"{middle} % {word}{interval_text}"
            if abs(amounts[0]) >= _MIN_PERCENT
            else "the same to a part in ten thousand"
        )
    interval_text = f" [{_times(low)}, {_times(high)}]" if interval else ""
    return f"{_times(factor)} times {word}{interval_text}"


def _times(factor: float) -> str:
    return "∞" if math.isinf(factor) else f"{factor:.3g}" if factor < 1000 else f"{factor:,.0f}"


def _p_text(p: float) -> str:
    """A p-value: below 0.05 by the usual steps."""
    for step in (0.001, 0.01, 0.05):
        if p < step:
            return f"p < {step:g}"
    return f"p = {p:.1g}"


def _missing_lines(ranking: Ranking) -> list[str]:
    return [f"  without {ranking.name}: {name_first(ranking.unranked, _NAMED)}"] if ranking.unranked else []


def ranking_data(ranking: Ranking) -> dict[str, Any]:
    """A ranking as data. Infinity is a word, as in the store's files."""
    return {
        "scenario": ranking.scenario.name,
        "engine": ranking.engine,
        "metric": ranking.name,
        "unit": ranking.unit,
        "better": ranking.better,
        "where": ranking.path_label,
        "cells": [_cell(cell) for cell in ranking.cells],
        "without": list(ranking.unranked),
        "text": ranking_text(ranking),
    }


def _cell(cell: RankedCell) -> dict[str, Any]:
    beside = cell.comparison
    content: dict[str, Any] = {
        "key": cell.result.cell.key,
        "label": cell.label,
        "timed_out": cell.unfinished,
        "interval": json.loads(cell.span.model_dump_json()),
        "factor": None,
        "p": None,
        "differs": cell.differs,
    }
    if beside is not None:
        content["factor"] = {
            "median": beside.factor,
            "low": json_number(beside.low),
            "high": json_number(beside.high),
            "coverage": beside.coverage,
        }
        content["p"] = {"alone": beside.p, "adjusted": cell.p}
    return content


def ranking_blocks(rankings: Sequence[Ranking]) -> list[Block]:
    """Several rankings: paragraphs, and lists below those of more than two cells."""
    blocks: list[Block] = []
    for is_item, group in groupby(ranking_lines(rankings), key=lambda line: line.startswith(" ")):
        lines = [line.strip() for line in group]
        blocks += [BulletList(lines)] if is_item else map(Paragraph, lines)
    return blocks


def ranking_lines(rankings: Sequence[Ranking]) -> list[str]:
    """Several rankings, one after the other. With many paths: how often each cell comes first."""
    texts: list[str] = []
    for name in dict.fromkeys(ranking.name for ranking in rankings):
        same_metric = [ranking for ranking in rankings if ranking.name == name]
        if len(same_metric) <= MAX_PATHS:
            texts += [line for ranking in same_metric for line in ranking_text(ranking)]
        else:
            texts += _firsts_lines(same_metric)
    return texts


def _firsts_lines(rankings: Sequence[Ranking]) -> list[str]:
    """How often each cell comes first, and how many distances from the best are significant."""
    firsts = Counter(ranking.cells[0].label for ranking in rankings)
    ordered = sorted(firsts.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = sum(cell.differs for ranking in rankings for cell in ranking.cells[1:])
    distances = sum(len(ranking.cells) - 1 for ranking in rankings)
    tests = f"{shown} of {distances} distances from the best are shown (Mann and Whitney, Holm on each path)"
    untested = all(cell.p is None for ranking in rankings for cell in ranking.cells[1:])
    return [
        f"{rankings[0].name} on {len(rankings)} paths (--json has each): which cell is first",
        *(f"  {label} on {format_count(count, 'path')}" for label, count in ordered),
        f"  {'no distance from the best can be tested' if untested and not shown else tests}",
    ]

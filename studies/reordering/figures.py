"""Two figures of stored runs: packets that stacks take for lost though they come, and what reordering costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from studies.charts import Axis, Mark, draw_rows
from studies.reordering.claims import CASES, Case
from studies.reordering.compared import Stack, stacks


def spurious_counts(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each stack's spurious losses by kind of reordering (packets); None without runs."""
    # Logarithms have no place for none.
    scale = alt.Scale(type="symlog", constant=1, domainMin=0)
    ticks = alt.Axis(values=[0, 1, 10, 100, 1000, 10_000, 100_000], grid=True)
    axis = Axis("packets of a download of 20 MB", scale, ticks)
    return _dots(results, Stack.spurious, axis, "Packets taken for lost that came")


def slowdowns(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of how many times as long each stack's download takes as in order; None without runs."""
    scale = alt.Scale(type="log", domainMin=0.9, nice=False)
    ticks = alt.Axis(values=[1, 1.5, 2, 3, 5, 7, 10, 15, 20], format="~g", grid=True)
    return _dots(results, Stack.slowdown, Axis("times as long as in order", scale, ticks), "What reordering costs")


def _dots(
    results: Sequence[CellResult], value: Callable[[Stack, Case], Interval | None], axis: Axis, title: str
) -> dict[str, Any] | None:
    """A row per stack, the worst at the top, with a symbol per kind of reordering."""
    by_stack = {
        stack.title: [Mark(stack.title, case.title, span) for case in CASES if (span := value(stack, case)) is not None]
        for stack in stacks(results)
    }
    rows = sorted(filter(None, by_stack.values()), key=lambda marks: -max(mark.span.median for mark in marks))
    titles = [case.title for case in CASES]
    notes = ["each stack with itself, medians and intervals"]
    return draw_rows([mark for marks in rows for mark in marks], axis, title, notes, titles)

"""The page of published figures and ours."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from harness.report.studies import measured_cells
from harness.stats.intervals import interval
from studies import FIGURE, findings
from studies.charts import Axis, Mark, draw_rows
from studies.published.claims import FIGURES, GRID, NOT_COMPARED, Published
from studies.published.compared import ours

#: Ratios of ours to theirs that are called equal: a repetition differs by as much.
CLOSE = 0.05
#: The queues of the columns of the grid.
QUEUES = ("25 packets", "125 packets")
_HEAD = ("source", "path", "figure", "theirs", "ours", "ratio", "why they differ")


def published(results: Sequence[CellResult]) -> str:
    """The page."""
    lines = [
        "# Beside published results",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *findings(_sentences(results)),
        FIGURE,
        "",
        "What others measured, and what this lab does on a path like theirs. Ours are medians, with intervals where",
        f"chance plays. *Ratio* is ours to theirs. No reason is given where a measurement is within {CLOSE:.0%},",
        "or where theirs is a bound that holds. †: an abstract or an excerpt states the figure; the source was not",
        "read.",
        "",
        table_row(_HEAD),
        table_row(["---", "---", "---", "---", "---", "---:", "---"]),
        *(table_row(_row(results, figure)) for figure in FIGURES),
        "",
        "Not compared:",
        "",
        *(f"* {source}: {why}." for source, why in NOT_COMPARED),
        "",
        *_grid(results),
    ]
    return "\n".join(lines)


def _sentences(results: Sequence[CellResult]) -> Iterator[str]:
    """How many figures agree, and which differ most."""
    stored, compared = [figure for figure in FIGURES if ours(results, figure.key) is not None], _compared(results)
    if not compared:
        return
    bounds = [(ratio, figure) for ratio, figure in compared if figure.is_bound]
    measured = [(ratio, figure) for ratio, figure in compared if not figure.is_bound]
    if measured:
        agreeing = sum(_agrees(results, ratio, figure) for ratio, figure in measured)
        yield f"{agreeing} of {len(measured)} measured figures are within {CLOSE:.0%} of ours."
        near = sum(abs(math.log(ratio)) <= math.log(2) for ratio, _ in measured)
        ratio, figure = max(measured, key=lambda pair: abs(math.log(pair[0])))
        yield f"{near} are within a factor of two. Ours differs most from {figure.source}: × {number_text(ratio)}."
    if bounds:
        missed = [ratio for ratio, figure in bounds if not _agrees(results, ratio, figure)]
        near = sum(ratio <= 1 + CLOSE for ratio in missed)
        within = f"; {near} of the others {'is' if near == 1 else 'are'} missed by {CLOSE:.0%} at most" if near else ""
        yield f"{len(bounds) - len(missed)} of {format_count(len(bounds), 'bound')} hold as they stand{within}."
    yield (
        f"{len(stored) - len(compared)} more figures have no ratio, {len(FIGURES) - len(stored)} have no runs yet, and "
        f"{len(NOT_COMPARED)} sources are not compared."
    )


def _compared(results: Sequence[CellResult]) -> list[tuple[float, Published]]:
    """The ratio of ours to each published figure that has one."""
    return [
        (own.value / figure.value, figure)
        for figure in FIGURES
        if figure.value is not None and (own := ours(results, figure.key)) is not None and own.value is not None
    ]


def ratios(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the ratios of ours to the published figures; None without runs."""
    compared = _compared(results)
    names = Counter(figure.figure for _, figure in compared)
    marks = [
        Mark(
            figure.figure if names[figure.figure] == 1 else f"{figure.figure}, {figure.path}",
            "a bound" if figure.is_bound else "a measurement",
            interval([ratio]),
        )
        for ratio, figure in compared
    ]
    axis = Axis("ours per theirs", alt.Scale(type="log", nice=False, padding=12), reference=1)
    return draw_rows(marks, axis, "Ours beside published figures", ["dashed: they are equal"])


def _agrees(results: Sequence[CellResult], ratio: float, figure: Published) -> bool:
    """Whether ours is near a measurement, or the whole interval of ours within a bound, as [their page](picoquic.md)
    has it.
    """
    if not figure.is_bound:
        return abs(ratio - 1) <= CLOSE
    own = ours(results, figure.key)
    return own is not None and own.high is not None and figure.value is not None and own.high <= figure.value


def _row(results: Sequence[CellResult], figure: Published) -> list[str]:
    row = [figure.source + (" †" if figure.read == "abstract" else ""), figure.path, figure.figure, figure.theirs]
    own = ours(results, figure.key)
    if own is None:
        return [*row, f"no run yet: `harness run {figure.command} --engine virtual`", "–", "–"]
    if own.value is None or figure.value is None:
        return [*row, own.text, "–", figure.why or "–"]
    ratio = own.value / figure.value
    return [*row, own.text, number_text(ratio), "–" if _agrees(results, ratio, figure) else figure.why]


def _grid(results: Sequence[CellResult]) -> Iterator[str]:
    """The time of every stored pair in FAU's cases, by the queue."""
    times: dict[str, dict[str, Interval]] = {}
    for column, scenario in GRID.items():
        for result in measured_cells(results, scenario):
            cell = result.cell
            span = result.interval("completion", 0, "first")
            if cell.virtual_time and not cell.parameters and span is not None:
                times.setdefault(f"{cell.client.name} → {cell.server.name}", {})[column] = span
    if not times:
        return
    yield "## FAU's satellite cases, pair by pair"
    yield ""
    yield "Seconds for 10 MiB over 20/2 Mbit/s and 600 ms, SATL with 1 % loss each way. The paper states a queue of 25"
    yield "packets. In their simulator another one of 100 stands above it: their buffer is up to 125 packets, which was"
    yield "read from its code and not measured. *Never*: not within 120 s, with loss 360 s. –: not stored."
    yield ""
    yield table_row(["client → server", *GRID])
    yield table_row(["---", *["---:"] * len(GRID)])
    for pair, row in sorted(times.items()):
        yield table_row([pair, *(span_text(row.get(column)) for column in GRID)])
    yield ""
    for queue in QUEUES:
        yield from _cost_of_loss(times, queue)


def _cost_of_loss(times: Mapping[str, Mapping[str, Interval]], queue: str) -> Iterator[str]:
    """How many times as long the pairs of one queue take with loss, in the middle and at the ends."""
    without, lossy = f"SAT, {queue}", f"SATL, {queue}"
    ratios = {
        pair: row[lossy].median / row[without].median
        for pair, row in times.items()
        if {without, lossy} <= row.keys() and math.isfinite(row[without].median)
    }
    if len(ratios) > 1:
        least = min(ratios, key=lambda pair: ratios[pair])
        never = sum(map(math.isinf, ratios.values()))
        middle = number_text(statistics.median(ratios.values()))
        yield f"Behind {queue} the middle of {len(ratios)} pairs takes {middle} times as long with loss as without;"
        yield f"{least} takes {number_text(ratios[least])} times as long, the least, and {never} never end."
        yield ""

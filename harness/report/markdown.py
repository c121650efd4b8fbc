"""The results table as Markdown, for the README and step summaries."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from harness.analysis.metrics.registry import declared_metrics
from harness.evaluation.cell_result import CellResult
from harness.evaluation.ranking import rank_cells
from harness.evaluation.staleness import MARK, outdated_note
from harness.evaluation.staleness import row_text as marked_old
from harness.formatting import escape_html, escape_stored
from harness.outcome import FAILED_TRANSFER
from harness.report import effort_summary, group_by_scenario, total_effort
from harness.report.chosen import columns, flow_columns, ranking_metrics, shows_goodput
from harness.report.layout import rate_text
from harness.report.layout import span_text as figure
from harness.report.parameters import RequestedParameters, requested_parameters
from harness.report.ranking import lines as sentences
from harness.report.resumed import add_mark, footnotes, seed_of
from harness.report.table import SYMBOLS, interval_text, parameter_entries, reference_lines
from harness.scenario.metric_names import MetricName
from harness.topology import flow_label


def table_row(cells: Sequence[str]) -> str:
    """One row of a table. Line ends in cells become spaces; HTML that no report writes is shown as text."""
    return "| " + " | ".join(escape_html(cell).replace("\n", " ") for cell in cells) + " |"


def scenario_markdown(results: Sequence[CellResult], requested: Sequence[MetricName] = ()) -> str:
    """One scenario's table, with its reference lines, notes and rankings."""
    scenario = results[0].cell.scenario
    headed, goodput = columns(scenario, requested), shows_goodput(scenario, requested)
    parameters = requested_parameters([result.cell for result in results])
    seconds = ", seconds" if scenario.milestones_within() and not requested else ""
    lines = [
        f"**{escape_stored(scenario.title)}** (`{scenario.name}`, engine {results[0].cell.engine}{parameters.suffix}, "
        f"median [interval] of n runs{seconds}; {effort_summary(results)})",
        "",
        table_row(
            [
                *(f"`{name}`" for name in parameters.varied),
                *("client → server", "verdict", "n"),
                *(heading.removesuffix(" s") if seconds else heading for _, heading in headed),
                *([declared_metrics()["goodput"].unit] if goodput else []),
            ]
        ),
        table_row([*["---:"] * len(parameters.varied), "---", "---", *["---:"] * (len(headed) + 1 + goodput)]),
    ]
    lines += [_row(result, parameters, [name for name, _ in headed], requested) for result in results]
    for reference in reference_lines([result.cell for result in results], [name for name, _ in headed]):
        values, name = reference.placed(parameters.varied)
        shown = [text.removeprefix("≤ ") for text in reference.texts]
        cells = [*values, f"*{name}*", "", "", *shown, *([""] if goodput else [])]
        lines += [table_row(cells)] if any(reference.texts) or not requested else []
    lines += _flows(results, parameters, requested)
    shortfalls = [
        escape_stored(f"{result.name}: {result.shortfall}.")
        for result in results
        if FAILED_TRANSFER & result.outcomes.keys()
    ]
    for text in (*shortfalls, *footnotes(results), outdated_note(results)):
        lines += ["", text] if text else []
    ranking_lines = [
        ("- " if sentence.startswith(" ") else "") + sentence.strip()
        for sentence in sentences(rank_cells(results, ranking_metrics(scenario, requested)))
    ]
    for previous, sentence in itertools.pairwise(["", *ranking_lines]):
        # Paragraphs, and lists below them.
        lines += [sentence] if sentence.startswith("- ") and previous.startswith("- ") else ["", sentence]
    return "\n".join(lines) + "\n"


def _row(
    result: CellResult, parameters: RequestedParameters, metrics: Sequence[MetricName], requested: Sequence[MetricName]
) -> str:
    symbol, _ = SYMBOLS[result.verdict.status]
    seed, format_span = seed_of(result.cell), figure if requested else interval_text
    completed = str(result.outcomes.get("completed", 0))
    cells = [
        *parameter_entries(result, parameters),
        marked_old(f"{result.cell.client.name} → {result.cell.server.name}", result),
        f"{symbol} {result.verdict.status}",
        completed if completed == str(len(result.runs)) else f"{completed}/{len(result.runs)}",
        *(add_mark(format_span(result.interval(*name)), name, seed) for name in metrics),
    ]
    if shows_goodput(result.cell.scenario, requested):
        goodput = result.interval("goodput", 0, "first")
        cells.append("–" if goodput is None else rate_text(goodput.median))
    return table_row(cells)


def _flows(
    results: Sequence[CellResult], parameters: RequestedParameters, requested: Sequence[MetricName]
) -> list[str]:
    """A row per flow, where the cells' own rows have no room for all of them."""
    headed = flow_columns(results[0].cell.scenario, requested)
    if not headed:
        return []
    heads = [*(f"`{name}`" for name in parameters.varied), "client → server", "flow", *(name for _, name in headed)]
    lines = ["", table_row(heads), table_row([*["---"] * (len(heads) - len(headed)), *["---:"] * len(headed)])]
    for result in results:
        identity = [*parameters.cells(result.cell), f"{result.cell.client.name} → {result.cell.server.name}"]
        for flow in range(len(result.cell.scenario.flows)):
            figures = [figure(result.interval(*name._replace(flow=flow))) for name, _ in headed]
            lines.append(table_row([*identity, f"{flow} {flow_label(result.cell, flow)}", *figures]))
    return lines


def summary(results: Sequence[CellResult]) -> str:
    """A row per scenario and engine: number of cells by verdict, and the time their runs took. Totals follow."""
    groups = group_by_scenario(results)
    lines = [
        table_row(["scenario", "engine", "cells", *SYMBOLS, "runs", "virtual s", "wall s", "times real time", MARK]),
        table_row(["---", "---", *["---:"] * (len(SYMBOLS) + 6)]),
    ]
    for engine in sorted({group[0].cell.engine for group in groups}):
        engine_groups = [group for group in groups if group[0].cell.engine == engine]
        lines += [_summary_row(f"`{group[0].cell.scenario.name}`", engine, group) for group in engine_groups]
        if len(engine_groups) > 1:
            lines.append(_summary_row("*all*", engine, [result for group in engine_groups for result in group]))
    return "\n".join([*lines, *(["", text] if (text := outdated_note(results)) else [])]) + "\n"


def _summary_row(name: str, engine: str, results: Sequence[CellResult]) -> str:
    verdicts: Counter[str] = Counter(result.verdict.status for result in results)
    runs, virtual, wall = total_effort(results)
    speed = f"{virtual / wall:.1f}" if virtual and wall else "–"
    older = sum(1 for result in results if result.staleness)
    counts = [str(verdicts[status]) if verdicts[status] else "" for status in SYMBOLS]
    return table_row(
        [
            name,
            engine,
            str(len(results)),
            *counts,
            str(runs),
            f"{virtual:,.0f}" if virtual else "–",
            f"{wall:,.0f}",
            speed,
            str(older) if older else "",
        ]
    )


def report(results: Sequence[CellResult], requested: Sequence[MetricName] = ()) -> str:
    """All scenarios, one table each. Requested metrics replace their own."""
    return "\n".join(scenario_markdown(group, requested) for group in group_by_scenario(results))

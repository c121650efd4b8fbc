"""The results table as Markdown, for the README and step summaries."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from harness.analysis.metrics.registry import declared
from harness.evaluation.cell_result import CellResult
from harness.evaluation.ranking import rankings
from harness.evaluation.staleness import MARK, note
from harness.evaluation.staleness import marked as marked_old
from harness.formatting import quoted, without_html
from harness.outcome import FAILED_TRANSFER
from harness.report import by_scenario, effort, effort_of
from harness.report.chosen import columns, compared, flow_columns, shows_goodput
from harness.report.layout import rate
from harness.report.layout import text as figure
from harness.report.parameters import RequestedParameters, asked
from harness.report.ranking import lines as sentences
from harness.report.resumed import footnotes, marked, seed_of
from harness.report.table import SYMBOLS, asked_and_seen, interval_text, reference_lines
from harness.scenario.metric_names import MetricName
from harness.topology import flow_label


def line(cells: Sequence[str]) -> str:
    """One row of a table. Line ends in cells become spaces; HTML that no report writes is shown as text."""
    return "| " + " | ".join(without_html(cell).replace("\n", " ") for cell in cells) + " |"


def scenario_markdown(results: Sequence[CellResult], requested: Sequence[MetricName] = ()) -> str:
    """One scenario's table, with its reference lines, notes and rankings."""
    scenario = results[0].cell.scenario
    headed, goodput = columns(scenario, requested), shows_goodput(scenario, requested)
    parameters = asked([result.cell for result in results])
    seconds = ", seconds" if scenario.milestones_within() and not requested else ""
    lines = [
        f"**{quoted(scenario.title)}** (`{scenario.name}`, engine {results[0].cell.engine}{parameters.suffix}, "
        f"median [interval] of n runs{seconds}; {effort(results)})",
        "",
        line(
            [
                *(f"`{name}`" for name in parameters.varied),
                *("client → server", "verdict", "n"),
                *(heading.removesuffix(" s") if seconds else heading for _, heading in headed),
                *([declared()["goodput"].unit] if goodput else []),
            ]
        ),
        line([*["---:"] * len(parameters.varied), "---", "---", *["---:"] * (len(headed) + 1 + goodput)]),
    ]
    lines += [_row(result, parameters, [name for name, _ in headed], requested) for result in results]
    for reference in reference_lines([result.cell for result in results], [name for name, _ in headed]):
        values, name = reference.placed(parameters.varied)
        shown = [text.removeprefix("≤ ") for text in reference.texts]
        cells = [*values, f"*{name}*", "", "", *shown, *([""] if goodput else [])]
        lines += [line(cells)] if any(reference.texts) or not requested else []
    lines += _flows(results, parameters, requested)
    shortfalls = [
        quoted(f"{result.name}: {result.shortfall}.") for result in results if FAILED_TRANSFER & result.outcomes.keys()
    ]
    for text in (*shortfalls, *footnotes(results), note(results)):
        lines += ["", text] if text else []
    ranking_lines = [
        ("- " if sentence.startswith(" ") else "") + sentence.strip()
        for sentence in sentences(rankings(results, compared(scenario, requested)))
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
        *asked_and_seen(result, parameters),
        marked_old(f"{result.cell.client.name} → {result.cell.server.name}", result),
        f"{symbol} {result.verdict.status}",
        completed if completed == str(len(result.runs)) else f"{completed}/{len(result.runs)}",
        *(marked(format_span(result.interval(*name)), name, seed) for name in metrics),
    ]
    if shows_goodput(result.cell.scenario, requested):
        goodput = result.interval("goodput", 0, "first")
        cells.append("–" if goodput is None else rate(goodput.median))
    return line(cells)


def _flows(
    results: Sequence[CellResult], parameters: RequestedParameters, requested: Sequence[MetricName]
) -> list[str]:
    """A row per flow, where the cells' own rows have no room for all of them."""
    headed = flow_columns(results[0].cell.scenario, requested)
    if not headed:
        return []
    heads = [*(f"`{name}`" for name in parameters.varied), "client → server", "flow", *(name for _, name in headed)]
    lines = ["", line(heads), line([*["---"] * (len(heads) - len(headed)), *["---:"] * len(headed)])]
    for result in results:
        identity = [*parameters.cells(result.cell), f"{result.cell.client.name} → {result.cell.server.name}"]
        for flow in range(len(result.cell.scenario.flows)):
            figures = [figure(result.interval(*name._replace(flow=flow))) for name, _ in headed]
            lines.append(line([*identity, f"{flow} {flow_label(result.cell, flow)}", *figures]))
    return lines


def summary(results: Sequence[CellResult]) -> str:
    """A row per scenario and engine: number of cells by verdict, and the time their runs took. Totals follow."""
    groups = by_scenario(results)
    lines = [
        line(["scenario", "engine", "cells", *SYMBOLS, "runs", "virtual s", "wall s", "times real time", MARK]),
        line(["---", "---", *["---:"] * (len(SYMBOLS) + 6)]),
    ]
    for engine in sorted({group[0].cell.engine for group in groups}):
        engine_groups = [group for group in groups if group[0].cell.engine == engine]
        lines += [_summaryline(f"`{group[0].cell.scenario.name}`", engine, group) for group in engine_groups]
        if len(engine_groups) > 1:
            lines.append(_summaryline("*all*", engine, [result for group in engine_groups for result in group]))
    return "\n".join([*lines, *(["", text] if (text := note(results)) else [])]) + "\n"


def _summaryline(name: str, engine: str, results: Sequence[CellResult]) -> str:
    verdicts: Counter[str] = Counter(result.verdict.status for result in results)
    runs, virtual, wall = effort_of(results)
    speed = f"{virtual / wall:.1f}" if virtual and wall else "–"
    older = sum(1 for result in results if result.older)
    counts = [str(verdicts[status]) if verdicts[status] else "" for status in SYMBOLS]
    return line(
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
    return "\n".join(scenario_markdown(group, requested) for group in by_scenario(results))

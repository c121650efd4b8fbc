"""Verdicts of stored cells: a table per scenario with its reference lines, notes and rankings. And the cells as data.

A verdict has a symbol and a word as well as a colour, never colour alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import groupby
from typing import Any, NamedTuple

from harness.analysis.metric_registry import declared_metrics, unit_of
from harness.derived import once_per_object
from harness.evaluation.cell_result import CellResult, attributions, current_scenario, initial_window_bytes
from harness.evaluation.missing_metrics import run_warnings
from harness.evaluation.ranking import rank_cells
from harness.evaluation.staleness import MARK, outdated_note
from harness.evaluation.staleness import row_text as marked_old
from harness.formatting import format_count
from harness.netem import Timeline, ack_limited_time, ideal_time, slow_start_time
from harness.netem.mobility import flow_timeline
from harness.outcome import FAILED_TRANSFER, Cell, LinkProof, Run
from harness.outcome.deviations import find_deviations
from harness.planning.sweep import full_names
from harness.report import diagnosis
from harness.report.column_selection import MetricColumn, columns, flow_columns, ranking_metrics, shows_goodput
from harness.report.document import (
    SENTENCE_WIDTH,
    Block,
    BulletList,
    Column,
    DeferredBlocks,
    DeferredData,
    Document,
    Paragraph,
    Phrase,
    Row,
    Span,
    Table,
)
from harness.report.numbers import interval_text, json_number, rate_text
from harness.report.numbers import span_text as figure
from harness.report.observed import observed_text
from harness.report.parameters import RequestedParameters, requested_parameters, sort_key
from harness.report.ranking import ranking_blocks, ranking_data
from harness.report.resumption import add_mark, footnotes, seed_of
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Objective, Scenario
from harness.topology import flow_label
from harness.units import Size

#: Schema of the data. From 2 on, cells of scenarios without objectives are `measured`, and there are rankings.
SCHEMA = 2
_ACK_RATIO = "client.ack_ratio"
SYMBOLS = {
    "pass": ("✓", "green"),
    "fail": ("✕", "red"),
    "measured": ("●", "cyan"),
    "inconclusive": ("~", "yellow"),
    "unsupported": ("–", "bright_black"),
    "error": ("!", "magenta"),
}


def verdict_span(status: str) -> Span:
    """Symbol, word and colour of a verdict."""
    symbol, colour = SYMBOLS[status]
    return Span(f"{symbol} {status}", style=colour)


def results_document(
    results: Sequence[CellResult], requested: Sequence[MetricName] = (), *, reasons: bool = True
) -> Document:
    """Verdicts of the cells, all scenarios; and for a terminal a command that runs one of them again.

    `requested`: metrics that replace the scenarios' own, and by which cells are ranked. `reasons`: whether a terminal
    is told below the tables where the time went (`harness.report.closing` says it otherwise).
    """
    data = DeferredData(lambda: _document_data(results, requested))
    return Document(data, DeferredBlocks(lambda: _document_blocks(results, requested, reasons)))


def _document_data(results: Sequence[CellResult], requested: Sequence[MetricName]) -> dict[str, Any]:
    rankings = [
        ranking
        for cells in group_by_scenario(results)
        for ranking in rank_cells(cells, ranking_metrics(current_scenario(cells), requested))
    ]
    return {
        "schema": SCHEMA,
        "cells": [_cell_data(result) for result in results],
        "rankings": [ranking_data(ranking) for ranking in rankings],
    }


def _document_blocks(results: Sequence[CellResult], requested: Sequence[MetricName], reasons: bool) -> list[Block]:
    if not results:
        return [Paragraph("no stored runs match", medium="terminal")]
    return [
        *results_blocks(results, requested, reasons=reasons),
        Paragraph(effort_summary(results), "dim", "terminal"),
        *_example_command(results),
    ]


def _example_command(results: Sequence[CellResult]) -> list[Block]:
    """A command that runs one of the cells again. `--json` and the site have one for each."""
    commands = [(result.name, command) for result in results if (command := result.reproduction)]
    if not commands:
        return []
    name, command = commands[0]
    each = "" if len(commands) == 1 else f" (--json and the site have this line for each of {len(commands)} cells)"
    return [
        Paragraph(f"run {name} again{each}:", "dim", "terminal"),
        BulletList([command], "dim", medium="terminal"),
    ]


def results_blocks(
    results: Sequence[CellResult], requested: Sequence[MetricName] = (), *, reasons: bool = True
) -> list[Block]:
    """The verdicts of all scenarios as part of a page. `reasons`: see `results_document`."""
    groups = group_by_scenario(results)
    return [block for cells in groups for block in scenario_blocks(cells, requested, reasons=reasons)]


def scenario_blocks(
    results: Sequence[CellResult], requested: Sequence[MetricName] = (), *, reasons: bool = True
) -> list[Block]:
    """One scenario's table, with its reference lines, notes and rankings. `reasons`: see `results_document`."""
    flows = flow_table(results, requested)
    rankings = rank_cells(results, ranking_metrics(current_scenario(results), requested))
    return [
        Paragraph(_title(results, requested)),
        scenario_table(results, requested),
        *([flows] if flows is not None else []),
        *_notes(results, reasons),
        *ranking_blocks(rankings),
    ]


def _title(results: Sequence[CellResult], requested: Sequence[MetricName]) -> Phrase:
    scenario, suffix = current_scenario(results), requested_parameters([result.cell for result in results]).suffix
    seconds = ", in seconds" if _in_seconds(scenario, requested) else ""
    settings = f"Every cell has {suffix.removeprefix(', ')}. " if suffix else ""
    effort = f" {text}." if (text := effort_summary(results)) else ""
    return (
        Span(scenario.title, strong=True),
        " (",
        Span(scenario.name, code=True),
        f", engine {results[0].cell.engine}). {settings}Median [interval] of n runs{seconds}.{effort}",
    )


def _in_seconds(scenario: Scenario, requested: Sequence[MetricName]) -> bool:
    """Whether the title says the unit of the columns, and their headings need not."""
    return bool(scenario.milestones_within()) and not requested


def scenario_table(results: Sequence[CellResult], requested: Sequence[MetricName] = ()) -> Table:
    """The table of one scenario's cells, with its own metrics or the requested ones."""
    scenario = current_scenario(results)
    headed = columns(scenario, requested)
    parameters = requested_parameters([result.cell for result in results])
    goodput, seconds = shows_goodput(scenario, requested), _in_seconds(scenario, requested)
    shown_columns = [
        *(Column(Span(name, code=True), identifies=True, right=True) for name in parameters.varied),
        *_PAIR_COLUMNS,
        *([Column("observed", text=SENTENCE_WIDTH // 2, medium="terminal")] if parameters.varied else []),
        Column("verdict"),
        Column("n", right=True),
        *(Column(heading.removesuffix(" s") if seconds else heading, right=True) for _, heading in headed),
        *([Column(declared_metrics()["goodput"].unit, right=True)] if goodput else []),
        Column("reason", text=SENTENCE_WIDTH, medium="terminal"),
    ]
    rows = [_row(result, parameters, headed, requested) for result in results]
    for reference in reference_lines(scenario, [result.cell for result in results], [metric for metric, _ in headed]):
        values, name = reference.placed(parameters.varied)
        texts = [text.removeprefix("≤ ") for text in reference.texts]
        observed = [""] if parameters.varied else []
        named: list[Phrase] = [*values, "", name, Span(name, emphasis=True), *observed, "", ""]
        row = Row([*named, *texts, *([""] if goodput else []), ""], reference=True)
        rows += [row] if any(texts) or not requested else []
    reasons = [""] * len(rows) if requested else [_because(result) for result in results]
    if any(reasons):
        reasons += [""] * (len(rows) - len(reasons))
        shown_columns.append(Column("because", text=SENTENCE_WIDTH, if_fits=True, medium="terminal"))
        rows = [Row([*row.cells, why], row.reference) for row, why in zip(rows, reasons, strict=True)]
    return Table(shown_columns, rows)


#: A page has the pair in one column.
_PAIR_COLUMNS = (
    Column("client", identifies=True, medium="terminal"),
    Column("server", identifies=True, medium="terminal"),
    Column("client → server", medium="markdown"),
)


def _pair_cells(result: CellResult, mark: Callable[[str, CellResult], str]) -> list[str]:
    client, server = result.cell.client.name, result.cell.server.name
    return [client, server, mark(f"{client} → {server}", result)]


def _row(
    result: CellResult, parameters: RequestedParameters, headed: Sequence[MetricColumn], requested: Sequence[MetricName]
) -> Row:
    flows = len(result.cell.scenario.flows)
    missed_metrics = {item.metric for item in result.verdict.objectives if item.verdict == "fail"}
    seed, format_span = seed_of(result.cell), figure if requested else interval_text
    figures: list[Phrase] = [
        Span(
            add_mark(format_span(result.interval(*name)), name, seed),
            style="red" if name.text(flows) in missed_metrics else "",
        )
        for name, _ in headed
    ]
    if shows_goodput(result.cell.scenario, requested):
        goodput = result.interval("goodput", 0, "first")
        figures.append("–" if goodput is None else rate_text(goodput.median))
    completed = result.outcomes.get("completed", 0)
    return Row(
        [
            *parameter_entries(result, parameters),
            *_pair_cells(result, marked_old),
            *([observed_text(result, parameters.varied)] if parameters.varied else []),
            verdict_span(result.verdict.status),
            str(completed) if completed == len(result.runs) else f"{completed}/{len(result.runs)}",
            *figures,
            result.verdict.reason,
        ]
    )


def _because(result: CellResult) -> str:
    """Where the time of the cell's first transfer went, or why it did not finish."""
    transfers = attributions(result)
    return diagnosis.time_text(transfers[0]) if transfers else diagnosis.failure_text(result)


#: The most flows of a cell that have a row each.
_MOST_FLOWS = 50


def flow_table(results: Sequence[CellResult], requested: Sequence[MetricName] = ()) -> Table | None:
    """The flows of one scenario's cells, a row each, of very many the first ones; None where the cells' own rows show
    all of them.
    """
    headed = flow_columns(current_scenario(results), requested)
    if not headed:
        return None
    parameters = requested_parameters([result.cell for result in results])
    shown_columns = [
        *(Column(Span(name, code=True), identifies=True) for name in parameters.varied),
        *_PAIR_COLUMNS,
        Column("flow", identifies=True),
        *(Column(name, right=True) for _, name in headed),
    ]
    rows = [
        Row(
            [
                *parameters.cells(result.cell),
                *_pair_cells(result, lambda pair, _: pair),
                f"{flow} {flow_label(result.cell, flow)}",
                *(figure(result.interval(*name._replace(flow=flow))) for name, _ in headed),
            ]
        )
        for result in results
        for flow in range(min(len(result.cell.scenario.flows), _MOST_FLOWS))
    ]
    return Table(shown_columns, rows)


def _notes(results: Sequence[CellResult], reasons: bool) -> list[Block]:
    """Notes below a table. Those of a terminal say more: a page has other places for it."""
    shortfalls = [
        f"{result.name}: {result.shortfall}." for result in results if FAILED_TRANSFER & result.outcomes.keys()
    ]
    stale = outdated_note(results)
    return [
        *(Paragraph(text, medium="markdown") for text in shortfalls),
        *(Paragraph(text) for text in (*footnotes(results), *([stale] if stale else []))),
        BulletList(_terminal_notes(results, reasons), medium="terminal"),
    ]


def _terminal_notes(results: Sequence[CellResult], reasons: bool) -> list[Phrase]:
    notes: list[Phrase] = []
    if (flows := max((len(result.cell.scenario.flows) for result in results), default=0)) > _MOST_FLOWS:
        notes.append(f"the first {_MOST_FLOWS} of {flows} flows are listed; measured.json of each run has all")
    if reasons and (lines := diagnosis.time_lines(results)):
        notes += ["where the time went:", *(f"  {line}" for line in lines)]
    if reasons and (lines := diagnosis.failure_lines(results)):
        notes += ["what did not finish:", *(f"  {line}" for line in lines)]
    for kept, lost in (("figures", "packet, qlog or log"), ("captures", "qlog")):
        if count := sum(run.evidence == kept for result in results for run, _ in result.runs):
            notes.append(
                f"{format_count(count, 'run')}: {kept} alone were kept, so no {lost} can be shown; "
                "'harness run --evidence full' makes them again"
            )
    if single_run := sum(_rests_on_one_run(result) for result in results):
        note = (
            f"{format_count(single_run, 'verdict')} of {len(results)} on n = 1: one run decides, with no "
            "interval around it"
        )
        notes.append(f"{note} (--repeat auto goes on until intervals decide)")
    for result in results:
        name = result.name
        if result.shortfall and result.verdict.status not in ("unsupported", "error"):
            notes.append(f"{name}: {result.shortfall}")
        complete = result.verdict.status == "measured" and set(result.outcomes) == {"completed"}
        if result.verdict.status not in ("pass", "fail") and not complete:
            notes.append(f"{name}: {result.verdict.sentence}")
            last = result.last
            if last is not None and result.verdict.status == "error":
                notes += [Span(f"    | {line}", style="dim") for line in last[0].outcome.log_tail[-6:]]
    return notes + [Span(line, style="yellow") for line in _warning_lines(results)]


def _warning_lines(results: Sequence[CellResult]) -> list[str]:
    """The warnings about runs, each once, with the cells that it is about."""
    cells_by_warning: dict[str, list[str]] = {}
    for result in results:
        # `report metrics` says why metrics of flows are absent.
        for text in run_warnings(result.runs, flows_too=False):
            cells_by_warning.setdefault(text, []).append(result.name)
    lines = []
    for text, names in cells_by_warning.items():
        scope = names[0]
        if len(names) > 1:
            scope = f"all {len(results)} cells" if len(names) == len(results) else ", ".join(names)
        lines.append(f"{scope}: warning: {text}")
    return lines


def _rests_on_one_run(result: CellResult) -> bool:
    """Whether one run made a cell pass or fail."""
    run_counts = [objective.observed.n for objective in result.verdict.objectives if objective.observed is not None]
    return result.verdict.status in ("pass", "fail") and max(run_counts, default=0) == 1


# --- What the rows of a table are compared with.


def _objective_text(objectives: Sequence[Objective], metric: str) -> str:
    objective = next((item for item in objectives if item.metric == metric), None)
    if objective is None and "milestone" not in metric and "completion" not in metric:
        return ""
    return "open" if objective is None else f"{'≤' if objective.at_most is not None else '≥'} {objective.bound:g}"


def _demand(scenario: Scenario, metric: str) -> str:
    """The objective on a metric. The milestone of the whole file is the completion."""
    flow = scenario.flows[0]
    text = _objective_text(scenario.objectives, metric)
    whole = flow.carried is not None and metric == f"milestone_{flow.carried.label()}"
    return _objective_text(scenario.objectives, "completion") if whole and text == "open" else text


class ReferenceLine(NamedTuple):
    """A reference with which the rows of a table are compared."""

    name: str
    parameters: Mapping[str, str]
    """Parameters, with their values, that tell the cells it is for from the others of the table."""
    texts: list[str]
    """One per metric."""

    def placed(self, varied: Sequence[str]) -> tuple[list[str], str]:
        """Return (entries for the columns of varied parameters, name with the other parameters)."""
        suffix = "".join(f", {name} {value}" for name, value in self.parameters.items() if name not in varied)
        return [self.parameters.get(name, "") for name in varied], self.name + suffix


def reference_lines(scenario: Scenario, cells: Sequence[Cell], requested: Sequence[MetricName]) -> list[ReferenceLine]:
    """Reference lines: what is demanded, what textbook slow start reaches, what the line rate allows.

    `scenario`: whose objectives and milestones they are. Slow start begins with the requested initial window. Where
    the cells of a table differ in what the lines depend on, each kind of cell has lines of its own.
    """
    metrics = [name.text(len(scenario.flows)) for name in requested]
    sizes = {f"milestone_{size.label()}": size for size in scenario.milestones}
    lines = [ReferenceLine("objective", {}, [_demand(scenario, metric) for metric in metrics])]
    # Most cells of a table share a scenario, and have one of a few windows.
    course_of, window_of = once_per_object(flow_timeline), once_per_object(initial_window_bytes)

    @once_per_object
    def slow_start(scenario: Scenario) -> Callable[[Size, int], float]:
        return cache(partial(slow_start_time, course_of(scenario)))

    models: list[tuple[str, Callable[[Cell, Size], float]]] = [
        ("textbook slow start", lambda cell, size: slow_start(cell.scenario)(size, window_of(cell))),
        ("ideal", lambda cell, size: ideal_time(course_of(cell.scenario), size)),
    ]
    if not any(metric in sizes for metric in metrics):
        return lines
    if any(_ACK_RATIO in cell.parameters for cell in cells):
        models.append(
            ("return path full of such ACKs", lambda cell, size: _ack_limited(cell, course_of(cell.scenario), size))
        )
    for name, model in models:
        kinds: dict[tuple[str, ...], list[Cell]] = {}
        for cell in cells:
            times = tuple(f"{model(cell, sizes[metric]):.2f}" if metric in sizes else "" for metric in metrics)
            kinds.setdefault(times, []).append(cell)
        for times, group in kinds.items():
            parameters = {} if len(kinds) == 1 else _distinguishing(group, cells)
            lines.append(ReferenceLine(name, parameters, list(times)))
    return lines


def parameter_entries(result: CellResult, parameters: RequestedParameters) -> list[str]:
    """The requested parameters of a cell per column, with the value that its last run shows where it differs."""
    last = result.last
    departed_values = (
        {}
        if last is None
        else {departure.name: departure.seen.value for departure in find_deviations(last[0], last[1])}
    )
    entries = []
    for name, text in zip(parameters.varied, parameters.cells(result.cell), strict=True):
        value = next((departed_values[full] for full in full_names(name) if full in departed_values), None)
        observed = "" if value is None else f" (seen {value if isinstance(value, str) else f'{value:.3g}'})"
        entries.append(text + observed)
    return entries


def _ack_limited(cell: Cell, course: Timeline, size: Size) -> float:
    """The time that acknowledgements take, s, with the requested ratio, else RFC 9000's two (§13.2.2)."""
    ratio = float(cell.parameters.get(_ACK_RATIO, 2))
    path = cell.scenario.path.mirrored if cell.scenario.flows[0].sender == "client" else cell.scenario.path
    return ack_limited_time(path, course, size, ratio)


def _distinguishing(group: Sequence[Cell], cells: Sequence[Cell]) -> dict[str, str]:
    """Parameters that distinguish a group of cells from the others of the table."""
    shared = requested_parameters(cells).shared
    return {name: str(value) for name, value in requested_parameters(group).shared.items() if name not in shared}


# --- Cells by their tables, and the time that their runs took.


def group_by_scenario(results: Sequence[CellResult]) -> list[list[CellResult]]:
    """Group the results by scenario and engine, a group per table. Sort its rows by parameter values."""

    def table(result: CellResult) -> tuple[str, str]:
        return result.cell.scenario.name, result.cell.engine

    def row(result: CellResult) -> tuple[object, ...]:
        return *table(result), sort_key(result.cell)

    # Cells without parameters keep the order they come in.
    return [list(group) for _, group in groupby(sorted(results, key=row), key=table)]


def total_effort(results: Sequence[CellResult]) -> tuple[int, float, float]:
    """Return (number of runs, virtual time in s, wall time in s) of stored runs. A virtual-time run uses one core.

    Virtual time is that of the transfers. The seconds in which a lab's clock runs while the lab is set up cost next to
    nothing, and would flatter the speed.
    """
    runs = [run for result in results for run, _ in result.runs]
    return len(runs), sum(map(_transfer_time, runs)), sum(run.wall for run in runs)


def _transfer_time(run: Run) -> float:
    """Virtual time from the first client's start to the last one's end, s; 0 in real time."""
    if run.virtual is None or not run.transfers:
        return run.virtual or 0.0
    began = min(transfer.started_ns for transfer in run.transfers)
    return (max(transfer.ended_ns for transfer in run.transfers) - began) / 1e9


def slowest_families(results: Sequence[CellResult], limit: int) -> list[tuple[str, float]]:
    """Return (scenario folder, wall time in s), the longest first, at most `limit` of them."""
    seconds: dict[str, float] = {}
    for result in results:
        family = result.cell.scenario.name.partition("/")[0]
        seconds[family] = seconds.get(family, 0.0) + sum(run.wall for run, _ in result.runs)
    return sorted(seconds.items(), key=lambda entry: -entry[1])[:limit]


def effort_summary(results: Sequence[CellResult]) -> str:
    """Describe the time that runs took, for people. Empty without runs."""
    count, virtual, wall = total_effort(results)
    if not count:
        return ""
    runs = format_count(count, "run")
    if not virtual or not wall:
        return f"{runs} took {wall:,.0f} s"
    speed = f"{virtual / wall:.1f} times real time"
    return f"{runs} took {virtual:,.0f} s of virtual time in {wall:,.0f} s of one core ({speed})"


# --- A row per scenario.


def totals_blocks(results: Sequence[CellResult]) -> list[Block]:
    """A row per scenario and engine: number of cells by verdict, and the time their runs took. Totals follow."""
    groups = group_by_scenario(results)
    figures = ("cells", *SYMBOLS, "runs", "virtual s", "wall s", "times real time", MARK)
    rows = []
    for engine in sorted({group[0].cell.engine for group in groups}):
        engine_groups = [group for group in groups if group[0].cell.engine == engine]
        rows += [_totals_row(Span(group[0].cell.scenario.name, code=True), engine, group) for group in engine_groups]
        if len(engine_groups) > 1:
            cells = [result for group in engine_groups for result in group]
            rows.append(_totals_row(Span("all", emphasis=True), engine, cells))
    totals = Table([Column("scenario"), Column("engine"), *(Column(name, right=True) for name in figures)], rows)
    return [totals, *([Paragraph(text)] if (text := outdated_note(results)) else [])]


def _totals_row(name: Span, engine: str, results: Sequence[CellResult]) -> Row:
    verdicts: Counter[str] = Counter(result.verdict.status for result in results)
    runs, virtual, wall = total_effort(results)
    speed = f"{virtual / wall:.1f}" if virtual and wall else "–"
    older = sum(1 for result in results if result.staleness)
    counts = [str(verdicts[status]) if verdicts[status] else "" for status in SYMBOLS]
    effort = [str(runs), f"{virtual:,.0f}" if virtual else "–", f"{wall:,.0f}", speed, str(older) if older else ""]
    return Row([name, engine, str(len(results)), *counts, *effort])


# --- Cells as data.


def _link(result: CellResult) -> dict[str, Any]:
    """Link proof of the last run on which the verdict rests: one with a valid link, if there is one."""
    all_proofs = [(run, measured.link) for run, measured in result.runs if measured is not None and measured.link]
    proofs = [(run, link) for run, link in all_proofs if link.valid] or all_proofs
    if not proofs:
        return {"valid": False, "kernel": "", "problems": ["no run reached the point where the link can be proven"]}
    proof: LinkProof = proofs[-1][1]
    content = proof.model_dump(mode="json")
    content["proven"], content["of"] = sum(link.valid for _, link in all_proofs), len(result.runs)
    content["kernel"] = content["kernel"] or proofs[-1][0].sim_kernel
    return content


def _cell_data(result: CellResult) -> dict[str, Any]:
    measurements: dict[str, Any] = {}
    for name, values in result.measurements_by_name.items():
        span = result.interval(*values[0].named)
        assert span is not None
        measurements[name] = {
            "unit": unit_of(values[0]),
            "direction": values[0].direction,
            "vantage": values[0].vantage,
            "values": [json_number(item.value) for item in values],
            "timed_out": len(result.failed_values(values[0].named)),
            **{part: json_number(getattr(span, part)) for part in ("median", "low", "high")},
            "coverage": span.coverage,
        }
    last = result.last
    return {
        "key": result.cell.key,
        "scenario": result.cell.scenario.name,
        "client": result.cell.client.name,
        "server": result.cell.server.name,
        "engine": result.cell.engine,
        "parameters": result.cell.parameters,
        "effective_parameters": last[0].effective if last else {},
        "repeat_seed": None if (seed := seed_of(result.cell)) is None else asdict(seed),
        "observed": [observation.model_dump(mode="json") for observation in last[1].observed]
        if last and last[1]
        else [],
        "repetitions": len(result.runs),
        "outcomes": result.outcomes,
        "shortfall": result.shortfall,
        "verdict": result.verdict.status,
        "reason": result.verdict.reason,
        "sentence": result.verdict.sentence,
        "objectives": [
            {
                "metric": item.metric,
                "demanded": item.demanded,
                "observed": json.loads(item.observed.model_dump_json()) if item.observed else None,
                "verdict": item.verdict,
            }
            for item in result.verdict.objectives
        ],
        **({"checks": checks} if (checks := _checks(result)) else {}),
        "measurements": measurements,
        "because": diagnosis.time_data(result),
        **({"unfinished": failed} if (failed := diagnosis.failure_data(result)) else {}),
        "link": _link(result),
        "warnings": run_warnings(result.runs, flows_too=True),
        "evidence": list(result.verdict.evidence),
        "reproduction": result.reproduction,
    }


def _checks(result: CellResult) -> list[dict[str, Any]]:
    """The results of a test case's checks in the last run."""
    measured = result.last[1] if result.last is not None else None
    return [] if measured is None else [check.model_dump(mode="json") for check in measured.checks]

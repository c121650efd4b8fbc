"""The verdict table on a terminal: a symbol and a word as well as a colour, never colour alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.text import Text

from harness.analysis.metrics.registry import declared_metrics
from harness.evaluation.cell_result import CellResult, initial_window_bytes
from harness.evaluation.missing_metrics import run_warnings
from harness.evaluation.ranking import rank_cells
from harness.formatting import format_count
from harness.netem import ack_limited_time, ideal_time, slow_start_time
from harness.netem.mobility import flow_timeline
from harness.outcome import Cell, Interval
from harness.outcome.deviations import find_deviations
from harness.planning.sweep import full_names
from harness.report import because, effort_summary, group_by_scenario, unfinished
from harness.report.chosen import MetricColumn, columns, flow_columns, ranking_metrics, shows_goodput
from harness.report.layout import SENTENCE_WIDTH, Column, Entry, FittedTable, Row, rate_text
from harness.report.layout import span_text as figure
from harness.report.parameters import RequestedParameters, requested_parameters
from harness.report.ranking import lines
from harness.report.resumed import add_mark, footnotes, seed_of
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Objective
from harness.topology import flow_label
from harness.units import Size

_ACK_RATIO = "client.ack_ratio"
SYMBOLS = {
    "pass": ("✓", "green"),
    "fail": ("✕", "red"),
    "measured": ("●", "cyan"),
    "inconclusive": ("~", "yellow"),
    "unsupported": ("–", "bright_black"),
    "error": ("!", "magenta"),
}


def verdict_text(status: str) -> Text:
    """Symbol, word and colour of a verdict."""
    symbol, colour = SYMBOLS[status]
    return Text(f"{symbol} {status}", style=colour)


def interval_text(span: Interval | None) -> str:
    """Median and, with more than one value, the interval: '19.31 [19.28, 19.40]'.

    A time that was not reached is 'never'.
    """
    if span is None:
        return "–"
    median, low, high = (
        f"{value:.2f}" if math.isfinite(value) else "never" for value in (span.median, span.low, span.high)
    )
    return median if span.n == 1 else f"{median} [{low}, {high}]"


def _unit(metric: str) -> str:
    return declared_metrics()[metric].unit


def _objective_text(objectives: Sequence[Objective], metric: str) -> str:
    objective = next((item for item in objectives if item.metric == metric), None)
    if objective is None and "milestone" not in metric and "completion" not in metric:
        return ""
    return "open" if objective is None else f"{'≤' if objective.at_most is not None else '≥'} {objective.bound:g}"


class ReferenceLine(NamedTuple):
    """A reference with which the rows of a table are compared."""

    name: str
    told: Mapping[str, str]
    """Parameters, with their values, that tell the cells it is for from the others of the table."""
    texts: list[str]
    """One per metric."""

    def placed(self, varied: Sequence[str]) -> tuple[list[str], str]:
        """Return (entries for the columns of varied parameters, name with the other parameters)."""
        suffix = "".join(f", {name} {value}" for name, value in self.told.items() if name not in varied)
        return [self.told.get(name, "") for name in varied], self.name + suffix


def reference_lines(cells: Sequence[Cell], requested: Sequence[MetricName]) -> list[ReferenceLine]:
    """Reference lines: what is demanded, what textbook slow start reaches, what the line rate allows.

    Slow start begins with the requested initial window. Where the cells of a table differ in what the lines depend
    on, each kind of cell has lines of its own.
    """
    scenario = cells[0].scenario
    metrics = [name.text(len(scenario.flows)) for name in requested]
    sizes = {f"milestone_{size.label()}": size for size in scenario.milestones}
    lines = [ReferenceLine("objective", {}, [_objective_text(scenario.objectives, metric) for metric in metrics])]
    models: list[tuple[str, Callable[[Cell, Size], float]]] = [
        (
            "textbook slow start",
            lambda cell, size: slow_start_time(flow_timeline(cell.scenario), size, initial_window_bytes(cell)),
        ),
        ("ideal", lambda cell, size: ideal_time(flow_timeline(cell.scenario), size)),
    ]
    if not any(metric in sizes for metric in metrics):
        return lines
    if any(_ACK_RATIO in cell.parameters for cell in cells):
        models.append(("return path full of such ACKs", _ack_limited))
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


def _ack_limited(cell: Cell, size: Size) -> float:
    """The time that acknowledgements take, s, with the requested ratio, else RFC 9000's two (§13.2.2)."""
    return ack_limited_time(cell.scenario.path, size, float(cell.parameters.get(_ACK_RATIO, 2)))


def _distinguishing(group: Sequence[Cell], cells: Sequence[Cell]) -> dict[str, str]:
    """Parameters that distinguish a group of cells from the others of the table."""
    shared = requested_parameters(cells).shared
    return {name: str(value) for name, value in requested_parameters(group).shared.items() if name not in shared}


def _row(
    result: CellResult,
    parameters: RequestedParameters,
    headed: Sequence[MetricColumn],
    requested: Sequence[MetricName],
    *,
    why: bool,
) -> list[Entry]:
    flows = len(result.cell.scenario.flows)
    missed_metrics = {item.metric for item in result.verdict.objectives if item.verdict == "fail"}
    seed = seed_of(result.cell)
    format_span = figure if requested else interval_text
    figures: list[Entry] = [
        Text(
            add_mark(format_span(result.interval(*name)), name, seed),
            style="red" if name.text(flows) in missed_metrics else "",
        )
        for name, _ in headed
    ]
    if shows_goodput(result.cell.scenario, requested):
        goodput = result.interval("goodput", 0, "first")
        figures.append("–" if goodput is None else rate_text(goodput.median))
    completed = result.outcomes.get("completed", 0)
    return [
        *parameter_entries(result, parameters),
        result.cell.client.name,
        result.cell.server.name,
        verdict_text(result.verdict.status),
        f"{completed}/{len(result.runs)}",
        *figures,
        result.verdict.reason,
        *([_because(result)] if why else []),
    ]


def _because(result: CellResult) -> str:
    """Where the time of the cell's first transfer went, or why it did not finish."""
    transfers = because.attributions(result)
    return because.short(transfers[0]) if transfers else unfinished.short(result)


def scenario_table(results: Sequence[CellResult], requested: Sequence[MetricName] = ()) -> FittedTable:
    """The table of one scenario's cells, with its own metrics or the requested ones."""
    scenario, headed = results[0].cell.scenario, columns(results[0].cell.scenario, requested)
    parameters = requested_parameters([result.cell for result in results])
    goodput = shows_goodput(scenario, requested)
    why = not requested and any(_because(result) for result in results)
    shown_columns = [
        *_identifying_columns(parameters),
        Column("verdict"),
        Column("n"),
        *(Column(heading, right=True) for _, heading in headed),
        *([Column(_unit("goodput"), right=True)] if goodput else []),
        Column("reason", text=SENTENCE_WIDTH),
        *([Column("because", text=SENTENCE_WIDTH, if_fits=True)] if why else []),
    ]
    rows = [Row(_row(result, parameters, headed, requested, why=why)) for result in results]
    for reference in reference_lines([result.cell for result in results], [metric for metric, _ in headed]):
        values, name = reference.placed(parameters.varied)
        cells = [*values, "", name, "", "", *reference.texts, *([""] if goodput else []), "", *([""] if why else [])]
        rows += [Row(cells, reference=True)] if any(reference.texts) else []
    return FittedTable(_title(results, parameters), shown_columns, rows)


def flow_table(results: Sequence[CellResult], requested: Sequence[MetricName] = ()) -> FittedTable | None:
    """The flows of one scenario's cells, a row each; None where the cells' own rows show all of them."""
    headed = flow_columns(results[0].cell.scenario, requested)
    if not headed:
        return None
    parameters = requested_parameters([result.cell for result in results])
    shown_columns = [
        *_identifying_columns(parameters),
        Column("flow", identifies=True),
        *(Column(name, right=True) for _, name in headed),
    ]
    rows = [
        Row(
            [
                *parameters.cells(result.cell),
                result.cell.client.name,
                result.cell.server.name,
                f"{flow} {flow_label(result.cell, flow)}",
                *(figure(result.interval(*name._replace(flow=flow))) for name, _ in headed),
            ]
        )
        for result in results
        for flow in range(len(result.cell.scenario.flows))
    ]
    return FittedTable(f"{_title(results, parameters)} · flows", shown_columns, rows)


def _identifying_columns(parameters: RequestedParameters) -> list[Column]:
    """Columns that identify a cell in its table."""
    return [Column(name, identifies=True) for name in (*parameters.varied, "client", "server")]


def _title(results: Sequence[CellResult], parameters: RequestedParameters) -> str:
    scenario = results[0].cell.scenario
    return f"{scenario.name} · {scenario.title} · {results[0].cell.engine}{parameters.suffix}"


def _rests_on_one_run(result: CellResult) -> bool:
    """Whether one run made a cell pass or fail."""
    run_counts = [objective.observed.n for objective in result.verdict.objectives if objective.observed is not None]
    return result.verdict.status in ("pass", "fail") and max(run_counts, default=0) == 1


def _notes(results: Sequence[CellResult]) -> list[RenderableType]:
    lines: list[RenderableType] = [Text(f"  {line}") for line in footnotes(results)]
    if reasons := because.lines(results):
        lines += [Text("  where the time went:"), *(Text(f"    {line}") for line in reasons)]
    if reasons := unfinished.lines(results):
        lines += [Text("  what did not finish:"), *(Text(f"    {line}") for line in reasons)]
    if single_run := sum(_rests_on_one_run(result) for result in results):
        note = (
            f"{format_count(single_run, 'verdict')} of {len(results)} on n = 1: one run decides, with no "
            "interval around it"
        )
        lines.append(Text(f"  {note} (--repeat auto goes on until intervals decide)"))
    for result in results:
        name = result.name
        if result.shortfall and result.verdict.status not in ("unsupported", "error"):
            lines.append(Text(f"  {name}: {result.shortfall}"))
        complete = result.verdict.status == "measured" and set(result.outcomes) == {"completed"}
        if result.verdict.status not in ("pass", "fail") and not complete:
            lines.append(Text(f"  {name}: {result.verdict.sentence}"))
            last = result.last
            if last is not None and result.verdict.status == "error":
                lines.extend(Text(f"      | {line}", style="dim") for line in last[0].outcome.log_tail[-6:])
        # `report metrics` says why metrics of flows are absent.
        cautions = run_warnings(result.runs, flows_too=False)
        lines.extend(Text(f"  {name}: warning: {text}", style="yellow") for text in cautions)
    return lines


def render(results: Sequence[CellResult], requested: Sequence[MetricName] = ()) -> RenderableType:
    """Tables for all scenarios, with notes."""
    parts: list[RenderableType] = []
    for cells in group_by_scenario(results):
        flows = flow_table(cells, requested)
        parts += [scenario_table(cells, requested), *([flows] if flows is not None else []), *_notes(cells)]
    return Group(*parts)


def show(results: Sequence[CellResult], console: Console, requested: Sequence[MetricName] = ()) -> None:
    """Print the tables, a reproduction line per cell, and rankings; or that there are no results.

    `requested`: metrics that replace the scenarios' own.
    """
    if not results:
        console.print("no stored runs match")
        return
    console.print(render(results, requested))
    console.print(effort_summary(results), style="dim")
    console.print("again:", style="dim")
    for result in results:
        if result.reproduction:
            # Never folded: these lines are there to be copied.
            console.print(f"  {result.reproduction}", style="dim", soft_wrap=True, markup=False)
    for cells in group_by_scenario(results):
        scenario_rankings = rank_cells(cells, ranking_metrics(cells[0].cell.scenario, requested))
        if scenario_rankings:
            console.print(f"{cells[0].cell.scenario.name} ({cells[0].cell.engine}):", style="bold", markup=False)
        for line in lines(scenario_rankings):
            console.print(f"  {line}", soft_wrap=True, markup=False)

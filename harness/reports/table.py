"""The verdict table on a terminal: a symbol and a word as well as a colour, never colour alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.absences import warnings
from harness.metric_names import MetricName
from harness.metrics.registry import declared
from harness.model import Objective, Scenario
from harness.outcome import Cell, Interval
from harness.parameters import PARAMETERS
from harness.path import ack_limited_time, ideal_time, slow_start_time
from harness.reports import by_scenario, effort
from harness.reports.parameters import Asked, asked
from harness.reports.resumed import footnotes, marked, seed_of
from harness.results import CellResult
from harness.text import counted
from harness.units import Size

_ACK_RATIO = "client.ack_ratio"
#: Flows of one run that a line of the table has room for.
MOST_FLOWS = 6
SYMBOLS = {
    "pass": ("✓", "green"),
    "fail": ("✕", "red"),
    "inconclusive": ("~", "yellow"),
    "unsupported": ("–", "bright_black"),
    "error": ("!", "magenta"),
}


def verdict_text(status: str) -> Text:
    """Symbol, word and colour of a verdict."""
    symbol, colour = SYMBOLS[status]
    return Text(f"{symbol} {status}", style=colour)


def interval_text(span: Interval | None) -> str:
    """Median and, with more than one value, the interval: '19.31 [19.28, 19.40]'. What timed out before is 'never'."""
    if span is None:
        return "–"
    median, low, high = (
        f"{value:.2f}" if math.isfinite(value) else "never" for value in (span.median, span.low, span.high)
    )
    return median if span.n == 1 else f"{median} [{low}, {high}]"


def columns(scenario: Scenario) -> list[tuple[MetricName, str]]:
    """(what, heading) of a scenario's columns: its milestones and those of the repeat, or what its flows share."""
    if all(flow.file is None for flow in scenario.flows):
        return _shared_columns(scenario)
    sizes, unit = [size.label() for size in scenario.milestones_within()], _unit("completion")
    made = [(MetricName(f"milestone_{size}", 0, "first"), f"{size} {unit}") for size in sizes]
    if any(flow.repeat_after is not None for flow in scenario.flows):
        last = f"milestone_{sizes[-1]}" if sizes else "completion"
        made.append((MetricName(last, 0, "repeat"), f"repeat {sizes[-1]} {unit}" if sizes else f"repeat {unit}"))
    return made


def _shared_columns(scenario: Scenario) -> list[tuple[MetricName, str]]:
    """Throughput of each flow, as far as a line has room; the queue; fairness and utilisation."""
    count, unit = len(scenario.flows), _unit("mean_throughput")
    made = [
        (MetricName("mean_throughput", flow), unit if count == 1 else f"flow{flow} {unit}")
        for flow in range(min(count, MOST_FLOWS))
    ]
    made.append((MetricName("mean_queue_delay"), f"queue {_unit('mean_queue_delay')}"))
    if sum(flow.kind != "udp" for flow in scenario.flows) > 1:
        made.append((MetricName("jain_shared"), "Jain"))
    return [*made, (MetricName("utilisation_shared"), "utilisation")]


def _unit(metric: str) -> str:
    return declared()[metric].unit


def _bound(objectives: Sequence[Objective], metric: str) -> str:
    found = next((item for item in objectives if item.metric == metric), None)
    if found is None and "milestone" not in metric and "completion" not in metric:
        return ""
    return "open" if found is None else f"{'≤' if found.at_most is not None else '≥'} {found.bound:g}"


def reference_lines(cells: Sequence[Cell], asked_for: Sequence[MetricName]) -> list[tuple[str, list[str]]]:
    """(name, one text per metric): what is demanded, what textbook slow start reaches, what the line rate allows.

    Slow start begins with the initial window that was asked for. Where the cells of a table differ in what the
    lines rest on, each kind of cell has lines of its own, with the parameters in the name.
    """
    scenario = cells[0].scenario
    metrics = [name.text(len(scenario.flows)) for name in asked_for]
    sizes = {f"milestone_{size.label()}": size for size in scenario.milestones}
    lines = [("objective", [_bound(scenario.objectives, metric) for metric in metrics])]
    models: list[tuple[str, Callable[[Cell, Size], float]]] = [
        ("textbook slow start", lambda cell, size: slow_start_time(cell.scenario.path, size, initial_bytes(cell))),
        ("ideal", lambda cell, size: ideal_time(cell.scenario.path, size)),
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
        for times, alike in kinds.items():
            lines.append((name if len(kinds) == 1 else f"{name}{_common(alike, cells)}", list(times)))
    return lines


def asked_and_seen(result: CellResult, parameters: Asked) -> list[str]:
    """What was asked of a cell, in the columns; and what its last run shows where that is something else."""
    observed = () if result.last is None or result.last[1] is None else result.last[1].observed
    entries = []
    for name, text in zip(parameters.varied, parameters.cells(result.cell), strict=True):
        role, _, short = name.partition(".")
        known = PARAMETERS.get(short)
        found = [one.value for one in observed if (one.role, one.parameter) == (role, short)]
        seen = ""
        if known is not None and text != "–" and found:
            value = known.canonical(text)
            if all(known.agrees(value, one) is False for one in found):
                seen = f" (seen {found[0] if isinstance(found[0], str) else f'{found[0]:.3g}'})"
        entries.append(text + seen)
    return entries


def _ack_limited(cell: Cell, size: Size) -> float:
    """The time the acknowledgements take, with the ratio asked for, else RFC 9000's two (§13.2.2)."""
    return ack_limited_time(cell.scenario.path, size, float(cell.parameters.get(_ACK_RATIO, 2)))


def initial_bytes(cell: Cell) -> int:
    """Bytes a cell's server may send first: what was asked for, else RFC 9002's ten packets of 1200 bytes."""
    return int(cell.parameters.get("server.initial_cwnd", 10)) * 1200


def _common(alike: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """What tells some cells of a table from the others."""
    shared = dict(asked(alike).shared)
    everywhere = asked(cells).shared
    return "".join(f", {name} {value}" for name, value in shared.items() if name not in everywhere)


def _reference_rows(table: Table, results: Sequence[CellResult], metrics: Sequence[MetricName], blank: int) -> None:
    """Lines to read the figures by."""
    table.add_section()
    for name, texts in reference_lines([result.cell for result in results], metrics):
        table.add_row(*[""] * blank, "", name, "", "", *texts, "", "", style="dim")


def _row(result: CellResult, parameters: Asked, metrics: Sequence[MetricName]) -> list[RenderableType]:
    flows = len(result.cell.scenario.flows)
    missed = {item.metric for item in result.verdict.objectives if item.verdict == "fail"}
    seed = seed_of(result.cell)
    times = [
        Text(
            marked(interval_text(result.interval(*name)), name, seed), style="red" if name.text(flows) in missed else ""
        )
        for name in metrics
    ]
    goodput = result.interval("goodput", 0, "first")
    done = result.outcomes.get("completed", 0)
    return [
        *asked_and_seen(result, parameters),
        result.cell.client.name,
        result.cell.server.name,
        verdict_text(result.verdict.status),
        f"{done}/{len(result.runs)}",
        *times,
        "–" if goodput is None else f"{goodput.median:.1f}",
        result.verdict.reason,
    ]


def scenario_table(results: Sequence[CellResult]) -> RenderableType:
    """The table of one scenario's cells."""
    scenario = results[0].cell.scenario
    engine = results[0].cell.engine
    made = columns(scenario)
    parameters = asked([result.cell for result in results])
    title = f"{scenario.name} · {scenario.title} · {engine}{parameters.suffix}"
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in parameters.varied:
        # Folded at its dots where there is no room, never cut.
        table.add_column(name, overflow="fold", min_width=max(map(len, name.split("."))))
    for heading in ("client", "server"):
        names = [getattr(result.cell, heading).name for result in results]
        table.add_column(heading, overflow="fold", min_width=max(map(len, names)))
    for heading in ("verdict", "n"):
        table.add_column(heading, no_wrap=True)
    for _, heading in made:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(_unit("goodput"), justify="right")
    table.add_column("reason", no_wrap=True)
    metrics = [metric for metric, _ in made]
    for result in results:
        table.add_row(*_row(result, parameters, metrics))
    _reference_rows(table, results, metrics, len(parameters.varied))
    return table


def _rests_on_one_run(result: CellResult) -> bool:
    """Whether one run made a cell pass or fail."""
    found = [one.observed.n for one in result.verdict.objectives if one.observed is not None]
    return result.verdict.status in ("pass", "fail") and max(found, default=0) == 1


def _notes(results: Sequence[CellResult]) -> list[RenderableType]:
    lines: list[RenderableType] = [Text(f"  {line}") for line in footnotes(results)]
    if alone := sum(_rests_on_one_run(result) for result in results):
        said = f"{counted(alone, 'verdict')} of {len(results)} on n = 1: one run decides, with no interval around it"
        lines.append(Text(f"  {said} (--repeat auto goes on until intervals decide)"))
    for result in results:
        who = result.name
        if result.shortfall and result.verdict.status not in ("unsupported", "error"):
            lines.append(Text(f"  {who}: {result.shortfall}"))
        if result.verdict.status not in ("pass", "fail"):
            lines.append(Text(f"  {who}: {result.verdict.sentence}"))
            last = result.last
            if last is not None and result.verdict.status == "error":
                lines.extend(Text(f"      | {line}", style="dim") for line in last[0].outcome.log_tail[-6:])
        # Why metrics of flows are absent `report metrics` says.
        found = warnings(result.runs, flows_too=False)
        lines.extend(Text(f"  {who}: warning: {text}", style="yellow") for text in found)
    return lines


def render(results: Sequence[CellResult]) -> RenderableType:
    """Tables for all scenarios, with notes."""
    parts: list[RenderableType] = []
    for cells in by_scenario(results):
        parts += [scenario_table(cells), *_notes(cells)]
    return Group(*parts)


def show(results: Sequence[CellResult], console: Console) -> None:
    """Print the tables and one reproduction line per cell, or say that there is nothing."""
    if not results:
        console.print("no stored runs match")
        return
    console.print(render(results))
    console.print(effort(results), style="dim")
    console.print("again:", style="dim")
    for result in results:
        if result.reproduction:
            # Never folded: these lines are there to be copied.
            console.print(f"  {result.reproduction}", style="dim", soft_wrap=True, markup=False)

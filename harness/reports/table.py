"""The verdict table on a terminal: a symbol and a word as well as a colour, never colour alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.model import Objective, Scenario
from harness.outcome import Interval
from harness.path import ideal_time, slow_start_time
from harness.reports import CellResult, by_scenario, effort

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
    """Median and, with more than one value, the interval: '19.31 [19.28, 19.40]'."""
    if span is None:
        return "–"
    if span.n == 1:
        return f"{span.median:.2f}"
    return f"{span.median:.2f} [{span.low:.2f}, {span.high:.2f}]"


def columns(scenario: Scenario) -> list[tuple[str, str]]:
    """(metric, heading) of the columns with times for a scenario: its milestones, and those of the repeat."""
    largest = max(flow.download for flow in scenario.flows)
    sizes = [size.label() for size in scenario.milestones if size <= largest]
    made = [(f"milestone_{size}", f"{size} s") for size in sizes]
    if any(flow.repeat_after is not None for flow in scenario.flows):
        made.append((f"repeat_milestone_{sizes[-1]}" if sizes else "repeat_completion", f"repeat {sizes[-1]} s"))
    return made


def _bound(objectives: Sequence[Objective], metric: str) -> str:
    found = next((item for item in objectives if item.metric == metric), None)
    return "open" if found is None else f"{'≤' if found.at_most is not None else '≥'} {found.bound:g}"


def _reference_rows(table: Table, scenario: Scenario, metrics: Sequence[str]) -> None:
    """Three lines to read the figures by: objective, textbook slow start, ideal."""
    sizes = {f"milestone_{size.label()}": size for size in scenario.milestones}
    table.add_section()
    bounds = [_bound(scenario.objectives, metric) for metric in metrics]
    table.add_row("", "objective", "", "", *bounds, "", "", style="dim")
    for name, model in (("textbook slow start", slow_start_time), ("ideal", ideal_time)):
        times = [f"{model(scenario.path, sizes[metric]):.2f}" if metric in sizes else "" for metric in metrics]
        table.add_row("", name, "", "", *times, "", "", style="dim")


def _row(result: CellResult, metrics: Sequence[str]) -> list[RenderableType]:
    missed = {item.metric for item in result.verdict.objectives if item.verdict == "fail"}
    times = [
        Text(interval_text(result.interval(metric)), style="red" if metric in missed else "") for metric in metrics
    ]
    goodput = result.interval("goodput")
    done = result.outcomes.get("completed", 0)
    return [
        *result.pair,
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
    table = Table(title=f"{scenario.name} · {scenario.title} · {engine}", title_justify="left", header_style="bold")
    for heading in ("client", "server"):
        # Parameters stand below the name; they are folded, never cut.
        names = [getattr(result.cell, heading).name for result in results]
        table.add_column(heading, overflow="fold", min_width=max(map(len, names)))
    for heading in ("verdict", "n"):
        table.add_column(heading, no_wrap=True)
    for _, heading in made:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Mbit/s", justify="right")
    table.add_column("reason", no_wrap=True)
    metrics = [metric for metric, _ in made]
    for result in results:
        table.add_row(*_row(result, metrics))
    _reference_rows(table, scenario, metrics)
    return table


def _notes(results: Iterable[CellResult]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for result in results:
        who = "→".join(result.pair)
        if result.verdict.status not in ("pass", "fail"):
            lines.append(Text(f"  {who}: {result.verdict.sentence}"))
            last = result.last
            if last is not None and result.verdict.status == "error":
                lines.extend(Text(f"      | {line}", style="dim") for line in last[0].outcome.log_tail[-6:])
        warnings = {
            text for run, measured in result.runs for text in (*run.warnings, *(measured.warnings if measured else ()))
        }
        lines.extend(Text(f"  {who}: warning: {text}", style="yellow") for text in sorted(warnings))
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
    console.print("by hand:", style="dim")
    for result in results:
        if result.reproduction:
            # Never folded: these lines are there to be copied.
            console.print(f"  {result.reproduction}", style="dim", soft_wrap=True, markup=False)

"""The results table as Markdown, for the README and step summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.path import ideal_time, slow_start_time
from harness.reports import CellResult, by_scenario, effort, effort_of
from harness.reports.table import SYMBOLS, columns, interval_text


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def scenario_markdown(results: Sequence[CellResult]) -> str:
    """One scenario's table, with its three reference lines."""
    scenario = results[0].cell.scenario
    made = columns(scenario)
    lines = [
        f"**{scenario.title}** (`{scenario.name}`, engine {results[0].cell.engine}, "
        f"median [interval] of n runs, seconds; {effort(results)})",
        "",
        _line(["client → server", "verdict", "n", *(heading.removesuffix(" s") for _, heading in made), "Mbit/s"]),
        _line(["---", "---", *["---:"] * (len(made) + 2)]),
    ]
    for result in results:
        symbol, _ = SYMBOLS[result.verdict.status]
        goodput = result.interval("goodput")
        lines.append(
            _line(
                [
                    " → ".join(result.pair),
                    f"{symbol} {result.verdict.status}",
                    str(result.outcomes.get("completed", 0)),
                    *(interval_text(result.interval(metric)) for metric, _ in made),
                    "–" if goodput is None else f"{goodput.median:.1f}",
                ]
            )
        )
    sizes = {f"milestone_{size.label()}": size for size in scenario.milestones}
    bounds = {item.metric: f"{item.bound:g}" for item in scenario.objectives}
    lines.append(_line(["*objective*", "", "", *(bounds.get(metric, "open") for metric, _ in made), ""]))
    for name, model in (("textbook slow start", slow_start_time), ("ideal", ideal_time)):
        times = [f"{model(scenario.path, sizes[metric]):.2f}" if metric in sizes else "" for metric, _ in made]
        lines.append(_line([f"*{name}*", "", "", *times, ""]))
    return "\n".join(lines) + "\n"


def summary(results: Sequence[CellResult]) -> str:
    """One line a scenario and engine: how many cells got which verdict, what their runs took; and the sums."""
    groups = by_scenario(results)
    lines = [
        _line(["scenario", "engine", "cells", *SYMBOLS, "runs", "virtual s", "wall s", "times real time"]),
        _line(["---", "---", *["---:"] * (len(SYMBOLS) + 5)]),
    ]
    for engine in sorted({group[0].cell.engine for group in groups}):
        mine = [group for group in groups if group[0].cell.engine == engine]
        lines += [_summary_line(f"`{group[0].cell.scenario.name}`", engine, group) for group in mine]
        if len(mine) > 1:
            lines.append(_summary_line("*all*", engine, [result for group in mine for result in group]))
    return "\n".join(lines) + "\n"


def _summary_line(name: str, engine: str, results: Sequence[CellResult]) -> str:
    verdicts: Counter[str] = Counter(result.verdict.status for result in results)
    runs, virtual, wall = effort_of(results)
    speed = f"{virtual / wall:.1f}" if virtual else "–"
    counts = [str(verdicts[status]) if verdicts[status] else "" for status in SYMBOLS]
    return _line(
        [
            name,
            engine,
            str(len(results)),
            *counts,
            str(runs),
            f"{virtual:,.0f}" if virtual else "–",
            f"{wall:,.0f}",
            speed,
        ]
    )


def report(results: Sequence[CellResult]) -> str:
    """All scenarios, one table each."""
    return "\n".join(scenario_markdown(group) for group in by_scenario(results))

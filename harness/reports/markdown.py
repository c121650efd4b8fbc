"""The results table as Markdown, for the README and step summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.metrics.registry import declared
from harness.reports import by_scenario, effort, effort_of
from harness.reports.parameters import asked
from harness.reports.resumed import footnotes, marked, seed_of
from harness.reports.table import SYMBOLS, asked_and_seen, columns, interval_text, reference_lines
from harness.results import CellResult
from harness.standing import MARK, note
from harness.standing import marked as marked_old


def line(cells: Sequence[str]) -> str:
    """One row of a table."""
    return "| " + " | ".join(cells) + " |"


def scenario_markdown(results: Sequence[CellResult]) -> str:
    """One scenario's table, with its three reference lines."""
    scenario = results[0].cell.scenario
    made = columns(scenario)
    parameters = asked([result.cell for result in results])
    lines = [
        f"**{scenario.title}** (`{scenario.name}`, engine {results[0].cell.engine}{parameters.suffix}, "
        f"median [interval] of n runs{', seconds' if scenario.milestones_within() else ''}; {effort(results)})",
        "",
        line(
            [
                *(f"`{name}`" for name in parameters.varied),
                *("client → server", "verdict", "n"),
                *(heading.removesuffix(" s") for _, heading in made),
                declared()["goodput"].unit,
            ]
        ),
        line([*["---:"] * len(parameters.varied), "---", "---", *["---:"] * (len(made) + 2)]),
    ]
    for result in results:
        symbol, _ = SYMBOLS[result.verdict.status]
        seed = seed_of(result.cell)
        goodput = result.interval("goodput", 0, "first")
        done = str(result.outcomes.get("completed", 0))
        lines.append(
            line(
                [
                    *asked_and_seen(result, parameters),
                    marked_old(f"{result.cell.client.name} → {result.cell.server.name}", result),
                    f"{symbol} {result.verdict.status}",
                    done if done == str(len(result.runs)) else f"{done}/{len(result.runs)}",
                    *(marked(interval_text(result.interval(*name)), name, seed) for name, _ in made),
                    "–" if goodput is None else f"{goodput.median:.1f}",
                ]
            )
        )
    for name, texts in reference_lines([result.cell for result in results], [name for name, _ in made]):
        blank = [""] * len(parameters.varied)
        lines.append(line([*blank, f"*{name}*", "", "", *(text.removeprefix("≤ ") for text in texts), ""]))
    short = [f"{result.name}: {result.shortfall}." for result in results if "timed_out" in result.outcomes]
    for text in (*short, *footnotes(results), note(results)):
        lines += ["", text] if text else []
    return "\n".join(lines) + "\n"


def summary(results: Sequence[CellResult]) -> str:
    """One line a scenario and engine: how many cells got which verdict, what their runs took; and the sums."""
    groups = by_scenario(results)
    lines = [
        line(["scenario", "engine", "cells", *SYMBOLS, "runs", "virtual s", "wall s", "times real time", MARK]),
        line(["---", "---", *["---:"] * (len(SYMBOLS) + 6)]),
    ]
    for engine in sorted({group[0].cell.engine for group in groups}):
        mine = [group for group in groups if group[0].cell.engine == engine]
        lines += [_summaryline(f"`{group[0].cell.scenario.name}`", engine, group) for group in mine]
        if len(mine) > 1:
            lines.append(_summaryline("*all*", engine, [result for group in mine for result in group]))
    return "\n".join([*lines, *(["", text] if (text := note(results)) else [])]) + "\n"


def _summaryline(name: str, engine: str, results: Sequence[CellResult]) -> str:
    verdicts: Counter[str] = Counter(result.verdict.status for result in results)
    runs, virtual, wall = effort_of(results)
    speed = f"{virtual / wall:.1f}" if virtual else "–"
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


def report(results: Sequence[CellResult]) -> str:
    """All scenarios, one table each."""
    return "\n".join(scenario_markdown(group) for group in by_scenario(results))

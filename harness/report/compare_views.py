"""The comparison of engines on a terminal, as Markdown, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from harness.formatting import quoted
from harness.outcome import Interval
from harness.report.compare import Comparison
from harness.report.compare_figures import ROLES, Side
from harness.report.layout import SENTENCE, Column, Fitted, Row
from harness.report.markdown import line
from harness.report.table import SYMBOLS, interval_text

SCHEMA = 1

_HEADINGS = ("client → server", "metric", "n", "compose", "virtual", "difference", "CPU c/s/sim")
"""Before the verdict: n is of compose and virtual; CPU is the cores each container used in real time."""


def show(compared: Sequence[Comparison], console: Console) -> None:
    """Print a table per scenario and what cannot be compared, or say that there is nothing."""
    if not compared:
        console.print("no stored runs match")
        return
    console.print(render(compared))


def render(compared: Sequence[Comparison]) -> RenderableType:
    """Tables for all scenarios, each with what cannot be compared below it."""
    parts: list[RenderableType] = []
    for group in _scenarios(compared):
        parts += [_table(group)] if _judged(group) else [Text(_title(group[0]), style="bold")]
        parts += [Text(f"  {line}", style="yellow") for line in _missing(group)]
    parts.append(Text(_summary(compared)))
    return Group(*parts)


def markdown(compared: Sequence[Comparison]) -> str:
    """The same as Markdown."""
    if not compared:
        return "No stored runs match.\n"
    blocks = []
    for group in _scenarios(compared):
        lines = [f"**{quoted(group[0].point.title)}** (`{group[0].point.scenario}`, median [interval] of n runs)", ""]
        if _judged(group):
            lines += [line([*_HEADINGS, "verdict", "explanation"]), line(["---", "---", *["---:"] * 5, "---", "---"])]
            judged = ((_cells(one), _verdict(one)[:2], quoted(one.explanation)) for one in _judged(group))
            lines += [line([*cells, " ".join(verdict), why]) for cells, verdict, why in judged]
            lines += [""]
        lines += [f"- {quoted(text)}" for text in _missing(group)]
        blocks.append("\n".join(lines).rstrip())
    return "\n\n".join([*blocks, _summary(compared)]) + "\n"


def report(compared: Iterable[Comparison]) -> dict[str, Any]:
    """What `compare --json` prints: numbers in the store's units; null where a time was never reached."""
    compared = list(compared)
    return {"schema": SCHEMA, **_counts(compared), "comparisons": [_entry(one) for one in compared]}


# --- text


def _scenarios(compared: Sequence[Comparison]) -> list[list[Comparison]]:
    ordered = sorted(compared, key=lambda one: one.point.scenario)
    return [list(group) for _, group in groupby(ordered, key=lambda one: one.point.scenario)]


def _judged(group: Iterable[Comparison]) -> list[Comparison]:
    return [one for one in group if one.within is not None]


def _title(one: Comparison) -> str:
    return f"{one.point.scenario} · {one.point.title} · compose (real time) and virtual time"


def _table(group: Sequence[Comparison]) -> Fitted:
    first, *figures = _HEADINGS
    columns = [
        Column(first, identifies=True), Column(figures[0], identifies=True),
        *(Column(heading, right=True) for heading in figures[1:]), Column("verdict"),
        Column("explanation", text=SENTENCE),
    ]  # fmt: skip
    rows = []
    for one in _judged(group):
        symbol, word, colour = _verdict(one)
        rows.append(Row([*_cells(one), Text(f"{symbol} {word}", style=colour), one.explanation]))
    return Fitted(_title(group[0]), columns, rows)


def _verdict(one: Comparison) -> tuple[str, str, str]:
    """Symbol, word and colour."""
    symbol, colour = SYMBOLS["pass" if one.within else "fail"]
    return symbol, "within" if one.within else "outside", colour


def _cells(one: Comparison) -> list[str]:
    spans = [side.interval if side else None for side in (one.compose, one.virtual)]
    return [
        _who(one),
        f"{one.metric} {one.unit}".rstrip(),
        "/".join(str(span.n) for span in spans if span),
        *(_interval(span) for span in spans),
        _difference(one.difference),
        "/".join(f"{one.cpu[role].share:.2f}" if role in one.cpu else "–" for role in ROLES),
    ]


def _who(one: Comparison) -> str:
    seed = "" if one.point.seed == 1 else f" (seed {one.point.seed})"
    return " → ".join(one.point.pair) + seed


def _interval(span: Interval | None) -> str:
    if span is not None and math.isinf(span.low) and math.isinf(span.high):
        return "never"
    return interval_text(span)


def _difference(value: float | None) -> str:
    if value is None or math.isinf(value):
        return "–" if value is None else "∞"
    return f"{value * 100:+.1f} %"


def _missing(group: Iterable[Comparison]) -> list[str]:
    """A line for each reason why metrics of a point cannot be compared."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in group:
        if one.within is None:
            found.setdefault((_who(one), one.explanation), []).append(one.metric)
    return [f"not comparable: {who}: {why}: {', '.join(metrics)}" for (who, why), metrics in found.items()]


def _counts(compared: Sequence[Comparison]) -> dict[str, int]:
    return {
        "within": sum(one.within is True for one in compared),
        "outside": sum(one.within is False for one in compared),
        "not_comparable": sum(one.within is None for one in compared),
    }


def _summary(compared: Sequence[Comparison]) -> str:
    counts = _counts(compared)
    return (
        f"{counts['within']} within ±{compared[0].tolerance * 100:g} %, {counts['outside']} outside, "
        f"{counts['not_comparable']} not comparable"
    )


# --- data


def _entry(one: Comparison) -> dict[str, Any]:
    return {
        "scenario": one.point.scenario,
        "client": one.point.client,
        "server": one.point.server,
        "parameters": dict(one.point.parameters),
        "seed": one.point.seed,
        "metric": one.metric,
        "unit": one.unit,
        "direction": one.direction,
        "compose": _side(one.compose),
        "virtual": _side(one.virtual),
        "difference": _number(one.difference),
        "tolerance": one.tolerance,
        "within": one.within,
        "cpu": {role: {"seconds": use.seconds, "share": use.share} for role, use in one.cpu.items()},
        "cores": one.cores,
        "reason": one.reason,
        "explanation": one.explanation,
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    span = side.interval
    return {
        "key": side.key,
        "outcomes": dict(side.outcomes),
        "n": span.n if span else 0,
        "median": _number(span.median) if span else None,
        "low": _number(span.low) if span else None,
        "high": _number(span.high) if span else None,
        "coverage": span.coverage if span else None,
        "receive_drops": side.receive_drops,
        "simulator": side.simulator,
        "measured_by": list(side.measured_by),
    }


def _number(value: float | None) -> float | None:
    """JSON has no number for infinity."""
    return value if value is not None and math.isfinite(value) else None

"""What a check found: a table per implementation, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.outcome.conformance import Finding

_SYMBOLS = {"holds": ("✓", "green"), "does not hold": ("✕", "red"), "not offered": ("–", "bright_black")}


def show(findings: Sequence[Finding], absent: Mapping[str, str], console: Console) -> None:
    """Print a table per implementation, and the implementations left out with the reason."""
    for name, group in groupby(findings, key=lambda item: item.implementation):
        table = Table(title=name, title_justify="left", header_style="bold")
        table.add_column("role", no_wrap=True)
        table.add_column("question", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("seen", overflow="fold", ratio=1)
        table.add_column("against", no_wrap=True)
        for item in group:
            symbol, colour = _SYMBOLS[item.answer]
            answer = Text(f"{symbol} {item.answer}", style=colour)
            table.add_row(item.role, item.question, answer, Text(item.seen), item.against)
        console.print(table)
    for name, why in absent.items():
        console.print(f"{name}: not built here: {why}", markup=False, soft_wrap=True)
    failed = sum(item.failed for item in findings)
    console.print(
        f"{len(findings)} questions, {failed} do not hold" if failed else f"{len(findings)} questions, all hold"
    )


def report(findings: Sequence[Finding], absent: Mapping[str, str]) -> dict[str, Any]:
    """What `check --json` prints."""
    return {"schema": 1, "findings": [asdict(item) for item in findings], "absent": dict(absent)}

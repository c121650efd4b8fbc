"""The vocabulary of parameters as a table, generated from the model."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from harness.report.layout import SENTENCE, Column, Fitted, Row
from harness.scenario.parameters import PARAMETERS

_HEADINGS = ("parameter", "written as", "whose behaviour", "meaning", "what shows that it took effect")


def _rows() -> list[tuple[str, str, str, str, str]]:
    return [(one.name, one.written, one.acts, one.meaning, one.evidence) for one in PARAMETERS.values()]


def show(console: Console) -> None:
    """Print the table."""
    first, *others = _HEADINGS
    columns = [Column(first, identifies=True), *(Column(heading, text=SENTENCE) for heading in others)]
    console.print(Fitted("parameters", columns, [Row(row) for row in _rows()]))


def markdown() -> str:
    """The same for a page."""
    lines = ["| " + " | ".join(_HEADINGS) + " |", "|" + " --- |" * len(_HEADINGS)]
    lines += [f"| `{name}` | " + " | ".join(rest) + " |" for name, *rest in _rows()]
    return "\n".join(lines) + "\n"


def report() -> dict[str, Any]:
    """What `report parameters --json` prints."""
    names = ("name", "written", "acts", "meaning", "evidence")
    return {"schema": 1, "parameters": [dict(zip(names, row, strict=True)) for row in _rows()]}

"""What the checks of test cases can demand: a row per check, from the declaration beside its code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from harness.analysis.interop.registry import Check
from harness.report.layout import SENTENCE_WIDTH, Column, FittedTable, Row
from harness.report.markdown import table_row

SCHEMA = 1


def _accepted_values(check: Check) -> list[str]:
    """The values that a check takes: words, or a kind of value."""
    return [f"`{word}`" for word in check.words] or [check.value_kind]


def markdown(checks: Sequence[Check]) -> str:
    """For a page."""
    lines = [table_row(["check", "takes", "what it demands", "source", "needs secrets"]), table_row(["---"] * 5)]
    for check in checks:
        secrets = "yes" if check.needs_keys else ""
        lines.append(
            table_row([f"`{check.name}`", " or ".join(_accepted_values(check)), check.title, check.source, secrets])
        )
    return "\n".join(lines) + "\n"


def show(checks: Sequence[Check], console: Console) -> None:
    """For a terminal."""
    columns = [
        Column("check", identifies=True),
        Column("takes"),
        Column("what it demands", text=SENTENCE_WIDTH),
        Column("source", text=SENTENCE_WIDTH),
        Column("secrets"),
    ]
    rows = []
    for check in checks:
        takes = " or ".join(_accepted_values(check)).replace("`", "")
        rows.append(Row([check.name, takes, check.title, check.source, "needed" if check.needs_keys else ""]))
    console.print(FittedTable("What the checks of a scenario can demand (checks: {NAME: value})", columns, rows))


def report(checks: Sequence[Check]) -> dict[str, Any]:
    """As plain data."""
    return {
        "schema": SCHEMA,
        "checks": [
            {
                "name": check.name,
                "takes": check.value_kind,
                "words": list(check.words),
                "demands": check.title,
                "source": check.source,
                "needs_secrets": check.needs_keys,
            }
            for check in checks
        ],
    }

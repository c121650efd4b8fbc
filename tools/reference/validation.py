"""The table of docs/validation.md: what links were held against, in a stored session of `python -m tools.bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.report.markdown import table_row
from tools.reference.readme import between

#: The stored session: what `python -m tools.bench links --json` prints.
SESSION = "validation.json"


def with_validation(text: str, session: dict[str, Any]) -> str:
    """The text of docs/validation.md with its table made anew. InputError where it has no place for that."""
    rows = [table_row(["what was compared", "median", "least", "most", "unit", "n", "aim"]), table_row(["---"] * 7)]
    rows += [_row(benchmark) for benchmark in session["benchmarks"]]
    return between(text, "validation", "\n".join(rows) + "\n", "docs/validation.md")


def read_session(results: Path) -> dict[str, Any] | None:
    """The stored session of a checkout's `results`; None where there is none."""
    file = results / SESSION
    if not file.exists():
        return None
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def _row(benchmark: dict[str, Any]) -> str:
    figures = [f"{benchmark[name]:.6g}" for name in ("median", "low", "high")]
    return table_row([benchmark["name"].strip(), *figures, benchmark["unit"], str(benchmark["n"]), benchmark["aim"]])

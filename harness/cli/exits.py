"""Exit codes: 0 all met or measured, 1 some verdict failed, 2 usage or invalid file, 3 infrastructure, 4 inconclusive
with --strict, 70 a fault of the harness itself, 130 interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.results import CellResult

MET, FAILED, USAGE, INFRASTRUCTURE, UNDECIDED, FAULT, INTERRUPTED = 0, 1, 2, 3, 4, os.EX_SOFTWARE, 130


def exit_code(results: Iterable[CellResult], *, strict: bool) -> int:
    """One exit code for all cells; the gravest wins. Never a count."""
    results = list(results)
    if any(item.outcomes and set(item.outcomes) == {"infrastructure"} for item in results):
        return INFRASTRUCTURE
    if any(item.verdict.status in ("fail", "error") for item in results):
        return FAILED
    if strict and any(item.verdict.status == "inconclusive" for item in results):
        return UNDECIDED
    return MET

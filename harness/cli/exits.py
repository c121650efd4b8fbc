"""Exit codes: 0 all met or measured, 1 some verdict failed or an image is not as recorded, 2 usage or invalid file,
3 infrastructure (a run that failed through nobody's fault counts, too: it was asked for, and is not among what was
judged), 4 inconclusive with --strict, 5 nothing to judge (no such store, no stored run that matches, nothing run),
6 everything is unsupported, 70 a fault of the harness itself, 130 interrupted, 141 nobody reads on: the pipe that it
prints to was closed (128 and SIGPIPE, as shells have it).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.evaluation.cell_result import CellResult

MET, FAILED, USAGE, INFRASTRUCTURE, UNDECIDED, NOTHING, UNSUPPORTED = range(7)
FAULT, INTERRUPTED, UNREAD = os.EX_SOFTWARE, 130, 141


def exit_code(results: Iterable[CellResult], *, strict: bool) -> int:
    """One exit code for all cells; the gravest wins. Never a count."""
    results = list(results)
    if not any(item.outcomes for item in results):
        return NOTHING
    if any("infrastructure" in item.outcomes for item in results):
        return INFRASTRUCTURE
    if any(item.verdict.status in ("fail", "error") for item in results):
        return FAILED
    if all(item.verdict.status == "unsupported" for item in results):
        return UNSUPPORTED
    if strict and any(item.verdict.status == "inconclusive" for item in results):
        return UNDECIDED
    return MET

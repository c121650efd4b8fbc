"""The page of published figures and ours."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from studies.published.claims import FIGURES, NOT_COMPARED
from studies.published.compared import ours


def published(results: Sequence[CellResult]) -> str:
    """The page."""
    rows = [
        [
            figure.source + (" †" if figure.read == "abstract" else ""),
            figure.path,
            figure.figure,
            figure.theirs,
            ours(results, figure.key) or "no run yet",
            figure.why or "–",
        ]
        for figure in FIGURES
    ]
    lines = [
        "# Beside published results",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        "What others measured, and what this lab does on a path like theirs. Ours are medians, with intervals where",
        "chance plays. †: the abstract or an excerpt was read, not the whole. picoquic's own simulator has",
        "[a page of its own](picoquic.md), and so have the RFCs' [windows under random loss](response.md).",
        "",
        table_row(["source", "path", "figure", "theirs", "ours", "why they may differ"]),
        table_row(["---"] * 6),
        *(table_row(row) for row in rows),
        "",
        "Not compared:",
        "",
        *(f"* {source}: {why}." for source, why in NOT_COMPARED),
        "",
    ]
    return "\n".join(lines)

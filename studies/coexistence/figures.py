"""The study's figure: what each sender leaves to TCP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.evaluation.cell_result import CellResult
from studies.charts import Axis, Mark, draw_rows
from studies.coexistence.claims import HARMLESS, PATHS, TCP
from studies.coexistence.compared import contests, left_to_tcp


def tcp_shares(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of what TCP has beside each server, as a part of what it has beside TCP; None without runs."""
    marks = [
        Mark(row.title, path, span)
        for name, path in PATHS.items()
        for row, span in left_to_tcp(contests(results, name)).items()
        if row.server != TCP
    ]
    return draw_rows(
        sorted(marks, key=lambda mark: (list(PATHS.values()).index(mark.case), mark.span.median)),
        Axis("of what TCP has beside another TCP", alt.Scale(domainMin=0), alt.Axis(format="%", grid=True), HARMLESS),
        "What each sender leaves to TCP",
        ["the congestion control of the sender is in brackets", f"dashed: {HARMLESS:.0%}"],
    )

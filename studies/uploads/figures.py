"""The study's figure: how much longer uploads take than the line rate allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.evaluation.cell_result import CellResult
from studies import per
from studies.charts import Axis, Mark, draw_rows
from studies.uploads.claims import MEDIUM, PATHS
from studies.uploads.compared import completed_cells, ideal_times, milestone, pair_text


def slowdowns(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each pair's milestones over GEO, per the least time of each; None without runs."""
    marks = [
        Mark(pair_text(result), str(size), per(span, ideal))
        for result in completed_cells([result for result in results if result.cell.virtual_time], MEDIUM)
        for size, ideal in ideal_times(result).items()
        if (span := milestone(result, size)) is not None
    ]
    axis = Axis("times as long as the line rate allows", alt.Scale(domainMin=1))
    return draw_rows(marks, axis, "Uploads beside the line rate", [f"over {PATHS[MEDIUM][1]}, by how much has come"])

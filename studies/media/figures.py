"""The study's figure: how soon a video starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.evaluation.cell_result import CellResult
from studies.charts import Axis, Mark, draw_rows
from studies.media.claims import RUNGS, SOURCE
from studies.media.compared import cells_of, spans_of


def startups(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each pair's startup (s) by the rate of the video; None without runs."""
    spans = {scenario: spans_of(cells_of(results, scenario), "startup_time") for scenario in RUNGS}
    marks = [
        Mark(pair, f"{rate:g} Mbit/s", span)
        for scenario, rate in RUNGS.items()
        for pair, span in sorted(spans[scenario].items(), key=lambda item: item[1].median)
    ]
    axis = Axis("s until the first segment is whole", alt.Scale(domainMin=0))
    return draw_rows(marks, axis, "How soon a video starts", [SOURCE])

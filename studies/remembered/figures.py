"""The study's figure: a second connection's time per the first's, with a saved capacity and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.evaluation.cell_result import CellResult
from studies.charts import Axis, Mark, draw_rows
from studies.remembered.claims import ALIKE, SHOWN
from studies.remembered.compared import against_first, by_mechanism


def gains(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of repeat / first on one path, a row for each server and seed; None without runs."""
    marks = [
        Mark(mechanism.server + ("" if mechanism.seed == "off" else f", {mechanism.seed}"), mechanism.handshake, span)
        for mechanism, result in by_mechanism(results, SHOWN).items()
        if (span := against_first(result)) is not None
    ]
    axis = Axis("of the first connection's time", alt.Scale(zero=False), reference=1.0)
    notes = [ALIKE[SHOWN], "a saved capacity has its name behind the server's"]
    marks.sort(key=lambda mark: mark.span.median)
    return draw_rows(marks, axis, "How long a second connection takes", notes, ("resumed", "0-RTT"))

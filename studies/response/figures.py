"""The study's figure: each sender's window under random loss, beside its RFC's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from harness.evaluation.cell_result import CellResult
from studies import per
from studies.charts import Axis, Mark, draw_rows
from studies.response.claims import SOURCE
from studies.response.compared import windows


def window_ratios(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each sender's window per the RFC's, by path; None without runs."""
    measured = windows(results)
    paths = list(dict.fromkeys(window.path for window in sorted(measured, key=lambda item: (item.rtt, item.loss))))
    marks = [
        Mark(f"{window.stack} ({window.controller})", window.path, per(window.packets, window.expected))
        for window in measured
    ]
    ticks = alt.Axis(values=[0.2, 0.5, 1, 2, 5, 10, 20], format="~g", grid=True)
    axis = Axis("times the RFC's window", alt.Scale(type="log", nice=False), ticks, reference=1.0)
    return draw_rows(marks, axis, "Windows under random loss", [SOURCE], paths)

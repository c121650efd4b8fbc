"""Two figures of stored runs: goodput against queue delay, a panel per queue; and the shares beside TCP CUBIC."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, OPTIMUM, SOFT, add_heading, vega_config
from studies.queues.claims import EQUAL, QUEUES
from studies.queues.compared import contestants, queues_of

#: Family → colour and symbol of its points.
_LOOKS = {
    "Reno": ("#3a7ca5", "square"),
    "CUBIC": (INK, "circle"),
    "BBR": (OPTIMUM, "diamond"),
    "another": ("#b5651d", "triangle-up"),
}
_COLUMNS, _PANEL, _ROW, _COLUMN = 4, 165, 17, 74
#: The shortest delay that has a place of its own, ms: logarithms need one.
_LEAST = 0.3


def planes(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of goodput (Mbit/s) against queue delay (ms), a panel per queue; None without runs."""
    found = contestants(results)
    points = [
        (queue, contestant.title, contestant.family, max(behind.delay.median, _LEAST), behind.goodput.median)
        for contestant, queues in found.items()
        for queue, behind in queues.items()
        if behind.delay is not None and behind.goodput is not None
    ]
    if not points:
        return None
    frame = pl.DataFrame(
        points,
        {"queue": pl.String, "name": pl.String, "family": pl.String, "delay": pl.Float64, "goodput": pl.Float64},
        orient="row",
    )
    goodputs, delays = frame["goodput"].to_list(), frame["delay"].to_list()
    # All panels have the same scales. Below the least goodput there is room for a name.
    ends = (max(0.0, 5 * math.floor(min(goodputs) / 5 - 0.2)), 5 * math.ceil(max(goodputs) / 5) + 0.5)
    longest = max(delays) * 1.4
    queues = [queue for queue in queues_of(found) if queue in frame["queue"].unique()]
    with warnings.catch_warnings(), debug_mode(False):
        panels = [
            _plane(frame.filter(pl.col("queue") == queue), QUEUES[queue], ends, longest, number)
            for number, queue in enumerate(queues)
        ]
        chart = alt.vconcat(
            *(alt.hconcat(*panels[start : start + _COLUMNS]) for start in range(0, len(panels), _COLUMNS))
        )
        add_heading(
            chart,
            "Goodput against queue delay",
            ["a point is a server with a congestion control, alone for 30 s on 20 Mbit/s; better is up and to the left",
             "the one with the least goodput has its name"],
        )  # fmt: skip
        return {**chart.to_dict(validate=False), "config": vega_config()}


def _plane(frame: pl.DataFrame, title: str, ends: tuple[float, float], longest: float, number: int) -> alt.LayerChart:
    first = number % _COLUMNS == 0
    families = list(_LOOKS)
    x = alt.X(
        "delay:Q",
        title="mean queue delay, ms" if first else None,
        scale=alt.Scale(type="log", domain=[_LEAST, longest], nice=False),
        axis=alt.Axis(values=[1, 3, 10, 30, 100], grid=True),
    )
    y = alt.Y(
        "goodput:Q",
        title="goodput, Mbit/s" if first else None,
        scale=alt.Scale(domain=list(ends), nice=False),
        axis=alt.Axis(tickCount=5, labels=first),
    )
    colours, shapes = (alt.Scale(domain=families, range=[look[part] for look in _LOOKS.values()]) for part in range(2))
    legend = alt.Legend(symbolSize=70)
    colour = alt.Color("family:N", sort=families, legend=legend, scale=colours)
    shape = alt.Shape("family:N", sort=families, legend=legend, scale=shapes)
    least = frame.sort("goodput", "name").head(1)
    # A name has room to the left of a point in the right half of the panel, else to its right.
    is_right = least["delay"][0] > math.sqrt(_LEAST * longest)
    name: dict[str, Any] = {"align": "right", "dx": 4} if is_right else {"align": "left", "dx": -4}
    layers = [
        Marks(frame).mark_point(filled=True, size=45, opacity=0.8).encode(x=x, y=y, color=colour, shape=shape),
        Marks(least).mark_text(**name, dy=12, fontSize=9, color=SOFT).encode(x=x, y=y, text="name:N"),
    ]
    chart = set_size(layer_charts(*layers), _PANEL, _PANEL)
    chart.title = alt.TitleParams(title, fontSize=12, fontWeight="normal", offset=6)
    return chart


def shares(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each contestant's share of the goodput beside TCP CUBIC, by queue; None without runs."""
    found = contestants(results)
    cells = [
        (contestant.title, QUEUES[queue], behind.share.median, f"{behind.share.median:.0%}")
        for contestant, queues in found.items()
        for queue, behind in queues.items()
        if behind.share is not None
    ]
    if not cells:
        return None
    frame = pl.DataFrame(
        cells, {"name": pl.String, "queue": pl.String, "share": pl.Float64, "text": pl.String}, orient="row"
    )
    names = list(frame["name"].unique(maintain_order=True))
    titles = [QUEUES[queue] for queue in queues_of(found) if QUEUES[queue] in frame["queue"].unique()]
    short = "replace(datum.label, 'DropTail, ', '')"
    axis = alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False, labelExpr=short)
    x = alt.X("queue:N", sort=titles, title=None, axis=axis, scale=alt.Scale(domain=titles))
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False))
    colour = alt.Color(
        "share:Q",
        legend=None,
        scale=alt.Scale(domain=[0, EQUAL, 1], range=["#3a7ca5", "#ffffff", OPTIMUM], interpolate="lab"),
    )
    layers = [
        Marks(frame).mark_rect(stroke="white").encode(x=x, y=y, color=colour),
        Marks(frame).mark_text(fontSize=10, color=INK).encode(x=x, y=y, text="text:N"),
    ]
    chart = set_size(layer_charts(*layers), _ROW * len(names), _COLUMN * len(titles))
    with warnings.catch_warnings(), debug_mode(False):
        add_heading(
            chart,
            "Share of the goodput beside TCP CUBIC",
            [
                "of both flows, 30 s on 20 Mbit/s, medians; blue is less than half for QUIC, pink is more",
                "0.25, 1 and 4 BDP are DropTail",
            ],
        )
        return {**chart.to_dict(validate=False), "config": vega_config()}

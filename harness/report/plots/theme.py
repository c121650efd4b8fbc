"""The look of all figures: sizes, type, greys, and the colours, dashes and symbols of flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from harness.scenario.schema import FlowKind, Implementation

Panel = alt.Chart | alt.LayerChart
Chart = Panel | alt.VConcatChart | alt.HConcatChart

#: Width of a figure's drawing area, and height of a single panel, pixels. A PNG has twice as many.
WIDTH, HEIGHT = 660, 280
#: DejaVu is available on a minimal Linux (fonts-dejavu-core); the others are for readers of SVG and HTML.
FONT = "DejaVu Sans, Verdana, Arial, sans-serif"
INK, SOFT, GRID = "#1a1a1a", "#666666", "#e0e0e0"
#: Opacity of black for the path's limits, so that the grid below still shows; grey of queues and counts.
SHADE, FILL = 0.06, "#c8c8c8"
#: The colour of the optimum, as in CCPerf's figures.
OPTIMUM = "#c2007a"

#: Tints of an implementation's flows, in order: how far the colour moves towards white (above 0) or black (below 0).
#: The first flow has the colour itself.
_TINTS = (0.0, -0.6, 0.4, -0.35, 0.2)
#: Dashes of flows with congestion control, in order; with the lightness they tell flows apart in grey.
_DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2), (2.5, 1.5), (8, 2, 2, 2), (12, 3), (4, 1, 1, 1))
#: UDP flows are background traffic: thin and grey, whoever sends them.
_UDP_COLOUR, _UDP_WIDTH = "#9a9a9a", 1.0


@dataclass(frozen=True)
class Look:
    """The look of a flow in every figure."""

    colour: str
    dash: tuple[float, ...]
    """Pixels drawn and left out in turn; empty for a solid line."""
    shape: str
    """A symbol of Vega's."""
    width: float = 1.5
    """Of lines, pixels."""


def _mix_colour(colour: str, amount: float) -> str:
    """The colour, moved towards white (amount above 0) or black (below 0) by that share of the distance."""
    towards = 255 if amount > 0 else 0
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + (towards - part) * abs(amount)):02x}" for part in parts)


def choose_look(implementation: Implementation, kind: FlowKind, alike: int, order: int) -> Look:
    """The look of a run's `order`-th flow of a kind (from 0), the `alike`-th of that kind and implementation."""
    dash, marker = _DASHES[order % len(_DASHES)], implementation.marker
    if kind == "udp":
        return Look(_UDP_COLOUR, dash, marker, _UDP_WIDTH)
    return Look(_mix_colour(implementation.colour, _TINTS[alike % len(_TINTS)]), dash, marker)


def vega_config() -> dict[str, Any]:
    """Vega-Lite's configuration: one font, and thin grey lines."""
    axis = {
        "labelColor": INK,
        "titleColor": INK,
        "tickColor": SOFT,
        "domainColor": SOFT,
        "gridColor": GRID,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "tickSize": 4,
    }
    return {
        "background": "white",
        "font": FONT,
        "padding": 12,
        "view": {"stroke": None},
        "axis": axis,
        "axisX": {"grid": False, "labelFlush": False},
        "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
        "legend": {
            "orient": "top",
            "direction": "horizontal",
            "title": None,
            "labelFontSize": 11,
            "labelColor": INK,
            "labelLimit": 260,
            "symbolStrokeWidth": 2,
            "symbolSize": 400,
            "offset": 8,
            "columnPadding": 18,
        },
        "title": {
            "anchor": "start",
            "fontSize": 15,
            "fontWeight": "bold",
            "color": INK,
            "offset": 10,
            "subtitleFontSize": 11,
            "subtitleColor": SOFT,
            "subtitlePadding": 5,
        },
        "concat": {"spacing": 14},
    }


def add_heading(chart: Chart, title: str, lines: Sequence[str]) -> Chart:
    """The chart, with its title and the lines below it set in place."""
    # `properties` would copy the whole chart.
    chart.title = alt.TitleParams(title, subtitle=[line for line in lines if line])
    return chart

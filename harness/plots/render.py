"""Charts → files: PNG at twice the size, SVG, and one page per run with all its figures, which works offline."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import altair as alt
import vl_convert
from jinja2 import Environment

from harness.outcome import Cell, MeasuredRun, Run
from harness.plots.registry import Plot, plots
from harness.plots.theme import FONT, config, headed
from harness.plots.view import Drawn, drawn

Format = Literal["png", "svg", "html"]
FORMATS: tuple[Format, ...] = ("png", "svg", "html")
#: Pixels of a PNG per pixel of a figure.
SCALE = 2


@dataclass(frozen=True)
class Figure:
    """One figure of one run, or of a pair."""

    plot: Plot
    specification: dict[str, Any]
    """Vega-Lite, with its data."""


def figure(plot: Plot, *runs: Drawn) -> Figure | None:
    """A plot of a run, or of a pair; None where what it needs is not there."""
    chart = plot.chart(*runs)
    if chart is None:
        return None
    headed_chart = headed(chart, plot.title, [runs[0].place, plot.note])
    with alt.data_transformers.enable("default", max_rows=None):
        specification: dict[str, Any] = headed_chart.to_dict()
    return Figure(plot, {**specification, "config": config()})

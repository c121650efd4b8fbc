"""Distributions of throughput and smoothed round-trip time of each flow."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import vl_convert
from altair.utils.schemapi import debug_mode

from harness.evaluation.ranking import Ranking
from harness.formatting import format_count
from harness.outcome import ENGINES
from harness.report.plots.parts import Marks, axis_end, flow_encodings, flows_in, layer_charts, set_size
from harness.report.plots.registry import plot
from harness.report.plots.theme import INK, SOFT, Chart, add_heading, vega_config
from harness.report.plots.view import DrawnFlow, PlotData
from harness.store.results import disk_error
from harness.writing import replace_file

#: Points of a curve at most.
_POINTS = 200


@plot("Distribution of the operating point", "throughput", note="eCDF: share of the values up to x, from start to stop")
def distribution(run: PlotData) -> Chart | None:
    """ECDFs of throughput (Mbit/s, bins of 0.1 s) and of sRTT (ms) (CCPerf, distribution of the operating point)."""
    curves = {
        title: curve
        for name, title in (("throughput", "throughput (Mbit/s)"), ("srtt", "sRTT (ms)"))
        if not (curve := ecdf(run, run.of_flows(name))).is_empty()
    }
    if not curves:
        return None
    flows = flows_in(run, pl.concat(curves.values()))
    return alt.hconcat(*(_panel(frame, flows, title) for title, frame in curves.items()), spacing=30)


def ecdf(run: PlotData, frame: pl.DataFrame) -> pl.DataFrame:
    """The ECDF of each flow's values between its start and its stop, as step curves: a frame of flow, x, share."""
    curves = []
    for flow in flows_in(run, frame):
        last = run.end if flow.stop is None else flow.stop
        inside = frame.filter((pl.col("flow") == flow.name) & pl.col("t").is_between(flow.start, last, closed="left"))
        values = np.sort(inside["value"].to_numpy())
        if not len(values):
            continue
        # Keep values at equal steps of the share, and both ends.
        ranks = np.unique(np.linspace(0, len(values) - 1, min(len(values), _POINTS)).round().astype(int))
        shares = (ranks + 1) / len(values)
        curves.append(
            pl.DataFrame(
                {
                    "flow": [flow.name] * (len(ranks) + 1),
                    "x": np.concatenate([values[:1], values[ranks]]),
                    "share": np.concatenate([[0.0], shares]).round(4),
                }
            )
        )
    schema = {"flow": pl.String, "x": pl.Float64, "share": pl.Float64}
    return pl.concat(curves) if curves else pl.DataFrame(schema=schema)


def _panel(curves: pl.DataFrame, flows: Sequence[DrawnFlow], title: str) -> Any:
    scale = alt.Scale(domain=[0, axis_end(curves["x"].max())], nice=False)
    chart = (
        Marks(curves)
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=alt.X("x:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6)),
            y=alt.Y("share:Q", title="share of values", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5)),
            **flow_encodings(flows),
        )
    )
    return set_size(chart, 260, 300)


# --- Cells side by side: a point per run, with median and interval, the best cell on top.


#: The most cells of a figure; of more cells, it shows the first.
MOST = 60
#: Text at the edge for runs whose transfers failed.
_LATE = {"timed out": "not in time", "did not finish": "did not finish"}
#: Height of a cell's row, pixels.
_ROW = 22
#: Ratio of the largest to the smallest value above which the axis is logarithmic.
_FAR = 20.0


def ranking_chart(ranking: Ranking) -> Chart | None:
    """The figure of a ranking; None where no run has a finite value."""
    cells = ranking.cells[:MOST]
    values = [value for cell in cells for value in cell.values if math.isfinite(value)]
    if not values:
        return None
    order = [cell.label for cell in cells]
    # Infinite values are drawn at the edge.
    edge = min(values) * 0.9 if ranking.better == "higher" else max(values) * 1.1
    runs = [(cell.label, value) for cell in cells for value in cell.values if math.isfinite(value)]
    spans = [
        (cell.label, _clip_to_edge(cell.span.low, edge), _clip_to_edge(cell.span.high, edge), cell.span.median)
        for cell in cells
        if math.isfinite(cell.span.low) or math.isfinite(cell.span.high)
    ]
    late = [
        (cell.label, edge, f"{cell.unfinished} of {len(cell.values)} {_LATE[cell.ending]}")
        for cell in cells
        if cell.unfinished
    ]
    # From zero: a difference of 1 % is 1 % of the way.
    log_scale = min(values) > 0 and max(values) / min(values) > _FAR
    scale = (
        alt.Scale(type="log", nice=True) if log_scale else alt.Scale(domain=[0, axis_end(*values, edge)], nice=False)
    )
    unit = f" ({ranking.unit})" if ranking.unit != "1" else ""
    x, low = (
        alt.X(f"{field}:Q", title=f"{ranking.name}{unit}", scale=scale, axis=alt.Axis(tickCount=6))
        for field in ("value", "low")
    )
    y = alt.Y("cell:N", sort=order, title=None, axis=alt.Axis(labelLimit=0, domain=False, ticks=False))
    span = _frame(spans, "cell", "low", "high", "value")
    medians = span.filter(pl.col("value").is_finite())
    layers = [
        Marks(span).mark_rule(color=SOFT, strokeWidth=2).encode(x=low, x2="high:Q", y=y),
        Marks(_frame(runs, "cell", "value")).mark_point(color=INK, size=24, opacity=0.5).encode(x=x, y=y),
        Marks(medians).mark_tick(color=INK, thickness=2.5, size=_ROW * 0.7).encode(x=x, y=y),
    ]
    if late:
        words = Marks(_frame(late, "cell", "value", "text"))
        layers.append(words.mark_text(align="right", dy=-8, fontSize=9, color=SOFT).encode(x=x, y=y, text="text:N"))
    return set_size(layer_charts(*layers), _ROW * len(cells))


def ranking_specification(ranking: Ranking) -> dict[str, Any] | None:
    """The figure as a Vega-Lite specification, with heading and data; None where there is nothing to draw."""
    with warnings.catch_warnings(), debug_mode(False):
        figure = ranking_chart(ranking)
        if figure is None:
            return None
        time = ENGINES[ranking.engine].time
        excerpt = f"the first {MOST} of {len(ranking.cells)} cells" if len(ranking.cells) > MOST else ""
        place = " · ".join(word for word in (ranking.scenario.name, ranking.path_label, time, excerpt) if word)
        note = "a point a run; median, and the interval around it"
        title = f"{format_count(len(ranking.cells), 'cell')} by {ranking.name}"
        return {**add_heading(figure, title, [place, note]).to_dict(validate=False), "config": vega_config()}


def write_ranking(ranking: Ranking, folder: Path) -> Path | None:
    """Draw a ranking as SVG in its scenario's folder below `folder`, and return the file; None without a figure.

    Raises EngineError for errors of the disk.
    """
    vega_lite = ranking_specification(ranking)
    if vega_lite is None:
        return None
    words = ["cells", ranking.name, *([ranking.path_label] if ranking.path_label else []), ranking.engine]
    file = (
        folder / ranking.scenario.name / ("-".join(re.sub(r"[^A-Za-z0-9.=_]+", "_", word) for word in words) + ".svg")
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, str(vl_convert.vegalite_to_svg(vega_lite)).encode())
    except OSError as error:
        raise disk_error(error, file) from error
    return file


def _clip_to_edge(value: float, edge: float) -> float:
    return value if math.isfinite(value) else edge


def _frame(rows: list[tuple[Any, ...]], *names: str) -> pl.DataFrame:
    words = ("cell", "text")
    return pl.DataFrame(rows, {name: pl.String if name in words else pl.Float64 for name in names}, orient="row")

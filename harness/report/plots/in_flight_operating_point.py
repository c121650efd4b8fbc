"""What is in flight against what comes of it, with the optimum: Kleinrock's operating point."""

from __future__ import annotations

import altair as alt
import polars as pl

from harness.report.plots.copied import Marks
from harness.report.plots.operating_point_plane import means, numbered
from harness.report.plots.parts import haloed, layered, sized, top
from harness.report.plots.registry import plot
from harness.report.plots.theme import INK, OPTIMUM, SOFT, Chart
from harness.report.plots.view import Drawn

#: Of a panel: width and height, pixels.
_SIZE = (300, 280)


@plot(
    "In flight and mean operating point",
    note="grey: what the path makes of so many packets in flight; star: one bandwidth-delay product, the optimum",
)
def in_flight_operating_point(run: Drawn) -> Chart | None:
    """Mean sRTT (ms) and mean throughput (Mbit/s) v mean packets in flight (CCPerf, in flight v mean operating point).

    The grey line is the ideal path's: below one bandwidth-delay product (BDP) the round trip takes the path's own
    time and throughput grows with what is in flight, above it the queue and with it the round trip grow (L. Kleinrock,
    Power and deterministic rules of thumb, ICC 1979). Beside each flow stands what all of them make together.
    """
    base, rate, bdp = run.round_trip, run.link.rate.value / 1e6, run.bdp
    trips, rates = means(run, "mean_in_flight", "mean_srtt"), means(run, "mean_in_flight", "mean_throughput")
    if trips.is_empty() or rates.is_empty() or bdp <= 0:
        return None
    joint = _joint(run, trips)
    widest = top(trips["x"].max(), joint["x"].max(), bdp + run.queue_limit * 1000 / run.packet)
    x = alt.X(
        "x:Q",
        title="mean in flight (packets)",
        scale=alt.Scale(domain=[0, widest], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    kinds = (
        ("mean sRTT (ms)", trips, "trip", [(0.0, base), (bdp, base), (widest, base * widest / bdp)]),
        ("mean throughput (Mbit/s)", rates, "rate", [(0.0, 0.0), (bdp, rate), (widest, rate)]),
    )
    panels = []
    for title, points, column, ideal in kinds:
        curve = pl.DataFrame(ideal, schema={"x": pl.Float64, "y": pl.Float64}, orient="row")
        whole = joint.select("x", y=pl.col(column), text=pl.lit("all flows")).drop_nulls()
        up = alt.Scale(domain=[0, top(points["y"].max(), whole["y"].max(), 1.05 * curve["y"][2])], nice=False)
        y = alt.Y("y:Q", title=title, scale=up, axis=alt.Axis(tickCount=5))
        panels.append(sized(_panel(run, points, curve, whole, x, y), *reversed(_SIZE)))
    return alt.hconcat(*panels, spacing=30)


def _joint(run: Drawn, trips: pl.DataFrame) -> pl.DataFrame:
    """x, trip, rate of all flows together: sums over the network of the means in time, and the mean of the sRTTs."""
    flight = run.network("agg_in_flight")
    if flight is None:
        return pl.DataFrame(schema={"x": pl.Float64, "trip": pl.Float64, "rate": pl.Float64})
    rate = run.network("agg_throughput")
    return pl.DataFrame(
        [(flight, trips["y"].mean(), rate)],
        schema={"x": pl.Float64, "trip": pl.Float64, "rate": pl.Float64}, orient="row",
    )  # fmt: skip


def _panel(
    run: Drawn, points: pl.DataFrame, curve: pl.DataFrame, whole: pl.DataFrame, x: alt.X, y: alt.Y
) -> alt.LayerChart:
    line = Marks(curve).mark_line(color=SOFT, strokeWidth=1, clip=True).encode(x=x, y=y)
    optimum = Marks(curve[[1]]).mark_point(shape=_STAR, filled=True, size=260, color=OPTIMUM, opacity=1)
    joint = Marks(whole).mark_point(shape="cross", size=130, filled=True, color=INK, opacity=1)
    called = haloed(Marks(whole).encode(x=x, y=y, text="text:N"), dy=16, fontSize=11, color=INK)
    return layered(
        line,
        optimum.encode(x=x, y=y),
        *numbered(run, points, x, y, _SIZE),
        joint.encode(x=x, y=y),
        *called,
    )


#: A star with five points around the origin, as a path in Vega's square of 2 × 2.
_STAR = (
    "M0,-1L0.2245,-0.309L0.9511,-0.309L0.3633,0.118L0.5878,0.809L0,0.3819L-0.5878,0.809L-0.3633,0.118"
    "L-0.9511,-0.309L-0.2245,-0.309Z"
)

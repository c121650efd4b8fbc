"""The figure of marks and drops by cause: a panel for each cause that there was."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from harness.analysis.timeseries import BOTTLENECK
from harness.outcome import Measurement
from harness.report.plots.registry import plots
from harness.report.plots.render import render_figure
from harness.report.plots.view import PlotData
from tests.plot_runs import link_sharing_run


def _run(series: dict[str, list[float]], **counted: float) -> PlotData:
    """A run whose bottleneck has packets at these times, s, in each series."""
    run = link_sharing_run(20)
    names = pl.col("name").is_in(["mark", "drop", "loss", "too_large"])
    rows = [(BOTTLENECK, name, t, 0.0) for name, times in series.items() for t in times]
    assert run.measured is not None and run.series is not None
    more = pl.DataFrame(rows, run.series.schema, orient="row")
    figures = tuple(Measurement(name=name, value=value, unit="packets") for name, value in counted.items())
    measured = run.measured.model_copy(update={"measurements": (*run.measured.measurements, *figures)})
    return replace(run, measured=measured, series=pl.concat([run.series.filter(~names), more]))


def _panels(run: PlotData) -> dict[str, list[tuple[float, float]]]:
    """Title of each panel → its points."""
    figure = render_figure(plots()["marks_and_drops"], run)
    if figure is None:
        return {}
    whole = figure.specification
    # Panels that have the same data share them.
    names = [panel.get("data", whole.get("data"))["name"] for panel in whole["vconcat"]]
    return {
        panel["title"]["text"]: [(row["t"], row["value"]) for row in whole["datasets"][name]]
        for panel, name in zip(whole["vconcat"], names, strict=True)
    }


def test_a_panel_for_each_cause_that_there_was() -> None:
    panels = _panels(_run({"mark": [1.0, 1.1, 1.2], "loss": [5.0]}))
    assert list(panels) == ["3 marked by the queue (ECN)", "1 lost at random behind it"]
    # Per second over half a second; the last bin goes on to the end.
    marks = panels["3 marked by the queue (ECN)"]
    assert [point for point in marks if point[1]] == [(1.0, 6.0)]
    assert marks[-1][0] == link_sharing_run(20).end


def test_drops_are_of_the_discipline_or_of_a_full_queue_where_that_was_counted() -> None:
    times = {"drop": [2.0, 3.0]}
    counted = _run(times, early_drops_to_client=1, limit_drops_to_client=1)
    assert list(_panels(counted)) == ["2 dropped by the queue: 1 by its discipline, 1 at its limit"]
    assert list(_panels(_run(times))) == ["2 dropped by the queue"]


def test_nothing_is_drawn_where_every_packet_passed_unmarked() -> None:
    assert _panels(_run({})) == {}

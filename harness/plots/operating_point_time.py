"""The operating point over time: packets in flight, smoothed round-trip time, throughput."""

from __future__ import annotations

import altair as alt

from harness.plots.parts import centred, lines, ruler, shaded_capacity, sized, top, value_axis
from harness.plots.parts import BIN, binned
from harness.plots.registry import plot
from harness.plots.theme import Chart
from harness.plots.view import Drawn


@plot("Operating point over time", "in_flight", "srtt", "throughput", note="means over 0.1 s")
def operating_point_time(run: Drawn) -> Chart | None:
    """In flight (packets), sRTT (ms) and throughput (Mbit/s) of each flow (CCPerf, time series of the operating point)."""
    flight, trip, rate = run.of_flows("in_flight"), run.of_flows("srtt"), run.of_flows("throughput")
    if flight.is_empty() or trip.is_empty() or rate.is_empty():
        return None
    flight, trip, rate = binned(flight, BIN), binned(trip, BIN), centred(rate, BIN)
    base = run.path.rtt.seconds * 1000
    rates = value_axis("throughput (Mbit/s)", top(rate["value"].max(), run.capacity["value"].max()))
    return alt.vconcat(
        sized(
            lines(
                run, flight, value_axis("in flight (packets)", top(flight["value"].max())), labels=False, legend=False
            ),
            150,
        ),
        sized(
            ruler(base, f"path alone {base:g} ms", run.end, above=False)
            + lines(run, trip, value_axis("sRTT (ms)", top(trip["value"].max())), labels=False, legend=False),
            150,
        ),
        sized(shaded_capacity(run) + lines(run, rate, rates), 150),
        spacing=10,
    )

"""A run with made-up series for the plots' tests: flows of a textbook congestion control on one bottleneck.

A fluid model in steps of 20 ms, without chance: windows grow by a packet a round trip (double until the first loss),
and whoever had its turn least lately halves its own when the queue overflows. Nothing here is a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, Image, LinkProof, MeasuredRun, Measurement, Outcome, Run
from harness.report.plots.registry import Plot
from harness.report.plots.view import PlotData
from harness.scenario.schema import Flow, Objective, Red, Scenario
from harness.scenario.schema import Path as EmulatedPath
from harness.units import Size
from tests.examples import SIM, implementation, scenario

STEP, BIN = 0.02, 0.1
ALPHA = implementation("alpha", colour="#d95f02", marker="square")
BETA = implementation("beta", colour="#1b9e77", marker="circle")
GAMMA = implementation("gamma", colour="#b23a48", marker="diamond")
LINUX = implementation("linux", colour="#4d4d4d", marker="square", protocols=("tcp", "udp"))

Row = tuple[int, str, float, float]


def link_sharing(seconds: float = 50, flows: Iterable[dict[str, object]] | None = None, **forward: object) -> Scenario:
    """Three flows of QUIC that come and go, and UDP all along; times scaled to `seconds`."""
    unit = seconds / 50
    shown = flows or [
        {"start": f"{5 * unit} s", "stop": f"{30 * unit} s"},
        {"start": f"{10 * unit} s", "stop": f"{40 * unit} s"},
        {"start": f"{20 * unit} s", "stop": f"{45 * unit} s"},
        {
            "kind": "udp",
            "stop": f"{seconds} s",
            "traffic": {"model": "uniform", "packet": ["500 B", "1000 B"], "gap": ["10 ms", "20 ms"]},
        },
    ]
    there = {"rate": "10 Mbit/s", "delay": "10 ms", "queue": "25 kB", **forward}
    back = {"rate": "10 Mbit/s", "delay": "10 ms", "queue": "25 kB"}
    return scenario(
        name="test/link-sharing",
        flows=[Flow.model_validate(flow) for flow in shown],
        path=EmulatedPath.model_validate({"mtu": 1280, "forward": there, "return": back}),
        objectives=[],
        timeout="120 s",
        parameters={"server.congestion_control": "reno"},
    )


def cell_of(definition: Scenario) -> Cell:
    """A cell of alpha's client and beta's server, in virtual time."""
    implementations = {item.name: item for item in (ALPHA, BETA, GAMMA, LINUX)}
    images = {name: Image(reference=f"example/{name}:1", identity=f"digest-of-{name}") for name in implementations}
    return build_matrix(Request([definition], [ALPHA], [BETA], engine="virtual"), images, SIM, implementations)[0]


def run_of(definition: Scenario) -> Run:
    return Run(
        cell=cell_of(definition), repetition=0, outcome=Outcome(status="completed"), started_at="2026-11-21T00:00:00Z"
    )


def drawn_of(definition: Scenario, span: tuple[float, float] | None = None) -> PlotData:
    """The run of a scenario with its series and figures."""
    run = run_of(definition)
    series = series_of(definition)
    return PlotData(run, measured_of(definition, series), series, span)


@cache
def link_sharing_run(seconds: float = 50) -> PlotData:
    return drawn_of(link_sharing(seconds))


@cache
def red_and_droptail(seconds: float = 20) -> tuple[PlotData, PlotData]:
    flows: list[dict[str, object]] = [
        {"stop": f"{seconds} s", "parameters": {"server.congestion_control": "cubic"}},
        {"stop": f"{seconds} s", "parameters": {"server.congestion_control": "reno"}},
    ]
    red = {
        "discipline": "red", "limit": "20 packets", "min": "9 kB", "max": "24 kB", "probability": "10 %", "wq": 0.002,
    }  # fmt: skip
    named = {
        "test/red": link_sharing(seconds, flows, queue=red, delay="44 ms"),
        "test/droptail": link_sharing(seconds, flows, queue="20 packets", delay="44 ms"),
    }
    data, plot_data = (drawn_of(scenario.model_copy(update={"name": name})) for name, scenario in named.items())
    return data, plot_data


@cache
def download_run(seconds: float = 8, rate: str = "10 Mbit/s", repetition: int = 0) -> PlotData:
    """A download to its end over a link alone: the file is what arrived, and half of it is a milestone."""
    path: dict[str, object] = {"rate": rate, "queue": "50 kB", "delay": "50 ms"}
    series = series_of(link_sharing(seconds, [{"stop": f"{seconds} s"}], **path))
    frame = series.filter((pl.col("flow") == 0) & (pl.col("name") == "throughput"))
    received = frame.with_columns(
        name=pl.lit("received"), t=pl.col("t") + BIN, value=pl.col("value").cum_sum() * 12_500
    )
    begin = received.head(1).with_columns(t=pl.lit(0.0), value=pl.lit(0.0))
    size = int(received["value"][-1])
    tested_scenario = link_sharing(seconds, [{"download": f"{size} B"}], **path)
    half = Size(size // 2)
    objective = Objective.model_validate({"metric": f"milestone_{half.label()}", "at_most": "3 s"})
    tested_scenario = tested_scenario.model_copy(update={"milestones": (half,), "objectives": (objective,)})
    run = run_of(tested_scenario).model_copy(update={"repetition": repetition})
    reached = float(received.filter(pl.col("value") >= half.bytes)["t"][0])
    times = {f"milestone_{half.label()}": reached, "completion": float(received["t"][-1])}
    measured = MeasuredRun(
        version=1,
        link=LinkProof(valid=True),
        measurements=tuple(
            Measurement(name=name, value=value, unit="s", flow=0, transfer="first") for name, value in times.items()
        ),
    )
    return PlotData(run, measured, pl.concat([series, begin, received]))


def runs_for(plot: Plot, seconds: float = 10.0) -> tuple[PlotData, ...]:
    """Runs that a plot can draw."""
    if plot.of == "pair":
        return red_and_droptail(min(seconds, 8.0))
    if plot.of == "runs":
        return download_run(), download_run(repetition=1)
    return (download_run(),) if plot.of == "transfer" else (link_sharing_run(seconds),)


@cache
def _kept() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="quic-lab-test-")


def page_cache() -> Path:
    """A folder for the script of all pages, which takes seconds to bundle; it goes when this process ends."""
    return Path(_kept().name)


def series_of(definition: Scenario) -> pl.DataFrame:
    """All series of a scenario's flows, as `series.parquet` has them."""
    path, rows = definition.path, list[Row]()
    rate, base, packet = path.to_client.rate.value, path.rtt.seconds, path.mtu + 14
    limit = path.to_client.queue.capacity.bytes_at(path.to_client.rate, path.rtt, packet)
    if isinstance(path.to_client.queue, Red):
        limit = int(limit * 0.6)
    end = max(flow.stop.seconds for flow in definition.flows if flow.stop is not None)
    state = [_Window() for _ in definition.flows]
    queue = 0.0
    for step in range(round(end / STEP)):
        t = round(step * STEP, 4)
        trip = base + queue * 8 / rate
        offered = [
            _offered(flow, t, window, trip, packet) for flow, window in zip(definition.flows, state, strict=True)
        ]
        total = sum(offered)
        excess = queue + (total - rate) * STEP / 8
        queue = min(max(excess, 0.0), limit)
        share = min(1.0, rate / total) if total else 0.0
        for index, (flow, sent, window) in enumerate(zip(definition.flows, offered, state, strict=True)):
            if _active(flow, t):
                window.sent += sent * (packet - 42) / packet
                window.arrived += sent * (1 if flow.kind == "udp" else share) * (packet - 42) / packet
                if flow.kind != "udp":
                    window.grow(STEP / trip, t)
                    rows += [
                        (index, "cwnd", t, window.size), (index, "in_flight", t, min(window.size, sent * trip / 8 / packet)),
                        (index, "srtt", t, window.smooth(trip * 1000)),
                    ]  # fmt: skip
            if total:
                rows.append((index, "queued", t, queue * sent / total))
            if (step + 1) % round(BIN / STEP) == 0:
                rows += window.bins(index, round(t - BIN + STEP, 4), flow)
        if excess > limit:
            loser = _turn(definition.flows, state, t)
            dropped = max(1, min(5, math.ceil((excess - limit) / packet)))
            rows += [(-1, "drop", t + 0.003 * number, float(loser)) for number in range(dropped)]
            state[loser].lose(t)
        rows += [
            (-1, "queue_length", t, round(queue)), (-1, "queue_packets", t, round(queue / packet)),
            (-1, "queue_delay", t, queue * 8 / rate * 1000),
        ]  # fmt: skip
    rows += [(-1, "capacity", 0.0, rate / 1e6), (-1, "capacity", end, rate / 1e6)]
    schema = {"flow": pl.Int16, "name": pl.String, "t": pl.Float64, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def measured_of(definition: Scenario, series: pl.DataFrame) -> MeasuredRun:
    """Means of the series, under the names that measuring gives them."""
    units = {"throughput": "Mbit/s", "srtt": "ms", "in_flight": "packets"}
    measurements, sums = [], dict.fromkeys(units, 0.0)
    for index, flow in enumerate(definition.flows):
        for name, unit in units.items():
            own = series.filter((pl.col("flow") == index) & (pl.col("name") == name))
            inside = own.filter(pl.col("t").is_between(flow.start.seconds, 1e9))
            if inside.is_empty():
                continue
            mean = float(inside["value"].to_numpy().mean())
            sums[name] += mean
            measurements.append(Measurement(name=f"mean_{name}", value=mean, unit=unit, flow=index))
    measurements += [
        Measurement(name=f"agg_{name}", value=sums[name], unit=units[name]) for name in ("throughput", "in_flight")
    ]
    return MeasuredRun(version=1, measurements=tuple(measurements), link=LinkProof(valid=True))


class _Window:
    """What one sender knows and has done in the current bin."""

    def __init__(self) -> None:
        self.size, self.threshold, self.trip, self.lost_at = 10.0, 1e9, 0.0, -1.0
        self.sent = self.arrived = 0.0

    def grow(self, trips: float, t: float) -> None:
        self.size = self.size * 2**trips if self.size < self.threshold else self.size + trips

    def smooth(self, sample: float) -> float:
        self.trip = sample if not self.trip else self.trip + (sample - self.trip) / 8
        return self.trip

    def lose(self, t: float) -> None:
        self.lost_at = t
        self.size = self.threshold = max(self.size / 2, 2.0)

    def bins(self, index: int, t: float, flow: Flow) -> list[Row]:
        sent, arrived, self.sent, self.arrived = self.sent, self.arrived, 0.0, 0.0
        assert flow.stop is not None
        if not flow.start.seconds - BIN < t < flow.stop.seconds:
            return []
        steps = BIN / STEP
        rates = [(index, "sending_rate", t, sent / steps / 1e6), (index, "throughput", t, arrived / steps / 1e6)]
        if flow.kind == "udp":
            return rates
        return [*rates, (index, "ack_ratio", t, 2.0 if self.size < self.threshold else 10.0)]


def _active(flow: Flow, t: float) -> bool:
    assert flow.stop is not None
    return flow.start.seconds <= t < flow.stop.seconds


def _offered(flow: Flow, t: float, window: _Window, trip: float, packet: int) -> float:
    """What a flow sends, bit/s: a window a round trip; UDP its mean rate, a little up and down."""
    if not _active(flow, t):
        return 0.0
    if flow.kind == "udp":
        return 4e5 * (1 + 0.2 * math.sin(7 * t) + 0.1 * math.sin(31 * t))
    return window.size * packet * 8 / trip


def _turn(flows: Iterable[Flow], state: list[_Window], t: float) -> int:
    """Whose packets are dropped: of those with a window, the one that lost least lately."""
    there = [index for index, flow in enumerate(flows) if _active(flow, t) and flow.kind != "udp"]
    return min(there, key=lambda index: (state[index].lost_at, -state[index].size))

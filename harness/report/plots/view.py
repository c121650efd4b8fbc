"""The data of one stored run for plots: flows with their looks, series, metrics."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from harness.analysis.direction import Side, data_side
from harness.analysis.timeseries import bottleneck_number
from harness.analysis.timeseries.grid import BIN
from harness.outcome import ENGINES, MeasuredRun, Run
from harness.planning.sampling import with_drawn_values
from harness.report.plots.theme import Look, choose_look
from harness.scenario.schema import FRAME_HEADER, Link, Red
from harness.scenario.schema import Path as EmulatedPath
from harness.topology import flow_label

#: Length of a detail, s, unless the path is so long that this is less than `_ROUND_TRIPS` round trips.
_DETAIL, _ROUND_TRIPS = 3.0, 50
#: The most flows of a figure: more looks and names than that nobody tells apart.
MOST_DRAWN = 20
#: Time for a flow to converge to its share before a detail begins, s.
_SETTLING = 2.0


@dataclass(frozen=True)
class DrawnFlow:
    """A flow in figures."""

    index: int
    name: str
    """'0 ngtcp2 (reno)': its number and its label."""
    responsive: bool
    """Whether it has a congestion control."""
    start: float
    """Seconds since the path is up."""
    stop: float | None
    """On the same clock; None where its size ends it."""
    look: Look


@dataclass(frozen=True)
class PlotData:
    """A run, with its series if the store has them. A series is a frame of flow, t (s) and value."""

    run: Run
    measured: MeasuredRun | None
    series: pl.DataFrame | None
    """flow, name, t, value (see `harness.analysis.timeseries`); None where the run has none."""
    span: tuple[float, float] | None = None
    """Start and end of a detail, s; chosen automatically if None."""

    # --- the run

    @property
    def path(self) -> EmulatedPath:
        """The emulated path."""
        return with_drawn_values(self.run.cell.scenario, self.run.effective).path

    @property
    def side(self) -> Side:
        """The direction whose queue is drawn: towards the clients, unless every flow sends to its server."""
        return data_side(flow.sender for flow in self.run.cell.scenario.flows)

    @property
    def link(self) -> Link:
        """The link in that direction."""
        return self.path.to_client if self.side == "to_client" else self.path.to_server

    @property
    def words(self) -> dict[str, str]:
        """The words of the run's name: scenario, pair, parameters, engine, seed and repetition."""
        cell = self.run.cell
        pair = {"pair": f"{cell.client.name} → {cell.server.name}"} if cell.scenario.open_roles else {}
        return {
            "scenario": cell.scenario.name,
            **pair,
            **{name: f"{name} {value}" for name, value in cell.parameters.items()},
            "engine": ENGINES[cell.engine].time,
            "seed": f"seed {cell.seed}",
            "repetition": f"repetition {self.run.repetition}",
            **({"flows": f"{len(self.flows)} of {count} flows"} if (count := self._count) > len(self.flows) else {}),
        }

    @property
    def _count(self) -> int:
        return len(self.run.cell.scenario.flows)

    @property
    def place(self) -> str:
        """The run's name for people."""
        return " · ".join(self.words.values())

    @cached_property
    def flows(self) -> tuple[DrawnFlow, ...]:
        """The drawn flows in their order: all, or `MOST_DRAWN` of them at even distances. Flows of the same sender and
        kind get different looks.
        """
        drawn = {number * self._count // MOST_DRAWN for number in range(MOST_DRAWN)}
        cell, flows = self.run.cell, list[DrawnFlow]()
        alike, order = Counter[tuple[str, str]](), Counter[bool]()
        for index, flow in enumerate(cell.scenario.flows):
            if index not in drawn:
                continue
            # The sender determines a flow's rate, so the look is that of the sender.
            sender, responsive = cell.implementation(flow.sender, index), flow.kind != "udp"
            flows.append(
                DrawnFlow(
                    index,
                    f"{index} {flow_label(cell, index)}",
                    responsive,
                    flow.start.seconds,
                    None if flow.stop is None else flow.stop.seconds,
                    choose_look(sender, flow.kind, alike[sender.name, flow.kind], order[responsive]),
                )
            )
            alike[sender.name, flow.kind] += 1
            order[responsive] += 1
        return tuple(flows)

    @cached_property
    def end(self) -> float:
        """The end of the time axis, s: the last stop, or, where a file's size ends a flow, the end of the series."""
        stops = [flow.stop for flow in self.flows if flow.stop is not None]
        if len(stops) == len(self.flows) or self.series is None or self.series.is_empty():
            return max(stops, default=1.0)
        last = self.series["t"].max()
        # The axis includes the last value, even a bin that begins there.
        return max([*stops, float(last) + BIN if isinstance(last, int | float) else 1.0])

    @cached_property
    def detail(self) -> tuple[float, float]:
        """Start and end of a detail, s: a few seconds from the middle of the time in which all responsive flows run."""
        if self.span is not None:
            return self.span
        flows = [flow for flow in self.flows if flow.responsive] or list(self.flows)
        begin = max(flow.start for flow in flows)
        end = min([self.end, *(self._last(flow) if flow.stop is None else flow.stop for flow in flows)])
        if end <= begin:
            begin, end = 0.0, self.end
        length = min(max(_DETAIL, _ROUND_TRIPS * self.path.rtt.seconds), end - begin)
        start = min(max(begin + _SETTLING, (begin + end - length) / 2), end - length)
        # Start at a whole second, if there is one in time.
        start = math.floor(start) if math.floor(start) >= begin else start
        return round(start, 1), round(start + length, 1)

    def _last(self, flow: DrawnFlow) -> float:
        """The end of the throughput of a flow that its size ends, s; the end of the axis where it has no throughput."""
        last = self.of_flows("throughput").filter(pl.col("flow") == flow.name)["t"].max()
        return float(last) + BIN if isinstance(last, int | float) else self.end

    # --- its series

    def has(self, name: str) -> bool:
        """Whether there is a series of that name, for any flow or the bottleneck."""
        return self.series is not None and not self.series.filter(pl.col("name") == name).is_empty()

    def _of(self, name: str, flow: pl.Expr) -> pl.DataFrame:
        if self.series is None:
            return pl.DataFrame(schema={"flow": pl.String, "t": pl.Float64, "value": pl.Float64})
        names = {item.index: item.name for item in self.flows}
        return (
            self.series.filter((pl.col("name") == name) & flow & (pl.col("t") < self.end))
            .with_columns(flow=pl.col("flow").replace_strict(names, default="", return_dtype=pl.String))
            .select("flow", pl.col("t").round(4), pl.col("value").round(4))
            .sort("flow", "t", maintain_order=True)
        )

    def of_flows(self, name: str) -> pl.DataFrame:
        """A series of all flows that have it; the column flow has the flows' names."""
        return self._of(name, pl.col("flow").is_in([flow.index for flow in self.flows]))

    def of_bottleneck(self, name: str) -> pl.DataFrame:
        """A series of the bottleneck in that direction."""
        return self._of(name, pl.col("flow") == bottleneck_number(0, 1, self.side))

    # --- its figures

    def figure(self, flow: DrawnFlow, name: str) -> float | None:
        """A metric of a flow; None where it was not measured."""
        if self.measured is None:
            return None
        return self.measured.value(name, flow.index)

    def network(self, name: str) -> float | None:
        """A metric of all flows together; None where it was not measured."""
        return None if self.measured is None else self.measured.value(name)

    # --- the bottleneck

    @cached_property
    def capacity(self) -> pl.DataFrame:
        """Layer-2 rate of the bottleneck, as measured, else as configured: a frame of t (s, start), value (Mbit/s)."""
        frame = self.of_bottleneck("capacity").select("t", "value")
        if frame.is_empty():
            steps = [(since.seconds, rate.value / 1e6) for since, rate in self.path.rates(self.side)]
            frame = pl.DataFrame(steps, schema={"t": pl.Float64, "value": pl.Float64}, orient="row")
        frame = frame.filter(pl.col("t") < self.end)
        return pl.concat([frame, frame.tail(1).with_columns(t=pl.lit(self.end))])

    @property
    def packet(self) -> int:
        """A full packet at the bottleneck, bytes: with its Ethernet header, as tc counts it."""
        return self.path.mtu + FRAME_HEADER

    @property
    def round_trip(self) -> float:
        """Round-trip time with an empty queue, ms: mean over the flows with congestion control."""
        flows = [flow for flow in self.run.cell.scenario.flows if flow.kind != "udp"]
        access = [2000 * flow.access_delay.seconds for flow in flows]
        return self.path.rtt.seconds * 1000 + (sum(access) / len(access) if access else 0.0)

    @property
    def bdp(self) -> float:
        """Bandwidth-delay product, full packets."""
        return self.link.rate.value * self.round_trip / 8000 / self.packet

    @property
    def queue_limit(self) -> float:
        """Limit of the queue, kB."""
        return self.link.queue.capacity.bytes_at(self.link.rate, self.path.rtt, self.packet) / 1000

    @property
    def thresholds(self) -> tuple[float, float] | None:
        """RED's min and max of the average queue, kB; None without RED."""
        queue = self.link.queue
        if not isinstance(queue, Red):
            return None
        low, high = (
            threshold.bytes_at(self.link.rate, self.path.rtt, self.packet) / 1000
            for threshold in (queue.min, queue.max)
        )
        return low, high

    @property
    def discipline(self) -> str:
        """The name of the queue's discipline, as papers write it."""
        return self.link.queue.title

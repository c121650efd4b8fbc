"""The server's state around a move from its qlog, and the round trip that the captures show there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from harness.analysis.handover.wire import WireMove
from harness.analysis.run_view import Unavailable
from harness.analysis.timeseries.sender import first_event_ns, traces_of, usual_payload
from harness.capture import qlog
from harness.capture.capture import Flags, Ints
from harness.capture.matching import MatchedPackets
from harness.scenario.schema import Path

#: Traces in whole ms, and clocks that are read before the work, date an event up to this long before its cause, ns.
CLOCK_NS = 1_500_000
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StepSeries:
    """One figure of the sender over time: n values, each in force until the next."""

    t_ns: Ints
    value: Floats

    def before(self, moment_ns: int) -> float | None:
        """The last value before a moment; None without one."""
        at = int(np.searchsorted(self.t_ns, moment_ns))
        return float(self.value[at - 1]) if at else None

    def between(self, start_ns: int, end_ns: int) -> StepSeries:
        """The values reported from start to end."""
        inside = (self.t_ns >= start_ns) & (self.t_ns < end_ns)
        return StepSeries(self.t_ns[inside], self.value[inside])

    @property
    def steps(self) -> StepSeries:
        """The values that differ from the one before."""
        keep = np.ones(len(self.value), np.bool_)
        keep[1:] = self.value[1:] != self.value[:-1]
        return StepSeries(self.t_ns[keep], self.value[keep])


@dataclass(frozen=True)
class ServerState:
    """The server's state as its qlog reports it; times in ns since the epoch."""

    rows: pl.DataFrame
    """t_ns, and the figures of `qlog.read_recovery`."""
    packet_size: int
    """UDP payload of its usual datagram, bytes."""

    def figure(self, name: str) -> StepSeries:
        """One of the figures, at the times when it was reported."""
        samples = self.rows.select("t_ns", name).drop_nulls()
        return StepSeries(samples["t_ns"].to_numpy(), samples[name].to_numpy())


def state_of(moved: WireMove) -> ServerState | Unavailable:
    """The state that the server reported of a move's connection."""
    if moved.facts.sender != "server":
        return Unavailable("the client sends the data")
    series = moved.view.series
    lifetime = None if series is None else series.lifetimes.get(moved.facts.flow)
    trace = next(iter(traces_of(moved.view, moved.window, "server")), None)
    if trace is None or lifetime is None:
        return Unavailable("the server wrote no qlog of the connection")
    # The longest path's RTT: reported RTTs that are always far below it are in seconds.
    longest = max(map(_base_ms, moved.view.scenario.every_path.values()))
    rows = qlog.read_recovery(trace, longest)
    if not len(rows):
        return Unavailable("the server's qlog tells no recovery metrics")
    start = first_event_ns(moved.view, trace, lifetime, moved.window)
    samples = rows.with_columns(t_ns=(pl.col("t_ms") * 1e6).round().cast(pl.Int64) + start)
    return ServerState(samples.sort("t_ns", maintain_order=True), usual_payload(lifetime.sent))


def _base_ms(path: Path) -> float:
    return path.rtt.seconds * 1e3


@dataclass(frozen=True)
class RoundTrip:
    """The round trip of the new path from its packets: to the client and back, queues included."""

    move: WireMove

    def at(self, moment_ns: int) -> float | None:
        """That of the last packets that had arrived by a moment, ms; None without any."""
        (up_left, up_came), (down_left, down_came) = self._up, self._down
        up = int(np.searchsorted(up_came, moment_ns, side="right")) - 1
        if up < 0:
            return None
        down = int(np.searchsorted(down_came, up_left[up], side="right")) - 1
        if down < 0:
            return None
        return float(up_came[up] - up_left[up] + down_came[down] - down_left[down]) / 1e6

    @cached_property
    def _down(self) -> tuple[Ints, Ints]:
        """When packets for the new address left the server and arrived, in order of arrival."""
        return _arrivals(self.move.to_client, self.move.to_new)

    @cached_property
    def _up(self) -> tuple[Ints, Ints]:
        """The same for packets from the client after its move."""
        return _arrivals(self.move.to_server, self.move.from_new)


def _arrivals(passage: MatchedPackets | None, select: Callable[[MatchedPackets], Flags]) -> tuple[Ints, Ints]:
    """When selected packets entered and left the path, in order of leaving it; both of shape (n,)."""
    assert passage is not None, "moves with nothing to measure are left out"
    rows = np.flatnonzero(select(passage) & passage.arrived)
    rows = rows[np.argsort(passage.out_ns[rows], kind="stable")]
    return passage.entered.t_ns[rows], passage.out_ns[rows]

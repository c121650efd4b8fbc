"""One run with its artefacts, each read when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import polars as pl

from harness.metrics.direction import SIDES, Direction, Side, direction_of
from harness.metrics.series import RunSeries, series_of
from harness.model import Flow
from harness.outcome import Run, Transfer
from harness.traces import capture, connections, counters, cpu, events, growth, key_log, lab, matching, qlog, tcp
from harness.traces.files import find

T = TypeVar("T")

#: How long after a client's end its last packets still belong to its transfer, ns.
_AFTERMATH = 2_000_000_000


@dataclass(frozen=True)
class Window:
    """One transfer's part of the run."""

    transfer: Transfer
    start_ns: int
    """The client container started."""
    end_ns: int
    """Its last packets are through, or the flow's next transfer started."""
    zero_ns: int | None
    """The client's first packet in the left capture: time zero of protocol times; None if it sent none."""
    flow: Flow
    """What its flow was asked to do."""
    alone: bool = True
    """Whether the lab has no other flow."""

    @property
    def prefix(self) -> str:
        """What stands before the names of this transfer's metrics.

        "" or "repeat_" where its flow is the lab's only one; else "flow0_", "flow0_repeat_", "flow1_" and so on.
        """
        flow = "" if self.alone else f"flow{self.transfer.flow}_"
        return flow + ("repeat_" if self.transfer.index else "")

    @property
    def has_file(self) -> bool:
        """Whether it downloads a file to its end; what is cut off at a time, or generated, has no end to reach."""
        return self.flow.file is not None


@dataclass(frozen=True)
class RunView:
    """A run's folder as data. What is missing or damaged is None, and `problems` says so."""

    folder: Path
    run: Run
    problems: list[str] = field(default_factory=list)
    """What could not be read, in order of discovery."""

    def _read(self, name: str, reader: Callable[[Path], T]) -> T | None:
        path = find(self.folder / name)
        if path is None:
            self.problems.append(f"{name} is missing")
            return None
        try:
            return reader(path)
        except Exception as error:  # one damaged artefact must not hide the others
            self.problems.append(f"{name} cannot be read: {error}")
            return None

    @cached_property
    def lab(self) -> lab.LabFacts | None:
        """What was asked of the lab."""
        return self._read("lab.json", lab.read_lab)

    def _capture(self, side: str) -> capture.Capture | None:
        facts = self.lab
        if facts is None:
            return None
        return self._read(f"sim/trace_node_{side}.pcap", lambda path: capture.read_capture(path, facts.flows))

    @cached_property
    def left(self) -> capture.Capture | None:
        """The flows' packets at the client's side."""
        return self._capture("left")

    @cached_property
    def right(self) -> capture.Capture | None:
        """The flows' packets at the server's side."""
        return self._capture("right")

    @cached_property
    def to_client(self) -> matching.Passage | None:
        """Packets from the right to the left interface."""
        return self._passage(self.right, self.left, True)

    @cached_property
    def to_server(self) -> matching.Passage | None:
        """Packets from the left to the right interface."""
        return self._passage(self.left, self.right, False)

    def _passage(
        self, ingress: capture.Capture | None, egress: capture.Capture | None, to_client: bool
    ) -> matching.Passage | None:
        if ingress is None or egress is None or self.lab is None:
            return None
        asked = self.lab.links.to_client if to_client else self.lab.links.to_server
        return matching.match(ingress, egress, to_client, asked.delay_ns - asked.jitter_ns)

    @cached_property
    def directions(self) -> dict[Side, Direction]:
        """What each direction of the link did; empty without lab.json or a capture."""
        made = {side: direction_of(self, side) for side in SIDES}
        return {side: direction for side, direction in made.items() if direction is not None}

    @cached_property
    def series(self) -> RunSeries | None:
        """The run over time (see `metrics.series`); None where the captures do not show it."""
        try:
            return series_of(self)
        except Exception as error:  # what needs no series is to be had all the same
            self.problems.append(f"the series cannot be made: {type(error).__name__}: {error}")
            return None

    @cached_property
    def counters(self) -> pl.DataFrame | None:
        """Statistics of the queueing disciplines (see `traces.counters`)."""
        return self._read("sim/counters.jsonl", counters.read_counters)

    @cached_property
    def events(self) -> events.Events:
        """What the simulator said; empty when it said nothing."""
        return self._read("sim/events.jsonl", events.read_events) or events.Events()

    @cached_property
    def capture_drops(self) -> int:
        """Packets the captures missed; 0 when unknown."""
        return self._read("sim/capture.json", events.read_capture_drops) or 0

    @cached_property
    def growth(self) -> pl.DataFrame | None:
        """Sizes of the clients' files (see `traces.growth`)."""
        return self._read("growth.csv", growth.read_growth)

    @cached_property
    def cpu(self) -> pl.DataFrame | None:
        """CPU time of the containers (see `traces.cpu`)."""
        return self._read("cpu.csv", cpu.read_cpu)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The transfers in order of flow and index."""
        ordered = sorted(self.run.transfers, key=lambda transfer: (transfer.flow, transfer.index))
        return tuple(self._window(transfer) for transfer in ordered)

    def _window(self, transfer: Transfer) -> Window:
        later = [t.started_ns for t in self.run.transfers if t.flow == transfer.flow and t.index > transfer.index]
        end = min([transfer.ended_ns + _AFTERMATH, *later])
        zero = None
        if self.left is not None:
            sent = self.left.between(transfer.started_ns, end, transfer.flow, to_client=False)
            zero = int(sent.t_ns[0]) if len(sent) else None
        flow = self.flows[min(transfer.flow, len(self.flows) - 1)]
        others = {item.flow for item in self.run.transfers} - {transfer.flow}
        return Window(transfer, transfer.started_ns, end, zero, flow, alone=len(self.flows) == 1 and not others)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """What the flows were asked to do."""
        return self.run.cell.scenario.flows

    @property
    def shared(self) -> bool:
        """Whether there is more to it than one file downloaded to its end: several flows, or one without a file."""
        return len(self.flows) > 1 or any(flow.file is None for flow in self.flows)

    def span(self, index: int) -> tuple[int, int] | None:
        """From the start of the first to the end of the last transfer of that index, over all flows (ns)."""
        windows = [window for window in self.windows if window.transfer.index == index]
        if not windows:
            return None
        return min(window.start_ns for window in windows), max(window.end_ns for window in windows)

    def tcp(self, flow: int) -> pl.DataFrame | None:
        """What the kernel of a TCP flow's sender said of its connection (see `traces.tcp`)."""
        if flow not in self._tcp:
            self._tcp[flow] = self._read(f"flow{flow}/{self.flows[flow].sender}/tcp.csv", tcp.read_tcp)
        return self._tcp[flow]

    @cached_property
    def _tcp(self) -> dict[int, pl.DataFrame | None]:
        return {}

    def losses(self, trace: Path) -> qlog.Losses:
        """What a qlog says of lost packets and what followed (see `traces.qlog`). Raises OSError."""
        if trace not in self._losses:
            self._losses[trace] = qlog.read_losses(trace)
        return self._losses[trace]

    @cached_property
    def _losses(self) -> dict[Path, qlog.Losses]:
        return {}

    def secrets(self, flow: int) -> tuple[key_log.Secret, ...]:
        """The TLS secrets that either endpoint of a flow wrote down, each once."""
        logs = (find(self.folder / f"flow{flow}" / role / "keys.log") for role in ("client", "server"))
        read = (secret for log in logs if log is not None for secret in key_log.read_key_log(log))
        return tuple(dict.fromkeys(read))

    def opened(self, window: Window, sender: key_log.Sender) -> tuple[connections.Opened, ...]:
        """The 1-RTT packets of a transfer's connections in one direction, decrypted from the left capture.

        Of connections that no secret opens there is nothing; and of none without the capture.
        """
        key = (window.transfer.flow, window.transfer.index, sender)
        if key not in self._opened and self.left is not None:
            inside = (self.left.t_ns >= window.start_ns) & (self.left.t_ns < window.end_ns)
            packets = self.left.where(inside & (self.left.flow == window.transfer.flow))
            secrets = self.secrets(window.transfer.flow)
            found = (
                connections.open_packets(packets, each, sender, secrets) for each in connections.connections(packets)
            )
            self._opened[key] = tuple(opened for opened in found if opened is not None)
        return self._opened.get(key, ())

    @cached_property
    def _opened(self) -> dict[tuple[int, int, str], tuple[connections.Opened, ...]]:
        return {}

    def qlogs(self, flow: int, role: str) -> list[Path]:
        """The qlog files of one endpoint."""
        return qlog.traces(self.folder / f"flow{flow}" / role / "qlog")

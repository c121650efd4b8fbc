"""One run with its artefacts, each read when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import polars as pl

from harness.outcome import Run, Transfer
from harness.traces import capture, counters, cpu, events, growth, lab, matching, qlog
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
    """The client's first datagram in the left capture: time zero of protocol times; None if it sent none."""

    @property
    def prefix(self) -> str:
        """What stands before the names of this transfer's metrics: "", "repeat_", "flow1_", "flow1_repeat_"."""
        flow = f"flow{self.transfer.flow}_" if self.transfer.flow else ""
        return flow + ("repeat_" if self.transfer.index else "")


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
        """The flows' datagrams at the client's side."""
        return self._capture("left")

    @cached_property
    def right(self) -> capture.Capture | None:
        """The flows' datagrams at the server's side."""
        return self._capture("right")

    @cached_property
    def to_client(self) -> matching.Passage | None:
        """Datagrams from the right to the left interface."""
        return self._passage(self.right, self.left, True)

    @cached_property
    def to_server(self) -> matching.Passage | None:
        """Datagrams from the left to the right interface."""
        return self._passage(self.left, self.right, False)

    def _passage(
        self, ingress: capture.Capture | None, egress: capture.Capture | None, to_client: bool
    ) -> matching.Passage | None:
        if ingress is None or egress is None or self.lab is None:
            return None
        asked = self.lab.links.to_client if to_client else self.lab.links.to_server
        return matching.match(ingress, egress, to_client, asked.delay_ns - asked.jitter_ns)

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
        return Window(transfer, transfer.started_ns, end, zero)

    def span(self, index: int) -> tuple[int, int] | None:
        """From the start of the first to the end of the last transfer of that index, over all flows (ns)."""
        windows = [window for window in self.windows if window.transfer.index == index]
        if not windows:
            return None
        return min(window.start_ns for window in windows), max(window.end_ns for window in windows)

    def qlogs(self, flow: int, role: str) -> list[Path]:
        """The qlog files of one endpoint."""
        return qlog.traces(self.folder / f"flow{flow}" / role / "qlog")

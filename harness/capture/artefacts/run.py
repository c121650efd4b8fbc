"""One run with its artefacts, each read when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import polars as pl

from harness.capture import (
    capture,
    counters,
    cpu,
    file_growth,
    key_log,
    lab_file,
    qlog,
    sched_delay,
    simulator_events,
    tcp_info,
)
from harness.capture.artefacts import source_files
from harness.capture.artefacts.transfer import Window
from harness.capture.files import SIMULATOR, find
from harness.outcome import Run, Transfer
from harness.planning.sampling import settled
from harness.scenario.parameters import ROLES
from harness.scenario.schema import Flow, Scenario
from harness.scenario.schema import Path as EmulatedPath

T = TypeVar("T")

#: How long after a client's end its last packets still belong to its transfer, ns.
_AFTERMATH = 2_000_000_000


@dataclass(frozen=True)
class Artefacts:
    """A run's folder as data. What is missing or damaged is None, and `problems` says so."""

    folder: Path
    run: Run
    problems: list[str] = field(default_factory=list)
    """What could not be read, in order of discovery."""
    alone: str | None = None
    """Of several paths the one that alone is looked at: its link, its packets. None for all that there are."""

    def path(self, place: str) -> Path | None:
        """The file of a place that `sources` names; None where there is none."""
        return find(self.folder / place)

    def _read(self, name: str, reader: Callable[[Path], T]) -> T | None:
        path = self.path(name)
        if path is None:
            self.problems.append(f"{name} is missing")
            return None
        try:
            return reader(path)
        except Exception as error:  # one damaged artefact must not hide the others
            self.problems.append(f"{name} cannot be read: {error}")
            return None

    @cached_property
    def lab(self) -> lab_file.LabFacts | None:
        """What was asked of the lab; of all paths the first one's link."""
        facts = self._read(source_files.LAB, lab_file.read_lab)
        if facts is None or (self.alone is None and len(facts.paths) != 1):
            return facts
        return facts.alone(self.alone if self.alone is not None else facts.paths[0].path)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The names of the run's paths, the first one first; '' is a path alone."""
        return tuple(self.run.cell.scenario.every_path)

    def of_path(self, path: str) -> Self:
        """The same with one of its paths alone."""
        if len(self.paths) == 1:
            return self
        if path not in self._parts:
            self._parts[path] = replace(self, alone=path)
        return self._parts[path]

    @cached_property
    def _parts(self) -> dict[str, Self]:
        return {}

    @property
    def every_path(self) -> tuple[Self, ...]:
        """The same with each of its paths alone, the first one first."""
        return tuple(self.of_path(path) for path in self.paths)

    @cached_property
    def scenario(self) -> Scenario:
        """What the run was asked to be, with what was drawn for it."""
        return settled(self.run.cell.scenario, self.run.effective)

    @property
    def emulated(self) -> EmulatedPath:
        """The path that is looked at, or the first of several."""
        return self.scenario.path if self.alone is None else self.scenario.every_path[self.alone]

    @property
    def is_one_path(self) -> bool:
        """Whether it is one path that is looked at, and not several together."""
        return self.alone is not None or len(self.paths) == 1

    @property
    def in_sequence(self) -> bool:
        """Whether what is looked at is several segments in a row."""
        return self.alone is None and self.run.cell.scenario.in_sequence

    @property
    def simulators(self) -> tuple[str, ...]:
        """The names of the simulators of the paths that are looked at, the first one first."""
        facts = self.lab.paths if self.lab is not None else ()
        return tuple(path.simulator for path in facts) or (SIMULATOR,)

    @property
    def _simulator(self) -> str:
        """The folder of the simulator of the path that is looked at, or of the first of several."""
        return self.simulators[0]

    def _capture(self, side: str) -> capture.Capture | None:
        facts = self.lab
        if facts is None:
            return None
        if self.in_sequence:
            end: capture.Capture | None = getattr(self.of_path(self.paths[0 if side == "left" else -1]), side)
            return end
        if not self.is_one_path:
            each = [getattr(self.of_path(path), side) for path in self.paths]
            return None if None in each else capture.together(each)
        place = source_files.of(self._simulator, source_files.CAPTURE[side])
        return self._read(place, lambda path: capture.read_capture(path, facts.flows))

    @cached_property
    def left(self) -> capture.Capture | None:
        """The flows' packets at the client's side."""
        return self._capture("left")

    @cached_property
    def right(self) -> capture.Capture | None:
        """The flows' packets at the server's side."""
        return self._capture("right")

    @cached_property
    def counters(self) -> pl.DataFrame | None:
        """Statistics of the queueing disciplines (see `traces.counters`); None for several paths together."""
        place = source_files.of(self._simulator, source_files.COUNTERS)
        return self._read(place, counters.read_counters) if self.is_one_path else None

    @cached_property
    def events(self) -> simulator_events.Events:
        """What the simulator said, of several paths the first one's; empty when it said nothing."""
        return (
            self._read(source_files.of(self._simulator, source_files.EVENTS), simulator_events.read_events)
            or simulator_events.Events()
        )

    @cached_property
    def capture_drops(self) -> int:
        """Packets the captures missed; 0 when unknown."""
        if not self.is_one_path:
            return sum(self.of_path(path).capture_drops for path in self.paths)
        return (
            self._read(source_files.of(self._simulator, source_files.CAPTURED), simulator_events.read_capture_drops)
            or 0
        )

    @cached_property
    def growth(self) -> pl.DataFrame | None:
        """Sizes of the clients' files (see `traces.growth`)."""
        return self._read(source_files.GROWTH, file_growth.read_growth)

    @cached_property
    def cpu(self) -> pl.DataFrame | None:
        """CPU time of the containers (see `traces.cpu`)."""
        return self._read(source_files.CPU, cpu.read_cpu)

    @cached_property
    def waits(self) -> pl.DataFrame | None:
        """Who waited for a processor (see `traces.waits`); None in virtual time, and of runs before it was recorded."""
        return None if self.path(source_files.WAITS) is None else self._read(source_files.WAITS, sched_delay.read_waits)

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
        facts = () if self.lab is None else self.lab.flows
        over_tcp = any(one.over_tcp for one in facts if one.flow == transfer.flow)
        return Window(
            transfer, transfer.started_ns, end, zero, flow, over_tcp, alone=len(self.flows) == 1 and not others
        )

    @property
    def flows(self) -> tuple[Flow, ...]:
        """What the flows were asked to do."""
        return self.run.cell.scenario.flows

    def span(self, index: int) -> tuple[int, int] | None:
        """From the start of the first to the end of the last transfer of that index, over all flows (ns)."""
        windows = [window for window in self.windows if window.transfer.index == index]
        if not windows:
            return None
        return min(window.start_ns for window in windows), max(window.end_ns for window in windows)

    def tcp(self, flow: int) -> pl.DataFrame | None:
        """What the kernel of a TCP flow's sender said of its connection (see `traces.tcp`)."""
        if flow not in self._tcp:
            self._tcp[flow] = self._read(
                f"{source_files.endpoint(flow, self.flows[flow].sender)}/{source_files.TCP}", tcp_info.read_tcp
            )
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
        logs = (self.path(f"{source_files.endpoint(flow, role)}/{source_files.KEYS}") for role in ROLES)
        read = (secret for log in logs if log is not None for secret in key_log.read_key_log(log))
        return tuple(dict.fromkeys(read))

    def qlogs(self, flow: int, role: str) -> list[Path]:
        """The qlog files of one endpoint."""
        return qlog.traces(self.folder / source_files.endpoint(flow, role) / source_files.QLOG)

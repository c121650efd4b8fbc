"""The folder of a run: where its files are, and their contents, each read when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import polars as pl

from harness.capture import capture, counters, key_log, lab_file, qlog, tcp_info
from harness.capture.counters import Events
from harness.capture.files import (
    CAPTURES,
    SIMULATOR,
    as_written,
    capture_file,
    capture_names,
    content_digest,
    find,
    open_file,
    simulators,
)
from harness.outcome import Run, Transfer
from harness.planning.sampling import settled
from harness.scenario.metric_names import MetricName, TransferName
from harness.scenario.parameters import ROLES
from harness.scenario.schema import Flow, Scenario
from harness.scenario.schema import Path as EmulatedPath

# --- What a run is measured from: every file of its folder that measuring reads, and the digests that tell it unharmed.
#
# The one place that knows these files: what reads an artefact takes its name from here. A file is known by its place in
# the run's folder as it was written, and by the content it had then, so that packing changes nothing.


LAB, GROWTH, CPU, WAITS = "lab.json", "growth.csv", "cpu.csv", "waits.csv"
#: The simulator's; of several that of the first path (see `of`).
COUNTERS, EVENTS, CAPTURED, SENDS = "sim/counters.jsonl", "sim/events.jsonl", "sim/capture.json", "sim/udp.json"
#: Side → its capture.
CAPTURE = {side: f"sim/{name}" for side, name in CAPTURES.items()}
#: An endpoint's, below its folder.
KEYS, TCP, IPERF3, QLOG = "keys.log", "tcp.csv", "iperf3.json", "qlog"
_OF_RUN = (LAB, GROWTH, CPU, WAITS, COUNTERS, EVENTS, CAPTURED, SENDS)
_OF_ENDPOINT = (KEYS, TCP, IPERF3)
#: What every simulator has.
_OF_SIMULATOR = (COUNTERS, EVENTS, CAPTURED)


def of(simulator: str, place: str) -> str:
    """The same file of another simulator, by the name of its folder."""
    return simulator + place.removeprefix(SIMULATOR)


def endpoint(flow: int, role: str) -> str:
    """The folder of an endpoint's files."""
    return f"flow{flow}/{role}"


def capture_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of a run's captures as they were written, by side; nothing of one that cannot be read."""
    return {name: digest for name in capture_names(folder) if (digest := _digest(folder, _captured(name)))}


def _captured(name: str) -> str:
    """The place of a capture: 'left', 'right'; of further simulators 'sim-NAME left'."""
    return capture_file(Path(), name).as_posix()


def other_digests(folder: Path, flows: int) -> dict[str, str]:
    """SHA-256 of everything else that measuring reads, by its place; nothing of what cannot be read."""
    return {place: digest for place in _others(folder, flows) if (digest := _digest(folder, place))}


def harmed(folder: Path, run: Run) -> dict[str, str]:
    """The files of a stored run that are not as it was measured from, by place, each with what is wrong with it.

    Of a run whose record has no digest but those of its captures, these alone.
    """
    flows = len(run.cell.scenario.flows)
    known = {_captured(name): digest for name, digest in run.captures.items()} | run.artefacts
    found = {_captured(name): digest for name, digest in capture_digests(folder).items() if name in run.captures}
    if run.artefacts:
        found |= other_digests(folder, flows)
    places = sorted(place for place in {*known, *found} if known.get(place) != found.get(place))
    return {place: _harm(folder, place, place in known) for place in places}


def _others(folder: Path, flows: int) -> Iterator[str]:
    yield from _OF_RUN
    for simulator in simulators(folder)[1:]:
        yield from (of(simulator.name, place) for place in _OF_SIMULATOR)
    for flow in range(flows):
        for role in ROLES:
            its = endpoint(flow, role)
            yield from (f"{its}/{name}" for name in _OF_ENDPOINT)
            yield from (as_written(file).relative_to(folder).as_posix() for file in qlog.traces(folder / its / QLOG))


def _digest(folder: Path, place: str) -> str:
    """Nothing where there is no such file. Measuring says of one that cannot be read that it cannot."""
    with suppress(OSError):
        if (file := find(folder / place)) is not None:
            return content_digest(file)
    return ""


def _harm(folder: Path, place: str, known: bool) -> str:
    if not known:
        return "it came after the run"
    file = find(folder / place)
    if file is None:
        return "it is gone"
    try:
        content_digest(file)
    except OSError as error:
        return f"it cannot be read: {error}"
    return "it is not what the run made"


# --- One transfer's part of a run.


@dataclass(frozen=True)
class TransferWindow:
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
    over_tcp: bool = False
    """Whether its packets are segments of TCP, not datagrams."""
    alone: bool = True
    """Whether the lab has no other flow."""

    @property
    def name(self) -> TransferName:
        """Which of its flow's transfers it is."""
        return "repeat" if self.transfer.index else "first"

    def called(self, metric: str) -> str:
        """A metric of this transfer in a sentence."""
        return MetricName(metric, self.transfer.flow, self.name).text(1 if self.alone else 2)

    @property
    def has_file(self) -> bool:
        """Whether it downloads a file to its end; what is cut off at a time, or generated, has no end to reach."""
        return self.flow.file is not None


# --- run


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
        facts = self._read(LAB, lab_file.read_lab)
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
        place = of(self._simulator, CAPTURE[side])
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
        """Statistics of the queueing disciplines (see `capture.counters`); None for several paths together."""
        place = of(self._simulator, COUNTERS)
        return self._read(place, counters.read_counters) if self.is_one_path else None

    @cached_property
    def events(self) -> Events:
        """What the simulator said, of several paths the first one's; empty when it said nothing."""
        return self._read(of(self._simulator, EVENTS), counters.read_events) or Events()

    @cached_property
    def capture_drops(self) -> int:
        """Packets the captures missed; 0 when unknown."""
        if not self.is_one_path:
            return sum(self.of_path(path).capture_drops for path in self.paths)
        return self._read(of(self._simulator, CAPTURED), counters.read_capture_drops) or 0

    @cached_property
    def growth(self) -> pl.DataFrame | None:
        """Sizes of the clients' files (see `capture.counters`)."""
        return self._read(GROWTH, counters.read_growth)

    @cached_property
    def cpu(self) -> pl.DataFrame | None:
        """CPU time of the containers (see `capture.counters`)."""
        return self._read(CPU, counters.read_cpu)

    @cached_property
    def waits(self) -> pl.DataFrame | None:
        """Who waited for a processor (see `capture.counters`); None in virtual time, and of runs before it was
        recorded.
        """
        return None if self.path(WAITS) is None else self._read(WAITS, counters.read_waits)

    @cached_property
    def windows(self) -> tuple[TransferWindow, ...]:
        """The transfers in order of flow and index."""
        ordered = sorted(self.run.transfers, key=lambda transfer: (transfer.flow, transfer.index))
        return tuple(self._window(transfer) for transfer in ordered)

    def _window(self, transfer: Transfer) -> TransferWindow:
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
        return TransferWindow(
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
        """What the kernel of a TCP flow's sender said of its connection (see `capture.tcp_info`)."""
        if flow not in self._tcp:
            self._tcp[flow] = self._read(f"{endpoint(flow, self.flows[flow].sender)}/{TCP}", tcp_info.read_tcp)
        return self._tcp[flow]

    @cached_property
    def _tcp(self) -> dict[int, pl.DataFrame | None]:
        return {}

    def losses(self, trace: Path) -> qlog.Losses:
        """What a qlog says of lost packets and what followed (see `capture.qlog`). Raises OSError."""
        if trace not in self._losses:
            self._losses[trace] = qlog.read_losses(trace)
        return self._losses[trace]

    @cached_property
    def _losses(self) -> dict[Path, qlog.Losses]:
        return {}

    def secrets(self, flow: int) -> tuple[key_log.Secret, ...]:
        """The TLS secrets that either endpoint of a flow wrote down, each once."""
        logs = (self.path(f"{endpoint(flow, role)}/{KEYS}") for role in ROLES)
        read = (secret for log in logs if log is not None for secret in key_log.read_key_log(log))
        return tuple(dict.fromkeys(read))

    def qlogs(self, flow: int, role: str) -> list[Path]:
        """The qlog files of one endpoint."""
        return qlog.traces(self.folder / endpoint(flow, role) / QLOG)


# --- The last words of a run's endpoints: what their processes printed, as far as the run's folder still has it.


#: Lines of each endpoint, and characters of each line.
LINES, WIDTH = 5, 160
#: Bytes from a log's end that are looked at, and bytes read at a time.
_END, _READ = 1 << 16, 1 << 20


def last_words(folder: Path, run: Run) -> dict[str, tuple[str, ...]]:
    """Endpoint ('client0') → the last lines of its log that are not empty, the oldest first.

    What is no printable character is escaped, and a line that is too long is cut. Of a run without logs, what its
    record has of whoever failed; nothing of who said nothing.
    """
    found: dict[str, tuple[str, ...]] = {}
    for flow in range(len(run.cell.scenario.flows)):
        for role in ROLES:
            name = f"{role}{flow}"
            if lines := _last(folder / f"{name}.log"):
                found[name] = lines
    if not found and run.outcome.role in ROLES and run.outcome.log_tail:
        found[f"{run.outcome.role}0"] = tuple(_printable(line) for line in run.outcome.log_tail[-LINES:])
    return found


def _last(file: Path) -> tuple[str, ...]:
    end = b""
    try:
        with open_file(file) as log:
            while part := log.read(_READ):
                end = (end + part)[-_END:]
    except OSError:
        return ()
    lines = [line for line in end.decode(errors="replace").splitlines() if line.strip()]
    return tuple(_printable(line) for line in lines[-LINES:])


def _printable(line: str) -> str:
    text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line.rstrip())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"

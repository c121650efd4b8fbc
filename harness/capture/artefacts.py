"""The folder of a run: its files and their contents, each read on first access."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, TypeVar

import polars as pl

from harness.capture import capture, counters, datagram_log, files, key_log, qlog, request_log, tcp_info
from harness.capture.counters import Events
from harness.capture.files import (
    CAPTURES,
    QLOG,
    SIMULATOR,
    capture_names,
    capture_path,
    content_digest,
    find_file,
    open_file,
    original_path,
    simulator_folders,
)
from harness.outcome import Run, Transfer
from harness.planning.sampling import with_drawn_values
from harness.scenario.metric_names import MetricName, TransferName
from harness.scenario.parameters import ROLES, Role, peer_role
from harness.scenario.schema import Flow, Scenario
from harness.scenario.schema import Path as EmulatedPath
from harness.topology.lab_file import LabFacts

# --- The files of a run's folder that measuring reads, and the digests that show that they are unchanged.
#
# All readers of artefacts take the files' names from here. A file is identified by its original path in the run's
# folder and by its original content, so that compression changes neither.


LAB, GROWTH, CPU, WAITS = "lab.json", "growth.csv", "cpu.csv", "waits.csv"
#: Files of the simulator; with several, of that of the first path (see `of`).
COUNTERS, EVENTS, CAPTURE_DROPS, SENDS = "sim/counters.jsonl", "sim/events.jsonl", "sim/capture.json", "sim/udp.json"
#: Side → its capture.
CAPTURE = {side: f"sim/{name}" for side, name in CAPTURES.items()}
#: Files of an endpoint, below its folder.
KEYS, TCP, IPERF3 = "keys.log", "tcp.csv", "iperf3.json"
#: Below the folder of plans.
SERIES = "**/*.series"
_RUN_FILES = (LAB, GROWTH, CPU, WAITS, COUNTERS, EVENTS, CAPTURE_DROPS, SENDS)
_ENDPOINT_FILES = (KEYS, TCP, IPERF3)
#: What every simulator has.
_SIMULATOR_FILES = (COUNTERS, EVENTS, CAPTURE_DROPS)


def simulator_file(simulator: str, place: str) -> str:
    """The same file of another simulator, by the name of its folder."""
    return simulator + place.removeprefix(SIMULATOR)


def endpoint_path(flow: int, role: str) -> str:
    """The folder of an endpoint's files."""
    return f"flow{flow}/{role}"


def capture_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of a run's captures as they were written, by side; unreadable captures are left out."""
    return {name: digest for name in capture_names(folder) if (digest := _digest(folder, _capture_path(name)))}


def _capture_path(name: str) -> str:
    """The path of a capture by its name: 'left', 'right'; for further simulators 'sim-NAME left'."""
    return capture_path(Path(), name).as_posix()


def other_digests(folder: Path, flows: int) -> dict[str, str]:
    """SHA-256 of all other files that measuring reads, by path; unreadable files are left out."""
    return {place: digest for place in _other_files(folder, flows) if (digest := _digest(folder, place))}


def find_changed_files(folder: Path, run: Run) -> dict[str, str]:
    """The files of a stored run that changed since it was measured, by path, each with the problem.

    If the run's record has digests of its captures only, only these are compared.
    """
    flows = len(run.cell.scenario.flows)
    recorded = {_capture_path(name): digest for name, digest in run.captures.items()} | run.artefacts
    current = {_capture_path(name): digest for name, digest in capture_digests(folder).items() if name in run.captures}
    if run.artefacts:
        current |= other_digests(folder, flows)
    places = sorted(place for place in {*recorded, *current} if recorded.get(place) != current.get(place))
    return {place: _describe_change(folder, place, place in recorded) for place in places}


def _other_files(folder: Path, flows: int) -> Iterator[str]:
    yield from _RUN_FILES
    yield from (file.relative_to(folder).as_posix() for file in sorted((folder / "plan").glob(SERIES)))
    for simulator in simulator_folders(folder)[1:]:
        yield from (simulator_file(simulator.name, place) for place in _SIMULATOR_FILES)
    for flow in range(flows):
        for role in ROLES:
            endpoint_folder = endpoint_path(flow, role)
            yield from (f"{endpoint_folder}/{name}" for name in _ENDPOINT_FILES)
            yield from (
                original_path(file).relative_to(folder).as_posix()
                for file in qlog.find_traces(folder / endpoint_folder / QLOG)
            )


def _digest(folder: Path, place: str) -> str:
    """Empty where the file is missing, or unreadable, which measuring reports."""
    with suppress(OSError):
        if (file := find_file(folder / place)) is not None:
            return content_digest(file)
    return ""


def _describe_change(folder: Path, place: str, recorded: bool) -> str:
    if not recorded:
        return "it came after the run"
    file = find_file(folder / place)
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
    """Its last packets have passed, or the flow's next transfer started."""
    zero_ns: int | None
    """The client's first packet in the left capture: time zero of protocol times; None if it sent none."""
    flow: Flow
    """The configuration of its flow."""
    over_tcp: bool = False
    """Whether its packets are segments of TCP, not datagrams."""
    is_only_flow: bool = True
    """Whether the lab has no other flow."""

    @property
    def name(self) -> TransferName:
        """Which of its flow's transfers it is."""
        return "repeat" if self.transfer.index else "first"

    def describe(self, metric: str) -> str:
        """A metric of this transfer in a sentence."""
        return MetricName(metric, self.transfer.flow, self.name).text(1 if self.is_only_flow else 2)

    @property
    def has_file(self) -> bool:
        """Whether it transfers a file to its end. A transfer that is cut off at a time, or generated, has no end."""
        return self.flow.file is not None

    @property
    def sender(self) -> Role:
        """Who sends the data."""
        return self.flow.sender

    @property
    def receiver(self) -> Role:
        """Who receives the data."""
        return peer_role(self.sender)

    @property
    def direction(self) -> Literal["to_client", "to_server"]:
        """Where the data go."""
        return "to_client" if self.sender == "server" else "to_server"


# --- run


T = TypeVar("T")

#: How long after a client's end its last packets still belong to its transfer, ns.
_LATE_PACKETS_NS = 2_000_000_000


@dataclass(frozen=True)
class Artefacts:
    """A run's folder as data. What is missing or damaged is None, and `problems` says so."""

    folder: Path
    run: Run
    problems: list[str] = field(default_factory=list)
    """What could not be read, in order of discovery."""
    selected_path: str | None = None
    """The selected path, of several: only its link and its packets are read. None for all paths."""

    def path(self, place: str) -> Path | None:
        """The file at a path within the run's folder; None where there is none."""
        return find_file(self.folder / place)

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
    def lab(self) -> LabFacts | None:
        """The configuration of the lab; with all of several paths, the link is the first one's."""
        facts = self._read(LAB, files.read_lab)
        if facts is None or (self.selected_path is None and len(facts.paths) != 1):
            return facts
        return facts.for_path(self.selected_path if self.selected_path is not None else facts.paths[0].path)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The names of the run's paths, in order; '' for a single path."""
        return tuple(self.run.cell.scenario.every_path)

    def of_path(self, path: str) -> Self:
        """The artefacts with one of its paths selected."""
        if len(self.paths) == 1:
            return self
        if path not in self._parts:
            self._parts[path] = replace(self, selected_path=path)
        return self._parts[path]

    @cached_property
    def _parts(self) -> dict[str, Self]:
        return {}

    @property
    def every_path(self) -> tuple[Self, ...]:
        """The artefacts with each of its paths selected, in order."""
        return tuple(self.of_path(path) for path in self.paths)

    @cached_property
    def scenario(self) -> Scenario:
        """The run's scenario, with the values that were drawn for it."""
        return with_drawn_values(self.run.cell.scenario, self.run.effective)

    @property
    def emulated_path(self) -> EmulatedPath:
        """The selected path, or the first of several."""
        return self.scenario.path if self.selected_path is None else self.scenario.every_path[self.selected_path]

    @property
    def is_one_path(self) -> bool:
        """Whether one path is selected, and not several together."""
        return self.selected_path is not None or len(self.paths) == 1

    @property
    def in_sequence(self) -> bool:
        """Whether several segments in a row are selected."""
        return self.selected_path is None and self.run.cell.scenario.in_sequence

    @property
    def simulators(self) -> tuple[str, ...]:
        """The names of the simulators of the selected paths, in order."""
        facts = self.lab.paths if self.lab is not None else ()
        return tuple(path.simulator for path in facts) or (SIMULATOR,)

    @property
    def _simulator(self) -> str:
        """The folder of the simulator of the selected path, or of the first of several."""
        return self.simulators[0]

    def _capture(self, side: str) -> capture.Capture | None:
        facts = self.lab
        if facts is None:
            return None
        if self.in_sequence:
            end: capture.Capture | None = getattr(self.of_path(self.paths[0 if side == "left" else -1]), side)
            return end
        if not self.is_one_path:
            captures = [getattr(self.of_path(path), side) for path in self.paths]
            return None if None in captures else capture.merge_captures(captures)
        place = simulator_file(self._simulator, CAPTURE[side])
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
        place = simulator_file(self._simulator, COUNTERS)
        return self._read(place, counters.read_counters) if self.is_one_path else None

    @cached_property
    def series_starts(self) -> dict[str, int]:
        """When the series of each device started (see `capture.counters`)."""
        place = simulator_file(self._simulator, COUNTERS)
        return (self._read(place, counters.read_series_starts) or {}) if self.is_one_path else {}

    @cached_property
    def events(self) -> Events:
        """The events of the simulator (of several, of the first path's); empty where it reported none."""
        return self._read(simulator_file(self._simulator, EVENTS), counters.read_events) or Events()

    @cached_property
    def capture_drops(self) -> int:
        """Packets the captures missed; 0 when unknown."""
        if not self.is_one_path:
            return sum(self.of_path(path).capture_drops for path in self.paths)
        return self._read(simulator_file(self._simulator, CAPTURE_DROPS), counters.read_capture_drops) or 0

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
        """Waits for a processor (see `capture.counters`); None in virtual time, and for older runs, which did not
        record them.
        """
        return None if self.path(WAITS) is None else self._read(WAITS, counters.read_waits)

    @cached_property
    def windows(self) -> tuple[TransferWindow, ...]:
        """The transfers in order of flow and index."""
        ordered = sorted(self.run.transfers, key=lambda transfer: (transfer.flow, transfer.index))
        return tuple(self._window(transfer) for transfer in ordered)

    def _window(self, transfer: Transfer) -> TransferWindow:
        later = [t.started_ns for t in self.run.transfers if t.flow == transfer.flow and t.index > transfer.index]
        end = min([transfer.ended_ns + _LATE_PACKETS_NS, *later])
        zero = None
        if self.left is not None:
            sent = self.left.between(transfer.started_ns, end, transfer.flow, to_client=False)
            zero = int(sent.t_ns[0]) if len(sent) else None
        flow = self.flows[min(transfer.flow, len(self.flows) - 1)]
        other_flows = {other_transfer.flow for other_transfer in self.run.transfers} - {transfer.flow}
        facts = () if self.lab is None else self.lab.flows
        over_tcp = any(entry.over_tcp for entry in facts if entry.flow == transfer.flow)
        return TransferWindow(
            transfer,
            transfer.started_ns,
            end,
            zero,
            flow,
            over_tcp,
            is_only_flow=len(self.flows) == 1 and not other_flows,
        )

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The configured flows."""
        return self.run.cell.scenario.flows

    def span(self, index: int) -> tuple[int, int] | None:
        """From the start of the first to the end of the last transfer of that index, over all flows (ns)."""
        windows = [window for window in self.windows if window.transfer.index == index]
        if not windows:
            return None
        return min(window.start_ns for window in windows), max(window.end_ns for window in windows)

    def tcp(self, flow: int) -> pl.DataFrame | None:
        """The statistics of a TCP flow's connection from its sender's kernel (see `capture.tcp_info`)."""
        if flow not in self._tcp:
            self._tcp[flow] = self._read(f"{endpoint_path(flow, self.flows[flow].sender)}/{TCP}", tcp_info.read_tcp)
        return self._tcp[flow]

    @cached_property
    def _tcp(self) -> dict[int, pl.DataFrame | None]:
        return {}

    def requests(self, flow: int) -> pl.DataFrame | None:
        """The times of a scheduled client's requests (see `capture.request_log`); None without its log."""
        return self._read(f"{endpoint_path(flow, 'client')}/{request_log.REQUESTS}", request_log.read_requests)

    def datagrams(self, flow: int) -> datagram_log.ReceivedDatagrams | None:
        """The datagrams that a flow's client received (see `capture.datagram_log`); None without its log."""
        return self._read(f"{endpoint_path(flow, 'client')}/{datagram_log.DATAGRAMS}", datagram_log.read_datagrams)

    def losses(self, trace: Path) -> qlog.Losses:
        """Losses and recovery in a qlog (see `capture.qlog`). Raises OSError."""
        if trace not in self._losses:
            self._losses[trace] = qlog.read_losses(trace)
        return self._losses[trace]

    @cached_property
    def _losses(self) -> dict[Path, qlog.Losses]:
        return {}

    def secrets(self, flow: int) -> tuple[key_log.Secret, ...]:
        """The TLS secrets that either endpoint of a flow logged, each once."""
        logs = (self.path(f"{endpoint_path(flow, role)}/{KEYS}") for role in ROLES)
        secrets = (secret for log in logs if log is not None for secret in key_log.read_key_log(log))
        return tuple(dict.fromkeys(secrets))

    def qlogs(self, flow: int, role: str) -> list[Path]:
        """The qlog files of one endpoint."""
        return qlog.find_traces(self.folder / endpoint_path(flow, role) / QLOG)


# --- The last lines that the processes of a run's endpoints printed, where the run's folder still has them.


#: Lines of each endpoint, and characters of each line.
LINES, WIDTH = 5, 160
#: Bytes at a log's end that are searched, and bytes read at a time.
_TAIL_BYTES, _READ = 1 << 16, 1 << 20


def last_log_lines(folder: Path, run: Run) -> dict[str, tuple[str, ...]]:
    """Endpoint ('client0') → the last lines of its log that are not empty, the oldest first.

    Unprintable characters are escaped, and long lines are cut. Without logs, the lines are those of the failed
    endpoint in the run's record. Endpoints without output are left out.
    """
    tails: dict[str, tuple[str, ...]] = {}
    for flow in range(len(run.cell.scenario.flows)):
        for role in ROLES:
            name = f"{role}{flow}"
            if lines := _read_last_lines(folder / f"{name}.log"):
                tails[name] = lines
    if not tails and run.outcome.role in ROLES and run.outcome.log_tail:
        tails[f"{run.outcome.role}0"] = tuple(_escape_line(line) for line in run.outcome.log_tail[-LINES:])
    return tails


def _read_last_lines(file: Path) -> tuple[str, ...]:
    tail = b""
    try:
        with open_file(file) as log:
            while part := log.read(_READ):
                tail = (tail + part)[-_TAIL_BYTES:]
    except OSError:
        return ()
    lines = [line for line in tail.decode(errors="replace").splitlines() if line.strip()]
    return tuple(_escape_line(line) for line in lines[-LINES:])


def _escape_line(line: str) -> str:
    text = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in line.rstrip()
    )
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"

"""The gauge: what a path program does to a known stream of packets, in exact virtual time.

The guest's side is images/sim/simulator/gauge.py. It runs on the lab kernel and with the queues of the cells, and
in virtual time neither the machine nor its load can disturb it, so what it reads are properties of the program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.engine.docker_cli import tail
from harness.engine.kernel import OWN
from harness.engine.run_dir import MAX_EVENT_BYTES
from harness.engine.virtual.uml_guest import LAB, STALL, Guest
from harness.errors import EngineError
from harness.netem import PathProgram, series_content
from harness.reading import read_regular

_INIT = ["/usr/bin/python3", "-S", "-m", "simulator.gauge"]
#: When a gauge's clock starts, ns since the epoch: any time will do, but the same always.
_CLOCK_START = 1_790_000_000_000_000_000
#: Memory of a guest without packets, and per packet (skb with its data at the receiver, and its clone at the tap).
_BASE_MIB, _PACKET_BYTES = 160, 4096
#: What a packet that did not arrive has for a time in the guest's files.
_NEVER = -1
#: Ethernet, IPv4 and UDP headers and a sequence number, bytes.
SMALLEST_FRAME = 14 + 20 + 8 + 4

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Train:
    """Equally spaced packets of one size."""

    count: int
    gap_ns: int
    """0 for packets that leave together."""
    frame_bytes: int = 1250
    """Layer-2 size, with the Ethernet header, as tc counts it."""
    start_ns: int = 0
    """Departure of the first, after the start of the stream."""

    def __post_init__(self) -> None:
        if self.count < 1 or self.gap_ns < 0 or self.start_ns < 0 or self.frame_bytes < SMALLEST_FRAME:
            raise ValueError(f"{self}: a train has packets of at least {SMALLEST_FRAME} B, and times from 0 on")


@dataclass(frozen=True)
class Stream:
    """What is sent: trains, in order of time."""

    trains: tuple[Train, ...]
    direction: Literal["to_client", "to_server"] = "to_client"

    def __post_init__(self) -> None:
        ends = [train.start_ns + (train.count - 1) * train.gap_ns for train in self.trains]
        if not ends or any(later.start_ns < end for end, later in zip(ends, self.trains[1:], strict=False)):
            raise ValueError("a stream has at least one train, and none starts before the one before has ended")

    @property
    def departures_ns(self) -> Integers:
        """When each packet is to leave, ns after the start. Shape (packets,)."""
        return np.concatenate(
            [train.start_ns + train.gap_ns * np.arange(train.count, dtype=np.int64) for train in self.trains]
        )

    @property
    def frame_bytes(self) -> Integers:
        """Layer-2 size of each packet. Shape (packets,)."""
        return np.concatenate([np.full(train.count, train.frame_bytes, dtype=np.int64) for train in self.trains])


@dataclass(frozen=True, eq=False)
class Arrivals:
    """What is sent: packets at arbitrary times, those of a Poisson process for instance."""

    departures_ns: Integers
    """When each packet is to leave, ns after the start, in order. Shape (packets,)."""
    frame_bytes: Integers
    """Layer-2 size of each packet. Shape (packets,)."""
    direction: Literal["to_client", "to_server"] = "to_client"

    def __post_init__(self) -> None:
        times, sizes = self.departures_ns, self.frame_bytes
        if times.shape != sizes.shape or times.ndim != 1 or not times.size:
            raise ValueError(f"times of shape {times.shape} and sizes of shape {sizes.shape}: one each per packet")
        if times[0] < 0 or (np.diff(times) < 0).any() or sizes.min() < SMALLEST_FRAME:
            raise ValueError(f"packets leave in order of time, from 0 on, with at least {SMALLEST_FRAME} B")


def constant_rate(
    rate_bps: float,
    seconds: float,
    frame_bytes: int = 1250,
    *,
    start_ns: int = 0,
    direction: Literal["to_client", "to_server"] = "to_client",
) -> Stream:
    """A stream of constant layer-2 rate; its gap is rounded to whole ns."""
    gap = round(frame_bytes * 8e9 / rate_bps)
    return Stream((Train(max(1, round(seconds * 1e9 / gap)), gap, frame_bytes, start_ns),), direction)


@dataclass(frozen=True)
class Trial:
    """One stream through one program, whose queues are new and empty."""

    program: PathProgram
    stream: Stream | Arrivals
    drain_ns: int = 1_000_000_000
    """How long arrivals are waited for after the last departure."""


@dataclass(frozen=True, eq=False)
class Passage:
    """What became of a stream. Arrays have one element per packet, in order of departure."""

    sent_ns: Floats
    """Departure from the sender's interface, ns after the start of the stream."""
    received_ns: Floats
    """Arrival at the receiver, ns after the start of the stream; NaN for a packet that did not arrive."""
    frame_bytes: Integers
    qdiscs: tuple[dict[str, Any], ...]
    """`tc -s -j qdisc show` at the simulator after the last arrival."""
    changed_ns: tuple[int, ...]
    """When the commands of each scheduled change had been applied, ns after the first packet."""
    repeated: int
    """Packets that arrived more than once."""
    zero_ns: int = 0
    """The start of the stream, ns since the epoch."""

    @property
    def delay_ns(self) -> Floats:
        """One-way delay of each packet; NaN for a lost one."""
        return self.received_ns - self.sent_ns

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Whether each packet was lost."""
        return np.isnan(self.received_ns)

    @property
    def rate_bps(self) -> float:
        """Layer-2 rate between the first arrival and the last: bits after the first, over the time between."""
        arrived = ~self.lost
        times = self.received_ns[arrived]
        if times.size < 2 or times[-1] <= times[0]:
            raise ValueError("a rate needs two arrivals at different times")
        return float(8e9 * self.frame_bytes[arrived][1:].sum() / (times[-1] - times[0]))

    def qdisc(self, device: str, kind: str) -> dict[str, Any]:
        """The counters of a queueing discipline. LookupError if the device has none of that kind."""
        for item in self.qdiscs:
            if item["dev"] == device and item["kind"] == kind:
                return item
        raise LookupError(f"{device} has no {kind}")


def plan_document(trials: Sequence[Trial]) -> dict[str, Any]:
    """plan.json, which images/sim/simulator/gauge.py reads."""
    return {
        "schema": 1,
        "trials": [
            {
                "setup": trial.program.setup,
                "changes": [change.model_dump() for change in trial.program.changes],
                "sender": "server0" if trial.stream.direction == "to_client" else "client0",
                **_packets(trial.stream),
                "drain_ns": trial.drain_ns,
            }
            for trial in trials
        ],
    }


def _packets(stream: Stream | Arrivals) -> dict[str, Any]:
    if isinstance(stream, Stream):
        return {"trains": [asdict(train) for train in stream.trains]}
    return {"departures_ns": stream.departures_ns.tolist(), "frame_bytes": stream.frame_bytes.tolist()}


def memory_mib(trials: Sequence[Trial]) -> int:
    """MiB of a guest that keeps all packets of any one trial in its sockets."""
    packets = max(trial.stream.frame_bytes.size for trial in trials)
    return _BASE_MIB + packets * _PACKET_BYTES // (1 << 20)


def read_passages(folder: Path, trials: Sequence[Trial]) -> tuple[Passage, ...]:
    """What a gauge's guest left in its folder. OSError, KeyError or ValueError if that is not complete."""
    content = json.loads(read_regular(folder.resolve() / "passages.json", MAX_EVENT_BYTES))
    return tuple(
        _passage(folder / f"passage-{number}.csv", item, trial)
        for number, (item, trial) in enumerate(zip(content["trials"], trials, strict=True))
    )


def _passage(file: Path, item: dict[str, Any], trial: Trial) -> Passage:
    table = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2, dtype=np.int64)
    sizes = trial.stream.frame_bytes
    if table.shape != (sizes.size, 3):
        raise ValueError(f"{file}: {table.shape[0]} packets instead of {sizes.size}")
    sent, received = table[:, 1], table[:, 2]
    if (sent == _NEVER).any():
        raise ValueError(f"{file}: {np.count_nonzero(sent == _NEVER)} packets did not leave")
    return Passage(
        sent_ns=sent.astype(np.float64),
        received_ns=np.where(received == _NEVER, np.nan, received),
        frame_bytes=sizes,
        qdiscs=tuple(item["qdiscs"]),
        changed_ns=tuple(item["changed_ns"]),
        repeated=item["repeated"],
        zero_ns=item["zero_ns"],
    )


def gauge(
    trials: Sequence[Trial],
    rootfs: Path,
    folder: Path,
    *,
    seed: int = 1,
    core: int = 0,
    kernel: Path | None = None,
    stall: float = STALL,
    phase: Callable[[str], None] = lambda word: None,
) -> tuple[Passage, ...]:
    """Send streams through programs, one after the other, in one lab kernel. One passage per trial.

    `rootfs` is the simulator image's root file system, which has the kernel unless another is named. `folder` takes the
    plan and what was measured. `seed` seeds all randomness of the guest but netem's, which the program seeds.
    EngineError when a guest cannot be started, or does not come to its end: a command was refused, say.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan_document(trials)))
    for series in (series for trial in trials for series in trial.program.series):
        (folder / series.file).write_bytes(series_content(series).encode())
    guest = Guest(kernel or rootfs / "opt/lab/linux", rootfs, memory_mib(trials), seed, _CLOCK_START, core)
    console = folder / "console.log"
    end = guest.run([*_INIT, LAB], folder, console, stall, phase, settings=OWN.settings)
    if not end.said_over:
        why = f"the clock stood still ({end.spun} was running)" if end.spun else "the lab kernel ended early"
        raise EngineError(f"gauge: {why} after {end.clock:.3f} s", "; ".join(tail(console)))
    try:
        return read_passages(folder, trials)
    except (OSError, KeyError, ValueError) as error:
        raise EngineError(f"gauge: {error}") from error

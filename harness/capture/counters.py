"""Series that were sampled while a run went on: queueing disciplines, CPU time, waits for a CPU, files, events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from harness.capture.files import MAX_RECORD_SIZE, read_bytes, read_objects, read_whole_lines

_COUNTS = ("bytes", "packets", "drops", "overlimits", "backlog", "qlen", "early", "pdrop", "marked")
_COUNTERS_SCHEMA = {"t_ns": pl.Int64, "device": pl.String, **dict.fromkeys(_COUNTS, pl.Int64)}


def read_counters(path: Path) -> pl.DataFrame:
    """One row per sample and device, in order of time. Raises OSError.

    Columns: t_ns, device, and of the device's root discipline bytes, packets, drops, overlimits (cumulative),
    backlog (bytes) and qlen (packets). early (drops that active queue management decided), pdrop (those of the hard
    limit) and marked are those of a managed queue on the device, 0 elsewhere (RED's early counts forced drops too;
    net/sched/sch_red.c). The drops of a tbf or hfsc include those of the queue inside it (tbf_enqueue, hfsc_enqueue),
    those of a netem or prio the losses of the netems inside (netem_dequeue, prio_enqueue).
    """
    rows = []
    for sample in read_objects(path):
        time, disciplines = sample.get("t"), sample.get("qdiscs")
        if isinstance(time, int | float) and isinstance(disciplines, list):
            rows.extend(_rows(round(time * 1e9), [d for d in disciplines if isinstance(d, dict)]))
    return pl.DataFrame(rows, schema=_COUNTERS_SCHEMA, orient="row").sort("t_ns", maintain_order=True)


def _number(item: dict[str, Any], *names: str) -> int:
    """The sum of the named counts of a discipline that are there."""
    return sum(value for name in names if isinstance(value := item.get(name), int))


def _codel_causes(item: dict[str, Any]) -> dict[str, int]:
    limit = _number(item, "drop_overlimit", "drop_overmemory")
    marked = _number(item, "ecn_mark", "ce_mark")
    return {"early": _number(item, "drops") - limit, "pdrop": limit, "marked": marked}


def _pie_causes(item: dict[str, Any]) -> dict[str, int]:
    limit = _number(item, "overlimit", "overmemory")
    return {"early": _number(item, "dropped"), "pdrop": limit, "marked": _number(item, "ecn_mark")}


def _cake_causes(item: dict[str, Any]) -> dict[str, int]:
    classes = [entry for entry in item.get("tins", ()) if isinstance(entry, dict)]
    early, marked = (sum(_number(entry, name) for entry in classes) for name in ("drops", "ecn_mark"))
    return {"early": early, "pdrop": max(0, _number(item, "drops") - early), "marked": marked}


#: Kind of a managed queue → its drops and marks by cause, from tc's words (iproute2, tc/q_*.c).
_CAUSES: Mapping[str, Callable[[dict[str, Any]], dict[str, int]]] = {
    "red": lambda item: item,
    "codel": _codel_causes,
    "fq_codel": _codel_causes,
    "pie": _pie_causes,
    "fq_pie": _pie_causes,
    "cake": _cake_causes,
    "dualpi2": lambda item: {"early": _number(item, "drops"), "marked": _number(item, "ecn_mark", "step_mark")},
}


def _rows(t_ns: int, disciplines: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """A row for each device with a root discipline."""
    managed = {item.get("dev"): counts(item) for item in disciplines if (counts := _CAUSES.get(str(item.get("kind"))))}
    rows: list[tuple[object, ...]] = []
    for item in disciplines:
        # In an outage a path has a discipline that drops everything. These drops are no losses.
        if item.get("kind") == "blackhole":
            continue
        if item.get("root") is True and isinstance(item.get("dev"), str):
            causes = managed.get(item["dev"], {})
            values = [(causes if name in ("early", "pdrop", "marked") else item).get(name) for name in _COUNTS]
            rows.append((t_ns, item["dev"], *(value if isinstance(value, int) else 0 for value in values)))
    return rows


def read_series_starts(path: Path) -> dict[str, int]:
    """Device → when the series of its disciplines started, ns since the epoch, as the kernel says. Raises OSError."""
    starts: dict[str, int] = {}
    for sample in read_objects(path):
        disciplines = sample.get("qdiscs")
        for item in disciplines if isinstance(disciplines, list) else ():
            options = item.get("options") if isinstance(item, dict) else None
            started = options.get("started") if isinstance(options, dict) else None
            if isinstance(started, int) and isinstance(item.get("dev"), str):
                starts.setdefault(item["dev"], started)
    return starts


def running_total(counters: pl.DataFrame, device: str, count: str) -> tuple[np.ndarray, np.ndarray]:
    """Sample times (ns) and a cumulative count of one device, made to never fall; both int64, shape (n,).

    A count that falls was reset (the discipline was replaced); the total continues from its last value.
    """
    rows = counters.filter(pl.col("device") == device)
    values = rows[count].to_numpy().astype(np.int64)
    steps = np.diff(values, prepend=0)
    return rows["t_ns"].to_numpy().astype(np.int64), np.cumsum(np.where(steps < 0, values, steps))


def count_increase(counters: pl.DataFrame, device: str, count: str, start_ns: int, end_ns: int) -> int | None:
    """How much a count grew from the last sample at or before start to the first at or after end.

    None where the device was never sampled. A missing sample before start counts as 0: the disciplines are new.
    """
    times, values = running_total(counters, device, count)
    if not len(times):
        return None
    before = int(np.searchsorted(times, start_ns, side="right")) - 1
    after = min(int(np.searchsorted(times, end_ns)), len(times) - 1)
    return int(values[after] - (values[before] if before >= 0 else 0))


# --- CPU time and lost datagrams of each container (cpu.csv).


_CPU_SCHEMA = {"t_ns": pl.Int64, "container": pl.String, "cpu_ns": pl.Int64, "rcvbuf_errors": pl.Int64}


def read_cpu(path: Path) -> pl.DataFrame:
    """Columns t_ns, container, cpu_ns (cumulative), rcvbuf_errors (cumulative or null). Raises OSError."""
    data = read_whole_lines(path)
    if data.count(b"\n") < 2:
        return pl.DataFrame(schema=_CPU_SCHEMA)
    frame = pl.read_csv(data, schema=_CPU_SCHEMA, ignore_errors=True, truncate_ragged_lines=True)
    return frame.drop_nulls(["t_ns", "container"])


def cumulative_increase(
    frame: pl.DataFrame, container: str, column: Literal["cpu_ns", "rcvbuf_errors"], start_ns: int, end_ns: int
) -> int | None:
    """How much a cumulative column grew from start to end; None where it was not sampled in between.

    Taken from the last sample at or before start (0 for a container first sampled later: it is new) to the
    first sample at or after end. A value that falls belongs to a new container of the same name.
    """
    rows = frame.filter(pl.col("container") == container).drop_nulls(column).sort("t_ns", maintain_order=True)
    times, values = rows["t_ns"].to_numpy(), rows[column].to_numpy().astype(np.int64)
    after = min(int(np.searchsorted(times, end_ns)), len(times) - 1)
    if after < 0 or times[after] < start_ns:
        return None
    before = int(np.searchsorted(times, start_ns, side="right")) - 1
    steps = np.diff(values, prepend=0)
    increments = np.where(steps < 0, values, steps)
    return int(increments[before + 1 : after + 1].sum())


# --- How long each container's processes waited for a processor, and what the hypervisor took of it (waits.csv).


Kind = Literal["run_delay", "longest", "pressure", "stopped", "steal"]
"""What a sum counts (see `harness.engine.docker.sampler`, which writes them)."""
#: The name that replaces a container's for figures of the whole machine.
MACHINE = "machine"
_SCHED_DELAY_SCHEMA = {"t_ns": pl.Int64, "container": pl.String, "kind": pl.String, "ns": pl.Int64}


@dataclass(frozen=True)
class WaitTime:
    """How much one sum grew between the first and the last sample of a span."""

    ns: int
    sampled_ns: int
    """Time between these two samples."""

    @property
    def share(self) -> float:
        """Of the time sampled; of `run_delay` above 1 where several threads waited at once."""
        return self.ns / self.sampled_ns


def read_waits(path: Path) -> pl.DataFrame:
    """Columns t_ns, container, kind, ns (cumulative). Raises OSError."""
    data = read_whole_lines(path)
    if data.count(b"\n") < 2:
        return pl.DataFrame(schema=_SCHED_DELAY_SCHEMA)
    frame = pl.read_csv(data, schema=_SCHED_DELAY_SCHEMA, ignore_errors=True, truncate_ragged_lines=True)
    return frame.drop_nulls()


def wait_time(frame: pl.DataFrame, container: str, kind: Kind, start_ns: int, end_ns: int) -> WaitTime | None:
    """How much a sum grew within a span; None where fewer than two samples are in it.

    A sum that falls belongs to a new container of the same name, and counts from 0.
    """
    rows = frame.filter(
        (pl.col("container") == container) & (pl.col("kind") == kind) & pl.col("t_ns").is_between(start_ns, end_ns)
    ).sort("t_ns", maintain_order=True)
    if len(rows) < 2:
        return None
    times, sums = rows["t_ns"].to_numpy(), rows["ns"].to_numpy()
    steps = np.diff(sums)
    return WaitTime(int(np.where(steps < 0, sums[1:], steps).sum()), int(times[-1] - times[0]))


def cores_during_wait(
    waits: pl.DataFrame, cpu: pl.DataFrame, container: str, kind: Kind, start_ns: int, end_ns: int
) -> dict[str, float]:
    """Container → processors that it used while `container` waited, on average over the time that this waited.

    Each interval between two samples counts by the wait in it. CPU time is taken to grow evenly between its samples.
    Empty where nobody waited, or fewer than two samples are in the span.
    """
    rows = waits.filter(
        (pl.col("container") == container) & (pl.col("kind") == kind) & pl.col("t_ns").is_between(start_ns, end_ns)
    ).sort("t_ns", maintain_order=True)
    times = rows["t_ns"].to_numpy()
    waited, lengths = np.maximum(np.diff(rows["ns"].to_numpy()), 0), np.diff(times)
    if not waited.sum() or not lengths.all():
        return {}
    used = {}
    for (name,), samples in (
        cpu.drop_nulls("cpu_ns").sort("t_ns", maintain_order=True).group_by("container", maintain_order=True)
    ):
        grown = np.maximum(np.diff(np.interp(times, samples["t_ns"].to_numpy(), samples["cpu_ns"].to_numpy())), 0)
        used[str(name)] = float((waited * grown / lengths).sum() / waited.sum())
    return used


# --- How the client's file grew (growth.csv).


_FILE_GROWTH_SCHEMA = {"t_ns": pl.Int64, "flow": pl.Int64, "transfer": pl.Int64, "bytes": pl.Int64}


@dataclass(frozen=True)
class Moment:
    """A moment known to lie between two samples."""

    after_ns: int
    """Last sample before the moment."""
    before_ns: int
    """First sample after the moment."""

    @property
    def middle_ns(self) -> float:
        """The middle: off by at most half the gap."""
        return self.after_ns + self.gap_ns / 2

    @property
    def gap_ns(self) -> int:
        """The resolution of this moment."""
        return self.before_ns - self.after_ns


@dataclass(frozen=True)
class Growth:
    """Samples of the size of one transfer's file, in order of time."""

    t_ns: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    """Bytes in the file at each sample."""

    def time_of(self, size: int, start_ns: int) -> Moment | None:
        """When the file first had at least `size` bytes; None where it never did.

        `start_ns`: when it certainly had not, for a file that was as large at its first sample.
        """
        enough = np.flatnonzero(self.size >= size)
        if not len(enough):
            return None
        first = int(enough[0])
        before = int(self.t_ns[first])
        after = max(int(self.t_ns[first - 1]), start_ns) if first else start_ns
        return Moment(min(after, before), before)

    @property
    def typical_step(self) -> int:
        """The step size such that half of the file came in steps at least as large, bytes; 0 for no growth."""
        steps = np.sort(np.diff(self.size, prepend=0))[::-1]
        steps = steps[steps > 0]
        if not len(steps):
            return 0
        return int(steps[np.searchsorted(np.cumsum(steps), steps.sum() / 2)])


def read_growth(path: Path) -> pl.DataFrame:
    """Columns t_ns, flow, transfer, bytes, as written. Raises OSError; damaged rows are left out."""
    data = read_whole_lines(path)
    if data.count(b"\n") < 2:
        return pl.DataFrame(schema=_FILE_GROWTH_SCHEMA)
    frame = pl.read_csv(data, schema=_FILE_GROWTH_SCHEMA, ignore_errors=True, truncate_ragged_lines=True)
    return frame.drop_nulls()


def transfer_growth(frame: pl.DataFrame, flow: int, transfer: int) -> Growth:
    """The samples of one transfer, in order of time."""
    rows = frame.filter((pl.col("flow") == flow) & (pl.col("transfer") == transfer)).sort("t_ns", maintain_order=True)
    return Growth(rows["t_ns"].to_numpy(), rows["bytes"].to_numpy())


# --- The simulator's own events: its kernel, readiness, changes of the path (sim/events.jsonl, capture.json).


#: Times closer than this are the same, s: they come from the same count of ns.
_TIME_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Events:
    """Moments in ns since the epoch; None where the event is absent."""

    kernel: str = ""
    """Kind and release, "lab 7.2.12"."""
    ready_ns: int | None = None
    first_datagram_ns: int | None = None
    stop_ns: int | None = None
    changes: dict[int, int] = field(default_factory=dict)
    """Index, in the simulator's plan, of each change that took effect → when."""
    due: dict[int, float] = field(default_factory=dict)
    """The same index → when it was due, s after the first datagram."""

    def applied(self, index: int, at: float) -> int | None:
        """When the path's change number `index`, due at `at` s, took effect; None where it did not.

        The simulator also numbers other timed commands (those of a service process), so the change is found by its
        due time. Only events without due times are found by the number.
        """
        if not self.due:
            return self.changes.get(index)
        due_index = next((number for number, due in self.due.items() if abs(due - at) < _TIME_TOLERANCE), None)
        return None if due_index is None else self.changes[due_index]


def read_events(path: Path) -> Events:
    """Read events.jsonl; unknown events are skipped. Raises OSError."""
    kernel = ""
    moments: dict[str, int] = {}
    changes: dict[int, int] = {}
    due: dict[int, float] = {}
    for event in read_objects(path):
        name, time = event.get("event"), _ns(event.get("t"))
        if name == "kernel":
            kernel = f"{event.get('kernel', '')} {event.get('release', '')}".strip()
        elif time is None:
            continue
        elif name == "change" and isinstance(event.get("index"), int):
            changes[event["index"]] = time
            if isinstance(event.get("at"), int | float):
                due[event["index"]] = float(event["at"])
        elif name in ("ready", "first_datagram", "stop"):
            moments.setdefault(name, time)
    return Events(kernel, moments.get("ready"), moments.get("first_datagram"), moments.get("stop"), changes, due)


def _ns(seconds: Any) -> int | None:
    return round(seconds * 1e9) if isinstance(seconds, int | float) else None


def read_capture_drops(path: Path) -> int:
    """Packets both captures missed, by the capturing kernel's count (PACKET_STATISTICS tp_drops, packet(7)).

    Raises OSError; ValueError where it is not JSON.
    """
    sides = json.loads(read_bytes(path, MAX_RECORD_SIZE))
    counts = [side.get("dropped") for side in sides.values() if isinstance(side, dict)]
    return sum(count for count in counts if isinstance(count, int))

"""The lab kernel's trace of system calls (LAB_TRACE), and where two of them part."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.capture.syscall_names import call_name

#: One record, little-endian, 80 bytes (images/lab-kernel writes it when a call returns).
RECORD = np.dtype(
    [
        ("time", "<u8"),  # of CLOCK_MONOTONIC, ns
        ("result", "<i8"),
        ("arguments", "<u8"),  # digest of the six registers
        ("random", "<u8"),  # digest of the random bytes handed out; 0 where none were
        ("pid", "<u4"),
        ("number", "<i4"),
        ("looks", "<u4"),  # reads of the clock since the process's record before
        ("zero", "<u4"),
        ("process", "S16"),
        ("host", "S16"),
    ]
)
Records = npt.NDArray[np.void]

#: Calls of the process, and of anybody, that are shown before the one that differs.
BEFORE = 6
#: Largest number that a failed call returns, negative (include/linux/err.h).
_MAX_ERRNO = 4095


@dataclass(frozen=True)
class Call:
    """One system call, as it returned."""

    number: int
    """Its place in the trace, from 1."""
    time_ns: int
    """Of the lab's monotonic clock."""
    host: str
    """The endpoint it belongs to; "(none)" outside endpoints."""
    process: str
    pid: int
    name: str
    result: int
    looks: int
    """Reads of the clock since the process's call before."""

    @property
    def said(self) -> str:
        """Its result for people: a number, or the name of an error."""
        if -_MAX_ERRNO <= self.result < 0:
            return errno.errorcode.get(-self.result, str(self.result))
        return str(self.result)


@dataclass(frozen=True)
class CallDivergence:
    """The first system call in which two runs differ."""

    calls: tuple[Call | None, Call | None]
    """In each run; None where a trace has ended."""
    differs: tuple[str, ...]
    """What does: order, clock reads, arguments, random bytes, result, time."""
    before: tuple[Call, ...]
    """The calls of the first run's process (of the second's, where the first's trace has ended) before it."""
    around: tuple[Call, ...]
    """The calls of anybody before it."""


def read_calls(path: Path) -> Records:
    """The records of a trace; one cut short at the end is left out. Raises OSError."""
    size = path.stat().st_size // RECORD.itemsize
    return np.fromfile(path, RECORD, count=size)


def first_other_call(one: Records, other: Records) -> CallDivergence | None:
    """Where two traces part; None where they are equal."""
    shared = min(len(one), len(other))
    words = [
        np.ascontiguousarray(trace[:shared]).view("<u8").reshape(shared, RECORD.itemsize // 8) for trace in (one, other)
    ]
    different = np.flatnonzero((words[0] != words[1]).any(axis=1))
    if not len(different) and len(one) == len(other):
        return None
    at = int(different[0]) if len(different) else shared
    calls = tuple(_call(trace, at) if at < len(trace) else None for trace in (one, other))
    known = one if at < len(one) else other
    mine = np.flatnonzero(known["pid"][:at] == known["pid"][at])[-BEFORE:]
    return CallDivergence(
        calls=(calls[0], calls[1]),
        differs=_differences(one[at], other[at]) if None not in calls else ("order",),
        before=tuple(_call(known, int(index)) for index in mine),
        around=tuple(_call(known, index) for index in range(max(0, at - BEFORE), at)),
    )


def _differences(one: np.void, other: np.void) -> tuple[str, ...]:
    """What differs between two records, the likelier cause first: what a program did before what it was told."""
    if any(one[name] != other[name] for name in ("pid", "number", "host", "process")):
        return ("order",)
    names = {"looks": "clock reads", "arguments": "arguments", "random": "random bytes", "result": "result"}
    return tuple(said for name, said in {**names, "time": "time"}.items() if one[name] != other[name])


def _call(trace: Records, index: int) -> Call:
    record = trace[index]
    return Call(
        number=index + 1,
        time_ns=int(record["time"]),
        host=record["host"].decode(errors="replace"),
        process=record["process"].decode(errors="replace"),
        pid=int(record["pid"]),
        name=call_name(int(record["number"])),
        result=int(record["result"]),
        looks=int(record["looks"]),
    )

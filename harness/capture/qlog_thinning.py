"""Thin the qlog of a long transfer before anything reads it.

A trace lists every packet, and that of 10 GB is gigabytes long. Its readers need the beginning, the sender's state over
time, and rare events. So the first `HEAD` bytes stay as they are. After them are kept:

* one metrics_updated event in `STEP_MS`, with the figures of those that were left out before it;
* of every other event as many as fit into `ROOM` bytes, which is enough for all rare events.

A line holds one event, an object or an array. A trace of a single line, or with times as differences, stays whole.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from harness.capture import qlog
from harness.reading import open_regular
from harness.writing import replacement_stream

#: The longest trace that stays as it is, bytes: that of 100 MB on the slowest path by the most verbose stack.
MAX_UNTHINNED = 512 << 20
#: Bytes at the beginning of a longer trace that stay as they are.
HEAD_BYTES = 64 << 20
#: Bytes that each kind of event may take after that.
MAX_EVENT_BYTES = 16 << 20
#: Least time between two states of the sender that are kept, ms.
STEP_MS = 10.0
#: A line longer than this holds more than an event, bytes.
_LONGEST = 1 << 20
_NAME = re.compile(rb'"name"\s*:\s*"([^"]*)"|^\x1e?\[[^"]*"([^"]*)"\s*,\s*"([^"]*)"')
#: Events that every packet has: the first of them show nothing of the others.
_PACKET_EVENTS: tuple[bytes, ...] = (b"packet_sent", b"packet_received")

#: Characters around an event in its line.
_LINE_PADDING = b"\x1e ,\r\n\t"


@dataclass(frozen=True)
class ThinnedSizes:
    """The sizes of a thinned trace."""

    before: int
    """Bytes."""
    after: int


def thin(path: Path, whole: int = MAX_UNTHINNED, head: int = HEAD_BYTES) -> ThinnedSizes | None:
    """Thin a trace that is longer than `whole`; None where it stays as it is. Raises OSError."""
    with open_regular(path) as trace:
        before = os.fstat(trace.fileno()).st_size
    if before <= whole:
        return None
    opening = qlog.read_head(path, min(head, before))
    if qlog.counts_from_previous(opening) or max(map(len, opening.split(b"\n"))) > _LONGEST:
        return None
    # The writer of the trace may have placed something, such as a link, at the name of the new file.
    with open_regular(path) as trace, replacement_stream(path, f"{path.name}.thin") as out:
        _copy_thinned(trace, out, head, qlog.time_unit(opening))
        after = out.tell()
    return ThinnedSizes(before, after)


def _copy_thinned(trace: BinaryIO, out: BinaryIO, head: int, unit_ms: float) -> None:
    copied = 0
    while copied < head and (line := trace.readline()):
        out.write(line)
        copied += len(line)
    states, written_bytes = _States(unit_ms), Counter[bytes]()
    line = output = b""
    for line in trace:
        output = _thin_line(line, states, written_bytes)
        out.write(output)
    if not output and _parse_event(line) is None:
        # A contained trace ends in the line of its last event.
        out.write(line)


def _parse_event(line: bytes) -> Any:
    """The event that a line consists of; None where the line is anything else."""
    try:
        return json.loads(line.strip(_LINE_PADDING))
    except ValueError:
        return None


def _thin_line(line: bytes, states: _States, written_bytes: Counter[bytes]) -> bytes:
    """The output for a line; empty where it is left out. `written_bytes`: bytes so far by name of an event."""
    match = _NAME.search(line[:4096])
    name = b"" if match is None else (match[1] or match[3] or b"").rpartition(b":")[2]
    if name in _PACKET_EVENTS:
        return b""
    if name.endswith(b"metrics_updated") and (state := states.output(line)) is not None:
        return state
    written_bytes[name] += len(line)
    return line if written_bytes[name] <= MAX_EVENT_BYTES else b""


@dataclass
class _States:
    """A sender's states in order, each merged with the figures of those left out before it."""

    unit_ms: float
    _pending: dict[str, Any] = field(default_factory=dict)
    _last_ms: float = float("-inf")

    def output(self, line: bytes) -> bytes | None:
        """The output for an event: empty where it is left out; None where the line is not a single event."""
        body, event = line.strip(_LINE_PADDING), _parse_event(line)
        try:
            time = float(event["time"] if isinstance(event, dict) else event[0]) * self.unit_ms
            data = event["data"] if isinstance(event, dict) else event[-1]
        except (ValueError, KeyError, IndexError, TypeError):
            return None
        if not isinstance(data, dict):
            return None
        self._pending |= data
        if time - self._last_ms < STEP_MS:
            return b""
        if isinstance(event, dict):
            event["data"] = self._pending
        else:
            event[-1] = self._pending
        self._pending, self._last_ms = {}, time
        start = line.find(body[:1])
        end = line.rfind(body[-1:]) + 1
        return line[:start] + json.dumps(event, separators=(",", ":")).encode() + line[end:]

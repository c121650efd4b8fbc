"""The qlog of a long transfer made small before anything reads it.

A trace names every packet, and that of 10 GB is gigabytes long. What is read of it is its beginning, the sender's state
over time, and what is rare. So the first `HEAD` bytes stay as they are, and behind them:

* of metrics_updated one event in `STEP_MS`, with the figures of those that were left out before it;
* of every other event as many as fit into `ROOM` bytes, which all that is rare does.

Events stand one a line, as objects or arrays. A trace that is one line, or has its times as differences, stays whole.
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
from harness.writing import replaced

#: What a trace may be long and stay as it is, bytes: of 100 MB, the slowest path's and the most talkative stack's.
WHOLE = 512 << 20
#: What stays of a longer one as it is, from its beginning, bytes.
HEAD = 64 << 20
#: What each kind of event may take behind that, bytes.
ROOM = 16 << 20
#: Least time between two states of the sender that stay, ms.
STEP_MS = 10.0
#: A line longer than this holds more than an event, bytes.
_LONGEST = 1 << 20
_NAME = re.compile(rb'"name"\s*:\s*"([^"]*)"|^\x1e?\[[^"]*"([^"]*)"\s*,\s*"([^"]*)"')
#: Each packet has one, and beginnings of them tell nothing of the rest.
_OF_PACKETS: tuple[bytes, ...] = (b"packet_sent", b"packet_received")

#: What stands around an event in its line.
_AROUND = b"\x1e ,\r\n\t"


@dataclass(frozen=True)
class Thinned:
    """A trace that was made small."""

    before: int
    """Bytes."""
    after: int


def thin(path: Path, whole: int = WHOLE, head: int = HEAD) -> Thinned | None:
    """Make a trace small where it is longer than `whole`; None where it stays as it is. Raises OSError."""
    with open_regular(path) as trace:
        before = os.fstat(trace.fileno()).st_size
    if before <= whole:
        return None
    opening = qlog.read_head(path, min(head, before))
    if qlog.counts_from_previous(opening) or max(map(len, opening.split(b"\n"))) > _LONGEST:
        return None
    # Whoever wrote the trace may have put something, a link above all, where it is to be written anew.
    with open_regular(path) as trace, replaced(path, f"{path.name}.thin") as out:
        _copy(trace, out, head, qlog.time_unit(opening))
        after = out.tell()
    return Thinned(before, after)


def _copy(trace: BinaryIO, out: BinaryIO, head: int, unit_ms: float) -> None:
    copied = 0
    while copied < head and (line := trace.readline()):
        out.write(line)
        copied += len(line)
    states, taken = _States(unit_ms), Counter[bytes]()
    line = kept = b""
    for line in trace:
        kept = _kept(line, states, taken)
        out.write(kept)
    if not kept and _event(line) is None:
        # A contained trace ends in the line of its last event.
        out.write(line)


def _event(line: bytes) -> Any:
    """What a line is that is an event by itself, and no more; else None."""
    try:
        return json.loads(line.strip(_AROUND))
    except ValueError:
        return None


def _kept(line: bytes, states: _States, taken: Counter[bytes]) -> bytes:
    """What is written in place of a line; nothing where it is left out. `taken`: bytes by the name of an event."""
    found = _NAME.search(line[:4096])
    name = b"" if found is None else (found[1] or found[3] or b"").rpartition(b":")[2]
    if name in _OF_PACKETS:
        return b""
    if name.endswith(b"metrics_updated") and (state := states.taken(line)) is not None:
        return state
    taken[name] += len(line)
    return line if taken[name] <= ROOM else b""


@dataclass
class _States:
    """States of a sender as they come, with the figures of those that were left out."""

    unit_ms: float
    _held: dict[str, Any] = field(default_factory=dict)
    _at: float = float("-inf")

    def taken(self, line: bytes) -> bytes | None:
        """What is written in place of an event: empty where it is left out; None where it is no event by itself."""
        body, event = line.strip(_AROUND), _event(line)
        try:
            time = float(event["time"] if isinstance(event, dict) else event[0]) * self.unit_ms
            data = event["data"] if isinstance(event, dict) else event[-1]
        except (ValueError, KeyError, IndexError, TypeError):
            return None
        if not isinstance(data, dict):
            return None
        self._held |= data
        if time - self._at < STEP_MS:
            return b""
        if isinstance(event, dict):
            event["data"] = self._held
        else:
            event[-1] = self._held
        self._held, self._at = {}, time
        start = line.find(body[:1])
        end = line.rfind(body[-1:]) + 1
        return line[:start] + json.dumps(event, separators=(",", ":")).encode() + line[end:]

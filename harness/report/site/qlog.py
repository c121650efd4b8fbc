"""The first events of a qlog, for the viewer of the site. Pure but for reading the file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.capture.qlog import counts_from_previous, events, read_head, time_unit
from harness.formatting import harmless

#: Events that the viewer has at most, and bytes that are read for them: a trace of 100 MB has 60 MB.
MOST, _READ = 5000, 8_000_000
#: Characters of what is said of an event.
_SAID = 220
#: Where the key of a time would stand, if events have one.
_OPENING = 65_536


@dataclass(frozen=True)
class Opening:
    """How a trace begins."""

    events: tuple[tuple[float, str, str], ...]
    """(ms since the first, name, what it says)."""
    cut: bool
    """Whether the trace may go on."""


def opening(path: Path) -> Opening:
    """The first events of a trace. Raises OSError."""
    data = read_head(path, _READ)
    # Where events are arrays no key says when, but each begins a line.
    word = b'"time"' if b'"time"' in data[:_OPENING] else b"{"
    unit, relative = time_unit(data), counts_from_previous(data)
    found: list[tuple[float, str, str]] = []
    first, now = None, 0.0
    for event in islice(events(data, word), MOST):
        now = now + event.time if relative else event.time
        first = now if first is None else first
        said = json.dumps(event.data, separators=(", ", ": "), ensure_ascii=False)
        text = said if len(said) <= _SAID else f"{said[:_SAID]}…"
        found.append((round((now - first) * unit, 3), harmless(event.name), harmless(text)))
    return Opening(tuple(found), len(found) == MOST or len(data) == _READ)

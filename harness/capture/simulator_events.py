"""What the simulator says of itself: its kernel, readiness, changes of the path (sim/events.jsonl, capture.json)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.capture.files import MOST_RECORD, read_bytes, read_objects

#: Times closer than this are the same, s: they come from the same count of ns.
_SAME = 1e-6


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

        The simulator counts other timed commands too (those of a service process), so what was due then is looked
        for; only events that do not say when they were due go by the number.
        """
        if not self.due:
            return self.changes.get(index)
        found = next((number for number, due in self.due.items() if abs(due - at) < _SAME), None)
        return None if found is None else self.changes[found]


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
    sides = json.loads(read_bytes(path, MOST_RECORD))
    counts = [side.get("dropped") for side in sides.values() if isinstance(side, dict)]
    return sum(count for count in counts if isinstance(count, int))

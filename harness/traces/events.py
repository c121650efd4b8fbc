"""What the simulator says of itself: its kernel, readiness, changes of the path (sim/events.jsonl, capture.json)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.traces.files import read_bytes, read_objects


@dataclass(frozen=True)
class Events:
    """Moments in ns since the epoch; None where the event is absent."""

    kernel: str = ""
    """Kind and release, "lab 7.2.12"."""
    ready_ns: int | None = None
    first_datagram_ns: int | None = None
    stop_ns: int | None = None
    changes: dict[int, int] = field(default_factory=dict)
    """Index of each change of the path that took effect → when."""


def read_events(path: Path) -> Events:
    """Read events.jsonl; unknown events are skipped. Raises OSError."""
    kernel = ""
    moments: dict[str, int] = {}
    changes: dict[int, int] = {}
    for event in read_objects(path):
        name, time = event.get("event"), _ns(event.get("t"))
        if name == "kernel":
            kernel = f"{event.get('kernel', '')} {event.get('release', '')}".strip()
        elif time is None:
            continue
        elif name == "change" and isinstance(event.get("index"), int):
            changes[event["index"]] = time
        elif name in ("ready", "first_datagram", "stop"):
            moments.setdefault(name, time)
    return Events(kernel, moments.get("ready"), moments.get("first_datagram"), moments.get("stop"), changes)


def _ns(seconds: Any) -> int | None:
    return round(seconds * 1e9) if isinstance(seconds, int | float) else None


def read_capture_drops(path: Path) -> int:
    """Packets both captures missed, by the capturing kernel's count (PACKET_STATISTICS tp_drops, packet(7)).

    Raises OSError; ValueError where it is not JSON.
    """
    sides = json.loads(read_bytes(path))
    counts = [side.get("dropped") for side in sides.values() if isinstance(side, dict)]
    return sum(count for count in counts if isinstance(count, int))

"""The phases of Careful Resume in a qlog (RFC 9959; draft-ietf-tsvwg-careful-resume-qlog-02)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.capture.files import read_bytes
from harness.capture.qlog import counts_from_previous, events, first_time, time_unit

_PHASES = b'careful_resume_phase_updated"'


@dataclass(frozen=True)
class PhaseChange:
    """A sender's phase ended, and the next one began."""

    at_ms: float
    """Since the trace's first event."""
    new: str
    """The phase that began, as the draft calls it."""
    trigger: str
    """Why, as the draft calls it; empty where nothing is told."""
    pipe: int | None
    """PipeSize then, bytes."""


def read_phases(path: Path) -> list[PhaseChange]:
    """The changes of a trace, in order; empty where it has none, or times as differences. Raises OSError."""
    data = read_bytes(path)
    if counts_from_previous(data):
        return []
    unit, first = time_unit(data), first_time(data) or 0.0
    changes = []
    for event in events(data, _PHASES):
        state = event.data.get("state_data")
        pipe = state.get("pipesize") if isinstance(state, dict) else None
        changes.append(
            PhaseChange(
                at_ms=(event.time - first) * unit,
                new=str(event.data.get("new", "")),
                trigger=str(event.data.get("trigger", "")),
                pipe=pipe if isinstance(pipe, int) else None,
            )
        )
    return changes

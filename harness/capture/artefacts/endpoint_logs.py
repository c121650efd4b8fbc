"""The last words of a run's endpoints: what their processes printed, as far as the run's folder still has it."""

from __future__ import annotations

from pathlib import Path

from harness.capture.files import open_file
from harness.outcome import Run
from harness.scenario.parameters import ROLES

#: Lines of each endpoint, and characters of each line.
LINES, WIDTH = 5, 160
#: Bytes from a log's end that are looked at, and bytes read at a time.
_END, _READ = 1 << 16, 1 << 20


def last_words(folder: Path, run: Run) -> dict[str, tuple[str, ...]]:
    """Endpoint ('client0') → the last lines of its log that are not empty, the oldest first.

    What is no printable character is escaped, and a line that is too long is cut. Of a run without logs, what its
    record has of whoever failed; nothing of who said nothing.
    """
    found: dict[str, tuple[str, ...]] = {}
    for flow in range(len(run.cell.scenario.flows)):
        for role in ROLES:
            name = f"{role}{flow}"
            if lines := _last(folder / f"{name}.log"):
                found[name] = lines
    if not found and run.outcome.role in ROLES and run.outcome.log_tail:
        found[f"{run.outcome.role}0"] = tuple(_printable(line) for line in run.outcome.log_tail[-LINES:])
    return found


def _last(file: Path) -> tuple[str, ...]:
    end = b""
    try:
        with open_file(file) as log:
            while part := log.read(_READ):
                end = (end + part)[-_END:]
    except OSError:
        return ()
    lines = [line for line in end.decode(errors="replace").splitlines() if line.strip()]
    return tuple(_printable(line) for line in lines[-LINES:])


def _printable(line: str) -> str:
    text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line.rstrip())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"

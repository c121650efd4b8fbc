"""What a run is measured from: every file of its folder that measuring reads, and the digests that tell it unharmed.

The one place that knows these files: what reads an artefact takes its name from here. A file is known by its place in
the run's folder as it was written, and by the content it had then, so that packing changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harness.capture import qlog
from harness.capture.files import (
    CAPTURES,
    SIMULATOR,
    as_written,
    capture_file,
    capture_names,
    content_digest,
    find,
    simulators,
)
from harness.outcome import Run
from harness.scenario.parameters import ROLES

LAB, GROWTH, CPU, WAITS = "lab.json", "growth.csv", "cpu.csv", "waits.csv"
#: The simulator's; of several that of the first path (see `of`).
COUNTERS, EVENTS, CAPTURED, SENDS = "sim/counters.jsonl", "sim/events.jsonl", "sim/capture.json", "sim/udp.json"
#: Side → its capture.
CAPTURE = {side: f"sim/{name}" for side, name in CAPTURES.items()}
#: An endpoint's, below its folder.
KEYS, TCP, IPERF3, QLOG = "keys.log", "tcp.csv", "iperf3.json", "qlog"
_OF_RUN = (LAB, GROWTH, CPU, WAITS, COUNTERS, EVENTS, CAPTURED, SENDS)
_OF_ENDPOINT = (KEYS, TCP, IPERF3)
#: What every simulator has.
_OF_SIMULATOR = (COUNTERS, EVENTS, CAPTURED)


def of(simulator: str, place: str) -> str:
    """The same file of another simulator, by the name of its folder."""
    return simulator + place.removeprefix(SIMULATOR)


def endpoint(flow: int, role: str) -> str:
    """The folder of an endpoint's files."""
    return f"flow{flow}/{role}"


def capture_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of a run's captures as they were written, by side; nothing of one that cannot be read."""
    return {name: digest for name in capture_names(folder) if (digest := _digest(folder, _captured(name)))}


def _captured(name: str) -> str:
    """The place of a capture: 'left', 'right'; of further simulators 'sim-NAME left'."""
    return capture_file(Path(), name).as_posix()


def other_digests(folder: Path, flows: int) -> dict[str, str]:
    """SHA-256 of everything else that measuring reads, by its place; nothing of what cannot be read."""
    return {place: digest for place in _others(folder, flows) if (digest := _digest(folder, place))}


def harmed(folder: Path, run: Run) -> dict[str, str]:
    """The files of a stored run that are not as it was measured from, by place, each with what is wrong with it.

    Of a run whose record has no digest but those of its captures, these alone.
    """
    flows = len(run.cell.scenario.flows)
    known = {_captured(name): digest for name, digest in run.captures.items()} | run.artefacts
    found = {_captured(name): digest for name, digest in capture_digests(folder).items() if name in run.captures}
    if run.artefacts:
        found |= other_digests(folder, flows)
    places = sorted(place for place in {*known, *found} if known.get(place) != found.get(place))
    return {place: _harm(folder, place, place in known) for place in places}


def _others(folder: Path, flows: int) -> Iterator[str]:
    yield from _OF_RUN
    for simulator in simulators(folder)[1:]:
        yield from (of(simulator.name, place) for place in _OF_SIMULATOR)
    for flow in range(flows):
        for role in ROLES:
            its = endpoint(flow, role)
            yield from (f"{its}/{name}" for name in _OF_ENDPOINT)
            yield from (as_written(file).relative_to(folder).as_posix() for file in qlog.traces(folder / its / QLOG))


def _digest(folder: Path, place: str) -> str:
    """Nothing where there is no such file. Measuring says of one that cannot be read that it cannot."""
    with suppress(OSError):
        if (file := find(folder / place)) is not None:
            return content_digest(file)
    return ""


def _harm(folder: Path, place: str, known: bool) -> str:
    if not known:
        return "it came after the run"
    file = find(folder / place)
    if file is None:
        return "it is gone"
    try:
        content_digest(file)
    except OSError as error:
        return f"it cannot be read: {error}"
    return "it is not what the run made"

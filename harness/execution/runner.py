"""One cell through an engine, into the store. Never judges."""

from __future__ import annotations

import datetime
import itertools
import os
import platform
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from harness.analysis.metrics import measure_with_series
from harness.capture import pcap, qlog
from harness.capture.artefacts import capture_digests, endpoint, harmed, other_digests
from harness.capture.divergence import trail, trail_of
from harness.capture.files import capture_file, capture_names, read_bytes
from harness.capture.qlog_thinning import HEAD, STEP_MS, thin
from harness.engine import Engine, Progress
from harness.engine.images.contents import Contents
from harness.errors import ResultError, disk_error
from harness.execution.events import Listener, PhaseStarted, RunEnded
from harness.execution.matrix import PlannedRun
from harness.formatting import counted, size_of
from harness.outcome import ENGINES, MeasuredRun, Outcome, Run
from harness.planning.endpoint_config import UnsupportedError
from harness.planning.estimate import written_bytes
from harness.reading import open_regular, tree_of
from harness.scenario.parameters import ROLES
from harness.store.provenance import Provenance
from harness.store.results import Store
from harness.topology import Lab, build_lab

# --- What unfinished downloads leave in a run's folder, made small.
#
# The beginning of a served file tells nothing that its length does not, and may be gigabytes that no compression makes
# smaller. What differs from the served file stays as it is: somebody will want to see it.


#: Bytes looked at together: as many as `served_file` makes together.
_PIECE = 1 << 24


def discard_beginnings(lab: Lab, folder: Path) -> dict[str, int]:
    """Remove downloads that are beginnings of what was served: place below the folder → bytes."""
    found = {}
    for flow in lab.flows:
        served = {one.name: (one.size, number) for number, one in enumerate(flow.files)} or {flow.file: (flow.size, 0)}
        for file in _left(folder / f"flow{flow.flow}"):
            # A client may write under a name of its own until it has the whole.
            size, number = served.get(file.name, next(iter(served.values())))
            # What belongs to somebody else stays.
            with suppress(OSError):
                if size and _is_beginning(file, size, number):
                    length = file.lstat().st_size
                    file.unlink()
                    found[file.relative_to(folder).as_posix()] = length
    return found


def _left(folder: Path) -> Iterator[Path]:
    """What downloads left below a flow's folder."""
    with suppress(OSError):
        for place in tree_of(folder).files:
            if place.startswith("downloads/") or (place.startswith("transfer") and "/" not in place):
                yield folder / place


def _is_beginning(file: Path, size: int, number: int) -> bool:
    """Whether a file is the beginning, or all, of the served one of that size and number."""
    left = file.lstat().st_size
    if left > size:
        return False
    # As `served_file` makes it.
    generator = np.random.Generator(np.random.PCG64([size, number] if number else size))
    with open_regular(file) as came:
        while left:
            piece = generator.bytes(min(size, _PIECE))
            size -= len(piece)
            found = came.read(len(piece))
            if found != piece[: len(found)]:
                return False
            left -= len(found)
    return True


# --- runner


def cpu_times() -> dict[str, int]:
    """Cumulative CPU time of this machine in ticks: user, idle, steal … (proc_stat(5))."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    return dict(zip(names, map(int, fields), strict=True))


#: The folder of what a client downloads, beside those of the roles.
DOWNLOADS = "downloads"
#: Links and the like that a run's warnings name.
MOST_STRANGERS = 8

#: What tells generations apart in /proc/cpuinfo of x86.
_GENERATION = {"family": "cpu family", "model": "model"}


def host_facts(before: dict[str, int], after: dict[str, int], versions: dict[str, str]) -> dict[str, Any]:
    """What a reader asks about the machine, with the shares of CPU time during the run."""
    spent = {name: after[name] - before[name] for name in before}
    total = max(1, sum(spent.values()))
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "steal": round(spent["steal"] / total, 5),
        "idle": round((spent["idle"] + spent["iowait"]) / total, 5),
        **versions,
    }


def cpu_model() -> str:
    """The processor of this machine: 'AMD EPYC (family 25, model 1)'; empty where the kernel names none.

    Makers and hypervisors give one name to generations that differ in what they offer.
    """
    fields = [line.partition(":") for line in _lines("/proc/cpuinfo")]
    known = {name.strip(): value.strip() for name, _, value in reversed(fields)}
    if "model name" not in known:
        return ""
    which = ", ".join(f"{word} {known[name]}" for word, name in _GENERATION.items() if name in known)
    return f"{known['model name']} ({which})" if which else known["model name"]


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text().splitlines()
    except OSError:
        return []


def _unsupported(planned: PlannedRun, error: UnsupportedError, provenance: Provenance) -> Run:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    outcome = Outcome(status="unsupported", role=error.role, reason=error.reason, detail=error.detail)
    return Run(
        cell=planned.cell, repetition=planned.repetition, outcome=outcome, started_at=now, commit=provenance.commit
    )


def run_once(
    planned: PlannedRun,
    engine: Engine,
    store: Store,
    provenance: Provenance,
    progress: Progress,
    keeps: Callable[[Run, MeasuredRun | None], bool] = lambda run, measured: True,
) -> tuple[Run, MeasuredRun | None]:
    """Execute one planned run and store it. EngineError when the ground failed; the run is then not stored.

    `keeps`: whether a run's artefacts stay; its figures do in any case.
    """
    store.require_space(written_bytes(planned.cell.scenario))
    partial = store.begin(planned.cell.key, planned.repetition)
    try:
        run, measured, series, contents = _execute(planned, engine, partial, provenance, progress)
        store.keep_contents(contents)
        progress("store")
        store.finish(partial, run, measured, series, artefacts=keeps(run, measured))
    except OSError as error:
        store.abandon(partial)
        raise disk_error(error, partial) from error
    except BaseException:
        store.abandon(partial)
        raise
    return run, measured


def run_aside(
    planned: PlannedRun,
    engine: Engine,
    store: Store,
    provenance: Provenance,
    listen: Listener,
    keeps: Callable[[Run, MeasuredRun | None], bool] = lambda run, measured: True,
) -> tuple[Run, MeasuredRun | None]:
    """`run_once` of a run that is not judged: a listener is told its phases and its end."""
    try:
        return run_once(
            planned, engine, store, provenance,
            lambda phase: listen(PhaseStarted(planned.cell, planned.repetition, phase)), keeps,
        )  # fmt: skip
    finally:
        listen(RunEnded(planned.cell, planned.repetition))


def _execute(
    planned: PlannedRun, engine: Engine, folder: Path, provenance: Provenance, progress: Progress
) -> tuple[Run, MeasuredRun | None, pl.DataFrame | None, Collection[Contents]]:
    try:
        lab = build_lab(planned.cell, planned.repetition)
    except UnsupportedError as error:
        return _unsupported(planned, error, provenance), None, None, ()
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    before, begun = cpu_times(), time.monotonic()
    result = engine.run(lab, folder, progress)
    wall = time.monotonic() - begun
    progress("measure")
    strange = strangers(folder, len(lab.flows))
    discard_beginnings(lab, folder)
    thinned = thin_logs(folder, len(lab.flows))
    references = {"sim": lab.sim_image, **{one.name: one.image for one in lab.hosts}}
    contents = provenance.contents(result.image_ids, references)
    run = Run(
        cell=planned.cell,
        repetition=planned.repetition,
        outcome=result.outcome,
        started_at=started,
        transfers=result.transfers,
        phases=result.phases,
        wall=round(wall, 3),
        virtual=result.virtual,
        sim_kernel=result.sim_kernel,
        cpu=result.cpu,
        lab_kernel=result.lab_kernel,
        captures=capture_digests(folder),
        artefacts=other_digests(folder, len(planned.cell.scenario.flows)),
        trail=_trail(folder) if ENGINES[engine.name].deterministic else "",
        random=result.random,
        effective=dict(lab.effective),
        image_ids=result.image_ids,
        contents={name: one.digest for name, one in contents.items()},
        commit=provenance.commit,
        host=host_facts(before, cpu_times(), dict(provenance.versions))
        | provenance.origins(references)
        | ({"entered": result.entered} if result.entered else {})
        | ({"sandbox": result.sandbox} if result.sandbox else {})
        | ({"containers": result.containers} if result.containers else {}),
        warnings=(*result.warnings, *strange, *thinned),
    )
    return run, *measure_with_series(folder, run), contents.values()


def strangers(folder: Path, flows: int) -> list[str]:
    """What endpoints left in their folders that is neither file nor folder, in a sentence each: nobody follows it."""
    said = []
    for index, part in itertools.product(range(flows), (*ROLES, DOWNLOADS)):
        place = endpoint(index, part)
        try:
            tree = tree_of(folder / place)
        except FileNotFoundError:
            continue
        except OSError as error:
            said.append(f"{place} cannot be looked through: {error.strerror}")
            continue
        said += [f"{place}/{name} is a link, which is not followed" for name in tree.links]
        said += [f"{place}/{name} is no file, and is not read" for name in tree.others]
    more = len(said) - MOST_STRANGERS
    return said if more <= 0 else [*said[:MOST_STRANGERS], f"{counted(more, 'more file')} of that kind"]


def thin_logs(folder: Path, flows: int) -> list[str]:
    """Make the qlogs of long transfers small; what is to be said of it. Raises OSError."""
    said = []
    for index, role in itertools.product(range(flows), ROLES):
        for file in qlog.traces(folder / endpoint(index, role)):
            made = thin(file)
            if made is not None:
                said.append(
                    f"{file.relative_to(folder)}: {size_of(made.after)} of {size_of(made.before)} are kept: behind "
                    f"the first {size_of(HEAD)} no packets, and the sender's state every {STEP_MS:g} ms"
                )
    return said


def _trail(folder: Path) -> str:
    try:
        lefts = [capture_file(folder, name) for name in capture_names(folder) if name.endswith("left")]
        if len(lefts) > 1:
            return trail(pcap.together([pcap.parse(read_bytes(file)) for file in lefts]))
        with open_regular(lefts[0]) as capture:
            return trail_of(pcap.parts(capture))
    except (OSError, ValueError, IndexError):
        # Measuring says what the capture lacks.
        return ""


def require_unharmed(folder: Path, run: Run) -> None:
    """ResultError where a stored run's files are not those that it was measured from: fewer figures would come of them.

    It names the first of them.
    """
    found = harmed(folder, run)
    if not found:
        return
    place, why = next(iter(found.items()))
    more = f" (and {counted(len(found) - 1, 'other file')})" if len(found) > 1 else ""
    raise ResultError(
        f"{folder / place}: {why}{more}; the figures of the run are kept as they are",
        f"move {folder} away, and 'harness run' makes it again",
    )

"""Runs a cell on an engine and stores the run. Never judges it."""

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

import polars as pl

from harness.analysis.metrics import measure_with_series
from harness.capture import pcap, qlog
from harness.capture.artefacts import CPU, capture_digests, endpoint_path, find_changed_files, other_digests
from harness.capture.counters import read_cpu
from harness.capture.divergence import trail, trail_of_parts
from harness.capture.files import capture_names, capture_path, read_bytes
from harness.capture.qlog_thinning import HEAD_BYTES, STEP_MS, thin
from harness.engine import Engine, Progress
from harness.engine.docker_cli import tail
from harness.engine.images.contents import Contents
from harness.engine.served_files import served_bytes
from harness.errors import ResultError, disk_error
from harness.execution.events import Listener, PhaseStarted, RunEnded
from harness.execution.matrix import PlannedRun
from harness.formatting import format_count, format_size
from harness.outcome import ENGINES, Evidence, MeasuredRun, Outcome, Run
from harness.planning.endpoint_config import UnsupportedError
from harness.planning.estimate import written_bytes
from harness.reading import open_regular, read_tree
from harness.scenario.parameters import ROLES
from harness.store.provenance import Provenance, cpu_model
from harness.store.results import Store
from harness.topology import LOADED_WAIT, SERVER_WAIT, Lab, build_lab
from harness.topology.spec import LabFile

# --- Unfinished downloads in a run's folder.
#
# The beginning of a served file contains no information beyond its length, and may be gigabytes that do not compress.
# Such files are removed. A file that differs from the served one is kept for inspection.


def remove_partial_downloads(lab: Lab, folder: Path) -> dict[str, int]:
    """Remove downloads that are beginnings of the served files. Returns path below the folder → bytes."""
    removed = {}
    for flow in lab.flows:
        files = flow.files or (LabFile(name=flow.file, size=flow.size),)
        served = {Path(served_file.name).name: (served_file, number) for number, served_file in enumerate(files)}
        for file in _download_files(folder / f"flow{flow.flow}"):
            # A client may use a temporary file name until the download is complete.
            served_file, number = served.get(file.name, next(iter(served.values())))
            # Files of another user cannot be removed, and stay.
            with suppress(OSError):
                if served_file.size and _is_beginning(file, served_file, number):
                    length = file.lstat().st_size
                    file.unlink()
                    removed[file.relative_to(folder).as_posix()] = length
    return removed


def _download_files(folder: Path) -> Iterator[Path]:
    """Files of downloads below a flow's folder."""
    with suppress(OSError):
        for path in read_tree(folder).files:
            if path.startswith("downloads/") or (path.startswith("transfer") and "/" not in path):
                yield folder / path


def _is_beginning(file: Path, served: LabFile, number: int) -> bool:
    """Whether a file is the beginning, or all, of a served file of that number."""
    remaining = file.lstat().st_size
    if remaining > served.size:
        return False
    with open_regular(file) as received:
        for piece in served_bytes(served, number):
            chunk = received.read(len(piece))
            if chunk != piece[: len(chunk)]:
                return False
            remaining -= len(chunk)
            if not remaining:
                return True
    return not remaining


# --- runner


def cpu_times() -> dict[str, int]:
    """Cumulative CPU time of this machine in ticks: user, idle, steal … (proc_stat(5))."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    return dict(zip(names, map(int, fields), strict=True))


#: The folder of a client's downloads, beside the folders of the roles.
DOWNLOADS = "downloads"
#: Maximum number of links and special files that a run's warnings name.
MAX_SPECIAL_FILES = 8


def host_facts(before: dict[str, int], after: dict[str, int], versions: dict[str, str]) -> dict[str, Any]:
    """Properties of the machine, with the shares of CPU time during the run."""
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


def server_wait() -> float:
    """Seconds that servers in real time may take to answer: more where more threads want to run than can.

    The number of those threads is the load average of the last minute (proc_loadavg(5)).
    """
    return LOADED_WAIT if os.getloadavg()[0] > (os.cpu_count() or 1) else SERVER_WAIT


def with_start(outcome: Outcome, folder: Path, flows: int) -> Outcome:
    """An outcome. Where no server answered, it has the CPU time and the last log line of each server.

    `folder`: that of the run, in real time.
    """
    if outcome.reason != "no_answer":
        return outcome
    parts = [outcome.detail]
    for name in (f"server{flow}" for flow in range(flows)):
        with suppress(OSError):
            used = read_cpu(folder / CPU).filter(pl.col("container") == name)["cpu_ns"].max()
            parts += [f"{name} had {used / 1e9:.2g} s of CPU time"] if isinstance(used, int) else []
        lines = tail(folder / f"{name}.log", 1)
        parts.append(f"its log ends with “{lines[-1].strip()}”" if lines else "its log is empty")
    return outcome.model_copy(update={"detail": "; ".join(parts)})


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
    keeps: Callable[[Run, MeasuredRun | None], Evidence] = lambda run, measured: "full",
    wait: float = SERVER_WAIT,
) -> tuple[Run, MeasuredRun | None]:
    """Execute one planned run and store it. EngineError if the environment failed; the run is then not stored.

    `keeps`: what is kept of the files that a run is measured from; its measurements always are. `wait`: seconds that
    servers in real time may take to answer.
    """
    store.require_space(written_bytes(planned.cell.scenario))
    partial = store.begin(planned.cell.key, planned.repetition)
    try:
        run, measured, series, contents = _execute(planned, engine, partial, provenance, progress, wait)
        store.keep_contents(contents)
        progress("store")
        run = run.model_copy(update={"evidence": keeps(run, measured)})
        store.finish(partial, run, measured, series)
    except OSError as error:
        store.abandon(partial)
        raise disk_error(error, partial) from error
    except BaseException:
        store.abandon(partial)
        raise
    return run, measured


def run_unjudged(
    planned: PlannedRun,
    engine: Engine,
    store: Store,
    provenance: Provenance,
    listen: Listener,
    keeps: Callable[[Run, MeasuredRun | None], bool] = lambda run, measured: True,
) -> tuple[Run, MeasuredRun | None]:
    """`run_once` for a run that is not judged: the listener gets its phases and its end."""
    try:
        return run_once(
            planned,
            engine,
            store,
            provenance,
            lambda phase: listen(PhaseStarted(planned.cell, planned.repetition, phase)),
            lambda run, measured: "full" if keeps(run, measured) else "figures",
        )
    finally:
        listen(RunEnded(planned.cell, planned.repetition))


def _execute(
    planned: PlannedRun, engine: Engine, folder: Path, provenance: Provenance, progress: Progress, wait: float
) -> tuple[Run, MeasuredRun | None, pl.DataFrame | None, Collection[Contents]]:
    try:
        lab = build_lab(planned.cell, planned.repetition)
    except UnsupportedError as error:
        return _unsupported(planned, error, provenance), None, None, ()
    virtual_time = ENGINES[engine.name].virtual_time
    if not virtual_time:
        lab = lab.model_copy(update={"server_wait": wait})
    started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    before, start = cpu_times(), time.monotonic()
    result = engine.run(lab, folder, progress)
    wall = time.monotonic() - start
    progress("measure")
    strays = special_files(folder, len(lab.flows))
    remove_partial_downloads(lab, folder)
    thinned = thin_logs(folder, len(lab.flows))
    references = {"sim": lab.sim_image, **{host.name: host.image for host in lab.hosts}}
    contents = provenance.contents(result.image_ids, references)
    run = Run(
        cell=planned.cell,
        repetition=planned.repetition,
        outcome=result.outcome if virtual_time else with_start(result.outcome, folder, len(lab.flows)),
        started_at=started_at,
        transfers=result.transfers,
        phases=result.phases,
        wall=round(wall, 3),
        virtual=result.virtual,
        sim_kernel=result.sim_kernel,
        cpu=result.cpu,
        lab_kernel=result.lab_kernel,
        captures=capture_digests(folder),
        artefacts=other_digests(folder, len(planned.cell.scenario.flows)),
        trail=_read_trail(folder) if ENGINES[engine.name].deterministic else "",
        random=result.random,
        effective=dict(lab.effective),
        image_ids=result.image_ids,
        contents={name: content.digest for name, content in contents.items()},
        commit=provenance.commit,
        host=host_facts(before, cpu_times(), dict(provenance.versions))
        | provenance.origins(references)
        | ({"entered": result.entered} if result.entered else {})
        | ({"sandbox": result.sandbox} if result.sandbox else {})
        | ({"containers": result.containers} if result.containers else {}),
        warnings=(*result.warnings, *strays, *thinned),
    )
    return run, *measure_with_series(folder, run), contents.values()


def special_files(folder: Path, flows: int) -> list[str]:
    """Links and special files in the folders of endpoints, one sentence each; they are never followed or read."""
    warnings = []
    for index, part in itertools.product(range(flows), (*ROLES, DOWNLOADS)):
        relative = endpoint_path(index, part)
        try:
            tree = read_tree(folder / relative)
        except FileNotFoundError:
            continue
        except OSError as error:
            warnings.append(f"{relative} cannot be looked through: {error.strerror}")
            continue
        warnings += [f"{relative}/{name} is a link, which is not followed" for name in tree.links]
        warnings += [f"{relative}/{name} is no file, and is not read" for name in tree.special_files]
    excess = len(warnings) - MAX_SPECIAL_FILES
    return (
        warnings
        if excess <= 0
        else [*warnings[:MAX_SPECIAL_FILES], f"{format_count(excess, 'more file')} of that kind"]
    )


def thin_logs(folder: Path, flows: int) -> list[str]:
    """Thin the qlogs of long transfers; returns the notes for the run's warnings. Raises OSError."""
    notes = []
    for index, role in itertools.product(range(flows), ROLES):
        for file in qlog.find_traces(folder / endpoint_path(index, role)):
            sizes = thin(file)
            if sizes is not None:
                notes.append(
                    f"{file.relative_to(folder)}: {format_size(sizes.after)} of "
                    f"{format_size(sizes.before)} are kept: behind "
                    f"the first {format_size(HEAD_BYTES)} no packets, and the sender's state every {STEP_MS:g} ms"
                )
    return notes


def _read_trail(folder: Path) -> str:
    try:
        left_captures = [capture_path(folder, name) for name in capture_names(folder) if name.endswith("left")]
        if len(left_captures) > 1:
            return trail(pcap.merge_records([pcap.parse(read_bytes(file)) for file in left_captures]))
        with open_regular(left_captures[0]) as capture:
            return trail_of_parts(pcap.read_parts(capture))
    except (OSError, ValueError, IndexError):
        # Measuring reports a broken capture.
        return ""


def require_intact(folder: Path, run: Run) -> None:
    """ResultError if files of a stored run have changed since it was measured: fewer metrics could be computed.

    The error names the first such file.
    """
    if run.evidence != "full":
        raise ResultError(
            f"{folder}: the run keeps its {run.evidence} alone; its figures stay as they are",
            "'harness run --evidence full' makes it again with all files",
        )
    damage = find_changed_files(folder, run)
    if not damage:
        return
    path, why = next(iter(damage.items()))
    suffix = f" (and {format_count(len(damage) - 1, 'other file')})" if len(damage) > 1 else ""
    raise ResultError(
        f"{folder / path}: {why}{suffix}; the figures of the run are kept as they are",
        f"move {folder} away, and 'harness run' makes it again",
    )

"""The worker's side of a cluster: it enrols if it has the driver's version, fetches missing images, and makes runs.

Only the cache outlives a task: it is in `HARNESS_CACHE`, by default `~/.cache/quic-lab`, and has at most
`HARNESS_CACHE_LIMIT` bytes. A run that the scheduler no longer waits for is ended with its guest.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
import platform
import queue
import random
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engine.images.cache import LIMIT, Cache
from harness.engine.images.contents import Contents
from harness.engine.kernel import LabKernel
from harness.engine.process_owner import lives, owner
from harness.engine.virtual.engine import VirtualEngine
from harness.engine.virtual.uml_guest import remove_orphans
from harness.errors import EngineError, HarnessError
from harness.evaluation.retention import kept_evidence
from harness.execution.cluster.image_transfer import ReceivedRoots, read_parcel
from harness.execution.cluster.messages import (
    CORE,
    MEMORY,
    REQUEST_TOPIC,
    RunAnswer,
    RunOrder,
    package_digest,
    version_text,
)
from harness.execution.matrix import PlannedRun
from harness.execution.runner import run_once
from harness.outcome import Cell
from harness.store.compression import RETAINED_ENTRIES
from harness.store.provenance import Provenance
from harness.store.results import Store
from harness.units import Size

#: Seconds without a piece of a requested parcel after which the transfer has failed.
PIECE_TIMEOUT = 120.0
#: Maximum number of received pieces that wait to be unpacked.
_MAX_QUEUED = 4
#: Seconds between two checks whether the scheduler still waits for a run.
_CHECK_INTERVAL = 0.5
#: Memory that measuring a run needs beside its guest, bytes: captures of 2 × 100 MB and their frames.
MEASURING = 768 << 20

_arrivals: dict[str, queue.Queue[bytes | Exception | None]] = {}
"""Identifier of a request → the pieces received for it."""


# --- enrolment


async def enrol(driver_build: str, dask_worker: Any = None) -> dict[str, Any]:
    """Offer this worker's resources to the scheduler if it has the driver's version of the package.

    Returns a description of the worker, in plain values that any version can read.
    """
    if driver_build != package_digest():
        return {"refused": version_text(), "host": platform.node()}
    await asyncio.to_thread(_remove_leftovers)
    _disable_pausing(dask_worker)
    memory = await asyncio.to_thread(_available_memory, dask_worker)
    cores = dask_worker.state.nthreads
    await dask_worker.set_resources(**{f"{CORE}{driver_build}": cores, f"{MEMORY}{driver_build}": memory})
    return {"host": platform.node(), "cores": cores, "memory": memory}


class WorkerEngine(VirtualEngine):
    """Virtual time on root file systems that a driver sends."""

    def __init__(
        self,
        cache: Cache,
        cores: Sequence[int],
        images: ReceivedRoots,
        log_limit: int,
        stall: float,
        kernel: LabKernel,
    ) -> None:
        super().__init__(cache, cores, log_limit, stall, kernel=kernel)
        self._images = images


def _disable_pausing(dask_worker: Any) -> None:
    """Keep Dask from pausing this worker for the memory of its process.

    No run frees that memory, so the driver would wait for ever.
    The memory of runs is bounded by their guests and by the worker's resources. A nanny still ends a worker that uses
    too much, and the driver then has its runs made elsewhere.
    """
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = False
    if dask_worker.status == Status.paused:
        dask_worker.status = Status.running


async def dismiss(driver_build: str, dask_worker: Any = None) -> None:
    """Withdraw this worker's cores from the scheduler."""
    await dask_worker.set_resources(**{f"{CORE}{driver_build}": 0})


def _available_memory(dask_worker: Any) -> int:
    """Bytes available to guests and measuring: the smaller of Dask's memory limit and the space for guest memory."""
    memory_limit = getattr(dask_worker.memory_manager, "memory_limit", None)
    folder = os.environ.get("TMPDIR") or "/dev/shm"
    with contextlib.suppress(OSError):
        free: int = shutil.disk_usage(folder).free + MEASURING * dask_worker.state.nthreads
        return min(int(memory_limit), free) if memory_limit else free
    return int(memory_limit or 0)


def cache() -> Cache:
    """The cache of this machine. Raises EngineError if its limit is not a size."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    text = os.environ.get("HARNESS_CACHE_LIMIT")
    try:
        limit = Size.parse(text).bytes if text else LIMIT
    except ValueError as error:
        raise EngineError(f"HARNESS_CACHE_LIMIT: {error}", "for example 10 GB") from error
    return Cache(Path(os.environ.get("HARNESS_CACHE") or home / "quic-lab"), limit)


def _remove_leftovers() -> None:
    """Remove leftovers of workers that have ended: guests, scratch folders, partly unpacked images, runs."""
    remove_orphans()
    with contextlib.suppress(HarnessError, OSError):
        image_cache = cache()
        image_cache.remove_orphans()
        for place in (image_cache.folder / "runs").glob("*"):
            if not lives(place.name.partition(".")[0]):
                shutil.rmtree(place, ignore_errors=True)


# --- missing images


async def deliver(stream_id: str, piece: bytes | None, why: str = "") -> bool:
    """Receive a piece of a requested parcel, its end (None), or why it failed. False if nobody waits for it."""
    arriving = _arrivals.get(stream_id)
    while arriving is not None and arriving.qsize() >= _MAX_QUEUED:
        await asyncio.sleep(0.005)
        arriving = _arrivals.get(stream_id)
    if arriving is None:
        return False
    arriving.put(EngineError(why) if why else piece)
    return True


def _fetch_parcel(order: RunOrder, digest: str, demand: PendingTask) -> Iterator[bytes]:
    """The pieces of a parcel: from the place that the order names, else from the driver."""
    if order.files:
        yield from read_parcel(order.files, digest)
        return
    from distributed import get_worker

    worker, arriving = get_worker(), queue.Queue[bytes | None | Exception]()
    stream_id = f"{digest}.{owner()}.{threading.get_ident()}.{time.monotonic_ns()}"
    _arrivals[stream_id] = arriving
    try:
        worker.log_event(
            f"{REQUEST_TOPIC}{order.driver}", {"what": stream_id, "digest": digest, "worker": worker.address}
        )
        since = time.monotonic()
        while True:
            try:
                piece = arriving.get(timeout=_CHECK_INTERVAL)
            except queue.Empty:
                demand.require()
                if time.monotonic() - since > PIECE_TIMEOUT:
                    raise EngineError(f"the driver has sent nothing for {PIECE_TIMEOUT:.0f} s") from None
                continue
            since = time.monotonic()
            if isinstance(piece, Exception):
                raise piece
            if piece is None:
                return
            yield piece
    finally:
        del _arrivals[stream_id]


# --- a run


class PendingTask:
    """Whether the scheduler still waits for the task of this thread."""

    def __init__(self) -> None:
        from distributed import get_worker

        self._worker = get_worker()
        self._key = self._worker.get_current_task()

    def __bool__(self) -> bool:
        task = self._worker.state.tasks.get(self._key)
        alive = getattr(self._worker.status, "name", "") in ("running", "paused", "closing_gracefully")
        return alive and task is not None and task.state not in ("cancelled", "released", "forgotten")

    def require(self) -> None:
        """EngineError if the scheduler no longer waits."""
        if not self:
            raise EngineError("nobody waits for the run any more")


@contextlib.contextmanager
def _cancel_when_unwanted(engine: WorkerEngine, demand: PendingTask) -> Iterator[None]:
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_CHECK_INTERVAL):
            if not demand:
                engine.cancel()
                return

    watcher = threading.Thread(target=watch, name="wanted", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


@contextlib.contextmanager
def _claim_core() -> Iterator[int]:
    """A core that no other worker of this machine uses; a random one if there are more workers than cores."""
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        for core in cores:
            place = Path(tempfile.gettempdir()) / f"quic-lab-{os.getuid()}.core{core}"
            try:
                # Other users can write to that folder, and may have put a link there.
                lock = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield core
            return
        yield random.choice(cores)


@dataclass(frozen=True)
class _DriverProvenance(Provenance):
    """Provenance with the contents of images as the driver knows them: a worker does not read images."""

    digests: Mapping[str, str] = field(default_factory=dict)
    """Reference → digest of its contents."""

    def contents(self, ids: Mapping[str, str], references: Mapping[str, str]) -> dict[str, Contents]:
        """See `Provenance`; digests alone, since the driver stores the rest."""
        digests = {name: self.digests.get(references.get(name, "")) for name in ids}
        return {name: Contents(digest, {}, {}) for name, digest in digests.items() if digest is not None}


def make_run(order: RunOrder) -> RunAnswer:
    """Make a run: the task that a driver submits. If the environment of this machine fails, the answer says why."""
    from distributed import get_worker

    worker = get_worker()
    start = time.monotonic()
    try:
        files, archive = _execute_order(order)
    except HarnessError as error:
        return RunAnswer(worker.address, platform.node(), error.message, error.hint)
    except OSError as error:
        return RunAnswer(worker.address, platform.node(), f"{error.filename or 'this machine'}: {error.strerror}")
    elapsed = time.monotonic() - start
    return RunAnswer(worker.address, platform.node(), files=files, archive=archive, seconds=elapsed)


def _execute_order(order: RunOrder) -> tuple[dict[str, bytes], bytes]:
    item = PlannedRun(Cell.model_validate_json(order.cell), order.repetition)
    image_cache, demand = cache(), PendingTask()
    roots = ReceivedRoots(image_cache, order.images, lambda digest: _fetch_parcel(order, digest, demand))
    workspace = image_cache.folder / "runs" / f"{owner()}.{threading.get_ident()}"
    shutil.rmtree(workspace, ignore_errors=True)
    try:
        store = Store(workspace)
        with _claim_core() as core:
            engine = WorkerEngine(
                image_cache, [core], roots, order.log_limit, order.stall, LabKernel(entry=order.entry)
            )
            with _cancel_when_unwanted(engine, demand):
                run_once(
                    item,
                    engine,
                    store,
                    _DriverProvenance(commit=order.commit, digests=order.contents),
                    lambda phase: None,
                    lambda run, measured: kept_evidence(order.evidence, run.cell.scenario, run, measured),
                )
        return pack_run(store.folder(item.cell.key, item.repetition))
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def pack_run(folder: Path) -> tuple[dict[str, bytes], bytes]:
    """A run's folder as path → content of the files that every run keeps, and a tar archive of the rest, empty if none.

    The archive's files are compressed already. Unpacking an archive costs the driver more than writing a few files.
    """
    files, archived = dict[str, bytes](), list[Path]()
    for entry in sorted(folder.iterdir()):
        regular = _regular_files(entry) if entry.name in RETAINED_ENTRIES else None
        if regular is None:
            archived.append(entry)
        else:
            files |= {file.relative_to(folder).as_posix(): file.read_bytes() for file in regular}
    if not archived:
        return files, b""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in archived:
            archive.add(entry, arcname=entry.name)
    return files, buffer.getvalue()


def _regular_files(place: Path) -> list[Path] | None:
    """A file, or all files of a folder; None if the folder is empty or has anything but regular files."""
    files = sorted(place.iterdir()) if place.is_dir() and not place.is_symlink() else [place]
    return files if files and all(file.is_file() and not file.is_symlink() for file in files) else None

"""Locks between harness processes: one lock per run, so that processes with the same store share its work.

A claim is an advisory lock (flock(2)) on a file below the store. The kernel releases it when its process ends, however
that ends. The file is removed when the run is complete; the next process takes over the file of a killed harness.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TextIO

from harness.errors import EngineError
from harness.outcome import ENGINES, EngineName
from harness.reading import open_folder, open_regular

#: Maximum number of characters of a process number.
_MAX_PID_LENGTH = 20


@dataclass(frozen=True)
class RunLock:
    """The right to make one run, until the lock is released."""

    path: Path
    _file: TextIO

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Removed while locked: a process that has opened the file meanwhile sees that it is gone, and tries again.
        self.path.unlink(missing_ok=True)
        self._file.close()


def claim_run(root: Path, key: str, repetition: int) -> RunLock | int:
    """Lock a run of the store below `root`; else the number of the process that has the lock. Raises OSError.

    The number is 0 if the file does not contain it.
    """
    path = root.resolve() / "claims" / f"{key}.{repetition}"
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = _open_claim(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with file:
                file.seek(0)
                owner_pid = file.read(_MAX_PID_LENGTH).strip()
            return int(owner_pid) if owner_pid.isdecimal() else 0
        except OSError:
            file.close()
            raise
        if _still_exists(path, file):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return RunLock(path, file)
        file.close()


def _open_claim(path: Path) -> TextIO:
    """Open or create the file of a claim. Raises OSError, also for a link, since its target would be emptied."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open_folder(path.parent) as folder:
        return os.fdopen(os.open(path.name, flags, 0o666, dir_fd=folder), "a+")


def remove_stale_claims(root: Path) -> None:
    """Remove claim files that no process has locked: those of killed harnesses."""
    folder = root.resolve() / "claims"
    with contextlib.suppress(OSError), open_folder(folder):
        for file in list(folder.iterdir()):
            key, _, repetition = file.name.rpartition(".")
            # Other files are skipped, and an error of one file does not affect the others.
            with contextlib.suppress(OSError):
                if repetition.isdecimal() and isinstance(lock := claim_run(root, key, int(repetition)), RunLock):
                    with lock:
                        pass


def _still_exists(path: Path, file: TextIO) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


# --- A lock for the use of the machine, between all harness processes on it.


#: Seconds between two attempts to take a lock that another harness has.
_RETRY_INTERVAL = 0.2
#: The file of the lock, the same for all users of the machine, and so of its Docker daemon.
LOCK_FILE = Path("/tmp/quic-lab.lock")


@contextmanager
def machine_lock(engine: EngineName, waits: Callable[[], object], path: Path = LOCK_FILE) -> Iterator[None]:
    """Lock the machine for runs of an engine; `waits` is called once if another harness must end first.

    Real-time cells use the machine exclusively, since other load would change their measurements. Runs in virtual time
    are not disturbed by load, but cause it, so they share the machine only with each other. EngineError if the lock
    cannot be taken.
    """
    try:
        lock = _open_lock(path)
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}", f"remove the file, or let {path.parent} be written") from error
    operation = (fcntl.LOCK_SH if ENGINES[engine].virtual_time else fcntl.LOCK_EX) | fcntl.LOCK_NB
    with lock:
        announced = False
        while not _try_lock(lock.fileno(), operation, path):
            if not announced:
                waits()
                announced = True
            time.sleep(_RETRY_INTERVAL)
        yield


def _open_lock(path: Path) -> BinaryIO:
    """Open the machine's lock file, or create it so that every user can open it. Raises OSError.

    It is opened for reading, which flock(2) does not mind. Only its owner may write it. And in a folder that all users
    share, the kernel lets nobody open another user's file with O_CREAT (proc_sys_fs(5), protected_regular).
    """
    while True:
        with contextlib.suppress(FileNotFoundError):
            return open_regular(path.parent.resolve() / path.name)
        with contextlib.suppress(FileExistsError), path.open("x") as created:
            # The umask may have taken others' right to read it.
            os.fchmod(created.fileno(), 0o644)


def _try_lock(lock: int, operation: int, path: Path) -> bool:
    try:
        fcntl.flock(lock, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}", f"is {path.parent} on a local disk?") from error
    return True

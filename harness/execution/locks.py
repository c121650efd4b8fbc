"""Who makes a run: harnesses that share a store share its work, one lock a run.

A claim is an advisory lock (flock(2)) on a file below the store, so it ends with the process that holds it, however
that ends. The file goes when the run is made; one that a killed harness left is taken over by whoever comes next.
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
from typing import Self, TextIO

from harness.errors import EngineError
from harness.outcome import ENGINES, EngineName
from harness.reading import held_folder

#: Characters of the number of a process, at most.
_LONGEST = 20


@dataclass(frozen=True)
class RunLock:
    """The right to make one run, until it is let go."""

    path: Path
    _file: TextIO

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Removed while it is held: who opened the file meanwhile finds that it is no longer there, and looks again.
        self.path.unlink(missing_ok=True)
        self._file.close()


def claim(root: Path, key: str, repetition: int) -> RunLock | int:
    """Claim a run of the store below `root`, or the process that has it (0 where it does not say). Raises OSError."""
    path = root.resolve() / "claims" / f"{key}.{repetition}"
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with file:
                file.seek(0)
                said = file.read(_LONGEST).strip()
            return int(said) if said.isdecimal() else 0
        except OSError:
            file.close()
            raise
        if _is_there(path, file):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return RunLock(path, file)
        file.close()


def _opened(path: Path) -> TextIO:
    """The file of a claim, made where it is not there. Raises OSError, for a link too: its target would be emptied."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with held_folder(path.parent) as folder:
        return os.fdopen(os.open(path.name, flags, 0o666, dir_fd=folder), "a+")


def sweep(root: Path) -> None:
    """Remove the files of claims that nobody holds: those of killed harnesses."""
    place = root.resolve() / "claims"
    with contextlib.suppress(OSError), held_folder(place):
        for file in list(place.iterdir()):
            key, _, repetition = file.name.rpartition(".")
            # What is no claim's file is not taken, and keeps nobody from the others.
            with contextlib.suppress(OSError):
                if repetition.isdecimal() and isinstance(held := claim(root, key, int(repetition)), RunLock):
                    with held:
                        pass


def _is_there(path: Path, file: TextIO) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


# --- Who may use the machine: a lock between all harness processes on it.


#: Seconds between two looks at a lock that another harness has.
_LOOK = 0.2


@contextmanager
def machine_lock(engine: EngineName, waits: Callable[[], object]) -> Iterator[None]:
    """Hold the machine for runs of an engine; `waits` is called once where another harness must end first.

    Real-time cells have the machine to themselves: anything beside them would be measured with them. Virtual time does
    not mind company, but is company; so it shares the machine with its like only. EngineError where no lock can be had.
    """
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / "quic-lab.lock"
    try:
        lock = path.open("a+")
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}", "remove the file, or set XDG_RUNTIME_DIR") from error
    how = (fcntl.LOCK_EX if not ENGINES[engine].virtual_time else fcntl.LOCK_SH) | fcntl.LOCK_NB
    with lock:
        said = False
        while not _taken(lock.fileno(), how, path):
            if not said:
                waits()
                said = True
            time.sleep(_LOOK)
        yield


def _taken(lock: int, how: int, path: Path) -> bool:
    try:
        fcntl.flock(lock, how)
    except BlockingIOError:
        return False
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}", "set XDG_RUNTIME_DIR to a folder on a local disk") from error
    return True

"""Who may use the machine: a lock between all harness processes on it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import EngineError
from harness.outcome import EngineName

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
    how = (fcntl.LOCK_EX if engine == "compose" else fcntl.LOCK_SH) | fcntl.LOCK_NB
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

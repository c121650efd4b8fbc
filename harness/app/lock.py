"""Who may use the machine: a lock between all harness processes on it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import EngineError
from harness.outcome import EngineName


@contextmanager
def machine_lock(engine: EngineName) -> Iterator[None]:
    """Hold the machine for runs of an engine. EngineError where another harness has it.

    Real-time cells have the machine to themselves: anything beside them would be measured with them. Virtual time does
    not mind company, but is company; so it shares the machine with its like only.
    """
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / "quic-lab.lock"
    try:
        lock = path.open("a+")
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}", "remove the file, or set XDG_RUNTIME_DIR") from error
    with lock:
        try:
            fcntl.flock(lock, (fcntl.LOCK_EX if engine == "compose" else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError as error:
            other = "cells" if engine == "compose" else "real-time cells"
            raise EngineError(
                f"another harness is running {other} on this machine", "wait for it to end, then run this again"
            ) from error
        yield

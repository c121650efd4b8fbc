"""Who makes a run: harnesses that share a store share its work, one lock a run.

A claim is an advisory lock (flock(2)) on a file below the store, so it ends with the process that holds it, however
that ends. The file goes when the run is made; one that a killed harness left is taken over by whoever comes next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO


@dataclass(frozen=True)
class Claim:
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


def claim(root: Path, key: str, repetition: int) -> Claim | int:
    """Claim a run of the store below `root`, or the process that has it (0 where it does not say). Raises OSError."""
    path = root / "claims" / f"{key}.{repetition}"
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with file:
                file.seek(0)
                said = file.read().strip()
            return int(said) if said.isdecimal() else 0
        except OSError:
            file.close()
            raise
        if _is_there(path, file):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return Claim(path, file)
        file.close()


def sweep(root: Path) -> None:
    """Remove the files of claims that nobody holds: those of killed harnesses."""
    with contextlib.suppress(OSError):
        for file in list((root / "claims").iterdir()):
            key, _, repetition = file.name.rpartition(".")
            if repetition.isdecimal() and isinstance(found := claim(root, key, int(repetition)), Claim):
                with found:
                    pass


def _is_there(path: Path, file: TextIO) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False

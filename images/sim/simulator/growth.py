"""How a client's file grows, in virtual time: growth.csv as the compose engine samples it from outside."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

#: Between two looks for files that are new, ns.
LOOK = 20_000_000
HEADER = "t_ns,flow,transfer,bytes\n"


class _EndedError(Exception):
    """The sampler was told to end."""


def _end(number: int, frame: FrameType | None) -> None:
    raise _EndedError


class _Folder:
    """The files of a download folder, held open so that a sample is one system call a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}

    def look(self) -> None:
        """Open what is new. A file that was renamed is the same file."""
        inodes = {os.fstat(file).st_ino for file in self._open.values()}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if (
                    entry.name not in self._open
                    and entry.inode() not in inodes
                    and entry.is_file(follow_symlinks=False)
                ):
                    self._open[entry.name] = os.open(entry.path, os.O_RDONLY)

    @property
    def none(self) -> bool:
        """Whether there is no file yet."""
        return not self._open

    def size(self) -> int:
        """Bytes of all files."""
        return sum(os.fstat(file).st_size for file in self._open.values())


def sample(folder: Path, rows: Path, flow: int, transfer: int, period: int) -> None:
    """Look every `period` ns until SIGTERM; write a row when the files grew, and the one before: they bracket it.

    Ticks come from a timer of the kernel and their times from counting, since each look at the clock costs
    virtual time and a system call.
    """
    signal.signal(signal.SIGTERM, _end)
    timer = os.timerfd_create(time.CLOCK_REALTIME)
    start = (time.time_ns() // period + 1) * period
    os.timerfd_settime_ns(timer, flags=os.TFD_TIMER_ABSTIME, initial=start, interval=period)
    looks = max(1, LOOK // period)
    files = _Folder(folder)
    files.look()
    before, written, ticks = (start - period, files.size()), None, 0
    with rows.open("a") as out:
        out.write(f"{before[0]},{flow},{transfer},{before[1]}\n")
        written = before
        try:
            while True:
                ticks += int.from_bytes(os.read(timer, 8), sys.byteorder)
                if files.none or ticks % looks == 0:
                    files.look()
                now = (start + (ticks - 1) * period, files.size())
                if now[1] != before[1]:
                    if before != written:
                        out.write(f"{before[0]},{flow},{transfer},{before[1]}\n")
                    out.write(f"{now[0]},{flow},{transfer},{now[1]}\n")
                    written = now
                before = now
        except _EndedError:
            files.look()
            size = files.size()
            if size != before[1] and before != written:
                # Programs that buffer write the last of a file as they end.
                out.write(f"{before[0]},{flow},{transfer},{before[1]}\n")
            out.write(f"{time.time_ns()},{flow},{transfer},{size}\n")

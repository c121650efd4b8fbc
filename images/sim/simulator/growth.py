"""How the clients' files grow, in virtual time: growth.csv as the compose engine samples it from outside.

Samples are taken on a grid of ticks, for all clients by one process. A file that grows is looked at at each tick; where
none does the process sleeps until the kernel says that one was written to, and then till the next tick. So the rows are
those of somebody who looks at every tick, and nobody wakes in a virtual time in which nothing grows.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from simulator.inotify import IN_CREATE, IN_MODIFY, IN_MOVED_TO, Watches

HEADER = "t_ns,flow,transfer,bytes\n"
#: Between two looks for files that are new in a folder whose files grow, ns.
LOOK = 20_000_000
#: A file that did not grow for so many ticks rests: to be told of its next growth costs about three looks at it.
REST = 8


@dataclass
class _Download:
    """The files of a client's download folder, held open so that a look is one system call a file."""

    folder: Path
    flow: int
    transfer: int
    watch: int
    written: int
    """Time of its last row, ns."""
    size: int = 0
    """Of all files, at the last look, bytes."""
    still: int = 0
    """Ticks since it grew."""
    resting: bool = False
    """The kernel says when it grows."""
    files: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Open what is new. A file that was renamed is the same file."""
        inodes = {os.fstat(file).st_ino for file in self.files.values()}
        with os.scandir(self.folder) as entries:
            for entry in entries:
                new = entry.name not in self.files and entry.inode() not in inodes
                if new and entry.is_file(follow_symlinks=False):
                    # A program may remove what it wrote.
                    with contextlib.suppress(FileNotFoundError):
                        self.files[entry.name] = os.open(entry.path, os.O_RDONLY)

    def measured(self) -> int:
        """Bytes of all files by now. To seek tells the same as fstat(2), and less beside."""
        return sum(os.lseek(file, 0, os.SEEK_END) for file in self.files.values())

    def close(self) -> None:
        """Let go of the files."""
        for file in self.files.values():
            os.close(file)


class Growth:
    """Rows about the folders that are watched. Whoever calls says what time it is (ns), and comes at every tick that
    `wake` does not let him leave out.
    """

    def __init__(self, rows: TextIO, period: int, now: int) -> None:
        """`now`: the last tick."""
        self._rows = rows
        self._period = period
        self._watches = Watches()
        self._downloads: dict[int, _Download] = {}
        """By their watches."""
        self._seen = now
        """When all sizes were known for the last time."""
        self._look_due = now

    def close(self) -> None:
        """Watch nothing any more."""
        for download in self._downloads.values():
            download.close()
        self._watches.close()

    def fileno(self) -> int:
        """Readable when something grows that rests."""
        return self._watches.fileno()

    @property
    def resting(self) -> bool:
        """Whether nothing grows: then ticks may be left out until there is something to read."""
        return all(download.resting for download in self._downloads.values())

    def rested(self, tick: int) -> None:
        """Nothing had happened at this tick."""
        self._seen = tick

    def watch(self, folder: Path, flow: int, transfer: int, tick: int) -> None:
        """Take samples of a folder from this tick on."""
        number = self._watches.watch(folder, IN_CREATE | IN_MOVED_TO)
        download = _Download(folder, flow, transfer, number, tick)
        self._downloads[number] = download
        download.look()
        download.size = download.measured()
        self._write(download, tick)
        self._rest(download)

    def end(self, flow: int, at: int, size: int) -> None:
        """Take no more samples of a flow, the last of which is of this time, after the last tick."""
        download = next(one for one in self._downloads.values() if one.flow == flow)
        # Programs that buffer write the last of a file as they end.
        if size != download.size and download.written != self._seen:
            self._write(download, self._seen)
        download.size = size
        self._write(download, at)
        download.close()
        self._watches.forget(download.watch)
        del self._downloads[download.watch]

    def sample(self, tick: int) -> None:
        """Look at what grows; write a row of what grew, and the one before: they bracket it."""
        if tick >= self._look_due or any(download.resting for download in self._downloads.values()):
            self._hear()
            self._look_due = tick + LOOK
        for download in self._downloads.values():
            if download.resting:
                continue
            size = download.measured()
            if size != download.size:
                if download.written != self._seen:
                    self._write(download, self._seen)
                download.size, download.still = size, 0
                self._write(download, tick)
            else:
                download.still += 1
                if download.still >= REST:
                    self._rest(download)
        self._seen = tick

    def _hear(self) -> None:
        """What happened in the folders."""
        for number, mask in self._watches.events():
            # The last word of a watch that was ended comes afterwards.
            download = self._downloads.get(number)
            if download is None:
                continue
            if mask & (IN_CREATE | IN_MOVED_TO):
                download.look()
            if download.resting:
                self._watches.watch(download.folder, IN_CREATE | IN_MOVED_TO)
                download.resting, download.still = False, 0

    def _rest(self, download: _Download) -> None:
        """Have the kernel say when it grows, unless it just did."""
        self._watches.watch(download.folder, IN_CREATE | IN_MOVED_TO | IN_MODIFY)
        download.resting, download.still = download.measured() == download.size, 0

    def _write(self, download: _Download, at: int) -> None:
        self._rows.write(f"{at},{download.flow},{download.transfer},{download.size}\n")
        download.written = at


class _Ticks:
    """A timer of the kernel on a grid. Times come from counting, since each look at the clock costs virtual time."""

    def __init__(self, period: int) -> None:
        self._period = period
        self.last = time.time_ns() // period * period
        """The last tick that was counted, ns since the epoch."""
        self._timer = os.timerfd_create(time.CLOCK_REALTIME)
        os.timerfd_settime_ns(
            self._timer, flags=os.TFD_TIMER_ABSTIME, initial=self.last + period, interval=period
        )  # fmt: skip
        self._due = select.poll()
        self._due.register(self._timer, select.POLLIN)

    def next(self) -> int:
        """Wait for the next tick. Its time."""
        self.last += self._period * int.from_bytes(os.read(self._timer, 8), sys.byteorder)
        return self.last

    def passed(self) -> int:
        """Count the ticks that nobody waited for. Time of the last one."""
        return self.next() if self._due.poll(0) else self.last


class Sampler:
    """The process that samples. It is told what to watch, and does it in the same instant where nothing grows, at the
    next tick otherwise.
    """

    def __init__(self, rows: Path, period: int) -> None:
        """`rows`: growth.csv; `period`: between two ticks, ns."""
        # It looks here after every tick, which costs no system call, as asking a pipe would.
        self._told = mmap.mmap(-1, mmap.PAGESIZE)
        self._folders: dict[int, Path] = {}
        reader, self._orders = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            signal.set_wakeup_fd(-1)
            os.close(self._orders)
            code = 1
            try:
                _run(rows, period, self._told, reader)
                code = 0
            except OSError as error:
                print(f"growth: {error}", flush=True)
            finally:
                os._exit(code)
        os.close(reader)

    def watch(self, folder: Path, flow: int, transfer: int) -> None:
        """Take samples of a folder."""
        self._folders[flow] = folder
        self._tell(watch=str(folder), flow=flow, transfer=transfer)

    def end(self, flow: int) -> None:
        """Take the last sample of a flow, if it is watched."""
        folder = self._folders.pop(flow, None)
        if folder is not None:
            # By the time that the order is read the files may be elsewhere.
            with os.scandir(folder) as entries:
                size = sum(entry.stat().st_size for entry in entries if entry.is_file(follow_symlinks=False))
            self._tell(end=time.time_ns(), flow=flow, size=size)

    def stop(self) -> None:
        """Return when all rows are written."""
        self._told[0] = 1
        os.close(self._orders)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._process, 0)

    def _tell(self, **order: object) -> None:
        # One that ended said why on the console.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._orders, json.dumps(order).encode() + b"\n")
        self._told[0] = 1


def _run(rows: Path, period: int, told: mmap.mmap, reader: int) -> None:
    """Sample until the pipe of orders is closed."""
    os.set_blocking(reader, False)
    ticks = _Ticks(period)
    with rows.open("a") as out, contextlib.closing(Growth(out, period, ticks.last)) as growth:
        news = select.poll()
        news.register(reader, select.POLLIN)
        news.register(growth, select.POLLIN)
        while True:
            if growth.resting:
                ready = news.poll()
                growth.rested(ticks.passed())
                if any(file == reader for file, _ in ready):
                    if _over(growth, reader, ticks.last):
                        return
                    continue
            tick = ticks.next()
            if told[0]:
                told[0] = 0
                if _over(growth, reader, tick):
                    return
            growth.sample(tick)


def _over(growth: Growth, reader: int, tick: int) -> bool:
    """Do what was told at the last tick, or since. Whether there is nothing more to do."""
    said = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except BlockingIOError:
            break
        if not part:
            return True
        said += part
    for line in said.splitlines():
        order: dict[str, Any] = json.loads(line)
        if "watch" in order:
            growth.watch(Path(order["watch"]), order["flow"], order["transfer"], tick)
        else:
            growth.end(order["flow"], order["end"], order["size"])
    return False

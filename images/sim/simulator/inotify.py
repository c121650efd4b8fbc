"""What happens to folders, from the kernel (inotify(7)); the standard library has no names for it."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
#: <sys/inotify.h>
IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100
#: struct inotify_event without the name: watch, mask, cookie, length of the name.
_EVENT = struct.Struct("iIII")
#: Room for the events of one read, bytes.
_ROOM = 1 << 16


class Watches:
    """Folders that are watched. `fileno` becomes readable when something happens in one."""

    def __init__(self) -> None:
        self._file = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise _error("inotify_init1")

    def fileno(self) -> int:
        """For poll(2)."""
        return int(self._file)

    def close(self) -> None:
        """Watch nothing any more."""
        os.close(self._file)

    def watch(self, folder: Path, events: int) -> int:
        """Watch a folder for these events, and for no others any more. Its number, the same for the same folder."""
        number = _LIBC.inotify_add_watch(self._file, os.fsencode(folder), ctypes.c_uint32(events))
        if number < 0:
            raise _error(str(folder))
        return int(number)

    def forget(self, number: int) -> None:
        """End a watch."""
        if _LIBC.inotify_rm_watch(self._file, number) < 0:
            raise _error(f"watch {number}")

    def events(self) -> Iterator[tuple[int, int]]:
        """(watch, events) of all that happened since the last time."""
        whole = True
        while whole:
            try:
                data = os.read(self._file, _ROOM)
            except BlockingIOError:
                return
            # As many as fit are read at once.
            whole = len(data) > _ROOM // 2
            place = 0
            while place < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, place)
                place += _EVENT.size + length
                yield number, mask


def _error(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")

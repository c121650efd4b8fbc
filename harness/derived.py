"""Values that are derived from files, and kept for later commands until one of the files changes.

A digest of the code, or whether a scenario is valid, takes a tenth of a second or more to derive, and every command
asks. A file counts as unchanged while its time of change (ctime, which no program can set), size and inode are the
same.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from harness.writing import replace_file

_Object = TypeVar("_Object")
_Value = TypeVar("_Value")

#: A file that changed less than so many seconds ago may change again within the resolution of its times.
_SETTLED = 2.0
#: Raised whenever the form of what is kept changes.
_FORM = 1
#: The most values of a table that are kept; of more, those that the last command used.
_MOST_VALUES = 50_000


class DerivedValues:
    """Values by name. Until `keep_in` is called nothing is kept."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self._values: dict[str, dict[str, Any]] = {}
        self._tables: dict[str, DerivedTable | None] = {}
        self._lock = threading.Lock()
        self._changed = False

    def keep_in(self, file: Path) -> None:
        """Take values from a file, and write new ones there when the process ends. A damaged file counts as empty."""
        if self._file is None:
            atexit.register(self._write)
        self._file = file
        self._tables = {}
        with suppress(OSError, ValueError, TypeError, AttributeError):
            content = json.loads(file.read_text())
            self._values = content["values"] if content["form"] == _FORM else {}

    def get(self, name: str, files: Iterable[Path], derive: Callable[[], Any], version: str | None = "") -> Any:
        """The value of that name: a kept one while all `files` are unchanged, else that of `derive`.

        `derive` returns what JSON can hold. What it raises is not kept. `version` counts as one more file; with None
        nothing is kept.
        """
        if self._file is None:
            return derive()
        # Before the value: a file that changes while it is read has another stamp then.
        stamp = None if version is None else file_stamp(files, version)
        kept = self._values.get(name)
        if stamp is not None and isinstance(kept, dict) and kept.get("stamp") == stamp:
            return kept.get("value")
        value = derive()
        if stamp is not None:
            with self._lock:
                self._values[name] = {"stamp": stamp, "value": value}
                self._changed = True
        return value

    def table(self, name: str, files: Iterable[Path], version: str = "") -> DerivedTable | None:
        """The texts of one kind that are derived with the code in `files`, in a file of their own; None if nothing is
        kept. It is read once a process.
        """
        if self._file is None:
            return None
        with self._lock:
            if name not in self._tables:
                stamp = file_stamp(files, version)
                place = self._file.with_name(f"{self._file.stem}-{name}.json")
                self._tables[name] = None if stamp is None else DerivedTable(place, stamp)
            return self._tables[name]

    def _write(self) -> None:
        for table in filter(None, self._tables.values()):
            table.write()
        if self._file is not None and self._changed:
            _write_json(self._file, {"form": _FORM, "values": self._values})


class DerivedTable:
    """Many texts of one kind, each by a digest of what it is derived from."""

    def __init__(self, file: Path, stamp: str) -> None:
        """`stamp`: that of the code which derives them. A file of another one, or a damaged file, counts as empty."""
        self._file, self._stamp = file, stamp
        self._kept: dict[str, str] = {}
        self._used: dict[str, str] = {}
        self._changed = False
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            content = json.loads(file.read_text())
            if (content["form"], content["stamp"]) == (_FORM, stamp):
                self._kept = {key: value for key, value in content["values"].items() if isinstance(value, str)}

    def get(self, key: str, derive: Callable[[], str]) -> str:
        """The text of that key: the kept one, else that of `derive`. What `derive` raises is not kept."""
        value = self._kept.get(key)
        if value is None:
            value = self._kept[key] = derive()
            self._changed = True
        self._used[key] = value
        return value

    def write(self) -> None:
        """Keep it for later commands; nothing where the disk refuses."""
        if self._changed:
            values = self._kept if len(self._kept) <= _MOST_VALUES else self._used
            _write_json(self._file, {"form": _FORM, "stamp": self._stamp, "values": values})


def _write_json(file: Path, content: object) -> None:
    with suppress(OSError, TypeError, ValueError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps(content).encode(), f".{file.name}.{os.getpid()}")


def file_stamp(files: Iterable[Path], version: str = "") -> str | None:
    """What changes when one of the files or the version does; None where that cannot be told."""
    latest = time.time_ns() - int(_SETTLED * 1e9)
    digest = hashlib.blake2b(version.encode(), digest_size=16)
    for file in files:
        try:
            status = file.stat()
        except OSError:
            return None
        if status.st_ctime_ns > latest:
            return None
        digest.update(f"{file}\0{status.st_ctime_ns} {status.st_size} {status.st_ino}\0".encode())
    return digest.hexdigest()


#: Those of this process.
DERIVED = DerivedValues()


@functools.cache
def package_files() -> tuple[Path, ...]:
    """All code and data of the harness, for values that depend on more of it than a few modules."""
    return tuple(sorted(file for file in Path(__file__).parent.rglob("*") if file.suffix in (".py", ".yaml")))


# --- Values of frozen objects, which many cells share: a scenario, an implementation.


#: The most objects of which a function's values are remembered.
_MOST_OBJECTS = 4096


def once_per_object(function: Callable[[_Object], _Value]) -> Callable[[_Object], _Value]:
    """The same function, computed once for each object. Objects are frozen, and need not be hashable."""
    # The object is kept as well, so that no other one takes its identity.
    known: dict[int, tuple[_Object, _Value]] = {}

    @functools.wraps(function)
    def remembered(item: _Object) -> _Value:
        entry = known.get(id(item))
        if entry is None:
            value = function(item)
            if len(known) >= _MOST_OBJECTS:
                known.clear()
            entry = known[id(item)] = item, value
        return entry[1]

    return remembered

"""The lab kernel's file: whether it is what was exported, cheaply before each use and wholly on suspicion.

What it was is noted beside the export on first use: size, time and digest. A file of another size or time is read
again before it is run; one that looks the same, when a guest ended without a word.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.engines.folder import file_digest
from harness.errors import EngineError

#: e_shoff, and e_shentsize and e_shnum, of a 64-bit ELF header (elf(5)): the table of sections is the file's last part.
_MAGIC, _HEADER = b"\x7fELF\x02", struct.Struct("<40xQ10xHH2x")


@dataclass(frozen=True)
class _Note:
    size: int
    mtime_ns: int
    digest: str


class KernelFile:
    """The lab kernel of one exported image."""

    def __init__(self, file: Path, export: Path) -> None:
        """`export`: the folder that holds the image's export, and is to be deleted when the file is damaged."""
        self.file = file
        self._export = export
        self._note_file = export / "kernel.json"

    def digest(self) -> str:
        """SHA-256 of the file, as it was when it was exported. EngineError when it is damaged."""
        note = self._noted()
        found = self._stat()
        if note is None:
            return self._note(file_digest(self.file)).digest
        if (found.st_size, found.st_mtime_ns) == (note.size, note.mtime_ns):
            return note.digest
        self.verify()
        return self._note(note.digest).digest

    def verify(self) -> None:
        """Read all of it. EngineError when it is not what was exported."""
        note, found = self._noted(), self._stat()
        if note is not None and file_digest(self.file) != note.digest:
            raise self._damaged(f"it has {found.st_size:,} bytes, and had {note.size:,} when it was exported")

    def _note(self, digest: str) -> _Note:
        self._require_whole()
        found = self._stat()
        note = _Note(found.st_size, found.st_mtime_ns, digest)
        unfinished = self._note_file.with_suffix(f".{os.getpid()}")
        try:
            unfinished.write_text(json.dumps(asdict(note)))
            unfinished.replace(self._note_file)
        except OSError:
            # A cache that cannot be written to is read again each time.
            unfinished.unlink(missing_ok=True)
        return note

    def _noted(self) -> _Note | None:
        try:
            return _Note(**json.loads(self._note_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _stat(self) -> os.stat_result:
        try:
            return self.file.stat()
        except OSError as error:
            raise self._damaged(error.strerror or "cannot be read") from error

    def _require_whole(self) -> None:
        """EngineError for a file whose own header says that there was more of it."""
        with self.file.open("rb") as file:
            head = file.read(_HEADER.size)
        if not head.startswith(_MAGIC) or len(head) < _HEADER.size:
            raise self._damaged("it is no program for this machine")
        offset, entry, entries = _HEADER.unpack(head)
        if self._stat().st_size < offset + entry * entries:
            raise self._damaged(f"it has {self._stat().st_size:,} bytes, and its header speaks of more")

    def _damaged(self, how: str) -> EngineError:
        return EngineError(
            f"the lab kernel is damaged: {self.file}: {how}",
            f"delete {self._export} and give the same command again: the image is exported anew",
        )

"""A finished run's folder made small: what was measured is compressed, or removed.

A file is written beside the old one first, brought to the disk, renamed, and only then is the old one removed: whatever
ends the process, one of the two is there and whole, and readers take either (`harness.capture.files`).

Captures keep the head of every packet, most of which is encrypted: alone they shrink to a half. Both sides hold the
same packets, though, so they go into one archive, where the second capture is found again in the first.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import zstandard

from harness.capture.files import ARCHIVE, CAPTURES, GZIP, ZSTD, simulators
from harness.engine.process_owner import lives, owner
from harness.reading import is_regular, open_regular
from harness.writing import replaced

#: What stays of a run's folder whatever becomes of what was measured: its record and figures, and the lab by hand.
STAYS = frozenset(
    {"run.json", "measured.json", "series.parquet", "compose.yaml", "cell.env", "lab.json", "plan", "by-hand"}
)
#: What stays as it is because other tools are given it as it is.
_AS_IT_IS = frozenset({"keys.log"})
#: Files of up to a block of the disk would not take less of it.
_BLOCK = 4096
#: Behind the name of a file that is being written; then comes who writes it.
UNFINISHED = ".packing-"
#: Levels of zstd: a qlog of 95 MB takes 4.3 MB and half a second. Higher ones take longer than they are worth.
_TEXT, _CAPTURES = 6, 8
#: Of the archive: a packet of the first capture is found again in the second as far back as decoders go without being
#: asked to (128 MiB, `zstd -d`), by a table with a place for every so many bytes, several in every packet's head.
_NEAREST, _FURTHEST, _PLACE = 20, 27, 2
#: Bytes handed over at a time.
_BUFFER = 1 << 20


def pack(folder: Path) -> None:
    """Compress what was measured in a run's folder, as far as that can be done: what cannot stays as it is.

    An endpoint's log may belong to another user, and the disk may be full. What an ended process began is finished.
    """
    _remove_unfinished(folder)
    # A file that has its name is whole.
    completed = [work for work in _work(folder) if is_regular(work.target) or _made(work)]
    try:
        for place in {work.target.parent for work in completed}:
            _sync(place)
    except OSError:
        return
    for work in completed:
        for file in work.files:
            with suppress(OSError):
                file.unlink()


def strip(folder: Path, trash: Path) -> None:
    """Remove what was measured from a run's folder; its record and figures stay, and the lab by hand. Raises OSError.

    `aside`: a folder on the same disk that nobody reads, which is made and removed. What is removed is moved there
    first, the simulator's folder before all others: by that one knows that a run can be measured again.
    """
    entries = [item for item in folder.iterdir() if item.name not in STAYS]
    trash.mkdir(parents=True, exist_ok=True)
    for item in sorted(entries, key=lambda item: (item.name != "sim", item.name)):
        item.rename(trash / item.name)
    shutil.rmtree(trash)


def is_packed(folder: Path) -> bool:
    """Whether a run's folder takes what it will take: its captures are compressed, or gone."""
    return not any((place / name).exists() for place in simulators(folder) for name in CAPTURES.values())


def disk_use(path: Path) -> int:
    """Bytes that a file or a folder with all that is below takes of the disk, whole blocks; 0 where there is none."""
    total = _blocks(path)
    for place, folders, files in os.walk(path):
        total += sum(_blocks(Path(place, name)) for name in (*folders, *files))
    return total


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


@dataclass(frozen=True)
class _Work:
    """Files, and the one that they become."""

    target: Path
    files: Sequence[Path]
    write: Callable[[Sequence[Path], IO[bytes]], None]


def _work(folder: Path) -> Iterator[_Work]:
    single: list[Path] = []
    for place in simulators(folder):
        archive = place / ARCHIVE
        captures = [file for name in CAPTURES.values() if is_regular(file := archive.with_name(name))]
        if captures and (len(captures) == len(CAPTURES) or is_regular(archive)):
            yield _Work(archive, captures, _archive)
        else:
            single += captures
    for file in [*single, *_large(folder)]:
        yield _Work(file.with_name(file.name + ZSTD), [file], _compress)


def _large(folder: Path) -> Iterator[Path]:
    """The files that were measured and are worth compressing, but for captures of the simulators."""
    places = simulators(folder)
    for place, names, files in os.walk(folder):
        directory = Path(place)
        if directory == folder:
            names[:] = [name for name in names if name not in STAYS]
        for name in files:
            file = directory / name
            is_kept = name in (STAYS if directory == folder else _AS_IT_IS)
            capture = directory in places and name in CAPTURES.values()
            packed = file.suffix in (ZSTD, GZIP) or UNFINISHED in name
            if not (is_kept or capture or packed) and is_regular(file) and file.stat().st_size > _BLOCK:
                yield file


def _made(work: _Work) -> bool:
    """Write what files become, and give it its name; whether that could be done."""
    try:
        with replaced(work.target, f"{work.target.name}{UNFINISHED}{owner()}") as out:
            work.write(work.files, out)
            out.flush()
            os.fsync(out.fileno())
    except (OSError, zstandard.ZstdError):
        return False
    return True


def _compress(files: Sequence[Path], out: IO[bytes]) -> None:
    (file,) = files
    with open_regular(file) as content:
        size = os.fstat(content.fileno()).st_size
        compressor = zstandard.ZstdCompressor(level=_TEXT, write_checksum=True)
        compressor.copy_stream(content, out, size=size)


def _archive(files: Sequence[Path], out: IO[bytes]) -> None:
    size = _tar_size([file.stat().st_size for file in files])
    window = min(_FURTHEST, max(_NEAREST, size.bit_length()))
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _CAPTURES, write_checksum=1, window_log=window, hash_log=window - _PLACE, chain_log=window - _PLACE
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with (
        compressor.stream_writer(out, size=size, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", bufsize=_BUFFER, format=tarfile.GNU_FORMAT) as archive,
    ):
        for file in files:
            with open_regular(file) as content:
                archive.addfile(archive.gettarinfo(arcname=file.name, fileobj=content), content)


def _tar_size(sizes: Sequence[int]) -> int:
    """Bytes of an archive of files of such sizes (tar(5)): a head and whole blocks for each, two at the end."""
    blocks = sum(1 + -(-size // tarfile.BLOCKSIZE) for size in sizes) + 2
    return -(-blocks * tarfile.BLOCKSIZE // tarfile.RECORDSIZE) * tarfile.RECORDSIZE


def _sync(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def _remove_unfinished(folder: Path) -> None:
    """Remove what processes that no longer live were writing."""
    for file in folder.rglob(f"*{UNFINISHED}*"):
        if not lives(file.name.rpartition(UNFINISHED)[2]):
            with suppress(OSError):
                file.unlink(missing_ok=True)

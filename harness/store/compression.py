"""Reduce a finished run's folder: its artefacts are compressed, or removed.

A new file is written beside the old one, synced to the disk, and renamed. Only then is the old one removed. If the
process ends at any time, one of the two is there and whole, and readers take either (`harness.capture.files`).

Captures keep the head of every packet, most of which is encrypted: alone they shrink to a half. But both sides hold the
same packets, so they go into one archive, in which the second capture is compressed as a repetition of the first.
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

from harness.capture.files import ARCHIVE, CAPTURES, GZIP, QLOG, ZSTD, simulator_folders
from harness.engine.process_owner import lives, owner
from harness.reading import is_regular, open_regular
from harness.writing import replacement_stream

#: Entries of a run's folder that are never compressed or removed: its record and figures, and the lab by hand.
RETAINED_ENTRIES = frozenset(
    {"run.json", "measured.json", "series.parquet", "compose.yaml", "cell.env", "lab.json", "plan", "by-hand"}
)
#: Files that stay uncompressed because other tools read them.
_UNCOMPRESSED = frozenset({"keys.log"})
#: Files of up to a block of the disk would not take less space.
_BLOCK = 4096
#: Suffix of a file that is being written; the owner of the process follows.
UNFINISHED_SUFFIX = ".packing-"
#: Levels of zstd. Of 100 MB by ngtcp2, 277 MB of logs take 0.3 s at level 1 (2.0 s at 6, 5 % smaller), and 49 MB of
#: captures 0.7 s (1.9 s at 8, 16 % smaller).
_TEXT, _CAPTURES = 1, 1
#: Parameters of the archive. A packet is found again as far back as decoders go by default (128 MiB, `zstd -d`), with a
#: table that has an entry for every so many bytes, several in every packet's head.
_NEAREST, _FURTHEST, _PLACE = 20, 27, 2
#: Bytes copied at a time.
_BUFFER = 1 << 20


def compress_artefacts(folder: Path) -> None:
    """Compress the artefacts in a run's folder. Files that cannot be compressed stay as they are.

    An endpoint's log may belong to another user, and the disk may be full. The work of an ended process is completed.
    """
    _remove_unfinished(folder)
    # A file with its final name is whole.
    completed = [work for work in _plan_jobs(folder) if is_regular(work.target) or _write_target(work)]
    try:
        for place in {work.target.parent for work in completed}:
            _sync(place)
    except OSError:
        return
    for work in completed:
        for file in work.files:
            with suppress(OSError):
                file.unlink()


def remove_artefacts(folder: Path, trash: Path) -> None:
    """Remove the artefacts from a run's folder. Its record and figures stay, and the lab by hand. Raises OSError.

    `trash`: a folder on the same disk that nobody reads, which is created and removed. Artefacts are moved there first,
    the simulator's folder before all others: a run that has that folder can be measured again.
    """
    entries = [item for item in folder.iterdir() if item.name not in RETAINED_ENTRIES]
    trash.mkdir(parents=True, exist_ok=True)
    for item in sorted(entries, key=lambda item: (item.name != "sim", item.name)):
        item.rename(trash / item.name)
    shutil.rmtree(trash)


def remove_qlogs(folder: Path) -> None:
    """Remove the qlogs of all endpoints from a run's folder. Raises OSError."""
    for place in folder.glob(f"flow*/*/{QLOG}"):
        if place.is_symlink():  # an endpoint's doing
            place.unlink()
        else:
            shutil.rmtree(place)


def is_compressed(folder: Path) -> bool:
    """Whether a run's folder has its final size: its captures are compressed, or removed."""
    return not any((place / name).exists() for place in simulator_folders(folder) for name in CAPTURES.values())


def disk_use(path: Path) -> int:
    """Bytes that a file, or a folder with its content, takes on the disk, in whole blocks; 0 where there is none."""
    total = _allocated_bytes(path)
    for place, folders, files in os.walk(path):
        total += sum(_allocated_bytes(Path(place, name)) for name in (*folders, *files))
    return total


def _allocated_bytes(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


@dataclass(frozen=True)
class _Job:
    """Files, and the file that they are compressed into."""

    target: Path
    files: Sequence[Path]
    write: Callable[[Sequence[Path], IO[bytes]], None]


def _plan_jobs(folder: Path) -> Iterator[_Job]:
    single: list[Path] = []
    for place in simulator_folders(folder):
        archive = place / ARCHIVE
        captures = [file for name in CAPTURES.values() if is_regular(file := archive.with_name(name))]
        if captures and (len(captures) == len(CAPTURES) or is_regular(archive)):
            yield _Job(archive, captures, _archive)
        else:
            single += captures
    for file in [*single, *_large_files(folder)]:
        yield _Job(file.with_name(file.name + ZSTD), [file], _compress)


def _large_files(folder: Path) -> Iterator[Path]:
    """The artefacts that are worth compressing, except captures of the simulators."""
    places = simulator_folders(folder)
    for place, names, files in os.walk(folder):
        directory = Path(place)
        if directory == folder:
            names[:] = [name for name in names if name not in RETAINED_ENTRIES]
        for name in files:
            file = directory / name
            is_kept = name in (RETAINED_ENTRIES if directory == folder else _UNCOMPRESSED)
            capture = directory in places and name in CAPTURES.values()
            packed = file.suffix in (ZSTD, GZIP) or UNFINISHED_SUFFIX in name
            if not (is_kept or capture or packed) and is_regular(file) and file.stat().st_size > _BLOCK:
                yield file


def _write_target(work: _Job) -> bool:
    """Write the compressed file, and give it its final name. Gives whether that succeeded."""
    try:
        with replacement_stream(work.target, f"{work.target.name}{UNFINISHED_SUFFIX}{owner()}") as out:
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
    """Sync the entries of a folder to the disk."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def _remove_unfinished(folder: Path) -> None:
    """Remove unfinished files of processes that have ended."""
    for file in folder.rglob(f"*{UNFINISHED_SUFFIX}*"):
        if not lives(file.name.rpartition(UNFINISHED_SUFFIX)[2]):
            with suppress(OSError):
                file.unlink(missing_ok=True)

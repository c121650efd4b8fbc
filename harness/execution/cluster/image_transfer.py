"""Transfers exported images to other machines, as byte streams that are identified by a digest.

A parcel is compressed with zstd. It consists of the length of a head (8 bytes, big-endian), the head, and the contents
of all files in the order of the head. The head (JSON) has all that `harness.engine.images.file_manifest` records of the
files, including the digest of each file's content, and lists the hard links. The parcel's digest is that of its head.
As the head has the digests of all contents, nothing else needs to be trusted.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

import zstandard

from harness.engine.images.cache import UNFINISHED, Cache, short_id
from harness.engine.images.contents import Contents, ContentsCache
from harness.engine.images.file_manifest import FileEntry, entries, read_entries, runs_as_another

# (Under its own name: whatever is renamed there changes every cell's key.)
from harness.engine.images.rootfs_export import (
    FILES,
    ROOT,
    RootFileSystems,
    RootFs,
    _place,
    exported_folder,
    write_manifest,
)
from harness.engine.process_owner import owner
from harness.errors import EngineError
from harness.formatting import format_size
from harness.writing import path_below

#: Bytes of a piece: the unit of reading, and of one message to a worker.
PIECE_BYTES = 4 << 20
_LENGTH = 8
#: File with the descriptions of images, beside their parcels.
PARCEL_INDEX = "images.json"
#: zstd's level: 100 MB take half a second and become 35 MB.
_LEVEL = 3
#: Maximum length of a head, bytes: that of an image with 100,000 files is 15 MB.
_MAX_HEAD = 256 << 20


def parcel_head(export: Path) -> bytes:
    """The head of the parcel of an export, from the manifest of its files. Raises OSError, ValueError."""
    return _head(export / ROOT, read_entries(export / FILES))


def _head(root: Path, manifest: list[FileEntry]) -> bytes:
    return json.dumps({"entries": manifest, "links": _links(root, manifest)}, separators=(",", ":")).encode()


def _links(root: Path, manifest: list[FileEntry]) -> dict[str, str]:
    """Hard links: path → earlier path of the same inode. They matter because programs identify files by inode."""
    path_by_inode: dict[int, str] = {}
    links = {}
    for entry in manifest:
        if entry.is_file:
            inode = (root / entry.path).lstat().st_ino
            if inode in path_by_inode:
                links[entry.path] = path_by_inode[inode]
            else:
                path_by_inode[inode] = entry.path
    return links


def parcel_digest(head: bytes) -> str:
    """The digest that identifies a parcel, hexadecimal."""
    return hashlib.blake2b(head, digest_size=16).hexdigest()


def parcel_pieces(export: Path) -> Iterator[bytes]:
    """The parcel of an export, in pieces of at most `PIECE` bytes. Raises OSError; ValueError for a damaged export."""
    head = parcel_head(export)
    content = json.loads(head)
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).chunker(chunk_size=PIECE_BYTES)
    yield from compressor.compress(len(head).to_bytes(_LENGTH, "big") + head)
    for entry in (FileEntry(*fields) for fields in content["entries"]):
        if entry.is_file and entry.path not in content["links"]:
            with (export / ROOT / entry.path).open("rb") as file:
                while block := file.read(PIECE_BYTES):
                    yield from compressor.compress(block)
    yield from compressor.finish()  # type: ignore[no-untyped-call]


class _Pieces(io.RawIOBase):
    """A readable file made of the pieces that arrive one after the other."""

    def __init__(self, arriving: Iterable[bytes]) -> None:
        self._pieces = iter(arriving)
        self._remainder = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._remainder:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._remainder = memoryview(piece)
        chunk = self._remainder[: len(buffer)]
        buffer[: len(chunk)] = chunk
        self._remainder = self._remainder[len(chunk) :]
        return len(chunk)


def unpack(arriving: Iterable[bytes], digest: str, root: Path) -> list[FileEntry]:
    """Write the files of a parcel to an empty folder; returns their manifest, read from the folder.

    EngineError unless every byte belongs to the parcel with that digest. Raises OSError.
    """
    mismatch = EngineError(f"what arrived as the files of an image is not what was asked for ({digest})")
    decompressor = zstandard.ZstdDecompressor()
    try:
        with decompressor.stream_reader(cast(IO[bytes], _Pieces(arriving))) as stream:
            length = int.from_bytes(_read_exactly(stream, _LENGTH), "big")
            if length > _MAX_HEAD:
                raise mismatch
            head = _read_exactly(stream, length)
            if parcel_digest(head) != digest:
                raise mismatch
            content = json.loads(head)
            manifest = [FileEntry(*fields) for fields in content["entries"]]
            _validate_manifest(manifest, content["links"], root)
            _write(stream, manifest, content["links"], root)
            if stream.read(1):
                raise mismatch
    except (zstandard.ZstdError, ValueError, TypeError, KeyError, EOFError) as error:
        raise EngineError(f"{mismatch.message}: {error}") from error
    on_disk = entries(root)
    if parcel_digest(_head(root, on_disk)) != digest:
        raise mismatch
    return on_disk


def _read_exactly(stream: zstandard.ZstdDecompressionReader, size: int) -> bytes:
    buffer = bytearray()
    while len(buffer) < size:
        block = stream.read(min(PIECE_BYTES, size - len(buffer)))
        if not block:
            raise EOFError("it ends too early")
        buffer += block
    return bytes(buffer)


def _validate_manifest(manifest: list[FileEntry], links: dict[str, str], root: Path) -> None:
    """ValueError for files that no export has: outside the folder, behind a link, with setuid bits, too large.

    The sender can write anything into the head, and the digest proves only that the head is the requested one.
    """
    kinds: dict[str, int] = {}
    size = 0
    for entry in manifest:
        path_below(root, entry.path)
        parent = entry.path.rpartition("/")[0]
        if entry.path in kinds or (parent and not stat.S_ISDIR(kinds.get(parent, 0))):
            raise ValueError(f"{entry.path} is in no folder of its own")
        if runs_as_another(entry.mode):
            raise ValueError(f"{entry.path} runs as its owner, whoever starts it")
        if entry.path in links and not (entry.is_file and stat.S_ISREG(kinds.get(links[entry.path], 0))):
            raise ValueError(f"{entry.path} is another name of no file")
        kinds[entry.path] = entry.mode
        size += 0 if entry.size < 0 or entry.path in links else entry.size
    free = shutil.disk_usage(root).free
    if size > free:
        raise ValueError(f"its files have {format_size(size)}, and {format_size(free)} are free")


def _write(
    stream: zstandard.ZstdDecompressionReader, manifest: list[FileEntry], links: dict[str, str], root: Path
) -> None:
    for entry in manifest:
        target = root / entry.path
        if stat.S_ISDIR(entry.mode):
            target.mkdir()
        elif entry.is_link:
            target.symlink_to(entry.content)
            os.utime(target, ns=(entry.modified_ns, entry.modified_ns), follow_symlinks=False)
        elif entry.path in links:
            target.hardlink_to(root / links[entry.path])
        elif entry.is_file:
            _write_file(stream, entry, target)
        elif stat.S_ISFIFO(entry.mode):
            os.mkfifo(target)
            _restore_metadata(entry, target)
        else:
            raise ValueError(f"{entry.path} is no file, folder or link")
    # Folders come last: writing below one changes its time, and its mode may forbid writing.
    for entry in reversed(manifest):
        if stat.S_ISDIR(entry.mode):
            _restore_metadata(entry, root / entry.path)


def _write_file(stream: zstandard.ZstdDecompressionReader, entry: FileEntry, target: Path) -> None:
    remaining = entry.size
    with target.open("xb") as file:
        while remaining:
            block = stream.read(min(PIECE_BYTES, remaining))
            if not block:
                raise EOFError("it ends too early")
            file.write(block)
            remaining -= len(block)
    _restore_metadata(entry, target)


def _restore_metadata(entry: FileEntry, target: Path) -> None:
    target.chmod(stat.S_IMODE(entry.mode))
    os.utime(target, ns=(entry.modified_ns, entry.modified_ns))


# --- Root file systems from another machine, and the virtual engine that uses them. Docker is not needed.


@dataclass(frozen=True)
class SentImage:
    """An image of a run, as its driver describes it."""

    reference: str
    id: str
    """Its ID at the driver: sha256:…."""
    identity: str
    command: Sequence[str]
    environment: Sequence[str]
    working_dir: str
    user: str
    stop_signal: int
    parcel: str
    """Digest of the parcel of its files (see the module)."""
    set_ids: Mapping[str, int] = field(default_factory=dict)
    """See `RootFs`."""

    @classmethod
    def from_root(cls, root: RootFs, parcel: str) -> SentImage:
        """The description of an exported image."""
        return cls(
            root.reference,
            root.id,
            root.identity,
            tuple(root.command),
            tuple(root.environment),
            root.working_dir,
            root.user,
            root.stop_signal,
            parcel,
            dict(root.set_ids),
        )

    def inspected(self) -> dict[str, Any]:
        """The description that Docker would give of the image."""
        config = {
            "Entrypoint": list(self.command),
            "Env": list(self.environment),
            "WorkingDir": self.working_dir,
            "User": self.user,
            "StopSignal": str(self.stop_signal),
        }
        return {"Id": self.id, "RepoDigests": [self.identity], "Config": config}

    def to_root(self, rootfs: Path) -> RootFs:
        """The image with its files in the folder `rootfs` of this machine."""
        return RootFs(
            self.reference,
            self.id,
            self.identity,
            str(rootfs),
            list(self.command),
            list(self.environment),
            self.working_dir,
            self.user,
            self.stop_signal,
            dict(self.set_ids),
        )


Fetch = Callable[[str], Iterable[bytes]]
"""Returns the pieces of a parcel, by its digest. Raises EngineError if they do not arrive."""


class ReceivedRoots(RootFileSystems):
    """The images that a driver sends. Each is fetched once into this machine's cache, and again if it is damaged."""

    def __init__(self, cache: Cache, images: Mapping[str, SentImage], fetch: Fetch) -> None:
        """`images`: by reference."""
        super().__init__(cache)
        self._sent = images
        self._fetch = fetch

    def _image(self, reference: str) -> tuple[str, dict[str, Any] | None]:
        image = self._sent[reference].inspected()
        return image["Id"], image

    def _export(self, reference: str, image: dict[str, Any]) -> RootFs:
        identity = str(image["Id"])
        with _fetch_lock(self._cache.folder, identity):
            # Another worker of this machine may have fetched it meanwhile.
            folder = exported_folder(self._cache.folder, identity)
            if folder is None:
                folder = self._fetch_image(reference, image)
        self._cache.bound()
        return self._sent[reference].to_root(folder / ROOT)

    def _fetch_image(self, reference: str, image: dict[str, Any]) -> Path:
        """Fetch an image into the cache; returns its folder. Raises EngineError, OSError."""
        unfinished = self._cache.roots / f"{UNFINISHED}{owner()}.{threading.get_ident()}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        (unfinished / ROOT).mkdir()
        parcel = self._sent[reference].parcel
        try:
            manifest = unpack(self._fetch(parcel), parcel, unfinished / ROOT)
            with self._cache.alone():
                self._cache.shared.share(unfinished / ROOT, manifest, unfinished / "link")
            write_manifest(self._sent[reference].to_root(unfinished / ROOT), manifest)
            return _place(unfinished, self._cache.roots, str(image["Id"]))
        except EngineError as error:
            raise EngineError(f"the image {reference} did not arrive: {error.message}", error.hint) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _fetch_lock(cache: Path, identity: str) -> Iterator[None]:
    """Lock the fetching of an image between the workers of this machine. Raises OSError."""
    file = cache / "uses" / f"fetch-{short_id(identity)}"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- The driver's side: parcels of exported images, sent on request, or written to a place that workers can read.


class ParcelSource:
    """The images of a plan as parcels; they stay in the cache while the plan is executed."""

    def __init__(self, exported: RootFileSystems, contents: ContentsCache, files: str = "") -> None:
        """`files`: folder or URL (fsspec) that parcels are written to; empty if they are sent."""
        self._exported = exported
        self._contents_cache = contents
        self.files = files
        self._locks = ExitStack()
        self._sent: dict[str, SentImage] = {}
        self._contents: dict[str, Contents] = {}
        self._exports: dict[str, Path] = {}
        """Digest of a parcel → folder of its export."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locks.close()

    def describe(self, reference: str) -> SentImage:
        """Describe an image for workers; export it, and write its parcel, if needed. Raises EngineError."""
        if reference not in self._sent:
            root = self._locks.enter_context(self._exported.use([reference])).roots[reference]
            export = Path(root.rootfs).parent
            try:
                digest = parcel_digest(parcel_head(export))
            except (OSError, ValueError) as error:
                raise EngineError(f"{export}: {error}", "remove the folder, and the image is exported anew") from error
            self._exports[digest] = export
            if self.files:
                self._write_parcel(digest)
            with suppress(EngineError, OSError):
                self._contents[reference] = self._contents_cache.contents_of(reference, root.id)
            self._sent[reference] = SentImage.from_root(root, digest)
        return self._sent[reference]

    def contents(self, references: Iterable[str]) -> dict[str, Contents]:
        """The contents of images, by reference, as far as they are known."""
        return {reference: self._contents[reference] for reference in references if reference in self._contents}

    def pieces(self, digest: str) -> Iterator[bytes]:
        """The pieces of a parcel. EngineError if it does not exist, or cannot be read."""
        if digest not in self._exports:
            raise EngineError(f"the driver has no image {digest}")
        try:
            yield from parcel_pieces(self._exports[digest])
        except (OSError, ValueError) as error:
            raise EngineError(f"the driver cannot read the image {digest}: {error}") from error

    def _write_parcel(self, digest: str) -> None:
        import fsspec

        try:
            system, folder = fsspec.core.url_to_fs(self.files)
            target = f"{folder.rstrip('/')}/{digest}.parcel"
            if system.exists(target):
                return
            system.makedirs(folder, exist_ok=True)
            unfinished = f"{target}.{owner()}"
            with system.open(unfinished, "wb") as file:
                for piece in self.pieces(digest):
                    file.write(piece)
            system.mv(unfinished, target)
        except (OSError, ImportError, ValueError) as error:
            raise EngineError(
                f"--cluster-files {self.files}: {error}", "name a folder that can be written to"
            ) from error


def read_parcel(files: str, digest: str) -> Iterator[bytes]:
    """The pieces of a parcel in a folder or at a URL (fsspec). EngineError."""
    import fsspec

    place = f"{files.rstrip('/')}/{digest}.parcel"
    try:
        with fsspec.open(place, "rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    except (OSError, ImportError, ValueError) as error:
        raise EngineError(f"{place}: {error}", "can it be reached from here?") from error


class PackedImages:
    """Images that a container of the harness brings along (images/container): the parcels in HARNESS_PARCELS."""

    def __init__(self, cache: Cache) -> None:
        folder = os.environ.get("HARNESS_PARCELS", "")
        content = json.loads(Path(folder, PARCEL_INDEX).read_bytes()) if folder else []
        images = {item["reference"]: SentImage(**item) for item in content}
        self.references = frozenset(images)
        self._roots = ReceivedRoots(cache, images, lambda digest: read_parcel(folder, digest))

    def unpack(self, reference: str) -> bool:
        """Unpack an image into the cache, unless it is there; False where there is none of that name. EngineError."""
        if reference in self.references:
            self._roots.of(reference)
        return reference in self.references

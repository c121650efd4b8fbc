"""The contents of an image: its packages and programs, and one digest of all its files.

An image's identity is that of its recipe. Two machines that build the same recipe on different days get different
packages from the distribution. The digest here tells such images apart, independently of the times and layers of their
builds. The lists say what differs.

Some data differ between builds of the same packages, and are left out. These are times, owners, caches, logs, and
Python's compiled files (which have the times of their sources). What Docker writes into every container is left out,
too, and what Debian's packages write when they are installed. For example, /etc/shadow has the day of its last change,
a changed file leaves a copy of its former state, and the package ssl-cert makes a key and a certificate.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from harness.engine.docker_cli import command_error, docker, start_docker
from harness.engine.images.cache import short_id
from harness.engine.images.file_manifest import FileEntry, entries, read_entries
from harness.engine.images.rootfs_export import FILES, ROOT, exported_folder
from harness.outcome.run import CONTENTS_DIGEST
from harness.reading import read_regular

#: Folders whose files are left out, and single files that are left out; from the root.
_LEFT_OUT = (
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "var/cache",
    "var/log",
    "var/lib/apt",
    "var/tmp",
    "root/.cache",
    ".dockerenv",
    "etc/hostname",
    "etc/hosts",
    "etc/resolv.conf",
    "etc/mtab",
    "etc/machine-id",
    "var/lib/dpkg/available",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/triggers",
    "etc/shadow",
    "etc/shadow-",
    "etc/gshadow-",
    "etc/passwd-",
    "etc/group-",
    "etc/subuid-",
    "etc/subgid-",
    "etc/.pwd.lock",
    "etc/ld.so.cache",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/diversions-old",
    "var/lib/dpkg/statoverride-old",
    "var/backups",
    "etc/ssl/certs/ssl-cert-snakeoil.pem",
    "etc/ssl/private/ssl-cert-snakeoil.key",
)
#: Links to these targets are left out: the name of this link is a hash of the name in the certificate.
_LEFT_OUT_TARGETS = ("ssl-cert-snakeoil.pem",)
#: A digest begins with this mark of the rule by which files are left out. Another rule needs another mark. Digests by
#: the first rule have no mark; the second rule, "2-", counted the key and certificate of ssl-cert.
_RULE = "3-"
_STATUS = "var/lib/dpkg/status"
#: Bytes that are read of that file at most. The file of a whole desktop has 10 MB.
_MOST_STATUS = 64 << 20
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Contents:
    """What an image holds."""

    digest: str
    """BLAKE2b of the names, kinds, execute bits and contents of all files that count, hexadecimal, with the mark of the
    rule by which they count in front."""
    packages: dict[str, str]
    """Debian package → version."""
    programs: dict[str, str]
    """Path of an executable file or shared object → BLAKE2b of it."""


@dataclass(frozen=True)
class ImageEntry:
    """One file or link of an image."""

    path: str
    """From the root, without a leading slash."""
    kind: str
    """file or link."""
    executable: bool
    content: str
    """Digest of a file, target of a link."""


def contents_of(entries: Iterable[ImageEntry], status: str) -> Contents:
    """Contents of an image with these files; `status`: text of dpkg's status file."""
    counted = sorted((entry for entry in entries if _counts(entry)), key=lambda entry: entry.path)
    digest = hashlib.blake2b(digest_size=16)
    for entry in counted:
        line = f"{entry.path}\0{entry.kind}\0{int(entry.executable)}\0{entry.content}\n"
        # A stranger's names need not be UTF-8.
        digest.update(line.encode(errors="surrogateescape"))
    programs = {f"/{entry.path}": entry.content for entry in counted if is_program(entry)}
    return Contents(_RULE + digest.hexdigest(), _packages(status), programs)


def is_program(entry: ImageEntry) -> bool:
    """Whether an entry is an executable file or a shared object."""
    return entry.kind == "file" and (entry.executable or ".so" in PurePosixPath(entry.path).suffixes)


def is_digest(text: str) -> bool:
    """Whether a text is a valid digest of contents. Files of a store are named by such digests."""
    # `fullmatch` replaces the anchors of the schema's expression.
    return re.fullmatch(CONTENTS_DIGEST.strip("^$"), text) is not None


def comparable(first: str, second: str) -> bool:
    """Whether two digests were made by the same rule. Digests by different rules differ even where the files do not."""
    return first.rpartition("-")[0] == second.rpartition("-")[0]


def _counts(entry: ImageEntry) -> bool:
    """Whether an entry counts for the digest."""
    return is_counted(entry.path) and not (entry.kind == "link" and entry.content in _LEFT_OUT_TARGETS)


def is_counted(path: str) -> bool:
    """Whether a file counts for the digest. `path`: from the root, without a leading slash."""
    parts = PurePosixPath(path).parts
    if "__pycache__" in parts:
        return False
    return not any(parts[: len(left.split("/"))] == tuple(left.split("/")) for left in _LEFT_OUT)


def _packages(status: str) -> dict[str, str]:
    packages = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed") and "Package" in fields:
            packages[fields["Package"]] = fields.get("Version", "")
    return dict(sorted(packages.items()))


@contextmanager
def export_stream(reference: str) -> Iterator[IO[bytes]]:
    """The stream of `docker export` of an image: a tar file. EngineError when Docker fails."""
    # A container needs a command, and an image may have none. This container never starts.
    container = docker("create", reference, "none").stdout.strip()
    try:
        with start_docker(["export", container], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as export:
            assert export.stdout is not None
            # Popen's pipe is a text stream; its buffer has the bytes.
            yield export.stdout.buffer  # type: ignore[attr-defined]
        if export.returncode != 0:
            raise command_error(f"exporting the image {reference}", "docker export failed")
    finally:
        docker("rm", "--force", container, check=False)


def exported_contents(reference: str) -> Contents:
    """Contents of an image that Docker has, from its export. Takes a few seconds. EngineError when Docker fails."""
    with export_stream(reference) as stream:
        return _tar_contents(stream)


#: Observes the content of a file on its way to the digest: takes the file's path and blocks, returns the same blocks.
Observer = Callable[[str, Iterable[bytes]], Iterable[bytes]]


def _pass_through(path: str, blocks: Iterable[bytes]) -> Iterable[bytes]:
    return blocks


def _tar_contents(stream: IO[bytes]) -> Contents:
    return contents_of(*tar_entries(stream))


def tar_entries(stream: IO[bytes], see: Observer = _pass_through) -> tuple[list[ImageEntry], str]:
    """(files and links of a tar file, text of dpkg's status file). The stream is read once, from start to end.

    Raises tarfile.TarError where it is no tar file.
    """
    entries: dict[str, ImageEntry] = {}
    status = ""
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as archive:
        for member in archive:
            path = member.name.removeprefix("./").strip("/")
            if member.issym():
                entries[path] = ImageEntry(path, "link", False, member.linkname)
            elif member.islnk():
                target = entries.get(member.linkname.removeprefix("./").strip("/"))
                if target is not None:
                    entries[path] = ImageEntry(path, target.kind, target.executable, target.content)
            elif member.isfile():
                content = archive.extractfile(member)
                assert content is not None
                blocks: Iterable[bytes] = iter(lambda file=content: file.read(_BLOCK), b"")  # type: ignore[misc]
                if path == _STATUS:
                    # The rest is not searched for packages, but counts for the digest all the same.
                    data = content.read(_MOST_STATUS)
                    status, blocks = data.decode(errors="replace"), itertools.chain([data], blocks)
                entries[path] = ImageEntry(path, "file", bool(member.mode & 0o111), _digest(see(path, blocks)))
        # The rest after the archive's end must be read, or Docker sees a broken pipe.
        while stream.read(_BLOCK):
            pass
    return list(entries.values()), status


def folder_contents(root: Path) -> Contents:
    """Contents of a root file system in a folder. Raises OSError."""
    return _manifest_contents(root, entries(root))


def _export_contents(export: Path) -> Contents:
    """Contents of an exported image, from its list of files. Raises OSError, and ValueError where that is damaged."""
    return _manifest_contents(export / ROOT, read_entries(export / FILES))


def _manifest_contents(root: Path, sealed: Iterable[FileEntry]) -> Contents:
    image_entries = (
        ImageEntry(
            entry.path, "file" if entry.is_file else "link", entry.is_file and bool(entry.mode & 0o111), entry.content
        )
        for entry in sealed
        if entry.is_file or entry.is_link
    )
    return contents_of(image_entries, _status_in(root))


def _status_in(root: Path) -> str:
    """Text of dpkg's status file in a root file system; empty where there is none, or a link out of the root."""
    try:
        return read_regular(root.resolve() / _STATUS, _MOST_STATUS).decode(errors="replace")
    except OSError:
        return ""


def _digest(blocks: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def _read_cached(file: Path) -> Contents | None:
    """Contents from a file of the cache; None where it is not there, damaged, or by a former rule."""
    try:
        contents = Contents(**json.loads(file.read_bytes()))
        return contents if contents.digest.startswith(_RULE) else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


class ContentsCache:
    """The contents of images by their ID, each inspected once: `<cache>/contents/<image ID>.json`."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def by_digest(self, digest: str) -> Contents | None:
        """Contents of an image that was inspected before, by their digest; None otherwise."""
        files = sorted((self._cache / "contents").glob("*.json"))
        return next(
            (kept for file in files if (kept := _read_cached(file)) is not None and kept.digest == digest), None
        )

    def contents_of(self, reference: str, image_id: str) -> Contents:
        """Contents of an image, from its export in the cache, else from Docker. EngineError, OSError.

        `image_id`: sha256:….
        """
        file = self._cache / "contents" / f"{short_id(image_id)}.json"
        if (cached := _read_cached(file)) is not None:
            return cached
        export = exported_folder(self._cache, image_id)
        try:
            contents = exported_contents(reference) if export is None else _export_contents(export)
        except ValueError:
            # The export's list of files is damaged.
            contents = exported_contents(reference)
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        unfinished.write_text(json.dumps(asdict(contents), indent=1))
        unfinished.replace(file)
        return contents

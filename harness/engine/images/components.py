"""The components of an image: packages of Debian and of Python, modules of Go, crates of Rust, and programs of its own.

They are read from the stream of `docker export`, in one pass. Nothing is unpacked and no link is followed, since an
image is not trusted. Malformed parts are left out, but their files still count for the digest of the contents.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import posixpath
import re
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import PurePosixPath
from typing import IO, NamedTuple

from harness.engine.images.contents import ImageEntry, contents_of, export_stream, is_counted, is_program, tar_entries
from harness.errors import EngineError
from harness.formatting import escape_controls

# --- Build information of a Go program: its modules, and the version of the compiler.
#
# The Go command writes it into every program, behind a mark (Go's debug/buildinfo, runtime/debug.BuildInfo). Since Go
# 1.18 a header of 32 bytes, which begins with the mark, precedes two texts: the version of Go, and lines of modules.
# Older programs are not read.


#: First bytes of a program for Linux (elf(5)), and of the build information.
_ELF, _MARK = b"\x7fELF", b"\xff Go buildinf:"
#: Alignment of the build information, and length of its header, bytes.
_ALIGNMENT, _HEAD = 16, 32
#: Bit of the header's flags: the texts follow the header directly.
_INLINE = 0x2
#: Bytes that are kept from a mark on. A program with a thousand modules has 100 kB.
_MAX_BUILD_INFO = 1 << 20
#: Marks that are examined in a program. The Go tools have some in their own texts.
_MAX_MARKS = 8
#: Bytes of a random sentinel before and after the lines of modules.
_SENTINEL = 16


class Module(NamedTuple):
    """One module of a program."""

    name: str
    """Its path, `github.com/quic-go/quic-go`; `stdlib` for Go itself."""
    version: str
    """`v0.55.0`; `1.26.1` for Go itself; empty where a folder replaces it."""
    sum: str
    """`h1:…`, as go.sum has it; empty where there is none."""


class GoProgram:
    """Reads the build information of a program whose bytes come in blocks. It keeps 8 MB at most."""

    def __init__(self) -> None:
        self._position = 0
        self._tail = b""
        self._is_program: bool | None = None
        self._blocks: list[bytearray] = []

    def feed(self, block: bytes) -> None:
        """Take the next bytes of the file."""
        if self._is_program is None and block:
            self._is_program = block.startswith(_ELF)
        if not self._is_program:
            return
        for buffer in self._blocks:
            buffer.extend(block[: max(0, _MAX_BUILD_INFO - len(buffer))])
        # A mark may begin in the former block and end in this one.
        text = self._tail + block
        begin = self._position - len(self._tail)
        at = text.find(_MARK)
        while at >= 0 and len(self._blocks) < _MAX_MARKS:
            if (begin + at) % _ALIGNMENT == 0:
                self._blocks.append(bytearray(text[at : at + _MAX_BUILD_INFO]))
            at = text.find(_MARK, at + 1)
        self._tail = text[-(len(_MARK) - 1) :]
        self._position += len(block)

    def modules(self) -> list[Module]:
        """The modules of the program, and Go itself as `stdlib`; empty where it has no build information."""
        return next((modules for buffer in self._blocks if (modules := _modules(bytes(buffer)))), [])


def _modules(text: bytes) -> list[Module]:
    """The modules of build information. `text` begins with the mark; empty where it is no build information."""
    if len(text) < _HEAD or not text[len(_MARK) + 1] & _INLINE:
        return []
    version, remainder = _split_string(text[_HEAD:])
    lines, _ = _split_string(remainder)
    go_version = version.decode(errors="replace")
    if not go_version.startswith("go"):
        return []
    # A version may be followed by a blank and names of experiments.
    compiler = Module("stdlib", go_version.removeprefix("go").partition(" ")[0], "")
    whole = len(lines) > 2 * _SENTINEL and lines[-_SENTINEL - 1 : -_SENTINEL] == b"\n"
    inner = lines[_SENTINEL:-_SENTINEL].decode(errors="replace") if whole else ""
    return [compiler, *_parse_modules(inner)]


def _parse_modules(text: str) -> list[Module]:
    """The modules of lines of `dep`, path, version and sum, separated by tabs; `=>` replaces the module above.

    The program's own module (`mod`) counts if it has a version. Without one it is only the folder of the build.
    """
    modules: list[Module] = []
    for line in text.split("\n"):
        word, *fields = line.split("\t")
        name, version, digest = (*fields, "", "", "")[:3]
        if word in ("mod", "dep"):
            modules.append(Module(name, version, digest))
        elif word == "=>" and modules:
            # A folder has no version. Its path says nothing elsewhere, so the module's name stays.
            modules[-1] = Module(name, version, digest) if version else Module(modules[-1].name, "", "")
    return [module for module in modules if module.name and module.version != "(devel)"]


def _split_string(text: bytes) -> tuple[bytes, bytes]:
    """(a text that follows its length, the rest). The length is a varint of Go's encoding/binary. Both are empty where
    the text is cut off.
    """
    length = 0
    for place, byte in enumerate(text[:10]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            begin = place + 1
            whole = len(text) >= begin + length
            return (text[begin : begin + length], text[begin + length :]) if whole else (b"", b"")
    return b"", b""


# --- components


#: Kinds of components, by the package types of the purl specification.
KINDS = ("deb", "pypi", "golang", "cargo")
#: Path of the list of crates in images of Rust programs.
CARGO_LOCK = "usr/local/share/lock/Cargo.lock"
#: Paths of a file with the version of Debian's source package of the lab kernel.
_KERNEL_VERSIONS = ("linux.version", "opt/lab/linux.version")
_OS_RELEASES = ("usr/lib/os-release", "etc/os-release")
_DPKG_INFO = "var/lib/dpkg/info"
#: Folders of documents, which a slim image of Debian leaves out.
_DOCUMENTS = ("doc", "man", "info", "locale", "lintian", "bug", "doc-base")
#: Folders that are links into usr, where / and /usr are merged.
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: Limits: bytes of one text, bytes of all texts, number of files of an image.
_MOST_TEXT, _MOST_TEXTS, _MOST_FILES = 32 << 20, 512 << 20, 2_000_000
#: Characters of a distribution's metadata that are searched for its name and version.
_MOST_HEADER = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9@][\w.+~/@-]{0,254}", re.ASCII)
_VERSION = re.compile(r"[\w.+~:!-]{0,255}", re.ASCII)
_SOURCE = re.compile(r"[\w.+~:! -]{0,255}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, order=True)
class Component:
    """One package, module or crate."""

    kind: str
    """deb, pypi, golang or cargo."""
    name: str
    version: str
    """Empty where a folder replaces a Go module."""
    architecture: str = ""
    """Debian's, such as amd64."""
    source: str = ""
    """Debian's source package where it has another name or version: `openssl`, `gcc-defaults 1.220`."""
    digest: str = ""
    """Empty where there is none. deb and pypi: SHA-256 of its files' paths and digests, hexadecimal. golang: `h1:…` of
    go.sum. cargo: SHA-256 of the crate's archive, hexadecimal."""


@dataclass(frozen=True)
class Composition:
    """The components and files of an image."""

    components: tuple[Component, ...]
    """Sorted, each once."""
    files: dict[str, str]
    """Programs and shared objects of no component: path → SHA-256, hexadecimal, sorted."""
    contents: str
    """Digest of all files (`harness.engine.images.contents`)."""
    distribution: str = ""
    """ID and VERSION_ID of os-release(5): `debian-13`; empty where the image has none."""


def read_composition(reference: str) -> Composition:
    """The components of an image that Docker has. Takes some seconds. Raises EngineError."""
    with export_stream(reference) as stream:
        return composition_of_tar(stream, reference)


def composition_of_tar(stream: IO[bytes], name: str) -> Composition:
    """The components in a tar file of an image's root. `name`: of the image, for errors. Raises EngineError."""
    observer = _Observer(name)
    try:
        entries, status = tar_entries(stream, observer.observe)
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise EngineError(f"the export of the image {name} cannot be read: {error}") from error
    return _ImageParser(entries, observer, status).composition()


@dataclass
class _Observer:
    """Reads every file on its way to the digest, and keeps the texts that list components."""

    name: str
    """Of the image, for errors."""
    digests: dict[str, str] = field(default_factory=dict)
    """Path → SHA-256, hexadecimal."""
    texts: dict[str, bytes] = field(default_factory=dict)
    modules: set[Module] = field(default_factory=set)
    _bytes_kept: int = 0

    def observe(self, path: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass on the blocks of a file. EngineError where an image has suspiciously many files or texts."""
        if path in self.digests:
            raise _duplicate_error(self.name, path)
        digest, program = hashlib.sha256(), GoProgram()
        text = bytearray() if _names_components(path) else None
        for block in blocks:
            digest.update(block)
            program.feed(block)
            if text is not None:
                text += block[: max(0, _MOST_TEXT + 1 - len(text))]
            yield block
        self.digests[path] = digest.hexdigest()
        self.modules.update(program.modules())
        # A text that is too long is left out, since its end would be missing.
        if text is not None and len(text) <= _MOST_TEXT:
            self.texts[path] = bytes(text)
            self._bytes_kept += len(text)
        if self._bytes_kept > _MOST_TEXTS or len(self.digests) > _MOST_FILES:
            raise EngineError(f"the image {self.name} has too many files, or lists of packages that are too long")


def _duplicate_error(image: str, path: str) -> EngineError:
    return EngineError(f"the export of the image {image} cannot be read: it has {_escape_path(path)} twice")


def _names_components(path: str) -> bool:
    """Whether a file lists components, so that its text is needed."""
    if path in (CARGO_LOCK, *_KERNEL_VERSIONS, *_OS_RELEASES):
        return True
    folder, _, name = path.rpartition("/")
    return (folder == _DPKG_INFO and name.endswith(".list")) or (
        folder.endswith(".dist-info") and name in ("METADATA", "RECORD")
    )


class _ImageParser:
    """Derives the components from an image's entries and texts."""

    def __init__(self, entries: list[ImageEntry], observer: _Observer, status: str) -> None:
        self._entries = {entry.path: entry for entry in entries}
        self._texts, self._modules = observer.texts, observer.modules
        self._status = status
        self._contents = contents_of(entries, status).digest
        # A hard link has the digest of the file that it links to.
        by_content = {
            self._entries[path].content: sha256
            for path, sha256 in observer.digests.items()
            if self._entries[path].kind == "file"
        }
        self._digests: dict[str, str] = {}
        """Path → SHA-256 of a file, target of a link."""
        for entry in entries:
            if entry.kind == "file" and entry.content not in by_content:
                raise _duplicate_error(observer.name, entry.path)
            self._digests[entry.path] = by_content[entry.content] if entry.kind == "file" else entry.content
        self._owned: set[str] = set()
        """Paths of the files of all packages and distributions."""

    def composition(self) -> Composition:
        """All components and files."""
        components = {*self._packages(), *self._distributions(), *self._crates(), *self._kernel(), *self._go()}
        sound = sorted(item for item in components if _is_sound(item))
        files = {
            _escape_path(f"/{path}"): self._digests[path]
            for path, entry in sorted(self._entries.items())
            if is_program(entry) and is_counted(path) and path not in self._owned
        }
        return Composition(tuple(sound), files, self._contents, self._distribution())

    def _text(self, path: str) -> str:
        return self._texts.get(path, b"").decode(errors="surrogateescape")

    # --- Debian

    def _packages(self) -> Iterator[Component]:
        infos = {path.rpartition("/")[2] for path in self._entries if path.startswith(f"{_DPKG_INFO}/")}
        scripts: dict[str, list[str]] = {}
        for info in infos:
            scripts.setdefault(info.rpartition(".")[0], []).append(f"{_DPKG_INFO}/{info}")
        for fields in _paragraphs(self._status):
            name, architecture = fields.get("Package", ""), fields.get("Architecture", "")
            if not fields.get("Status", "").endswith(" installed"):
                continue
            # A package that can be installed for several architectures has its architecture in the names of its files.
            names = [stem for stem in (f"{name}:{architecture}", name) if f"{stem}.list" in infos]
            listed = self._text(f"{_DPKG_INFO}/{names[0]}.list").split("\n") if names else []
            digest = self._digest_of(self._merged(line.strip("/")) for line in listed)
            # The scripts that dpkg runs for a package are executable, but in no list.
            self._owned.update(script for stem in names for script in scripts[stem])
            source = re.sub(r"\s*\((.*)\)$", r" \1", fields.get("Source", ""))
            yield Component("deb", name, fields.get("Version", ""), architecture, source, digest)

    def _merged(self, path: str) -> str:
        """A path of a package's list → its path in the image, where `lib` may be a link to `usr/lib`."""
        top, slash, subpath = path.partition("/")
        entry = self._entries.get(top)
        if slash and top in _MERGED and entry is not None and entry.kind == "link":
            return posixpath.normpath(f"{entry.content.strip('/')}/{subpath}")
        return path

    def _kernel(self) -> Iterator[Component]:
        for path in _KERNEL_VERSIONS:
            if version := self._text(path).strip():
                yield Component("deb", "linux-source", version, "all", "linux")

    def _distribution(self) -> str:
        for path in _OS_RELEASES:
            fields = dict(line.split("=", 1) for line in self._text(path).split("\n") if "=" in line)
            name, version = (fields.get(key, "").strip("\"'") for key in ("ID", "VERSION_ID"))
            if re.fullmatch(r"[a-z0-9._-]+", name) and re.fullmatch(r"[a-z0-9._-]+", version):
                return f"{name}-{version}"
        return ""

    # --- Python, Rust, Go

    def _distributions(self) -> Iterator[Component]:
        """Python distributions, from their core metadata and RECORD (specification of installed projects)."""
        for path in [path for path in self._texts if path.endswith("/METADATA")]:
            # Name and version are among the first lines. The rest is a description.
            fields = HeaderParser().parsestr(self._text(path)[:_MOST_HEADER])
            name, version = str(fields.get("Name", "")).strip(), str(fields.get("Version", "")).strip()
            folder = PurePosixPath(path).parent
            listed = self._recorded(self._text(f"{folder}/RECORD"), str(folder.parent))
            if version:
                yield Component("pypi", name, version, digest=self._digest_of(listed))

    def _recorded(self, text: str, root: str) -> list[str]:
        """The paths of a RECORD, from the image's root; empty where it is malformed."""
        try:
            rows = [row[0] for row in csv.reader(text.splitlines()) if row]
        except csv.Error:
            return []
        # A path cannot leave the root, as in any file system.
        return [posixpath.normpath(posixpath.join("/", root, row)).lstrip("/") for row in rows]

    def _crates(self) -> Iterator[Component]:
        try:
            lock = tomllib.loads(self._text(CARGO_LOCK))
        except (ValueError, RecursionError):
            return
        packages = lock.get("package")
        for package in packages if isinstance(packages, list) else ():
            fields = package if isinstance(package, dict) else {}
            words = [fields.get(key) for key in ("name", "version", "checksum")]
            name, version, checksum = (word if isinstance(word, str) else "" for word in words)
            if _SHA256.fullmatch(checksum):
                yield Component("cargo", name, version, digest=checksum)

    def _go(self) -> Iterator[Component]:
        for module in self._modules:
            yield Component("golang", module.name, module.version, digest=module.sum if _is_sum(module.sum) else "")

    def _digest_of(self, paths: Iterable[str]) -> str:
        """SHA-256 over the sorted lines 'path NUL SHA-256, or target of a link' of the files that are in the image.

        Documents are left out, and so are the files that `harness.engine.images.contents` leaves out. Empty where no
        file is left.
        """
        present = {path for path in paths if path in self._digests}
        self._owned |= present
        lines = sorted(
            f"{path}\0{self._digests[path]}\n" for path in present if is_counted(path) and not _is_document(path)
        )
        return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest() if lines else ""


def _paragraphs(text: str) -> Iterator[Mapping[str, str]]:
    """The paragraphs of dpkg's status file: field → first line of its value."""
    for paragraph in text.split("\n\n"):
        lines = (line.partition(":") for line in paragraph.split("\n") if line[:1].strip())
        yield {name: value.strip() for name, colon, value in lines if colon}


def _is_sound(item: Component) -> bool:
    """Whether a component's name, versions and architecture are well-formed."""
    if not (_NAME.fullmatch(item.name) and _VERSION.fullmatch(item.version)):
        return False
    return bool(_SOURCE.fullmatch(item.source) and _VERSION.fullmatch(item.architecture))


def _is_document(path: str) -> bool:
    parts = path.split("/", 3)
    return parts[:2] == ["usr", "share"] and len(parts) > 3 and parts[2] in _DOCUMENTS


def _is_sum(text: str) -> bool:
    """Whether a text is a sum of go.sum: `h1:` and 32 bytes in Base64."""
    try:
        return text.startswith("h1:") and len(base64.b64decode(text[3:], validate=True)) == hashlib.sha256().digest_size
    except ValueError:
        return False


def _escape_path(path: str) -> str:
    """A path in which line breaks, tabs and control characters are escaped, since an untrusted image may have some."""
    return escape_controls(path.replace("\n", "\\n").replace("\t", "\\t"))

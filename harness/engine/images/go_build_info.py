"""What a program in Go says of itself: the modules that it was built of, and the compiler.

The Go command writes it into every program, behind a mark (Go's debug/buildinfo, runtime/debug.BuildInfo). Since Go
1.18 two texts follow the mark's 32 bytes: the version of Go, and lines of modules. Older programs are not read.
"""

from __future__ import annotations

from typing import NamedTuple

#: How a program for Linux begins (elf(5)), and how the build information does.
_ELF, _MARK = b"\x7fELF", b"\xff Go buildinf:"
#: The information stands at a multiple of so many bytes. So long is its head, in bytes.
_ALIGNMENT, _HEAD = 16, 32
#: Bit of the head's flags: the texts follow the head itself.
_INLINE = 0x2
#: Bytes that are kept behind a mark. A program of a thousand modules has 100 kB.
_MOST = 1 << 20
#: Marks in a program that are looked at. The Go tools have some in their own texts.
_MOST_MARKS = 8
#: Bytes of random numbers before and behind the lines of modules.
_SENTINEL = 16


class Module(NamedTuple):
    """One module of a program."""

    name: str
    """Its path, `github.com/quic-go/quic-go`; `stdlib` for Go itself."""
    version: str
    """`v0.55.0`; of Go itself `1.26.1`; empty where a folder replaces it."""
    sum: str
    """`h1:…`, as go.sum has it; empty where there is none."""


class GoProgram:
    """The build information of a program whose bytes come in blocks. It keeps 8 MB at most."""

    def __init__(self) -> None:
        self._position = 0
        self._tail = b""
        self._is_program: bool | None = None
        self._kept: list[bytearray] = []

    def feed(self, block: bytes) -> None:
        """Take the next bytes of the file."""
        if self._is_program is None and block:
            self._is_program = block.startswith(_ELF)
        if not self._is_program:
            return
        for kept in self._kept:
            kept.extend(block[: max(0, _MOST - len(kept))])
        # A mark may begin in the former block and end in this one.
        text = self._tail + block
        begin = self._position - len(self._tail)
        at = text.find(_MARK)
        while at >= 0 and len(self._kept) < _MOST_MARKS:
            if (begin + at) % _ALIGNMENT == 0:
                self._kept.append(bytearray(text[at : at + _MOST]))
            at = text.find(_MARK, at + 1)
        self._tail = text[-(len(_MARK) - 1) :]
        self._position += len(block)

    def modules(self) -> list[Module]:
        """The modules that the program was built of, and Go as `stdlib`; empty where it says nothing."""
        return next((modules for kept in self._kept if (modules := _modules(bytes(kept)))), [])


def _modules(text: bytes) -> list[Module]:
    """The modules of build information, which begins with its mark; empty where it is none."""
    if len(text) < _HEAD or not text[len(_MARK) + 1] & _INLINE:
        return []
    version, rest = _string(text[_HEAD:])
    lines, _ = _string(rest)
    said = version.decode(errors="replace")
    if not said.startswith("go"):
        return []
    # A version may name experiments behind a blank.
    compiler = Module("stdlib", said.removeprefix("go").partition(" ")[0], "")
    whole = len(lines) > 2 * _SENTINEL and lines[-_SENTINEL - 1 : -_SENTINEL] == b"\n"
    inner = lines[_SENTINEL:-_SENTINEL].decode(errors="replace") if whole else ""
    return [compiler, *_listed(inner)]


def _listed(text: str) -> list[Module]:
    """The modules of lines: `dep`, path, version and sum, with tabs between them; `=>` replaces the one above.

    The program's own module (`mod`) counts where it has a version: else it is the folder that it was built in.
    """
    modules: list[Module] = []
    for line in text.split("\n"):
        word, *fields = line.split("\t")
        name, version, digest = (*fields, "", "", "")[:3]
        if word in ("mod", "dep"):
            modules.append(Module(name, version, digest))
        elif word == "=>" and modules:
            # A folder has no version. Its path is the builder's own matter, so the name stays.
            modules[-1] = Module(name, version, digest) if version else Module(modules[-1].name, "", "")
    return [module for module in modules if module.name and module.version != "(devel)"]


def _string(text: bytes) -> tuple[bytes, bytes]:
    """A text behind its length (a varint of encoding/binary), and what follows; empty ones where it is cut off."""
    length = 0
    for place, byte in enumerate(text[:10]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            begin = place + 1
            whole = len(text) >= begin + length
            return (text[begin : begin + length], text[begin + length :]) if whole else (b"", b"")
    return b"", b""

"""Does an implementation do the same on every processor? What its programs are told of the host's, in virtual time.

Go's garbage collector looks through the heap in another order where there is AVX-512 (since 1.26: internal/runtime/gc
of Go's source), so that memory is given back, and work taken up, at other moments; packets that leave in between are
others. `GODEBUG` (cpu.avx512vl=off) keeps it from that. Which processor there is cannot be hidden from a program where
the host does not let CPUID fault, so that the manifest has to say it.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.engine.images.rootfs_export import RootFs
from harness.outcome.conformance import Finding
from harness.scenario.schema import Implementation

#: What a program's build information begins with; its version of Go stands 32 bytes later, behind its length in one
#: byte, where bit 1 of byte 15 is set (debug/buildinfo of Go's source).
_MAGIC, _FLAGS, _INLINE, _VERSION = b"\xff Go buildinf:", 15, 2, 32
#: The first version whose garbage collector asks for AVX-512, and parts of AVX-512 of which it wants all.
_SINCE = (1, 26)
_ASKED_FOR = ("cpu.all", "cpu.avx512vl", "cpu.avx512bw", "cpu.avx512dq")
_NUMBER = re.compile(r"go(\d+)\.(\d+)")
QUESTION = "Go's garbage collector does the same on every processor"


def findings(one: Implementation, root: RootFs) -> Iterator[Finding]:
    """An answer where an image has programs of such a Go. Raises OSError."""
    asking = {path: version for path, version in go_programs(Path(root.rootfs)).items() if _number(version) >= _SINCE}
    if not asking:
        return
    own = dict(word.split("=", 1) for word in root.environment if "=" in word)
    hidden = _hides(own | one.virtual_environment)
    seen = ", ".join(f"{path} ({version})" for path, version in asking.items())
    hint = "AVX-512 is hidden" if hidden else "write virtual_environment: {GODEBUG: cpu.avx512vl=off} in its manifest"
    yield Finding(one.name, one.roles[0], QUESTION, "holds" if hidden else "does not hold", f"{seen}: {hint}")


def go_programs(root: Path) -> dict[str, str]:
    """Path of each program of Go below a folder, as seen from there → the version of Go that built it."""
    found = {}
    for folder, _, names in os.walk(root):
        for file in (Path(folder, name) for name in sorted(names)):
            if not file.is_symlink() and file.is_file() and os.access(file, os.X_OK) and (version := go_version(file)):
                found[f"/{file.relative_to(root)}"] = version
    return dict(sorted(found.items()))


def go_version(program: Path) -> str:
    """The version of Go that built a program; empty for any other file. Raises OSError."""
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return ""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = content.find(_MAGIC)
            while at >= 0:
                head = content[at : at + _VERSION + 1]
                if len(head) > _VERSION and head[_FLAGS] & _INLINE:
                    start = at + len(head)
                    version = content[start : start + head[_VERSION]].decode(errors="replace")
                    if _NUMBER.search(version):
                        return version
                at = content.find(_MAGIC, at + 1)
    return ""


def _number(version: str) -> tuple[int, int]:
    match = _NUMBER.search(version)
    assert match is not None
    return int(match[1]), int(match[2])


def _hides(environment: Mapping[str, str]) -> bool:
    """Whether GODEBUG keeps the collector from AVX-512."""
    told = dict(word.split("=", 1) for word in environment.get("GODEBUG", "").split(",") if "=" in word)
    return any(told.get(name) == "off" for name in _ASKED_FOR)

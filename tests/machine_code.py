"""Machine code as the lab kernel looks at it before it rewrites a system call, and as a disassembler reads it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import call_sites as sites
import capstone
from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS
from elftools.elf.elffile import ELFFile

SYSCALL = b"\x0f\x05"
#: Bytes ahead of a call from which code is read, and how many places it is begun to be read at.
AHEAD, STARTS = 96, 12


def programs(root: Path) -> Iterator[Path]:
    """Programs and libraries of a root file system, each once."""
    for file in sorted(root.rglob("*")):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as stream:
                if stream.read(4) == b"\x7fELF":
                    yield file


def code_of(file: Path) -> Iterator[bytes]:
    """What a program may execute of its file."""
    with file.open("rb") as stream:
        try:
            segments = [segment for segment in ELFFile(stream).iter_segments() if segment["p_flags"] & P_FLAGS.PF_X]
            yield from [segment.data() for segment in segments if segment["p_type"] == "PT_LOAD"]
        except ELFError:
            return


def found_in(code: bytes, site: sites.Site) -> list[int]:
    """Where code of a kind stands: the places of its `syscall`."""
    return [place for place in _calls(code) if _stands_at(code, place, site)]


def _calls(code: bytes) -> Iterator[int]:
    """Where the bytes of a `syscall` stand."""
    place = code.find(SYSCALL)
    while place >= 0:
        yield place
        place = code.find(SYSCALL, place + 1)


def _stands_at(code: bytes, place: int, site: sites.Site) -> bool:
    begin = place - site.before
    here = code[max(0, begin) : begin + len(site.code)]
    alike = len(here) == len(site.code) and all(
        asked in (None, byte) for byte, asked in zip(here, site.code, strict=True)
    )
    return alike and not (site.number and _others(code, place - site.length))


def _others(code: bytes, place: int) -> bool:
    """Whether what stands ahead of `place` may be the beginning of another instruction (lab_rewrite.c, site_of)."""
    ahead = code[max(0, place - sites.OTHERS_AHEAD) : place]
    return len(ahead) < sites.OTHERS_AHEAD or ahead[-1] & 0xF0 == 0x40 or any(byte in sites.OTHERS for byte in ahead)


def as_read(code: bytes, place: int, site: sites.Site) -> Counter[str]:
    """How often code is read as what, of those readings from before a call that come to it: read by Capstone."""
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    read: Counter[str] = Counter()
    first = place - site.length
    for start in range(max(0, first - AHEAD), max(0, first - AHEAD) + STARTS):
        words = {
            at: f"{name} {rest}".strip() for at, _, name, rest in reader.disasm_lite(code[start : place + 2], start)
        }
        if place not in words:
            read["nothing" if not words or max(words) < first - 16 else "other instructions"] += 1
            continue
        moved = [re.sub(r"\b(0x[0-9a-f]+|\d+)\b", "N", words[at]) for at in sorted(words) if first <= at < place]
        read["; ".join([*moved, words[place]])] += 1
    return read

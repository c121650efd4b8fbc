"""Root file systems as `docker export` gives them, small and in memory."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

#: What a link points to; a hard link has HARD before it.
HARD = "hard:"


def tar_of(
    files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None, programs: tuple[str, ...] = ()
) -> io.BytesIO:
    """Files, then links, in this order. `programs`: paths of those that are executable."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755 if name in programs else 0o644
            archive.addfile(member, io.BytesIO(data))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type = tarfile.LNKTYPE if target.startswith(HARD) else tarfile.SYMTYPE
            member.linkname = target.removeprefix(HARD)
            archive.addfile(member)
    stream.seek(0)
    return stream


def go_program(lines: str, version: str = "go1.26.1", flags: int = 2, before: int = 64) -> bytes:
    """A program with Go's build information `before` bytes from its begin."""

    def text(content: bytes) -> bytes:
        length, head = len(content), b""
        while length >= 0x80:
            head, length = head + bytes([length & 0x7F | 0x80]), length >> 7
        return head + bytes([length]) + content

    modules = b"0" * 16 + lines.encode() + b"1" * 16 if lines else b""
    head = b"\xff Go buildinf:" + bytes([8, flags]) + bytes(16)
    return b"\x7fELF".ljust(before, b"\0") + head + text(version.encode()) + text(modules) + b"\0" * 64

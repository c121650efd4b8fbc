"""Reading artefacts: plain or gzip-compressed, complete or cut short."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_GZIP_MAGIC = b"\x1f\x8b"


def find(path: Path) -> Path | None:
    """The file itself, or the same name with `.gz`; None where neither exists."""
    packed = path.with_name(path.name + ".gz")
    return path if path.is_file() else packed if packed.is_file() else None


def read_bytes(path: Path) -> bytes:
    """The content, decompressed; of a truncated gzip stream (RFC 1952) what can be had. Raises OSError."""
    data = path.read_bytes()
    if not data.startswith(_GZIP_MAGIC):
        return data
    parts = []
    while data.startswith(_GZIP_MAGIC):
        stream = zlib.decompressobj(wbits=31)
        try:
            parts.append(stream.decompress(data))
        except zlib.error:
            break
        data = stream.unused_data
    return b"".join(parts)


def read_whole_lines(path: Path) -> bytes:
    """The content up to the last newline: a row cut short could hold a wrong number. Raises OSError."""
    data = read_bytes(path)
    return data[: data.rfind(b"\n") + 1]


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a JSON-lines file; lines that are not JSON objects are skipped. Raises OSError."""
    for line in read_bytes(path).splitlines():
        try:
            value = json.loads(line)
        except ValueError:  # a line cut short, or not UTF-8
            continue
        if isinstance(value, dict):
            yield value

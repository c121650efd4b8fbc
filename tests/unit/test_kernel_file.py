"""A lab kernel that is not what was exported is named before it runs, and when a guest ended without a word."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

import pytest

from harness.engines.kernel_file import KernelFile
from harness.errors import EngineError


def elf(body: bytes = b"a kernel" * 100) -> bytes:
    """A program whose table of sections, three entries of 64 bytes, is its last part."""
    offset = 64 + len(body)
    head = struct.pack("<16s2HI3QI6H", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 0, offset, 0, 64, 56, 0, 64, 3, 0)
    return head + body + bytes(3 * 64)


@pytest.fixture
def kernel(tmp_path: Path) -> KernelFile:
    (tmp_path / "linux").write_bytes(elf())
    return KernelFile(tmp_path / "linux", tmp_path)


def _reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []

    def digest(file: Path) -> str:
        read.append(file)
        return hashlib.sha256(file.read_bytes()).hexdigest()

    monkeypatch.setattr("harness.engines.kernel_file.file_digest", digest)
    return read


def test_a_sound_file_is_read_once(kernel: KernelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    read = _reads(monkeypatch)
    expected = hashlib.sha256(elf()).hexdigest()
    assert [kernel.digest() for _ in range(3)] == [expected] * 3
    assert len(read) == 1
    # A copy has another time, and is the same file.
    os.utime(kernel.file, (1, 1))
    assert [kernel.digest() for _ in range(2)] == [expected] * 2
    assert len(read) == 2
    kernel.verify()


@pytest.mark.parametrize("keep", [0, 40, 64, 500, -1])
def test_a_truncated_file_is_named_with_what_to_delete(kernel: KernelFile, keep: int) -> None:
    kernel.digest()
    kernel.file.write_bytes(elf()[:keep])
    with pytest.raises(EngineError, match="the lab kernel is damaged") as caught:
        kernel.digest()
    assert str(kernel.file) in caught.value.message
    assert f"delete {kernel.file.parent}" in caught.value.hint


@pytest.mark.parametrize("content", [elf()[:-1], elf()[:60], b"#!/bin/sh\n", b""])
def test_one_that_was_never_whole_is_not_noted(kernel: KernelFile, content: bytes) -> None:
    kernel.file.write_bytes(content)
    for _ in range(2):
        with pytest.raises(EngineError, match="the lab kernel is damaged"):
            kernel.digest()


def test_damage_that_shows_neither_in_size_nor_in_time_is_found_on_suspicion(kernel: KernelFile) -> None:
    kernel.digest()
    times = kernel.file.stat()
    kernel.file.write_bytes(elf(b"a KERNEL" * 100))
    os.utime(kernel.file, ns=(times.st_atime_ns, times.st_mtime_ns))
    kernel.digest()
    with pytest.raises(EngineError, match="the lab kernel is damaged"):
        kernel.verify()


def test_a_file_that_is_gone_is_named(kernel: KernelFile) -> None:
    kernel.digest()
    kernel.file.unlink()
    for ask in (kernel.digest, kernel.verify):
        with pytest.raises(EngineError, match="No such file"):
            ask()

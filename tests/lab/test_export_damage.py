"""Exported images that come to harm: the ground has it, the export is made anew, and the run is what it would have been."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.engine.virtual.engine import HOST_CPU
from tests.examples import ROOT
from tests.lab.conftest import Harness, own_cache

#: hlt (Intel's manual, volume 2A): a program that comes to it is ended by SIGSEGV.
_HALT = 0xF4
#: Elf64_Ehdr: e_entry, e_phoff, e_phnum; Elf64_Phdr: p_type, p_offset, p_vaddr, p_filesz; PT_LOAD (System V ABI).
_ENTRY, _HEADERS, _COUNT, _HEADER, _LOAD = 24, 32, 56, 56, 1


def delete_library(root: Path) -> str:
    library = next(file for file in sorted(root.rglob("libnghttp3.so.9*")) if not file.is_symlink())
    library.unlink()
    return f"{library.relative_to(root)} is missing"


def halt_client(root: Path) -> str:
    """A byte of the client is another, where it begins; its time and its size are as they were."""
    program = root / "usr/bin/gtlsclient"
    status, beside, content = program.stat(), program.parent.stat(), bytearray(program.read_bytes())
    (entry,), (headers,) = struct.unpack_from("<Q", content, _ENTRY), struct.unpack_from("<Q", content, _HEADERS)
    (count,) = struct.unpack_from("<H", content, _COUNT)
    for number in range(count):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", content, headers + number * _HEADER)
        if kind == _LOAD and address <= entry < address + size:
            content[entry - address + offset] = _HALT
    # The file in the cache of all has this name, too.
    program.unlink()
    program.write_bytes(content)
    program.chmod(status.st_mode & 0o7777)
    os.utime(program, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.utime(program.parent, ns=(beside.st_atime_ns, beside.st_mtime_ns))
    return "usr/bin/gtlsclient was changed"


def cut_kernel(root: Path) -> str:
    kernel = root / "opt/lab/linux"
    content = kernel.read_bytes()
    kernel.unlink()
    kernel.write_bytes(content[: len(content) // 2])
    kernel.chmod(0o755)
    return "opt/lab/linux was changed"


def _run(
    harness: Harness, cache: Path, store: str, **overrides: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    words = (harness.scenario("short", flows=[{"download": "100 kB"}], milestones=["100 kB"]), "--clients", "ngtcp2",
             "--servers", "ngtcp2", "--repeat", "1", "--engine", "virtual", "--no-figures")  # fmt: skip
    process = subprocess.run(
        [sys.executable, "-m", "harness.cli", "run", *words, "--store", str(harness.folder / store)],
        capture_output=True, text=True, cwd=ROOT, timeout=300, check=False,
        env={**os.environ, "HARNESS_CACHE": str(cache), **overrides},
    )  # fmt: skip
    runs = [json.loads(file.read_text()) for file in (harness.folder / store).glob("runs/*/0/run.json")]
    return process, runs[0] if runs else {}


def _other_warnings(run: dict[str, Any]) -> list[str]:
    """What a run says, but for what a machine without CPUID faulting says of every run."""
    return [warning for warning in run["warnings"] if warning != HOST_CPU]


@pytest.mark.parametrize("damage", [delete_library, halt_client, cut_kernel])
def test_a_damaged_export_is_made_anew_and_the_run_is_right(
    warm: Harness, harness: Harness, damage: Callable[[Path], str]
) -> None:
    cache = own_cache(harness.folder / "cache", "ngtcp2")
    _, sound = _run(harness, cache.folder, "sound")
    assert sound["outcome"]["status"] == "completed" and _other_warnings(sound) == []
    part = "opt/lab/linux" if damage is cut_kernel else "usr/bin/gtlsclient"
    (root,) = (file.parents[len(Path(part).parts) - 1] for file in cache.roots.glob(f"*/rootfs/{part}"))
    words = damage(root)

    process, again = _run(harness, cache.folder, "damaged")
    assert again["outcome"]["status"] == "completed", process.stderr
    assert again["captures"] == sound["captures"]
    (text,) = _other_warnings(again)
    assert words in text and str(root.parent) in text


def test_a_damaged_export_that_cannot_be_made_anew_is_the_ground_s(warm: Harness, harness: Harness) -> None:
    cache = own_cache(harness.folder / "cache", "ngtcp2")
    (client,) = cache.roots.glob("*/rootfs/usr/bin/gtlsclient")
    words = halt_client(client.parents[2])
    process, stored = _run(harness, cache.folder, "store", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert (process.returncode, stored) == (3, {})
    assert words in process.stderr and "start Docker" in process.stderr

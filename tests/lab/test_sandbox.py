"""What a program that has left its guest gets at: nothing of the host but its own folders, however it was entered."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.engine.virtual.sandbox import VARIABLE
from harness.engine.virtual.uml_guest import Guest, GuestEnd
from tests.escapes import AT_CWD, ATTEMPTS, ENDED, OPENAT, Attempt, init
from tests.lab.conftest import CACHE
from tests.lab.test_kernels import BEGIN
from tests.lab.test_virtual_links import simulator_rootfs
from tools.bench.entries import python_init

ENTRIES = ("host", "trap", "inproc")


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return simulator_rootfs()


def escape(rootfs: Path, folder: Path, attempts: tuple[Attempt, ...], entry: str) -> tuple[GuestEnd, list[int | str]]:
    """How a guest ended that makes these attempts, and what came of each: a result, or ENDED for the last one made."""
    folder.mkdir()
    values: dict[str, int | str] = {
        "@neighbour": str(folder.parent), "@cache": str(CACHE / "escaped"), "@harness": os.getpid()
    }  # fmt: skip
    guest = Guest(rootfs / "opt/lab/linux", rootfs, memory_mib=256, seed=1, start_ns=10**18, core=0)
    console = folder / "console.log"
    end = guest.run(
        python_init(BEGIN + init(attempts, values)), folder, console, stall=60, phase=lambda word: None,
        settings={"LAB_ENTRY": entry},
    )  # fmt: skip
    lines = console.read_text().splitlines()
    assert any(line.startswith("trying ") for line in lines), lines
    results: list[int | str] = [int(line.split()[2]) for line in lines if line.startswith("result ")]
    if any("lost the process of the host behind" in line and "Bad system call" in line for line in lines):
        results.append(ENDED)
    return end, results


def escapes(rootfs: Path, folder: Path, entry: str) -> dict[str, int | str]:
    """What came of each attempt; one that ends its guest has one of its own."""
    answered = tuple(attempt for attempt in ATTEMPTS if entry != "host" and attempt.result != ENDED)
    groups = [answered] if answered else []
    groups += [(attempt,) for attempt in ATTEMPTS if attempt not in answered]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        done = threads.map(
            lambda item: escape(rootfs, folder / str(item[0]), item[1], entry)[1], enumerate(groups)
        )  # fmt: skip
        return {
            attempt.does: result
            for group, results in zip(groups, done, strict=True)
            for attempt, result in zip(group, results, strict=True)
        }


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_program_that_has_left_its_guest_gets_at_nothing(rootfs: Path, tmp_path: Path, entry: str) -> None:
    results = escapes(rootfs, tmp_path, entry)
    # Entered from another process it has a few calls by which its memory is mapped, and the lab kernel's filter ends it.
    wanted = {
        attempt.does: {ENDED}
        if entry == "host"
        else {item if isinstance(item, str) else -item for item in attempt.fits}
        for attempt in ATTEMPTS
    }
    assert {does: result for does, result in results.items() if result not in wanted[does]} == {}
    assert results.keys() == wanted.keys()
    for place in (Path("/escaped"), Path("/tmp/escaped"), rootfs / "escaped", CACHE / "escaped"):
        assert not place.exists()


def test_without_the_sandbox_it_gets_at_the_host(rootfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The door that is tried is one: nothing else keeps a program from the host."""
    monkeypatch.setenv(VARIABLE, "off")
    place = tmp_path / "escaped"
    attempt = Attempt("makes a file", OPENAT, (AT_CWD, str(place), os.O_CREAT | os.O_WRONLY, 0o666), errno.ENOENT)
    end, (result,) = escape(rootfs, tmp_path / "guest", (attempt,), "inproc")
    assert isinstance(result, int) and result > 0 and place.exists()
    assert end.sandbox == "off"

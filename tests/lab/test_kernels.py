"""The lab kernel mapped into its programs' processes: the same bytes as beside them, and nothing it has is harmed."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from harness.cli.environment import open_app
from harness.engine.virtual.engine import PANIC, UNPROTECTED
from harness.engine.virtual.uml_guest import Guest, GuestEnd
from tests.examples import ROOT
from tests.lab.conftest import Harness, Manifest
from tests.lab.test_faults import faulty_image
from tests.lab.test_virtual_links import simulator_rootfs
from tests.polling import wait_for
from tools.bench import entries
from tools.bench.session import Line

#: How an init begins that wants to be heard.
BEGIN = r"""
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)
for name in (b"proc", b"devtmpfs"):
    libc.mount(name, b"/dev" if name == b"devtmpfs" else b"/proc", name, 0, None)
console = os.open("/dev/console", os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(console, number)
sys.stdout = open(1, "w", buffering=1, closefd=False)
"""
#: Each in a process of its own: what became of it.
WILD = r"""
libc.mmap.restype = libc.brk.restype = ctypes.c_long
libc.mmap.argtypes = [ctypes.c_long] * 6
libc.brk.argtypes = [ctypes.c_long]

def tried(name, act):
    child = os.fork()
    if child == 0:
        os._exit(act() or 0)
    status = os.waitpid(child, 0)[1]
    print(name, os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)

entry = open("/proc/lab/entry").read().splitlines()[0]
print("entry", entry, flush=True)
symbols = {line.split()[2]: int(line.split()[0], 16) for line in open("/proc/kallsyms")}
# Behind the kernel's image is the memory of its guest, its own included.
own = symbols["_stext"] + (64 << 20) & ~0xFFF
tried("code", lambda: ctypes.memset(symbols["_stext"], 0x55, 8) and 7)
tried("constants", lambda: ctypes.memset(symbols["__start_rodata"], 0x55, 8) and 7)
if "keys" in entry or entry == "host":
    tried("memory", lambda: ctypes.memset(own, 0x55, 8) and 7)
    tried("secrets", lambda: len(ctypes.string_at(own, 8)))
tried("null", lambda: ctypes.memset(8, 0x55, 8) and 7)
tried("low", lambda: ctypes.memset(0x60000000, 0x55, 8) and 7)
tried("stack", lambda: ctypes.memset(0x7F8000001000, 0x55, 8) and 7)
tried("between", lambda: ctypes.memset(0x7FA000000000, 0x55, 8) and 7)
tried("end", lambda: ctypes.memset(0x7FFFFFEFD000, 0x55, 8) and 7)
tried("fixed", lambda: 7 if libc.mmap(own, 4096, 3, 0x32, -1, 0) != -1 else ctypes.get_errno())
tried("brk", lambda: 7 if libc.brk(own) == 0 else ctypes.get_errno())
print("alive", flush=True)
"""
#: A program of a guest that writes into the kernel's data again and again. The C library's own there are not in use.
OVERWRITES = r"""
place = PLACE
if os.fork() == 0:
    for number in range(1_000_000):
        ctypes.memset(place, number & 255, 1)
        os.getppid()
    os._exit(0)
os.wait()
print("alive", flush=True)
"""
#: A guest that waits for its end.
WAITS = "print('@0 transfer', flush=True)\nwhile True: os.getpid()"


def run_guest(
    tmp_path: Path, program: str, entry: str, event: threading.Event | None = None
) -> tuple[GuestEnd, list[str]]:
    """How a guest of a small program ended, and what it printed."""
    rootfs = simulator_rootfs()
    guest = Guest(rootfs / "opt/lab/linux", rootfs, memory_mib=256, seed=1, start_ns=10**18, core=0)
    console = tmp_path / "console.log"
    end = guest.run(
        entries.python_init(BEGIN + program), tmp_path, console, stall=60,
        phase=lambda word: event.set() if event and word == "transfer" else None, settings={"LAB_ENTRY": entry},
    )  # fmt: skip
    return end, console.read_text().splitlines()


def _processes(own: int) -> list[int]:
    """Processes of the host behind the programs of guests that this process has started."""
    pids = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            name = (folder / "comm").read_text().strip()
            if name == "uml-userspace" and own in _ancestors(int(folder.name)):
                pids.append(int(folder.name))
        except (OSError, IndexError):
            continue
    return pids


def _ancestors(process: int) -> Iterator[int]:
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        yield process


def test_both_ways_of_entering_programs_give_the_same_bytes(warm: Harness) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tools.bench", "--kernels", "host", "inproc", "--most", "6", "--json"],
        capture_output=True, text=True, cwd=ROOT, timeout=600, check=False,
    )  # fmt: skip
    assert process.stdout, process.stderr
    comparison = json.loads(process.stdout)
    assert process.returncode == 0, comparison
    assert comparison["same"] == len(comparison["cells"]) == 6
    assert all(not cell["differs"] for cell in comparison["cells"])
    assert len({cell[role] for cell in comparison["cells"] for role in ("client", "server")}) > 2


def test_primitives_of_both_ways_are_timed(warm: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "TURNS", 1)
    few = {name: (max(2, count // 1000), text) for name, (count, text) in entries.PRIMITIVES.items()}
    monkeypatch.setattr(entries, "PRIMITIVES", few)
    lines: list[Line] = []
    entries.Entries(open_app(), Console(quiet=True), tmp_path, lines).primitives()
    assert [line["name"] for line in lines] == [
        f"{text}, {name}" for _, text in few.values() for name in entries.ENTERED
    ]  # fmt: skip
    assert all(line["median"] >= 0 for line in lines)


@pytest.mark.parametrize("entry", ["host", "trap", "inproc", "unprotected"])
def test_a_wild_pointer_finds_nothing_of_the_kernel(warm: Harness, tmp_path: Path, entry: str) -> None:
    _, lines = run_guest(tmp_path, WILD, entry)
    answers = dict(line.split(" ", 1) for line in lines if " " in line and not line.startswith("["))
    assert "alive" in lines, lines
    assert answers["entry"].split()[0] == entry.replace("unprotected", "inproc")
    assert entry not in ("host", "unprotected") or "keys" not in answers["entry"]
    unwritable = ["code", "constants", "null", "low", "stack", "between", "end"]
    if "keys" in answers["entry"] or entry == "host":
        # Without protection keys a program can write the kernel's own data.
        unwritable += ["memory", "secrets"]
    assert {name: answers[name] for name in unwritable} == dict.fromkeys(unwritable, str(int(signal.SIGSEGV)))
    # ENOMEM
    assert (answers["fixed"], answers["brk"]) == ("12", "12")


def data_end(kernel: Path) -> int:
    """Where the data of a lab kernel end: the last segment of its file (elf(5))."""
    content = kernel.read_bytes()
    table, size, count = *struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54)
    end = 0
    for number in range(count):
        kind, _, _, address, _, _, length, _ = struct.unpack_from("<IIQQQQQQ", content, table + number * size)
        if kind == 1:  # PT_LOAD
            end = max(end, int(address + length))
    return end


def test_an_unprotected_kernel_ends_when_a_program_overwrites_its_data(warm: Harness, tmp_path: Path) -> None:
    place = data_end(simulator_rootfs() / "opt/lab/linux") - 256
    end, lines = run_guest(tmp_path, OVERWRITES.replace("PLACE", str(place)), "unprotected")
    assert not end.said_over
    assert UNPROTECTED in end.entered
    assert "alive" not in lines
    assert any(f"{PANIC}: " in line and "python3 wrote into the kernel's memory" in line for line in lines), lines


@pytest.mark.parametrize("entry", ["host", "inproc"])
def test_a_killed_process_ends_the_run_with_its_name(warm: Harness, tmp_path: Path, entry: str) -> None:
    event, result = threading.Event(), []
    runner = threading.Thread(target=lambda: result.append(run_guest(tmp_path, WAITS, entry, event)))
    runner.start()
    assert event.wait(60)
    wait_for(lambda: _processes(os.getpid()))
    os.kill(_processes(os.getpid())[0], signal.SIGKILL)
    runner.join(60)
    ((end, lines),) = result
    assert not end.said_over
    assert not end.spun
    assert any("Kernel panic - not syncing: lost the process of the host behind" in line for line in lines), lines
    assert any(": python3" in line and "Killed" in line for line in lines), lines


def test_a_clock_that_stands_still_names_the_program_when_the_kernel_is_in_its_process(
    warm: Harness, harness: Harness, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_STALL", "3")
    monkeypatch.setenv("HARNESS_ENTRY", "inproc")
    file = manifest("spins", faulty_image("client-spin"), protocols=["h3"])
    short = {"flows": [{"download": "100 kB"}], "milestones": ["100 kB"]}
    words = ("--clients", "spins", "--servers", "ngtcp2", "--manifest", str(file), "--repeat", "1")
    spins = harness.cell(harness.scenario("fault", **short), *words, "--engine", "virtual")
    assert spins["outcomes"] == {"infrastructure": 1}
    assert "the clock stood still for 3 s" in spins["sentence"]
    assert "client0: /misbehave.sh" in spins["sentence"]

"""System calls that a guest's programs make by a jump: only where the code is known, and nothing else is other."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import call_sites as sites

from harness.engine.images.cache import Cache
from harness.engine.images.rootfs_export import RootFileSystems
from tests.examples import catalogue
from tests.lab.conftest import CACHE, Harness
from tests.lab.test_kernels import run_guest
from tests.machine_code import as_read, code_of, found_in, programs

#: What each kind of code moves, as a disassembler says it.
MOVED = {
    "number": ["mov eax, N"],
    "one thread": ["mov rax, qword ptr [rsp + N]"],
    "cancellable": ["mov qword ptr [rsp + N], r11"],
    "syscall(3)": ["mov r9, qword ptr [rsp + N]"],
    "Go": ["mov rsi, rcx", "mov rdi, rbx"],
}
#: Images whose programs run in a guest: the implementations and the simulator.
_GUESTS = {"sim", *catalogue().implementations()}
#: Calls by jump do what they do by signal. The same words in every way of entering, the counts apart.
CALLS = r"""
import errno, signal, struct, threading, time

libc.syscall.restype = ctypes.c_long
handled = []

def often(act, times=200):
    return [act() for _ in range(times)][-1]

# Errors, results, and a call that is refused.
os.getppid()
print("pid", often(os.getppid), flush=True)
print("closed", often(lambda: libc.close(99)), ctypes.get_errno(), flush=True)
read, write = os.pipe()
print("pipe", often(lambda: os.write(write, b"abc") and os.read(read, 3)), flush=True)
print("by number", often(lambda: libc.syscall(39)), often(lambda: libc.syscall(9999)), ctypes.get_errno(), flush=True)

# A call that a signal breaks off is restarted from the same place, as SA_RESTART says, and is broken off for good without.
signal.signal(signal.SIGALRM, lambda signum, frame: handled.append(signum))
for again in (True, False):
    signal.siginterrupt(signal.SIGALRM, not again)
    child = os.fork()
    if child == 0:
        time.sleep(1.6)
        os.write(write, b"end")
        os._exit(0)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    print("restarted" if again else "retried", os.read(read, 3), flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.waitpid(child, 0)
    print("handled", len(handled), flush=True)
    handled.clear()
often(lambda: time.sleep(0.001))
child = os.fork()
if child == 0:
    time.sleep(0.3)
    os._exit(often(os.getppid) & 0x7F)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

# Two threads hand over to each other: both are in calls of the same code.
others, turns = os.pipe(), os.pipe()
def echo():
    for _ in range(300):
        os.write(turns[1], os.read(others[0], 1))
thread = threading.Thread(target=echo)
thread.start()
for number in range(300):
    os.write(others[1], bytes([number % 256]))
    assert os.read(turns[0], 1) == bytes([number % 256])
thread.join()
print("threads", "done", flush=True)

# Where the jumps lead nobody maps anything, and nobody writes.
libc.mmap.restype = ctypes.c_long
libc.mmap.argtypes = [ctypes.c_long] * 6
print("slots", libc.mmap(0x50F0000, 4096, 3, 0x32, -1, 0), ctypes.get_errno(), flush=True)
print("unmapped", libc.munmap(ctypes.c_long(0x50F0000), 4096), ctypes.get_errno(), flush=True)
child = os.fork()
if child == 0:
    ctypes.memset(0x50F0000, 0, 8)
    os._exit(7)
print("written", os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
print("after all", often(os.getppid), flush=True)
print("entry", open("/proc/lab/entry").read().replace("\n", " "), flush=True)
"""


def _guest_output(tmp_path: Path, entry: str) -> tuple[list[str], str]:
    """(what programs saw, how they were entered)."""
    lines = [line for line in run_guest(tmp_path, CALLS, entry)[1] if line and not line.startswith("[")]
    seen = [line for line in lines if not line.startswith("entry ")]
    return seen, next((line for line in lines if line.startswith("entry ")), "\n".join(lines))


def test_a_call_by_jump_does_what_it_does_by_signal(warm: Harness, tmp_path: Path) -> None:
    outputs = {entry: _guest_output(tmp_path, entry) for entry in ("host", "trap", "inproc")}
    assert outputs["inproc"][0] == outputs["trap"][0] == outputs["host"][0]
    seen = dict(line.split(" ", 1) for line in outputs["inproc"][0] if " " in line)
    assert seen["pipe"] == "b'abc'"
    assert seen["closed"] == "-1 9"
    assert seen["by"] == "number 1 -1 38"
    assert seen["restarted"] == seen["retried"] == "b'end'"
    # Python's own handler runs when a call has come back: once, or for each of the three that were broken off.
    assert [line for line in outputs["inproc"][0] if line.startswith("handled")] == ["handled 1", "handled 3"]
    # EPERM: the mapping is sealed.
    assert (seen["slots"], seen["unmapped"], seen["written"]) == ("-1 1", "-1 1", "11")
    assert seen["after"] == "all 0"
    counts = {entry: [int(number) for number in re.findall(r"\d+", words)] for entry, (_, words) in outputs.items()}
    assert counts["host"] == [0, 0, 0]
    jumped, trapped, places = counts["trap"]
    assert (jumped, places) == (0, 0)
    assert trapped > 2000
    jumped, trapped, places = counts["inproc"]
    assert jumped > trapped
    assert places >= 4


def test_what_is_rewritten_is_what_was_meant_in_every_image(warm: Harness) -> None:
    """Of every image whose programs run in a guest."""
    words = ["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "--filter", "reference=quic-lab/*"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    # The newest of each: a machine that builds for weeks has many.
    newest = {reference.partition(":")[0]: reference for reference in reversed(listed)}
    references = [reference for name, reference in newest.items() if name.partition("/")[2] in _GUESTS]
    assert len(references) > 2
    seen: set[bytes] = set()
    count: Counter[str] = Counter()
    wrong: list[str] = []
    with RootFileSystems(Cache(CACHE)).use(references) as exported:
        for root in exported.roots.values():
            for file in programs(Path(root.rootfs)):
                # The lab kernel has the table of all kinds, and is no program of a guest.
                if file.match("opt/lab/linux"):
                    continue
                for code in code_of(file):
                    if code in seen:
                        continue
                    seen.add(code)
                    for site in sites.SITES:
                        for place in found_in(code, site):
                            count[site.name] += 1
                            meant = "; ".join([*MOVED[site.name], "syscall"])
                            read = as_read(code, place, site)
                            classified = read.total() - read["nothing"]
                            if read[meant] < classified or not classified:
                                wrong.append(f"{file.name} at {place:#x}, {site.name}: {dict(read)}")
    assert not wrong
    # The C library alone has 300.
    assert count["number"] > 500
    assert all(count[site.name] for site in sites.SITES if site.name != "Go"), count

"""CPU and peak memory of commands that only read: what somebody waits for between two runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from harness.cli.environment import REFERENCE
from harness.errors import EngineError
from tools.bench.session import Session, line

#: How often each command runs, after a first one that derives what is kept (`harness.derived`).
TURNS = 5
#: What each command should take at most: seconds of CPU, and bytes of memory.
CPU, MEMORY = 0.7, 150e6
#: The commands, as a person types them.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("plan", "satellite/medium", "--clients", "ngtcp2", "--servers", "picoquic"),
    ("report", "satellite/medium", "--store", str(REFERENCE)),
)


@dataclass(frozen=True)
class Usage:
    """What a process, and those that it waited for, took."""

    cpu: float
    """Seconds in user and system mode."""
    peak: float
    """Most bytes of memory of one of them at a time (ru_maxrss, getrusage(2))."""


#: A small process that starts the command: a new process inherits the peak of the one that starts it (`exec_mmap` in
#: fs/exec.c), and that of this one is large.
_STARTER = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
spent = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, spent.ru_utime + spent.ru_stime, spent.ru_maxrss)
"""


def usage_of(words: Sequence[str]) -> Usage:
    """Run `harness` with these words, its output thrown away. EngineError where it fails."""
    command = [sys.executable, "-S", "-c", _STARTER, sys.executable, "-m", "harness.cli", *words]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    status, cpu, peak = printed.split()
    if status != "0":
        raise EngineError(f"'harness {' '.join(words)}' ended with {status}", "run it by hand: it says why")
    # Linux counts in KiB.
    return Usage(float(cpu), int(peak) * 1024)


class Commands(Session):
    """CPU and peak memory of commands."""

    def run(self) -> None:
        """Run each command several times, in turn, so that a busy moment of the machine meets all."""
        usages: dict[tuple[str, ...], list[Usage]] = {words: [] for words in COMMANDS}
        for turn in range(1 + TURNS):
            for words in COMMANDS:
                usage = usage_of(words)
                if turn:
                    usages[words].append(usage)
        self.console.print("CPU and peak memory of commands")
        for words, turns in usages.items():
            name = " ".join(words[:2])
            self.say(line(f"harness {name}: CPU", [item.cpu for item in turns], "s", f"≤ {CPU}"))
            peaks = [item.peak / 1e6 for item in turns]
            self.say(line("  peak memory", peaks, "MB", f"≤ {MEMORY / 1e6:.0f}"))

"""The sandbox restricts a lab kernel, and whatever escapes from its guest, to its own folders.

Its program, images/lab-kernel/sandbox.c, is part of the simulator's image. Which of its layers a host offers is tried
once for each kind of file system that a guest's folders are on, since not all of them support idmapped mounts.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import EngineError

#: Path of the program in the simulator's image.
PROGRAM = "opt/lab/sandbox"
#: User IDs of the host from here on are unused: systemd-nspawn(1) and newuidmap(1) allocate lower ones.
BASE = 0x7F000000
#: Environment variable; with `off` guests have all rights of the harness.
VARIABLE = "HARNESS_SANDBOX"
#: Bytes of a guest's memory file system beside its memory: its kernel, and the kernel's own files.
ROOM = 64 << 20
#: Size of the largest file that a guest may write, bytes, unless its memory is larger.
LARGEST_FILE = 64 << 30
#: Seconds that a trial may take.
_LONGEST = 20
#: Exit code of a program that could not start the kernel.
FAILED = 125


@dataclass(frozen=True)
class SharedFolder:
    """A folder of the host that a guest has access to."""

    folder: Path
    writable: bool = False


@dataclass(frozen=True)
class Sandbox:
    """The layers that a host offers."""

    options: tuple[str, ...]
    missing: tuple[str, ...]
    """Layers that it does not offer: 'layer: what was tried: reason'."""

    @property
    def own_memory(self) -> bool:
        """Whether guests keep their memory in a file system of their own."""
        return "--namespaces" not in self.options

    @property
    def text(self) -> str:
        """Text for a run's record."""
        return "; ".join(("on", *(f"without {part}" for part in self.missing)))


class Sandboxes:
    """The sandboxes that this host offers, tried once."""

    def __init__(self) -> None:
        self._tried: dict[object, Sandbox] = {}
        self._lock = threading.Lock()

    def of(self, program: Path, kernel: Path, places: Mapping[str, SharedFolder]) -> Sandbox:
        """The layers for guests with these folders. EngineError where there is not even a filter of system calls."""
        key = program, frozenset((place.folder.stat().st_dev, place.writable) for place in places.values())
        with self._lock:
            if key not in self._tried:
                self._tried[key] = _try_layers(program, kernel, places)
            return self._tried[key]


#: The sandboxes of this process.
SANDBOXES = Sandboxes()


def is_enabled() -> bool:
    """Whether guests are sandboxed: not where HARNESS_SANDBOX is 'off'. EngineError for other values."""
    word = os.environ.get(VARIABLE) or "on"
    if word not in ("on", "off"):
        raise EngineError(f"{VARIABLE}: '{word}' is neither 'on' nor 'off'", "leave it out: then it is on")
    return word == "on"


def sandbox_command(
    program: Path,
    sandbox: Sandbox,
    kernel: list[str],
    places: Mapping[str, SharedFolder],
    memory: int,
    core: int,
    report: int,
) -> list[str]:
    """The command line that starts a kernel.

    `memory`: bytes of its guest; `report`: a file descriptor for the kernel's report about itself.
    """
    return [
        str(program),
        *_folders(places),
        "--memory",
        str(memory + ROOM),
        "--file",
        str(max(memory, LARGEST_FILE)),
        "--core",
        str(core),
        "--report",
        str(report),
        *sandbox.options,
        "--",
        *kernel,
    ]


def _folders(places: Mapping[str, SharedFolder]) -> Iterator[str]:
    for name, place in places.items():
        yield "--writable" if place.writable else "--folder"
        yield f"{name}={place.folder.resolve()}"


def _choices() -> Iterator[tuple[str, ...]]:
    """The options that are tried, the best first."""
    if os.geteuid() == 0:
        yield "--base", str(BASE)
        yield "--base", "0"
    else:
        yield ()
    yield "--namespaces", "no"


def _try_layers(program: Path, kernel: Path, places: Mapping[str, SharedFolder]) -> Sandbox:
    reasons: list[str] = []
    stderr = ""
    for options in _choices():
        words = [*_folders(places), "--memory", str(ROOM), "--file", str(LARGEST_FILE), "--try", "yes", "--report", "1"]
        try:
            completed = subprocess.run(
                [str(program), *words, *options, "--", str(kernel)],
                capture_output=True,
                text=True,
                timeout=_LONGEST,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise _sandbox_error(f"{program}: {error}") from error
        lines = completed.stdout.splitlines()
        if completed.returncode == 0:
            return Sandbox(options, (*reasons, *lines))
        reasons += [line for line in lines if line not in reasons]
        stderr = completed.stderr.strip()
    raise _sandbox_error(stderr)


def _sandbox_error(reason: str) -> EngineError:
    return EngineError(
        f"guests of virtual time cannot be confined on this machine: {reason}",
        f"{VARIABLE}=off runs them with all rights of yours: only with images that you trust",
    )

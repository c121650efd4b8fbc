"""Running commands, and saying which one failed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TextIO


class CommandError(Exception):
    """A command failed; the text has the command and what it printed."""


def run(command: Iterable[str]) -> str:
    """Standard output of a command. CommandError when it fails."""
    words = list(command)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"{' '.join(words)}: {done.stderr.strip() or f'exit {done.returncode}'}")
    return done.stdout


def run_program(commands: list[list[str]]) -> None:
    """Run commands in order, neighbouring ones of one tool as a batch (a process each costs)."""
    start = 0
    while start < len(commands):
        tool = commands[start][0]
        end = start
        while end < len(commands) and commands[end][0] == tool:
            end += 1
        _TOOLS.get(tool, _run_batch)(tool, commands[start:end])
        start = end


def _run_batch(tool: str, commands: list[list[str]]) -> None:
    text = "".join(" ".join(command[1:]) + "\n" for command in commands)
    done = subprocess.run([tool, "-batch", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    # "Command failed -:3" names the line.
    number = done.stderr.rpartition("Command failed -:")[2].strip()
    line = " ".join(commands[int(number) - 1]) if number.isdigit() else f"{len(commands)} commands"
    raise CommandError(f"{line}: {done.stderr.strip()}")


def _run_nft(tool: str, commands: list[list[str]]) -> None:
    """Rules of nftables: all of them, or none."""
    run((tool, "\n".join(" ".join(command[1:]) for command in commands)))


def _forget(tool: str, commands: list[list[str]]) -> None:
    """Forget connections. Where there is none there is nothing to forget, which conntrack calls a failure."""
    for command in commands:
        try:
            run(command)
        except CommandError as error:
            if "0 flow entries have been deleted" not in str(error):
                raise


#: Tools that have ways of their own.
_TOOLS: dict[str, Callable[[str, list[list[str]]], None]] = {"nft": _run_nft, "conntrack": _forget}


class Events:
    """The simulator's diary: one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", buffering=1)

    def write(self, event: str, **fields: object) -> None:
        """Add one event with the time it happened (`t`, seconds since the epoch): now, unless the fields say when."""
        record: Mapping[str, object] = {"event": event, "t": time.time(), **fields}
        self._file.write(json.dumps(record) + "\n")

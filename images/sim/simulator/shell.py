"""Running commands, and saying which one failed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from itertools import groupby
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


def with_paths(commands: list[list[str]], folder: Path) -> list[list[str]]:
    """Commands whose files, named behind the word `trace`, are in a folder."""
    return [
        [str(folder / word) if before == "trace" else word
         for before, word in zip(["", *command], command, strict=False)]
        for command in commands
    ]  # fmt: skip


#: How tools are told to read their commands, a line each, from standard input.
_READING = {
    "ip": ("ip", "-batch", "-"),
    # Of rules a line does not say which IP version is meant.
    "ip -4": ("ip", "-4", "-batch", "-"),
    "ip -6": ("ip", "-6", "-batch", "-"),
    "tc": ("tc", "-batch", "-"),
    # All lines or none.
    "nft": ("nft", "-f", "-"),
    # Where there is no connection to forget that is no failure, as it is on its command line.
    "conntrack": ("conntrack", "-R", "/proc/self/fd/0"),
}


class _Batch:
    """Neighbouring commands of one tool, whose process waits to be told them."""

    def __init__(self, commands: list[list[str]]) -> None:
        self._commands = commands
        pipe = subprocess.PIPE
        tool = _tool(commands[0])
        self._words = len(tool.split())
        words = _READING[tool]
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def run(self) -> None:
        """Run them in order. CommandError when one fails."""
        text = "".join(" ".join(command[self._words :]) + "\n" for command in self._commands)
        _, said = self._process.communicate(text)
        if self._process.returncode == 0:
            return
        # "Command failed -:3" names the line.
        number = said.rpartition("Command failed -:")[2].strip()
        failed = self._commands[int(number) - 1] if number.isdigit() else self._commands[0]
        others = "" if number.isdigit() or len(self._commands) == 1 else f", and {len(self._commands) - 1} more"
        raise CommandError(f"{' '.join(failed)}{others}: {said.strip() or f'exit {self._process.returncode}'}")


class Prepared:
    """Commands whose tools run already, so that they take effect as soon as they are told: a process takes milliseconds
    to start in a lab kernel in real time.
    """

    def __init__(self, commands: list[list[str]]) -> None:
        self._batches = [_Batch(batch) for batch in _batches(commands)]

    def run(self) -> None:
        """Run them in order, once. CommandError when one fails."""
        for batch in self._batches:
            batch.run()


def run_program(commands: list[list[str]]) -> None:
    """Run commands in order, neighbouring ones of one tool as a batch (a process each costs)."""
    for batch in _batches(commands):
        _Batch(batch).run()


def _batches(commands: list[list[str]]) -> list[list[list[str]]]:
    return [list(group) for _, group in groupby(commands, key=_tool)]


def _tool(command: list[str]) -> str:
    """A command's tool, with the IP version where it begins with one."""
    return " ".join(command[:2]) if command[1] in ("-4", "-6") else command[0]


class Events:
    """The simulator's diary: one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", buffering=1)

    def write(self, event: str, **fields: object) -> None:
        """Add one event with the time it happened (`t`, seconds since the epoch): now, unless the fields say when."""
        record: Mapping[str, object] = {"event": event, "t": time.time(), **fields}
        self._file.write(json.dumps(record) + "\n")

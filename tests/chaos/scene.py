"""One fault while it happens: the command that is disturbed, its moment, and what has to be put right afterwards."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.stage import Command, Stage, digest_of

#: Seconds between two looks for what a fault is meant for.
LOOK = 0.02
#: Seconds that it is waited for.
WAIT = 90.0


class MissedError(Exception):
    """When the moment came, what the fault was meant for had gone."""


@dataclass
class Scene:
    """What a fault has in hand."""

    stage: Stage
    random: random.Random
    moment_factor: float
    """A part of its moment: 1 at first, less when a fault came too late."""
    lifetimes: Mapping[str, float]
    """How long what faults are meant for lives, undisturbed, by its name; seconds."""
    commands: list[Command] = field(default_factory=list)
    """Those under way; the first is the one that is disturbed."""
    undo: ExitStack = field(default_factory=ExitStack)
    """What ends the fault."""
    actions: list[str] = field(default_factory=list)
    """What was done, in words."""
    damaged: dict[Path, str] = field(default_factory=dict)
    """Files that are no longer what they were → digest of what is left of them."""

    @property
    def command(self) -> Command:
        """The command that is disturbed."""
        return self.commands[0]

    def note(self, what: str) -> None:
        """Something was done."""
        self.actions.append(what)

    def damage(self, file: Path) -> None:
        """A file was damaged, or removed."""
        self.damaged[file] = digest_of(file)

    def still_damaged(self) -> list[Path]:
        """Files that nobody has made anew since they were damaged."""
        return [file for file, digest in self.damaged.items() if digest_of(file) == digest]

    def sleep_part(self, seconds: float) -> float:
        """Sleep for a random part of some seconds, and say how long that was."""
        pause = self.random.random() * seconds * self.moment_factor
        deadline = time.monotonic() + pause
        while (left := deadline - time.monotonic()) > 0 and not self.command.has_ended():
            time.sleep(min(left, LOOK))
        return pause

    def send(self, pid: int, number: signal.Signals, what: str, *, group: bool = False) -> None:
        """Send a signal. MissedError when nobody is there."""
        try:
            (os.killpg if group else os.kill)(pid, number)
        except ProcessLookupError as error:
            raise MissedError(what) from error
        self.note(f"{number.name} to {what} ({pid})")


#: Does a fault, or a part of one.
Inject = Callable[[Scene], None]


@dataclass(frozen=True)
class Target:
    """What a fault is meant for."""

    name: str
    find: Callable[[Scene], list[int]]
    """Processes that are it now."""

    def await_first(self, scene: Scene) -> list[int]:
        """Wait until it is there. MissedError when the command ends before."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            over = scene.command.has_ended()
            pids = self.find(scene)
            if pids:
                return sorted(pids)
            if over:
                break
            time.sleep(LOOK)
        raise MissedError(f"{self.name} was never there")

    def at_moment(self, scene: Scene) -> int:
        """The process that it is at a random moment of its life. MissedError when it has gone by then."""
        pid = scene.random.choice(self.await_first(scene))
        pause = scene.sleep_part(self.lifetime(scene))
        if pid not in self.find(scene):
            raise MissedError(f"{self.name} had gone after {pause:.2f} s")
        scene.note(f"{pause:.2f} s into {self.name}")
        return pid

    def lifetime(self, scene: Scene) -> float:
        """How long it lives, undisturbed, seconds."""
        return scene.lifetimes.get(self.name, 1.0)


def lives_of(scene: Scene, targets: list[Target]) -> dict[str, float]:
    """Follow an undisturbed command to its end: how long what faults are meant for lives; the shortest, where several."""
    seen: dict[tuple[str, int], tuple[float, float]] = {}
    while not scene.command.has_ended():
        for target in targets:
            for pid in target.find(scene):
                now = time.monotonic()
                seen[target.name, pid] = (seen.get((target.name, pid), (now, now))[0], now)
        time.sleep(LOOK)
    lifetimes: dict[str, float] = {}
    for (name, _), (first, last) in seen.items():
        lifetimes[name] = min(last - first, lifetimes.get(name, last - first))
    return lifetimes


def end_quietly(command: Command) -> None:
    """Kill a command that is still there."""
    if not command.has_ended():
        with suppress(ProcessLookupError):
            command.process.kill()
        command.process.wait()


def at_moment_of(target: Target, inject: Inject) -> Inject:
    """A part of a fault at a random moment of a target's life."""

    def later(scene: Scene) -> None:
        target.at_moment(scene)
        inject(scene)

    return later

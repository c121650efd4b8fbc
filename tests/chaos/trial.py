"""One fault from beginning to end: a stage is set, a command given and disturbed, and the next one given."""

from __future__ import annotations

import random
import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import machine
from tests.chaos.judge import Files, Judge, cells_of, left_on
from tests.chaos.kinds import Kind
from tests.chaos.scene import MissedError, Scene, end_quietly
from tests.chaos.stage import Ended, Stage
from tests.chaos.truth import Truth

#: How often a fault is tried that came too late, each time at half the moment.
ATTEMPTS = 7
#: How often a command is given again in real time for a link that a busy machine has spoilt.
AGAIN = 3
#: Seconds that what has been ended may take to go.
LINGER = 5.0


@dataclass
class Trial:
    """What came of one fault."""

    problems: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    """What was done, in words."""
    seconds: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether everything is as it must be."""
        return not self.problems


def attempt(kind: Kind, stage: Stage, truth: Truth, cache: Path, state: Path, seed: str) -> Trial:
    """Do one fault on a stage of its own, which stays where something does not hold."""
    begun = time.monotonic()
    trial = Trial()
    for number in range(ATTEMPTS):
        stage.create(cache=cache, store=truth.seed_store, state=state)
        scene = Scene(stage, random.Random(seed), 0.5**number, truth.lifetimes)
        try:
            trial = _run(kind, scene, truth)
            break
        except MissedError as late:
            trial = Trial([f"missed its moment: {late}"], scene.actions)
        finally:
            for command in scene.commands:
                end_quietly(command)
            scene.undo.close()
    trial.seconds = time.monotonic() - begun
    if trial.is_sound:
        stage.clear()
    return trial


def _run(kind: Kind, scene: Scene, truth: Truth) -> Trial:
    stage, judge = scene.stage, Judge(kind, scene, truth)
    shared = machine.shared() if kind.exclusive else None
    before = stage.finished()
    for inject in kind.before:
        inject(scene)
    scene.commands.append(stage.start("disturbed", kind.verb, kind.settings))
    if kind.during is not None:
        kind.during(scene)
    ended = [command.wait() for command in scene.commands]
    for ended_command in ended:
        judge.judge_disturbed(ended_command)
    kept = judge.surviving_runs(before)
    scene.undo.close()
    _give_next(kind, scene, judge, kept, ended)
    deadline = time.monotonic() + LINGER
    while (left := left_on(stage, shared)) and time.monotonic() < deadline:
        time.sleep(0.1)
    judge.judge_leftovers(left)
    return Trial(judge.problems, scene.actions)


def _give_next(kind: Kind, scene: Scene, judge: Judge, kept: Files, before: list[Ended]) -> None:
    """The command after the fault; once more after what it advises, where it may, and while links are spoilt."""
    stage = scene.stage
    ended = stage.start("next").wait()
    if kind.may_refuse and not judge.cells_match(cells_of(ended)):
        judge.judge_output("the next command", ended)
        removed = follow(stage, [ended, *before])
        if not removed:
            judge.judge_refusal(ended)
        scene.note(f"followed: removed {', '.join(removed)}")
        ended = stage.start("advised").wait()
    for number in range(AGAIN):
        if not _spoilt(ended, stage):
            break
        scene.note("the link was not the one asked for: once more")
        ended = stage.start(f"again{number}").wait()
    judge.judge_next(ended, kept)


def _spoilt(ended: Ended, stage: Stage) -> bool:
    """Whether a run in real time is the ground's failure: on a machine that does not keep time it may be."""
    return stage.engine == "compose" and any("infrastructure" in cell["outcomes"] for cell in cells_of(ended))


def follow(stage: Stage, ended: list[Ended]) -> list[str]:
    """Remove what commands name of a stage's own files: what hints name, else errors, else verdicts. What was removed."""
    lines = [line for ended_command in ended for line in ended_command.stderr.splitlines()]
    hints = [line for line in lines if line.startswith("hint:")]
    sentences = [str(cell["sentence"]) for ended_command in ended for cell in cells_of(ended_command)]
    for words in ("\n".join(hints), "\n".join(lines), "\n".join(sentences)):
        named = {
            Path(path.rstrip(".:")) for path in re.findall(rf"{re.escape(str(stage.folder))}/[^\s,;'\"()]+", words)
        }
        # Never the store or the cache as a whole.
        inner = [place for place in named if place.exists() and len(place.relative_to(stage.folder).parts) > 2]
        if inner:
            for place in inner:
                if place.is_dir():
                    shutil.rmtree(place)
                else:
                    place.unlink(missing_ok=True)
            return sorted(str(place.relative_to(stage.folder)) for place in inner)
    return []

"""What must hold after a fault.

The command that is disturbed, and the one after it, end with a code that is documented, and show nobody a traceback.
What either stores as completed is what it would have been undisturbed; what a fault spoilt is the ground's, and never an
implementation's. No finished run is lost, changed or made twice. The next command completes every cell, and leaves no
process, container, network, namespace, mount, lock or unfinished file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from harness.cli.signals import FAILED, INFRASTRUCTURE, INTERRUPTED, MET, NOTHING, UNDECIDED
from harness.store.compression import UNFINISHED_SUFFIX
from tests.chaos import machine
from tests.chaos.kinds import Kind
from tests.chaos.scene import Scene
from tests.chaos.stage import Ended, Stage, as_written, small_files
from tests.chaos.truth import Truth, complete, verdict_of

DOCUMENTED = frozenset({MET, FAILED, INFRASTRUCTURE, UNDECIDED, NOTHING, INTERRUPTED})
#: Outcomes of runs in which nobody but the ground failed.
BLAMELESS = ("completed", "infrastructure")
#: So many differences of one run are reported.
REPORTED_DIFFERENCES = 3

Files = Mapping[str, Mapping[str, str]]
Cells = list[dict[str, Any]]


class Judge:
    """Looks at what one fault came to."""

    def __init__(self, kind: Kind, scene: Scene, truth: Truth) -> None:
        self.problems: list[str] = []
        self._kind = kind
        self._scene = scene
        self._stage = scene.stage
        self._truth = truth

    def _add_problem(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    # --- the command that was disturbed

    def judge_disturbed(self, ended: Ended) -> None:
        """Look at a command that a fault happened to."""
        kind, verb, cells = self._kind, ended.words[0], cells_of(ended)
        self.judge_output("the disturbed command", ended)
        if ended.code is not None and ended.code not in kind.exit_codes:
            self._add_problem(
                f"the disturbed command ended with {ended.code}, not {sorted(kind.exit_codes)}: {last_words(ended)}"
            )
        if ended.code == MET and verb == "run" and not self.cells_match(cells):
            self._add_problem(f"exit code 0, and not everything was met: {outcomes(cells)}")
        if any(cell["verdict"] in ("fail", "unsupported") for cell in cells):
            self._add_problem(f"a verdict against an implementation: {[cell['sentence'] for cell in cells]}")
        whole = self.cells_match(cells, part=verb != "run")
        if kind.must_complete and verb != "measure" and not whole and not self._is_stolen():
            self._add_problem(f"the disturbed command was not unharmed: {outcomes(cells)}; {last_words(ended)}")
        self._runs("after the disturbed command")

    def cells_match(self, cells: Cells, *, part: bool = False) -> bool:
        """Whether cells show what is shown undisturbed; `part`: of the runs that were there before."""
        whole = bool(cells) if part else complete(cells, self._truth.engine)
        return whole and [verdict_of(cell) for cell in cells] == [verdict_of(cell) for cell in self._truth.cells]

    def _is_stolen(self) -> bool:
        """Whether runs in real time are spoilt, and the hypervisor took the time of each: no fault of the harness."""
        share = machine.stolen_share(self._stage.store) if self._truth.engine == "compose" else 0.0
        if share:
            self._scene.note(f"not judged: the hypervisor took {share:.0%} of the processor's time")
        return share > 0

    def judge_output(self, name: str, ended: Ended) -> None:
        """Look at how a command ended, and at what it printed."""
        if ended.code is None:
            self._add_problem(f"{name} hung: {last_words(ended)}")
        elif ended.code not in DOCUMENTED | self._kind.exit_codes:
            self._add_problem(f"{name} ended with {ended.code}, which no page explains: {last_words(ended)}")
        for words in ended.unexpected:
            self._add_problem(f"{name} printed '{words}'")

    def _runs(self, when: str) -> None:
        """Every stored run is what it would be undisturbed, or the ground's failure."""
        spoilt = self._scene.still_damaged()
        for folder in self._stage.run_folders():
            damaged = frozenset(
                str(place.relative_to(folder))
                for file in spoilt
                if file.is_relative_to(folder)
                for place in (file, *as_written(file))
            )
            if "run.json" in damaged:
                continue
            try:
                run = json.loads((folder / "run.json").read_bytes())
            except ValueError as error:
                # One that was damaged, and that another was made instead of, has moved.
                if not (
                    folder.parent.name == "replaced" and any(path.name == "run.json" for path in self._scene.damaged)
                ):
                    self._add_problem(f"{when} {folder.relative_to(self._stage.store)} cannot be read: {error}")
                continue
            outcome = run["outcome"]
            place = folder.relative_to(self._stage.store)
            if outcome["status"] not in BLAMELESS:
                self._add_problem(f"{when} {place} is {outcome['status']}: {outcome['role']}: {outcome['detail']}")
            elif outcome["status"] == "completed":
                if folder.parent.name == "replaced" and self._truth.engine == "virtual" and not damaged:
                    self._add_problem(f"{when} a completed run was made twice: {place}")
                for wrong in self._truth.differences(folder, run["repetition"], damaged)[:REPORTED_DIFFERENCES]:
                    self._add_problem(f"{when} {place} is not what it is undisturbed: {wrong}")

    # --- what is kept

    def surviving_runs(self, before: Files) -> Files:
        """Look for the runs that were finished before a fault. Those that must be there later on, as they are now."""
        now = self._stage.finished()
        for place, files in before.items():
            if self._is_damaged(place):
                continue
            if place not in now:
                self._add_problem(f"the finished run {place} was lost")
            elif now[place] != files:
                self._add_problem(f"the finished run {place} was changed: {_changes(files, now[place])}")
        return {place: files for place, files in now.items() if not self._is_damaged(place)}

    def _is_damaged(self, place: str) -> bool:
        return any(file.is_relative_to(self._stage.store / place) for file in self._scene.damaged)

    # --- the next command

    def judge_next(self, ended: Ended, kept: Files) -> None:
        """Look at the command after a fault."""
        cells = cells_of(ended)
        self.judge_output("the next command", ended)
        if (ended.code != MET or not self.cells_match(cells)) and not self._is_stolen():
            self._add_problem(f"the next command ended with {ended.code}: {outcomes(cells)}; {last_words(ended)}")
        self._runs("after the next command")
        now = self._stage.finished()
        for place, files in kept.items():
            # One that another stands in for is in another place.
            if now.get(place) != files and files not in now.values():
                self._add_problem(f"the next command lost or changed the finished run {place}")

    def judge_refusal(self, ended: Ended) -> None:
        """The next command did not do, and nothing was said that would help."""
        self._add_problem(f"the next command failed, and nothing says what to remove: {last_words(ended)}")

    # --- what is left

    def judge_leftovers(self, leftovers: list[str]) -> None:
        """Look at what `left_on` found, and at the shapes of store and cache."""
        for leftover in leftovers:
            self._add_problem(f"left behind: {leftover}")
        for shape in sorted(self._stage.shapes() - self._truth.shapes):
            self._add_problem(f"left behind in the {'cache' if shape.startswith('cache/') else 'store'}: {shape}")


def left_on(stage: Stage, shared: machine.Shared | None) -> list[str]:
    """What a stage's commands have left on the machine; `shared`: what was there before, if nobody else changes it."""
    folders = (stage.folder, stage.memory)
    leftovers = [f"process {item.pid} ({item.name})" for item in machine.at_home_in(folders)]
    leftovers += [f"memory file {item.name}" for item in stage.memory.iterdir()]
    leftovers += [f"partial run {item.name}" for item in stage.store.glob("partial/*")]
    leftovers += [
        f"half packed {file.relative_to(stage.folder)}" for file in stage.store.rglob(f"*{UNFINISHED_SUFFIX}*")
    ]
    locks = [*small_files(stage.store), *small_files(stage.cache)]
    leftovers += [f"lock {file.relative_to(stage.folder)}" for file in locks if machine.is_locked(file)]
    own = {str(stage.store), str(stage.cache), str(stage.memory)}
    leftovers += [f"mount {point}" for point in machine.mounts_below(folders) if point not in own]
    if shared is not None:
        leftovers += machine.shared().since(shared)
    return leftovers


def cells_of(ended: Ended) -> Cells:
    """The cells that a command printed; none where it did not come to that."""
    with suppress(ValueError, KeyError):
        cells: Cells = json.loads(ended.stdout)["cells"]
        return cells
    return []


def outcomes(cells: Cells) -> str:
    """What cells came to, in a line."""
    return "; ".join(f"{cell['verdict']} {cell['outcomes']} {cell['sentence']}" for cell in cells) or "no cells"


def last_words(ended: Ended) -> str:
    """The last that a command said."""
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    return " | ".join(lines[-3:])


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    return ", ".join(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))

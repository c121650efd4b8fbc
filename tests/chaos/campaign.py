"""Works off a schedule: undisturbed runs first, then those faults side by side that may be, then the others."""

from __future__ import annotations

import json
import math
import pickle
import random
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from harness.cli.workspace import ROOT
from harness.outcome import EngineName
from tests.chaos.judge import cells_of
from tests.chaos.machine import stolen_share
from tests.chaos.scene import Scene, lives_of
from tests.chaos.schedule import Planned
from tests.chaos.stage import Ended, Stage
from tests.chaos.targets import MEASURED
from tests.chaos.trial import AGAIN, Trial, attempt
from tests.chaos.truth import Truth, complete, truth_of

#: What undisturbed runs came to, in the folder.
_KEPT = "undisturbed.pickle"


class GroundError(Exception):
    """What nobody disturbed did not come to its end: there is nothing to hold faults against."""


@dataclass(frozen=True)
class FaultReport:
    """One fault that was done."""

    fault: Planned
    trial: Trial


class StolenError(GroundError):
    """The hypervisor left no real time to make an undisturbed run in."""


class Chaos:
    """A folder in which faults are done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cache = folder / "pristine"
        self._state = folder / "state"
        self._truths: dict[EngineName, Truth] = {}

    def prepare(self, engines: Sequence[EngineName], say: Callable[[str], None]) -> None:
        """Make the undisturbed runs, and a cache with what they need and nothing else. GroundError.

        What was kept of an earlier time, with the same harness, is used as it is.
        """
        path = self._folder / _KEPT
        if path.exists():
            self._truths = pickle.loads(path.read_bytes())
            if set(engines) <= self._truths.keys():
                return
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        # What a probe of the host's kernel has found.
        known = ROOT / ".state"
        self._state.mkdir()
        for file in known.glob("host-kernel-*"):
            shutil.copy2(file, self._state)
        for engine in engines:
            self._truths[engine] = self._undisturbed(engine)
            lives = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._truths[engine].lifetimes.items())
            say(f"undisturbed, {engine}: {lives}")
        path.write_bytes(pickle.dumps(self._truths))

    def _undisturbed(self, engine: EngineName) -> Truth:
        stages = [Stage(self._folder / f"{engine}-{name}", engine) for name in ("first", "again")]
        cache = self._cache if self._cache.exists() else None
        warm = stages[0].create(cache=cache, state=self._state)
        # A first time for what is made once and kept.
        self._copy_cache(warm)
        shutil.rmtree(self._cache, ignore_errors=True)
        shutil.copytree(warm.cache, self._cache, symlinks=True)
        shutil.rmtree(self._state)
        shutil.copytree(warm.state, self._state)
        cells, lives = [], {}
        for stage in stages:
            stage.create(cache=self._cache, state=self._state)
            scene = Scene(stage, random.Random(0), 1.0, {})
            scene.commands.append(stage.start("undisturbed"))
            lives = lives_of(scene, MEASURED[engine])
            cells = self._require(stage, scene.command.wait())
            if engine == "compose":
                break
        again = stages[1] if engine == "virtual" else None
        truth = truth_of((stages[0], again), tuple(cells), lives, self._folder / f"{engine}-seed")
        for stage in stages:
            stage.clear()
        return truth

    def _copy_cache(self, stage: Stage) -> None:
        self._require(stage, stage.start("warm").wait(900))

    def _require(self, stage: Stage, ended: Ended) -> list[dict[str, object]]:
        """The cells, all completed; in real time after some more trials on a machine that is busy. GroundError."""
        for number in range(AGAIN):
            if complete(cells_of(ended), stage.engine):
                return cells_of(ended)
            ended = stage.start(f"more{number}").wait()
        if not complete(cells_of(ended), stage.engine):
            if stage.engine == "compose" and (share := stolen_share(stage.store)):
                raise StolenError(f"no real time to be had: the hypervisor took {share:.0%} of the processor's")
            raise GroundError(f"an undisturbed command failed ({ended.code}):\n{ended.stderr}\n{ended.stdout[-2000:]}")
        return cells_of(ended)

    def run_faults(
        self, planned: Sequence[Planned], jobs: int, report: Callable[[FaultReport], None], within: float = math.inf
    ) -> list[FaultReport]:
        """Do these faults; `tell` hears of each as it ends. By number.

        `within`: seconds after which none is begun any more.
        """
        fault_reports: list[FaultReport] = []
        deadline = time.monotonic() + within

        def done(fault_report: FaultReport) -> None:
            fault_reports.append(fault_report)
            report(fault_report)

        side_by_side = [fault for fault in planned if not fault.kind.exclusive]
        with ThreadPoolExecutor(jobs, thread_name_prefix="fault") as pool:
            for future in as_completed([pool.submit(self._run_fault, fault, deadline) for fault in side_by_side]):
                if (fault_report := future.result()) is not None:
                    done(fault_report)
        for fault in planned:
            if fault.kind.exclusive and (fault_report := self._run_fault(fault, deadline)) is not None:
                done(fault_report)
        return sorted(fault_reports, key=lambda item: item.fault.number)

    def _run_fault(self, planned: Planned, deadline: float) -> FaultReport | None:
        if time.monotonic() > deadline:
            return None
        kind = planned.kind
        stage = Stage(self._folder / f"fault-{planned.number}", kind.engine)
        try:
            trial = attempt(kind, stage, self._truths[kind.engine], self._cache, self._state, planned.seed)
        except Exception as error:  # one fault that could not be done, or looked at, costs the others nothing
            frame_summary = traceback.extract_tb(error.__traceback__)[-1]
            trial = Trial(
                [
                    f"the trial broke: {type(error).__name__}: {error} ({Path(frame_summary.filename).name}:{frame_summary.lineno})"
                ]
            )
        return FaultReport(planned, trial)

    def clear(self, *, all_of_it: bool) -> None:
        """Remove what was made; of faults that did not hold the folders, too, if `all_of_it`."""
        for name in ("pristine", "state", "virtual-seed", "compose-seed", _KEPT):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        for folder in self._folder.glob("fault-*"):
            Stage(folder, "virtual").release()
        if all_of_it:
            shutil.rmtree(self._folder, ignore_errors=True)


def summary(reports: Sequence[FaultReport]) -> str:
    """How many faults of how many held."""
    return f"{sum(fault_report.trial.is_sound for fault_report in reports)} of {len(reports)}"


def as_json(reports: Sequence[FaultReport]) -> str:
    """What came of all faults, for programs."""
    rows = [
        {"number": fault_report.fault.number, "engine": fault_report.fault.kind.engine, "kind": fault_report.fault.kind.name,
         "held": fault_report.trial.is_sound, "problems": fault_report.trial.problems, "done": fault_report.trial.actions,
         "seconds": round(fault_report.trial.seconds, 2)}
        for fault_report in reports
    ]  # fmt: skip
    return json.dumps(rows, indent=1, ensure_ascii=False)

"""What a whole cell takes in virtual time: by what it keeps, by the way into the lab kernel, and phase by phase.

Each line shows the figure of 2026-11-24 beside today's, where there is one. It was measured on an AMD EPYC without
protection keys and beside other work, before programs were entered in their own processes there. Compare ratios.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from harness.engine.kernel import OWN, LabKernel
from harness.engine.virtual.engine import VirtualEngine
from harness.execution.matrix import PlannedRun
from harness.execution.runner import run_once
from harness.outcome import Cell, Evidence
from harness.scenario.schema import Flow
from harness.store.provenance import Provenance
from harness.store.results import Store
from harness.units import Size
from tools.bench.kernels import kernel_of
from tools.bench.session import Session, line, scenario
from tools.bench.virtual import DELAY, RATES, SIZE

#: How often each is measured.
TURNS = 3
#: Stacks that carry 10 MB with each other, two cells at a time, and how often they do.
MIXED, ROUNDS = ("ngtcp2", "quiche", "quinn"), 2
#: What a run keeps → seconds that the cell of 100 MB took with it, before.
EVIDENCE: dict[Evidence, str] = {"full": "6.6 to 7.4", "captures": "4.8", "figures": "2.7 to 3.05"}
#: Parts of a run in the order in which they come.
PHASES = ("create", "ready", "transfer", "collect", "measure", "store")
#: (stack, way in) → milliseconds of each of these phases in a cell of 10 MB, and of the whole, before.
BEFORE: dict[tuple[str, str], tuple[int, ...]] = {
    ("ngtcp2", "inproc"): (124, 240, 306, 20, 157, 71, 1164),
    ("ngtcp2", "host"): (301, 394, 1000, 28, 158, 73, 2312),
    ("quiche", "inproc"): (168, 174, 611, 20, 278, 86, 1515),
    ("quiche", "host"): (238, 376, 1260, 27, 281, 87, 2364),
}
#: Flows of the cell with many, 1 MB each.
FLOWS = 40


def phase_seconds(planned: PlannedRun, engine: VirtualEngine, store: Store, evidence: Evidence) -> dict[str, float]:
    """Make a run and store it with this evidence. Returns the seconds of each phase and, as "whole", of all."""
    begun = time.monotonic()
    entered: list[tuple[str, float]] = []
    run_once(
        planned,
        engine,
        store,
        Provenance(),
        lambda phase: entered.append((phase, time.monotonic())),
        lambda run, measured: evidence,
    )
    ended = time.monotonic()
    seconds = {"whole": ended - begun}
    for (phase, at), (_, until) in zip(entered, [*entered[1:], ("", ended)], strict=True):
        seconds[phase] = seconds.get(phase, 0.0) + until - at
    return seconds


def cells_per_hour(
    cells: Sequence[Cell], engine: VirtualEngine, jobs: int, folder: Path, evidence: Evidence = "full"
) -> float:
    """Cells an hour, `jobs` at a time, each `ROUNDS` times, with their store in a folder."""
    store = Store(folder)
    # What the first run reads, the others find in memory.
    phase_seconds(PlannedRun(cells[0], ROUNDS), engine, store, evidence)
    items = [PlannedRun(cell, repetition) for repetition in range(ROUNDS) for cell in cells]
    begun = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda item: phase_seconds(item, engine, store, evidence), items))
    return 3600 * len(items) / (time.monotonic() - begun)


def mixed_cells(session: Session) -> list[Cell]:
    """Cells of 10 MB in virtual time, of each stack of `MIXED` with each; their images are made."""
    path = scenario("mixed", *RATES)
    return [session.cell(path, "virtual", client, server) for client, server in product(MIXED, MIXED)]


class WholeCells(Session):
    """Whole cells, from the first file that is written for them to the last."""

    def run(self) -> None:
        """By evidence, by way in and phase, cells an hour, and one with many flows."""
        self._cores = sorted(os.sched_getaffinity(0))
        self._by_evidence()
        for stack in sorted({stack for stack, _ in BEFORE}):
            self._by_phase(stack)
        self._hourly()
        self._many_flows()

    def _engine(self, jobs: int = 1, kernel: LabKernel = OWN) -> VirtualEngine:
        return VirtualEngine(self.app.cache, self._cores[:jobs], kernel=kernel)

    def _by_evidence(self) -> None:
        """100 MB of ngtcp2 with each evidence, in turn."""
        cell = self.cell(scenario("evidence", *RATES, delay=DELAY, size=SIZE), "virtual")
        walls: dict[Evidence, list[float]] = {evidence: [] for evidence in EVIDENCE}
        engine = self._engine()
        for turn in range(TURNS):
            for evidence, seconds in walls.items():
                store = Store(self.folder / "evidence" / evidence)
                seconds.append(phase_seconds(PlannedRun(cell, turn), engine, store, evidence)["whole"])
        for evidence, seconds in walls.items():
            self.say(line(f"100 MB of ngtcp2, evidence {evidence}", seconds, "s", f"before: {EVIDENCE[evidence]}"))

    def _by_phase(self, stack: str) -> None:
        """10 MB of a stack with itself, by both ways in."""
        cell = self.cell(scenario("phases", *RATES), "virtual", stack)
        for entry in ("inproc", "host"):
            engine, store = self._engine(kernel=kernel_of(entry)), Store(self.folder / "phases" / entry)
            turns = [phase_seconds(PlannedRun(cell, turn), engine, store, "full") for turn in range(1 + TURNS)][1:]
            for phase, before in zip((*PHASES, "whole"), BEFORE[stack, entry], strict=True):
                milliseconds = [1e3 * turn[phase] for turn in turns]
                self.say(line(f"10 MB of {stack}, {entry}: {phase}", milliseconds, "ms", f"before: {before}"))

    def _hourly(self) -> None:
        """Cells of 10 MB an hour on two cores: three stacks with each other."""
        cells = mixed_cells(self)
        jobs = min(2, len(self._cores))
        engine = self._engine(jobs)
        aims: dict[Evidence, str] = {"full": "≥ 8000; before: 5590", "figures": "≥ 10000"}
        for evidence, aim in aims.items():
            folders = [self.folder / "hourly" / f"{evidence}-{turn}" for turn in range(TURNS)]
            rates = [cells_per_hour(cells, engine, jobs, folder, evidence) for folder in folders]
            self.say(line(f"cells of 10 MB an hour, {len(cells)} pairs, evidence {evidence}", rates, "1/h", aim))

    def _many_flows(self) -> None:
        """One cell with many flows of ngtcp2 at a time."""
        path = scenario("many-flows", *RATES, delay="20 ms")
        flows = [Flow(download=Size.parse("1 MB"))] * FLOWS
        cell = self.cell(path.model_copy(update={"flows": flows}), "virtual")
        store, engine = Store(self.folder / "flows"), self._engine()
        walls = [phase_seconds(PlannedRun(cell, turn), engine, store, "full")["whole"] for turn in range(TURNS)]
        self.say(line(f"{FLOWS} flows of 1 MB in one cell", walls, "s", "≤ 12"))

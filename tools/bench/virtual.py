"""Virtual time: how far runs repeat, how fast they are, what starting a guest costs."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.analysis.time_breakdown import attribute
from harness.engine.virtual.engine import VirtualEngine
from harness.execution.matrix import PlannedRun
from harness.execution.runner import run_once
from harness.outcome import Cell, MeasuredRun, Run
from harness.store.provenance import Provenance
from harness.store.results import Store
from tools.bench.links import experiments, link_fidelity
from tools.bench.pairs import pairs_repeat
from tools.bench.session import Session, line, scenario
from tools.bench.tcp_models import mathis, padhye
from tools.bench.theory import RENO_LOSS, RENO_SEGMENT, RENO_TIMER, reno_scenario, theory_experiments

#: The cell that repeatability and speed are told by: rates, 300 ms each way, 100 MB.
RATES, DELAY, SIZE = ("50 Mbit/s", "10 Mbit/s"), "300 ms", "100 MB"
REPEATS = 10
#: Runs that tell the harness's own share.
SHORT_RUNS = 8


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy with other work."""
    spin = [sys.executable, "-c", "while True: pass"]
    spinners = [subprocess.Popen(spin) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


class VirtualTime(Session):
    """What the virtual engine promises, measured."""

    def run(self) -> None:
        """All benchmarks in virtual time."""
        self._cores = sorted(os.sched_getaffinity(0))
        self._store = Store(self.folder / "store")
        self._links()
        self._reno()
        self._speed()
        self._harness_share()
        self._two_cells()
        self._pairs()
        self._repeatability("no loss", "0 %", "≤ 0.01")
        # CUBIC does not end in time under such loss.
        self._repeatability("1 % loss each way, BBR", "1 %", "≤ 0.01", congestion_control="bbr")

    def _links(self) -> None:
        """Delays, rates and drops of the emulated link against queueing theory and the queues' algorithms."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.app.images.make(self.app.images.sim_build("lab"), self.announce)
        reference = self.app.images.sim_build("lab").reference
        chosen = {**experiments(), **theory_experiments()}
        with self.app.root_file_systems.use([reference]) as exported:
            sim = Path(exported.roots[reference].rootfs)
            for rows in link_fidelity(sim, self.folder, chosen, seed=1, core=self._cores[0]).values():
                for row in rows:
                    aim = f"{row.expected:.6g} ± {row.tolerance:.3g}"
                    self.say(line(row.name, [row.measured], row.unit, aim if row.holds else f"{aim}: MISSED"))

    def _reno(self) -> None:
        """TCP Reno where only random loss limits it, against the formulas."""
        run, measured = self._measure_run(self.cell(reno_scenario(), "virtual"), self._engine())
        rate, rtt = (measured.value(name, 0) if measured else None for name in ("mean_throughput", "mean_srtt"))
        if rate is None or rtt is None:
            self.console.print(f"a run did not complete: {run.outcome.detail}", markup=False)
            return
        loss, rtt = RENO_LOSS, rtt / 1e3
        for authors, expected in (
            ("Padhye et al.", padhye(RENO_SEGMENT, rtt, rtt + RENO_TIMER, loss)),
            ("Mathis et al.", mathis(RENO_SEGMENT, rtt, loss)),
        ):
            self.say(line(f"Reno at {loss:.1%} loss, of {authors}", [100 * rate * 1e6 / expected], "%", "100 ± 15"))

    def _engine(self, jobs: int = 1) -> VirtualEngine:
        return VirtualEngine(self.app.cache, self._cores[:jobs])

    def _measure_run(self, cell: Cell, engine: VirtualEngine, repetition: int = 0) -> tuple[Run, MeasuredRun | None]:
        return run_once(PlannedRun(cell, repetition), engine, self._store, Provenance(), lambda phase: None)

    def _speed(self) -> None:
        cell = self.cell(scenario("speed", *RATES, delay=DELAY, size=SIZE), "virtual")
        runs = [self._measure_run(cell, self._engine())[0] for _ in range(3)]
        speeds = [(run.virtual or 0.0) / run.wall for run in runs]
        self.say(line("virtual seconds per wall second, one core", speeds, "", "≥ 2.5"))
        transfers = [
            (item.ended_ns - item.started_ns) / 1e9 / run.phases["transfer"] for run in runs for item in run.transfers
        ]
        self.say(line("  of which during the transfer", transfers, "", ""))
        names = ("create", "ready", "transfer", "collect", "remove")
        for name in names:
            self.say(line(f"  wall of {name}", [run.phases[name] for run in runs], "s", ""))
        ends = [run.phases["create"] + run.phases["remove"] for run in runs]
        self.say(line("start and stop of a guest", ends, "s", "≤ 0.35"))
        took = [self._attribution_seconds(run) for run in runs if run.outcome.status == "completed"]
        if took:
            self.say(line("where the time of 100 MB went, from a run's artefacts", took, "s", "≤ 2"))

    def _attribution_seconds(self, run: Run) -> float:
        """Seconds that it takes to say where a stored run's time went."""
        begun = time.monotonic()
        attribute(self._store.folder(run.cell.key, run.repetition), run)
        return time.monotonic() - begun

    def _harness_share(self) -> None:
        """What the harness itself computes for a short run: to prepare, watch, measure and store it."""
        cell = self.cell(scenario("share", *RATES), "virtual")
        engine = self._engine()
        # The first one loads what the others find loaded.
        self._measure_run(cell, engine)
        shares = []
        for repetition in range(1, 1 + SHORT_RUNS):
            before = time.process_time()
            self._measure_run(cell, engine, repetition)
            shares.append(time.process_time() - before)
        self.say(line("the harness's share of a run of 10 MB, of the processor", shares, "s", "≤ 0.5"))

    def _two_cells(self) -> None:
        """Two cells on two cores against one alone: runs per second."""
        cell = self.cell(scenario("beside", *RATES, delay=DELAY, size="20 MB"), "virtual")
        jobs = min(2, len(self._cores))
        gains = []
        for _ in range(3):
            engine = self._engine(jobs)
            begun = time.monotonic()
            self._measure_run(cell, engine)
            alone = time.monotonic() - begun
            begun = time.monotonic()
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(lambda number, engine=engine: self._measure_run(cell, engine, number), range(jobs)))
            gains.append(jobs * alone / (time.monotonic() - begun))
        self.say(line(f"{jobs} cells on {jobs} cores, against one on one", gains, "×", "≥ 1.8"))

    def _pairs(self) -> None:
        """Everybody with everybody, twice: the bytes are the same."""
        pairs = pairs_repeat(self.app, self.folder / "pairs", len(self._cores), lambda event: None)
        for pair in pairs:
            bytes_text = f"the same bytes: PARTS: {', '.join(pair.parts)}" if pair.parts else "the same bytes"
            times = [run.wall for run in pair.runs]
            self.say(
                line(
                    f"{pair.client} → {pair.server}, 2 MB, 1 % loss ({pair.runs[0].outcome.status})",
                    times,
                    "s",
                    bytes_text,
                )
            )
        same = sum(not pair.parts for pair in pairs)
        self.say(line("pairs that are the same to the last byte", [same], f"of {len(pairs)}", "all"))

    def _repeatability(self, name: str, loss: str, aim: str, **parameters: str) -> None:
        """The same cell, the same seed, again and again, with every core busy with other work."""
        cell = self.cell(
            scenario(f"repeat-{loss[0]}", *RATES, delay=DELAY, size=SIZE, loss=loss), "virtual", **parameters
        )
        times: list[float] = []
        with busy_cores():
            for _ in range(REPEATS):
                run, measured = self._measure_run(cell, self._engine())
                value = measured.value("completion", 0) if measured else None
                if value is None:
                    self.console.print(f"a run did not complete: {run.outcome.detail}", markup=False)
                else:
                    times.append(value)
        if times:
            self.say(line(f"100 MB, {name}, every core busy", times, "s", ""))
            spread = 100 * (max(times) - min(times)) / statistics.median(times)
            self.say(line("  (max − min) / median", [spread], "%", aim))

"""The harness measured by itself: overhead of a cell, rate and delay of the simulator, time of the analysis.

Benchmarks, not tests: they print what they saw beside what is aimed at, with medians and extremes, and never
fail for being slow.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.app import App
from harness.engines.compose import ComposeEngine
from harness.engines.docker import daemon
from harness.engines.standing import StandingLab
from harness.lab import Lab, build_lab
from harness.metrics import measure
from harness.model import Flow, Implementation, Scenario
from harness.outcome import Cell, Image
from harness.plan import PlannedRun, Request, cells
from harness.runner import run_once
from harness.store import Store
from harness.units import Size

#: UDP payload of the load, bytes; the size QUIC implementations start with.
PAYLOAD = 1252
Line = dict[str, Any]


def _line(name: str, values: Sequence[float], unit: str, aim: str) -> Line:
    return {
        "name": name,
        "unit": unit,
        "aim": aim,
        "n": len(values),
        "median": statistics.median(values),
        "low": min(values),
        "high": max(values),
    }


def _scenario(name: str, rate: str, back: str, *, delay: str = "325 ms", size: str = "10 MB") -> Scenario:
    link = {"delay": delay, "queue": "1 BDP"}
    return Scenario.model_validate(
        {
            "name": f"bench/{name}",
            "title": name,
            "path": {"forward": {"rate": rate, **link}, "return": {"rate": back, **link}},
            "flows": [Flow(download=Size.parse(size))],
        }
    )


class Bench:
    """One benchmark session."""

    def __init__(self, app: App, console: Console, folder: Path) -> None:
        self._app = app
        self._console = console
        self._folder = folder
        self._lines: list[Line] = []

    def _announce(self, name: str, seconds: float) -> None:
        self._console.print(f"making the image {name} (about {seconds:.0f} s)")

    def _say(self, line: Line) -> None:
        self._lines.append(line)
        self._console.print(
            f"{line['name']:52} {line['median']:10.6g} {line['unit']:7} [{line['low']:.6g}, {line['high']:.6g}] "
            f"n={line['n']}  aim: {line['aim']}",
            markup=False,
            soft_wrap=True,
        )

    def run(self) -> dict[str, Any]:
        """All benchmarks; the lines as data."""
        self._app.images.settle_sim(self._announce)
        self._app.images.make(self._app.images.sim_build("auto"), self._announce)
        self._app.images.make(self._app.images.probe, self._announce)
        for step in (self._idle_delay, self._rate, self._load, self._overhead, self._large):
            step()
        return {"schema": 1, "benchmarks": self._lines}

    # --- the simulator

    def _probe_lab(self, scenario: Scenario) -> Lab:
        probe = Implementation(name="probe", image=self._app.images.probe.reference)
        image = Image(reference=self._app.images.probe.reference, identity="probe")
        request = Request([scenario], [probe], [probe])
        return build_lab(cells(request, {"probe": image}, self._app.images.sim("auto"))[0], 0)

    def _standing(self, scenario: Scenario) -> StandingLab:
        folder = self._folder / scenario.name
        return StandingLab(self._probe_lab(scenario), folder, self._app.places.cache)

    def _idle_delay(self) -> None:
        with self._standing(_scenario("idle", "50 Mbit/s", "10 Mbit/s")) as lab:
            lab.execute("client0", "ping", "-c", "2", "193.167.100.100")
            text = lab.execute("client0", "ping", "-c", "20", "-i", "0.2", "193.167.100.100")
        times = [float(value) for value in re.findall(r"time=([0-9.]+)", text)]
        self._say(_line("RTT of an idle 650 ms path", times, "ms", "650 ± 1"))

    def _udp(self, lab: StandingLab, rate: str, seconds: int) -> dict[str, Any]:
        lab.execute("server0", "iperf3", "-s", "-D")
        text = lab.execute(
            "client0", "iperf3", "--json", "-c", "193.167.100.100", "-u", "-R", "-b", rate, "-l", str(PAYLOAD),
            "-t", str(seconds), timeout=seconds + 60,
        )  # fmt: skip
        result: dict[str, Any] = json.loads(text)
        return result

    def _rate(self) -> None:
        """Served rate with the queue always full: 1.25 × the link's rate offered."""
        for rate, offered in (("10 Mbit/s", "12.5M"), ("50 Mbit/s", "62.5M"), ("200 Mbit/s", "250M")):
            with self._standing(_scenario(f"rate-{rate.split()[0]}", rate, "10 Mbit/s", delay="20 ms")) as lab:
                result = self._udp(lab, offered, 8)
            wire = (PAYLOAD + 8 + 20 + 14) / PAYLOAD
            # The first second fills the queue; the rest is the link's rate.
            served = [item["sum"]["bits_per_second"] * wire / 1e6 for item in result["intervals"][2:-1]]
            self._say(_line(f"rate of a busy {rate} link, per second", served, "Mbit/s", f"{rate} ± 1 %"))

    def _load(self) -> None:
        """250 Mbit/s of UDP through a path that has room for it: what the simulator loses unasked."""
        lost, delivered = [], []
        for number in range(3):
            with self._standing(_scenario(f"load-{number}", "300 Mbit/s", "10 Mbit/s")) as lab:
                end = self._udp(lab, "250M", 10)["end"]["sum"]
            entered, left = (lab.captured(side) for side in ("right", "left"))
            lost.append(100 * max(0, entered - left) / entered)
            delivered.append(float(end["lost_percent"]))
        self._say(_line("250 Mbit/s of 1252-byte UDP, lost in the simulator", lost, "%", "≤ 0.1"))
        self._say(_line("the same, not received by the application", delivered, "%", "≤ 0.1"))

    # --- cells

    def _cell(self, scenario: Scenario) -> Cell:
        known = self._app.catalogue.find_implementations("ngtcp2", "client")
        cell = self._app.matrix(Request([scenario], known, known), lambda event: None, pull=False)[0]
        for build in self._app.builds_of(cell):
            self._app.images.make(build, self._announce)
        return cell

    def _overhead(self) -> None:
        """Wall time of a cell minus its transfer, and where it goes."""
        engine, store, versions = ComposeEngine(self._app.places.cache), Store(self._folder / "store"), daemon()
        cell = self._cell(_scenario("overhead", "50 Mbit/s", "10 Mbit/s", size="2 MB"))
        overheads: list[float] = []
        phases: dict[str, list[float]] = {}
        for repetition in range(5):
            begun = time.monotonic()
            run, measured = run_once(PlannedRun(cell, repetition), engine, store, versions, lambda phase: None)
            wall = time.monotonic() - begun
            transfer = measured.value("completion") if measured else None
            if transfer is None:
                self._console.print(f"a run did not complete: {run.outcome.detail}", markup=False)
                continue
            overheads.append(wall - transfer)
            for phase, seconds in {
                **run.phases,
                "transfer": run.phases["transfer"] - transfer,
                "measure": wall - run.wall,
            }.items():
                phases.setdefault(phase, []).append(seconds)
        self._say(_line("overhead of a cell (wall − transfer)", overheads, "s", "≤ 5"))
        names = {"transfer": "start and end of the client"}
        for phase, values in phases.items():
            self._say(_line(f"  of which {names.get(phase, phase)}", values, "s", ""))

    def _large(self) -> None:
        """The 250/3 Mbit/s case to its end, its link proof, and the time its analysis takes."""
        engine, store, versions = ComposeEngine(self._app.places.cache), Store(self._folder / "store"), daemon()
        large = self._app.catalogue.find_scenarios(["satellite/large"])[0]
        cell = self._cell(large)
        run, measured = run_once(PlannedRun(cell, 0), engine, store, versions, lambda phase: None)
        link = measured.link if measured else None
        self._console.print(
            f"satellite/large, ngtcp2→ngtcp2: {run.outcome.status} {run.outcome.detail}; link "
            f"{'valid' if link and link.valid else 'not valid'}",
            markup=False,
        )
        if measured and (completion := measured.value("completion")) is not None:
            self._say(_line("100 MB over 250/3 Mbit/s, ngtcp2→ngtcp2", [completion], "s", "ends, link valid"))
        folder = store.folder(cell.key, 0)
        times = []
        for _ in range(3):
            begun = time.monotonic()
            measure(folder, run)
            times.append(time.monotonic() - begun)
        self._say(_line("analysis of that cell (2 × 100 MB)", times, "s", "≤ 5 per 100 MB"))


def bench(app: App, console: Console) -> dict[str, Any]:
    """Run all benchmarks in a folder of their own; nothing goes into the store."""
    with tempfile.TemporaryDirectory(prefix="quic-lab-bench-") as folder:
        return Bench(app, console, Path(folder)).run()

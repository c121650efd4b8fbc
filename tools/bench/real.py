"""Real time: overhead of a cell, rate and delay of the simulator, time of the analysis."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing
from typing import Any

import polars as pl

from harness.analysis.metrics import measure
from harness.capture.counters import read_counters
from harness.engine.docker.engine import ComposeEngine
from harness.engine.docker_cli import daemon_versions
from harness.execution.matrix import PlannedRun, Request, build_matrix
from harness.execution.runner import run_once
from harness.netem.bounds import FRAME
from harness.outcome import Cell, Image
from harness.scenario.schema import Container, Implementation, Scenario
from harness.store.provenance import Provenance
from harness.store.results import Store
from harness.topology import Lab, build_lab
from harness.topology.addresses import FIRST_ENDPOINT, address
from tools.bench.idle_lab import StandingLab
from tools.bench.session import Session, line, scenario

#: UDP payload of the load, bytes; the size QUIC implementations start with.
PAYLOAD = 1252
#: Rates (Mbit/s) and buckets (ms of the rate; and one and two frames) whose capacity is measured, and for how long, s.
BUCKET_RATES, BUCKET_SPANS, BUCKET_SECONDS = (0.5, 2.0, 10.0, 50.0, 250.0), (0.5, 1.0, 2.0, 4.0), 4

#: How often a lab is brought up whose cells are timed, and cells of it each time.
LABS, CELLS = 3, 4

#: The first server of a lab in the first slot.
_SERVER = address("right", 0, FIRST_ENDPOINT)[0]


class RealTime(Session):
    """What the compose engine costs, and what its simulator does to packets."""

    def run(self) -> None:
        """All benchmarks in real time."""
        self.app.images.settle_sim(self.announce)
        self.app.images.make(self.app.images.sim_build("auto"), self.announce)
        self.app.images.make(self.app.images.probe, self.announce)
        for step in (
            self._idle_delay,
            self._rate,
            self._buckets,
            self._load,
            self._overhead,
            self._segments_in_row,
            self._large_case,
        ):
            step()

    # --- the simulator

    def _probe_lab(self, wanted: Scenario) -> Lab:
        probe = Implementation(
            name="probe",
            image=self.app.images.probe.reference,
            # ping's file has this capability: without it the kernel does not start it.
            container=Container(capabilities=("NET_RAW",)),
        )
        image = Image(reference=self.app.images.probe.reference, identity="probe")
        request = Request([wanted], [probe], [probe])
        return build_lab(build_matrix(request, {"probe": image}, self.app.images.sim("auto"))[0], 0)

    def _idle_lab(self, wanted: Scenario) -> StandingLab:
        folder = self.folder / wanted.name
        return StandingLab(self._probe_lab(wanted), folder, self.app.paths.cache)

    def _idle_delay(self) -> None:
        with self._idle_lab(scenario("idle", "50 Mbit/s", "10 Mbit/s")) as lab:
            lab.execute("client0", "ping", "-c", "2", _SERVER)
            text = lab.execute("client0", "ping", "-c", "20", "-i", "0.2", _SERVER)
        times = [float(value) for value in re.findall(r"time=([0-9.]+)", text)]
        self.say(line("RTT of an idle 650 ms path", times, "ms", "650 ± 1"))

    def _udp(self, lab: StandingLab, rate: str, seconds: int) -> dict[str, Any]:
        lab.execute("server0", "iperf3", "-s", "-D")
        text = lab.execute(
            "client0",
            "iperf3",
            "--json",
            "-c",
            _SERVER,
            "-u",
            "-R",
            "-b",
            rate,
            "-l",
            str(PAYLOAD),
            "-t",
            str(seconds),
            timeout=seconds + 60,
        )
        result: dict[str, Any] = json.loads(text)
        return result

    def _rate(self) -> None:
        """Served rate with the queue always full: 1.25 × the link's rate offered."""
        for rate, offered in (("10 Mbit/s", "12.5M"), ("50 Mbit/s", "62.5M"), ("200 Mbit/s", "250M")):
            with self._idle_lab(scenario(f"rate-{rate.split()[0]}", rate, "10 Mbit/s", delay="20 ms")) as lab:
                result = self._udp(lab, offered, 8)
            wire = (PAYLOAD + 8 + 20 + 14) / PAYLOAD
            # The first second fills the queue; the rest is the link's rate.
            served = [item["sum"]["bits_per_second"] * wire / 1e6 for item in result["intervals"][2:-1]]
            self.say(line(f"rate of a busy {rate} link, per second", served, "Mbit/s", f"{rate} ± 1 %"))

    def _buckets(self) -> None:
        """What a token bucket too small for late timers costs: bytes served by an always full queue, of those asked.

        The default bucket (harness.netem.bounds.burst_bytes) follows from this table.
        """
        for rate in BUCKET_RATES:
            sizes = {f"{frames} frame{'s' * (frames > 1)}": frames * FRAME for frames in (1, 2)}
            sizes |= {f"{span:g} ms": round(rate * 1e6 * span / 8e3) for span in BUCKET_SPANS}
            for name, size in sizes.items():
                if "frame" in name or size > 2 * FRAME:
                    title = f"{rate:g} Mbit/s, bucket of {name} ({size:,} B)"
                    if (served := self._served_share(rate, size)) is not None:
                        self.say(line(title, [served], "%", "≥ 99"))
                    else:
                        self.console.print(f"{title}: the load left the queue empty, so nothing can be said")

    def _served_share(self, rate: float, burst: int) -> float | None:
        """Per cent of the rate at which a queue that is never empty is served, by the kernel's own count.

        None where the load, which this machine may be too slow for, left the queue empty half of the time.
        """
        wanted = scenario(
            f"bucket-{rate:g}-{burst}", f"{rate:g} Mbit/s", "10 Mbit/s", delay="20 ms", burst=f"{burst} B"
        )
        with self._idle_lab(wanted) as lab:
            self._udp(lab, f"{1.5 * rate:g}M", BUCKET_SECONDS)
        rows = read_counters(lab.counters()).filter((pl.col("device") == "to_client") & (pl.col("backlog") > 0))
        if rows.is_empty() or rows["t_ns"][-1] - rows["t_ns"][0] < BUCKET_SECONDS / 2 * 1e9:
            return None
        seconds = (rows["t_ns"][-1] - rows["t_ns"][0]) / 1e9
        return float(100 * (rows["bytes"][-1] - rows["bytes"][0]) * 8 / seconds / (rate * 1e6))

    def _load(self) -> None:
        """250 Mbit/s of UDP through a path that has room for it: what the simulator loses unasked."""
        lost, delivered = [], []
        for number in range(3):
            with self._idle_lab(scenario(f"load-{number}", "300 Mbit/s", "10 Mbit/s")) as lab:
                end = self._udp(lab, "250M", 10)["end"]["sum"]
            entered, left = (lab.captured(side) for side in ("right", "left"))
            lost.append(100 * max(0, entered - left) / entered)
            delivered.append(float(end["lost_percent"]))
        self.say(line("250 Mbit/s of 1252-byte UDP, lost in the simulator", lost, "%", "≤ 0.1"))
        self.say(line("the same, not received by the application", delivered, "%", "≤ 0.1"))

    # --- cells

    def _overhead(self) -> None:
        """Wall time of a cell minus its transfer, and where it goes; of the first on a path, and of those after it."""
        costs = self._cell_costs(self.cell(scenario("overhead", "50 Mbit/s", "10 Mbit/s", size="2 MB")))
        names = {"transfer": "start and end of the client"}
        for which, aim in (("next", "≤ 2"), ("first", "≤ 5")):
            overheads, phases = costs[which]
            self.say(line(f"overhead of the {which} cell on a path (wall − transfer)", overheads, "s", aim))
            for phase, values in phases.items():
                self.say(line(f"  of which {names.get(phase, phase)}", values, "s", ""))
        self.say(line("removal of a path behind its last cell", costs["last"][0], "s", ""))

    def _segments_in_row(self) -> None:
        """How much later a TCP transfer starts behind three segments and two proxies than behind one simulator."""
        plain = scenario("plain", "50 Mbit/s", "10 Mbit/s", delay="10 ms", size="2 MB")
        content = plain.model_dump(mode="json", by_alias=True) | {"flows": [{"kind": "tcp", "download": "2 MB"}]}
        short = {"rate": "1 Gbit/s", "delay": "500 us", "queue": "1000 packets"}
        satellite = {"name": "satellite", **{way: content["path"][way] for way in ("forward", "return")}}
        path = [
            {"name": "ground", "forward": short, "return": short},
            {"proxy": "tcp-split"},
            satellite,
            {"proxy": "tcp-split"},
            {"name": "access", "forward": short, "return": short},
        ]
        starts: dict[str, list[list[float]]] = {"first": [], "next": []}
        for name, asked in (("plain", content), ("row", content | {"path": path})):
            wanted = Scenario.model_validate(asked | {"name": f"bench/{name}"})
            costs = self._cell_costs(self.cell(wanted, client="linux"))
            for which, seconds in starts.items():
                phases = costs[which][1]
                seconds.append(
                    [create + ready for create, ready in zip(phases["create"], phases["ready"], strict=True)]
                )
        for which, seconds in starts.items():
            # Runs that did not complete are left out.
            more = [row - plain for plain, row in zip(*seconds, strict=False)]
            self.say(line(f"start of three segments and two proxies, beyond one, {which} cell", more, "s", "≤ 4"))

    def _cell_costs(self, cell: Cell) -> dict[str, tuple[list[float], dict[str, list[float]]]]:
        """Of the first run of a cell on its path and of those after it: wall time less the transfer, each phase's, s.

        And of the removal of what stands then ("last").
        """
        store, provenance = Store(self.folder / "store"), Provenance(daemon_versions())
        costs: dict[str, tuple[list[float], dict[str, list[float]]]] = {
            which: ([], {}) for which in ("first", "next", "last")
        }
        for repetition in range(LABS * CELLS):
            if repetition % CELLS == 0:
                engine = ComposeEngine(self.app.cache)
            overheads, phases = costs["next" if repetition % CELLS else "first"]
            begun = time.monotonic()
            run, measured = run_once(PlannedRun(cell, repetition), engine, store, provenance, lambda phase: None)
            ended = time.monotonic()
            if (repetition + 1) % CELLS == 0:
                engine.close()
                costs["last"][0].append(time.monotonic() - ended)
            transfer = measured.value("completion", 0) if measured else None
            if transfer is None:
                self.console.print(f"a run did not complete: {run.outcome.detail}", markup=False)
                continue
            wall = ended - begun
            overheads.append(wall - transfer)
            for phase, seconds in {
                **run.phases,
                "transfer": run.phases["transfer"] - transfer,
                "measure": wall - run.wall,
            }.items():
                phases.setdefault(phase, []).append(seconds)
        return costs

    def _large_case(self) -> None:
        """The 250/3 Mbit/s case to its end, its link proof, and the time its analysis takes."""
        store, provenance = Store(self.folder / "store"), Provenance(daemon_versions())
        large = self.app.catalogue.find_scenarios(["satellite/large"])[0]
        cell = self.cell(large)
        with closing(ComposeEngine(self.app.cache)) as engine:
            run, measured = run_once(PlannedRun(cell, 0), engine, store, provenance, lambda phase: None)
        link = measured.link if measured else None
        self.console.print(
            f"satellite/large, ngtcp2→ngtcp2: {run.outcome.status} {run.outcome.detail}; link "
            f"{'valid' if link and link.valid else 'not valid'}",
            markup=False,
        )
        if measured and (completion := measured.value("completion", 0)) is not None:
            self.say(line("100 MB over 250/3 Mbit/s, ngtcp2→ngtcp2", [completion], "s", "ends, link valid"))
        folder = store.folder(cell.key, 0)
        times = []
        for _ in range(3):
            begun = time.monotonic()
            measure(folder, run)
            times.append(time.monotonic() - begun)
        self.say(line("analysis of that cell (2 × 100 MB)", times, "s", "≤ 5 per 100 MB"))

"""What holds the lab's links against judges of their own: a model of random paths, and ns-3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.analysis.run_view import RunView
from harness.engine.virtual.engine import VirtualEngine
from harness.execution.matrix import PlannedRun
from harness.execution.runner import run_once
from harness.scenario.schema import Scenario
from harness.store.provenance import Provenance
from harness.store.results import Store
from tools.bench.gauge import gauge
from tools.bench.ns3 import Agreement, agreements, red_experiment
from tools.bench.paths import NEAR, Difference, compare
from tools.bench.session import Session, line, scenario

#: Random paths, and how many of them in one lab kernel: a guest keeps all packets of a trial in its sockets.
PATHS, AT_ONCE = 200, 50
#: Who sends over the links that ns-3 judges.
STACKS = ("ngtcp2", "picoquic", "quic-go", "quiche")


def _scenarios() -> Iterator[tuple[str, Scenario]]:
    """Paths that ns-3 has: a bottleneck of bytes, with and without random loss behind it, and with changes."""
    yield "GEO", scenario("ns3-geo", "50 Mbit/s", "10 Mbit/s")
    yield "1 % loss", scenario("ns3-loss", "20 Mbit/s", "5 Mbit/s", delay="100 ms", loss="1 %")
    # Its rate stays: ns-3 lets a packet in service keep the end that it had.
    longer: list[dict[str, Any]] = [{"at": "2 s", "forward": {"delay": "200 ms"}, "return": {"delay": "200 ms"}}]
    yield "a delay that changes", _changing("ns3-delay", longer)
    slower: list[dict[str, Any]] = [{"at": "2 s", "forward": {"rate": "10 Mbit/s"}}]
    yield "a rate that changes", _changing("ns3-rate", slower)


def _changing(name: str, changes: list[dict[str, Any]]) -> Scenario:
    plain = scenario(name, "20 Mbit/s", "5 Mbit/s", delay="50 ms")
    path = plain.path.model_dump(by_alias=True, exclude_none=True) | {"changes": changes}
    return Scenario.model_validate(plain.model_dump(by_alias=True, exclude_none=True) | {"path": path})


class LinkValidation(Session):
    """Links in virtual time, packet for packet."""

    def run(self) -> None:
        """Random paths beside their model; runs of several stacks beside ns-3."""
        self._paths()
        self._ns3()

    def _paths(self) -> None:
        build = self.app.images.sim_build("lab")
        self.app.images.make(build, self.announce)
        core, differences = min(os.sched_getaffinity(0)), list[Difference]()
        with self.app.root_file_systems.use([build.reference]) as exported:
            rootfs = Path(exported.roots[build.reference].rootfs)
            for first in range(0, PATHS, AT_ONCE):
                differences += compare(range(first, first + AT_ONCE), rootfs, self.folder / f"paths-{first}", core=core)
        held = [difference for difference in differences if difference.holds]
        self.say(line("random paths that do what the model says, packet for packet", [len(held)], f"of {PATHS}", "all"))
        missing = sum(difference.drops + difference.losses for difference in differences)
        self.say(line("  packets that their queues dropped, or that were lost", [missing], "packets", ""))
        apart = [difference.worst_ns / 1e3 for difference in held]
        self.say(line("  any packet's time, from the model", apart, "µs", f"≤ {NEAR / 1e3:g}"))
        for difference in differences:
            if not difference.holds:
                self.console.print(f"{difference}", markup=False)

    def _ns3(self) -> None:
        self.app.images.make(self.app.images.ns3, self.announce)
        store = Store(self.folder / "store")
        engine = VirtualEngine(self.app.cache, [min(os.sched_getaffinity(0))])
        for name, wanted in _scenarios():
            views = []
            for stack in STACKS:
                cell = self.cell(wanted, "virtual", stack)
                run, _ = run_once(PlannedRun(cell, 0), engine, store, Provenance(), lambda phase: None)
                views.append((f"{name}, {stack}", RunView(store.folder(cell.key, 0), run)))
            self._say_agreements(name, list(agreements(views, self.app.images.ns3.reference)))
        self._red()

    def _red(self) -> None:
        """What RED does to one stream over many runs, beside ns-3's."""
        experiment = red_experiment(self.app.images.ns3.reference)
        with self.app.root_file_systems.use([self.app.images.sim_build("lab").reference]) as exported:
            (root,) = exported.roots.values()
            core = min(os.sched_getaffinity(0))
            passages = gauge(experiment.trials, Path(root.rootfs), self.folder / "red", core=core)
        for row in experiment.read(passages):
            aim = f"{row.expected:.3f} ± {row.tolerance:.3f}"
            self.say(line(f"ns-3, {row.name}", [row.measured], row.unit, aim))

    def _say_agreements(self, name: str, agreed: list[Agreement]) -> None:
        packets, drops = sum(agreement.packets for agreement in agreed), sum(agreement.drops for agreement in agreed)
        other_fates = sum(agreement.other_fates for agreement in agreed)
        self.say(line(f"ns-3, {name}: packets that only one of both drops", [other_fates], f"of {packets}", "0"))
        self.say(line("  drops", [drops], "packets", ""))
        self.say(line("  any departure, apart", [agreement.worst_ns / 1e3 for agreement in agreed], "µs", ""))

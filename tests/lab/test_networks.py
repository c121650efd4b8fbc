"""Networks and simulators stand from run to run, and no run can tell what was before it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from harness.analysis.run_view import RunView
from harness.engine.docker.engine import ComposeEngine
from harness.execution import App, CheckoutPaths
from harness.execution.locks import machine_lock
from harness.execution.matrix import PlannedRun, Request
from harness.execution.runner import run_once
from harness.outcome import Cell, LinkProof
from harness.scenario.schema import Scenario
from harness.store.provenance import Provenance
from harness.store.results import Store
from tests.examples import ROOT
from tests.lab.conftest import ATTEMPTS, CACHE, left_overs

pytestmark = pytest.mark.alone

LINK = {"rate": "20 Mbit/s", "delay": "20 ms", "queue": "2000 packets"}
#: So many losses are looked at; of 800 packets, 1 MB, 24 are lost.
LOSSES = 12
#: What the simulator itself sends a client that waits for the path, at most, in packets: they pass its losses, too.
GREETING = 12


@dataclass(frozen=True)
class Seen:
    """What a run shows of what was before it."""

    delivered: list[bool]
    """Of each packet towards the client, in order."""
    first_counts: list[tuple[int, int]]
    """Of each queueing discipline, as it was when the path came up: (packets, drops)."""
    datagrams: int
    starts: int
    """How often a simulator began, in the diary."""
    link: LinkProof
    names: frozenset[str]
    cpu_sim: float


class Bench:
    """One engine with a store for each run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.app = App(CheckoutPaths(ROOT, folder / "none", ROOT / ".state", CACHE))
        self.engine = ComposeEngine(self.app.cache)

    def cell(self, client: str, **overrides: object) -> Cell:
        """A client's download of 1 MB from ngtcp2 over a path that loses 3 % towards it, and whatever else is asked."""
        asked = {
            "name": "standing", "title": "standing", "path": {"forward": {**LINK, "loss": "3 %"}, "return": LINK},
            "flows": [{"download": "1 MB"}], **overrides,
        }  # fmt: skip
        implementations = [self.app.catalogue.implementations()[name][0] for name in (client, "ngtcp2")]
        request = Request([Scenario.model_validate(asked)], implementations[:1], implementations[1:])
        (cell,) = self.app.matrix(request, lambda event: None, pull=False)
        return self.app.inventory.build_images_of(cell, lambda event: None)

    def run(self, cell: Cell) -> Seen:
        """A run of a cell whose link is proven, as soon as the machine lets it be."""
        for _ in range(ATTEMPTS):
            store = Store(self.folder / "store")
            run, measured = run_once(PlannedRun(cell, 0), self.engine, store, Provenance({}), lambda phase: None)
            assert run.outcome.status == "completed", run.outcome.detail
            if measured is not None and measured.link is not None and measured.link.valid and not measured.starved:
                break
        else:
            pytest.skip(f"no real time to be had: {measured}")
        view = RunView(store.folder(cell.key, 0), run)
        assert view.to_client is not None and view.counters is not None and view.left is not None
        counted = view.counters.filter(pl.col("t_ns") == pl.col("t_ns").min())
        diary = view.path("sim/events.jsonl")
        assert diary is not None
        return Seen(
            delivered=[bool(arrived) for arrived in view.to_client.arrived],
            first_counts=list(zip(counted["packets"].to_list(), counted["drops"].to_list(), strict=True)),
            datagrams=len(view.left.t_ns),
            starts=sum(json.loads(line)["event"] == "start" for line in diary.read_text().splitlines()),
            link=measured.link,
            names=frozenset(measurement.name for measurement in measured.measurements),
            cpu_sim=next(measurement.value for measurement in measured.measurements if measurement.name == "cpu_sim"),
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    networks_bench = Bench(tmp_path)
    with machine_lock("compose", lambda: None), closing(networks_bench.engine):
        yield networks_bench


def _simulators(*state: str) -> list[str]:
    """The simulators that run; `--all`: those that ended, too."""
    words = ["docker", "ps", *state, "--quiet", "--no-trunc", "--filter", "label=org.quic-lab.owner"]
    words += ["--filter", "label=com.docker.compose.service=sim"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def _same_losses(first_fates: list[bool], second_fates: list[bool]) -> bool:
    """Whether both show one sequence of losses: most of the first ones are at the same place, but for a few packets.

    The greeting is drawn for, too, and now and then an address that an endpoint asks for once more. Captures show
    neither: a loss that falls on such a packet is in one run's list and not in the other's, and what follows is a
    packet earlier or later.
    """
    first, second = (np.flatnonzero(~np.array(each)) for each in (first_fates, second_fates))
    assert min(len(first), len(second)) >= LOSSES
    distances = second[None, :] - first[:LOSSES, None]
    shared = [
        float(np.mean(np.any(np.abs(distances - shift) <= 2, axis=1))) for shift in range(-GREETING, GREETING + 1)
    ]
    return max(shared) >= 0.75


def test_a_run_is_the_same_alone_and_behind_another(bench: Bench) -> None:
    """Behind a longer one of another client, with other losses at another rate, on the same simulator."""
    cell = bench.cell("ngtcp2")
    alone = bench.run(cell)
    before = _simulators()
    bench.engine.close()
    assert left_overs() == []
    faster = {**LINK, "rate": "25 Mbit/s", "loss": "6 %"}
    other = bench.run(bench.cell("picoquic", flows=[{"download": "3 MB"}], path={"forward": faster, "return": LINK}))
    stands = _simulators()
    behind = bench.run(cell)
    assert _simulators() == stands
    # On the host's kernel there is only the container's own namespace to run a path in: the simulator ends with the run.
    assert stands == before == [] if alone.link.kernel.startswith("host ") else stands != before
    # The losses begin with the run's own seed, whatever was drawn before.
    assert _same_losses(alone.delivered, behind.delivered)
    assert not _same_losses(other.delivered, behind.delivered)
    for seen in (alone, behind):
        assert len(seen.first_counts) >= 4
        assert all(packets <= GREETING and drops <= 1 for packets, drops in seen.first_counts)
        # Files hold this run and no other: of 1 MB, with what acknowledges it.
        assert seen.starts == 1
        assert 800 < seen.datagrams < 2500
    assert alone.link.kernel == behind.link.kernel
    assert alone.names == behind.names
    if stands:
        # It does not count what the simulator did for the other.
        assert behind.cpu_sim < 2 * alone.cpu_sim
    bench.engine.close()
    assert left_overs() == []


def test_a_simulator_that_somebody_ended_between_two_runs_is_made_again(bench: Bench) -> None:
    cell = bench.cell("ngtcp2")
    bench.run(cell)
    for words, state in ((["kill"], ()), (["rm", "--force"], ("--all",))):
        # On the host's kernel they ended with the run, and nobody can kill them.
        if simulators := _simulators(*state):
            subprocess.run(["docker", *words, *simulators], check=True, capture_output=True)
        bench.run(cell)
    bench.engine.close()
    assert left_overs() == []
    assert not list((bench.folder / "store" / "partial").iterdir())

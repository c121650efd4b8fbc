"""Path programs, explanations and Compose files, letter by letter. `make golden` renews them; read the diff."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from syrupy.assertion import SnapshotAssertion

from harness.engine.compose_file import compose_text
from harness.engine.images.rootfs_export import RootFs
from harness.engine.virtual.guest_config import world_document
from harness.netem import Server, compile_path
from harness.report.explain import explain
from harness.scenario.schema import Flow, Scenario
from harness.topology import build_lab, sim_plan, summary
from harness.units import Duration, Size
from tests.examples import ROOT, catalogue, cell, implementation, link, path, scenario
from tools.reference.by_hand import open_cell

SCENARIOS = [catalogue().scenario(file) for file in catalogue().scenario_files()]

RED = {
    "discipline": "red",
    "limit": "50 kB",
    "min": "15 kB",
    "max": "40 kB",
    "probability": "10 %",
    "average_packet": "1280 B",
}

PATHS = {
    "red by weight, marking": path(forward=link("5.65 Mbit/s", queue={**RED, "wq": 0.002, "ecn": True})),
    "red by burst": path(forward=link("5.65 Mbit/s", queue={**RED, "burst": 85})),
    "a queue in packets and one in milliseconds": path(
        **{"forward": link(queue="25 packets"), "return": link(queue="100 ms")}
    ),
    "jitter and bursty loss": path(forward=link(jitter="3 ms", loss={"good_to_bad": "1.8 %", "bad_to_good": "64.5 %"})),
    "red behind a Poisson service that starts cold": path(
        forward=link(
            "2.64 Mbit/s",
            queue={**RED, "limit": "20 packets", "min": "9 kB", "max": "24 kB", "wq": 0.002},
            service={"process": "poisson", "cold_start": "5 s", "period": "4 min"},
        )
    ),
    "a Poisson service and the least MTU": path(
        forward=link("2.64 Mbit/s", queue="130 packets", service={"process": "poisson"}), mtu=1280
    ),
    "datagrams dropped by number and damaged by chance": path(
        **{
            "forward": link("10 Mbit/s", queue="25 packets", drop={"packets": [2, 3, 5]}),
            "return": link("10 Mbit/s", queue="25 packets", corrupt={"rate": "30 %", "burst": 3}),
        }
    ),
    "bursts that end": path(forward=link(drop={"rate": "2 %", "burst": 3}), **{"return": link(drop={"rate": "30 %"})}),
    "everything changes": path(
        changes=[
            {"at": "5 s", "forward": {"rate": "10 Mbit/s", "loss": "1 %"}},
            {"at": "7.5 s", "forward": {"delay": "300 ms"}, "return": {"rate": "1 Mbit/s", "loss": "0.5 %"}},
        ]
    ),
}


@pytest.mark.parametrize("server", get_args(Server))
@pytest.mark.parametrize("name", PATHS)
def test_path_programs(name: str, server: Server, snapshot: SnapshotAssertion) -> None:
    assert "\n".join(compile_path(PATHS[name], server, seed=42).lines()) == snapshot


@pytest.mark.parametrize("server", get_args(Server))
def test_the_path_program_of_two_access_delays(server: Server, snapshot: SnapshotAssertion) -> None:
    changing = path(forward=link(loss="1 %"), changes=[{"at": "5 s", "forward": {"delay": "300 ms"}}])
    delays = {"193.167.0.101": "20 ms", "fd00:cafe:cafe:0::101": "20 ms", "193.167.100.102": "5 ms"}
    access = {address: Duration.parse(delay) for address, delay in delays.items()}
    assert "\n".join(compile_path(changing, server, 42, access).lines()) == snapshot


@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: one.name)
def test_explanations_of_the_scenarios(one: Scenario, snapshot: SnapshotAssertion) -> None:
    assert explain(one, "compose") == snapshot


def test_compose_file_of_one_pair(snapshot: SnapshotAssertion) -> None:
    repeats = scenario(flows=[Flow(download=Size.parse("100 MB"), repeat_after=Duration.parse("10 s"))])
    assert compose_text(build_lab(cell(repeats, client=implementation("alpha", session=True)), 0)) == snapshot


def test_compose_file_of_three_flows(snapshot: SnapshotAssertion) -> None:
    flows = [Flow(download=Size.parse("10 MB"), start=Duration.parse(f"{5 * n} s")) for n in range(3)]
    assert compose_text(build_lab(cell(scenario(flows=flows)), 0, slot=2)) == snapshot


def test_the_lab_by_hand_is_in_step() -> None:
    cell_ = open_cell(catalogue().find_scenarios(["satellite/medium"])[0])
    lab = build_lab(cell_, 0)
    assert (ROOT / "compose/lab.yaml").read_text() == compose_text(lab), "run 'make generate'"
    assert json.loads((ROOT / "compose/plan/plan.json").read_text()) == sim_plan(lab, lab.simulators[0]), (
        "run 'make generate'"
    )


def test_a_lab_whose_client_moves(snapshot: SnapshotAssertion) -> None:
    """Compose file, plans, world and summary of a client on two paths, one of which rewrites its port."""
    moving = catalogue().scenario(ROOT / "docs/scenarios/handover.yaml").model_copy(update={"draw": {}})
    client = implementation("alpha", image=None, build=".", moves=["migrate", "interface"])
    lab = build_lab(cell(moving, client, implementation("beta", image=None, build=".")), 0)
    image = RootFs("alpha:1", "sha256:1", "sha256:1", "/exported/alpha", ["/run"], [], "/", "", 15)
    world = world_document(lab, {host.name: image for host in lab.hosts}, 1000)
    assert compose_text(lab) == snapshot(name="compose")
    assert [sim_plan(lab, one) for one in lab.simulators] == snapshot(name="plans")
    assert world == snapshot(name="world")
    assert summary(lab) == snapshot(name="summary")


def test_a_lab_of_segments_in_a_row(snapshot: SnapshotAssertion) -> None:
    """Compose file, plans, world and summary of three segments with two proxies."""
    row = catalogue().scenario(ROOT / "docs/scenarios/in-sequence.yaml")
    # The endpoints of TCP are no part of it.
    lab = build_lab(cell(row.model_copy(update={"flows": (Flow(download=Size.parse("10 MB")),)})), 0)
    image = RootFs("alpha:1", "sha256:1", "sha256:1", "/exported/alpha", ["/run"], [], "/", "", 15)
    world = world_document(
        lab,
        dict.fromkeys((*(host.name for host in lab.hosts), *(proxy.name for proxy in lab.proxies)), image),
        1000,
    )
    assert compose_text(lab) == snapshot(name="compose")
    assert [sim_plan(lab, one) for one in lab.simulators] == snapshot(name="plans")
    assert world == snapshot(name="world")
    assert summary(lab) == snapshot(name="summary")


def test_simulator_plan(snapshot: SnapshotAssertion) -> None:
    lab = build_lab(cell(), 0)
    assert sim_plan(lab, lab.simulators[0]) == snapshot

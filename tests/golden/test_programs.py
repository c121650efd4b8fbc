"""Path programs, explanations and Compose files, letter by letter. `make golden` renews them; read the diff."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from itertools import groupby
from typing import get_args

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from harness.engine.compose_file import compose_text
from harness.engine.images.rootfs_export import RootFs
from harness.engine.virtual.guest_config import world_document
from harness.netem import Server, compile_path, realise
from harness.report.explanation import scenario_text
from harness.scenario.schema import Flow
from harness.topology import Lab, build_lab, lab_summary, sim_plan
from harness.topology.mobility import outages_by_path
from harness.units import Duration, Size
from tests.examples import ROOT, catalogue, cell, implementation, link, path, scenario
from tools.reference.by_hand import open_cell

SCENARIOS = [catalogue().scenario(file) for file in catalogue().scenario_files()]
#: Folder below scenarios/ → its scenarios.
FAMILIES = {
    family: list(members) for family, members in groupby(SCENARIOS, key=lambda item: item.name.rpartition("/")[0])
}

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
    "CoDel, and FQ-CoDel that marks": path(
        **{
            "forward": link(queue={"discipline": "codel", "target": "10 ms", "interval": "200 ms"}),
            "return": link(queue={"discipline": "fq_codel", "limit": "500 kB", "flows": 64, "ecn": True}),
        }
    ),
    "PIE, and FQ-PIE with their defaults": path(**{"forward": link(queue="pie"), "return": link(queue="fq_pie")}),
    "SFQ, and DualPI2": path(**{"forward": link(queue="sfq"), "return": link(queue="dualpi2")}),
    "CAKE, and a step marker": path(
        **{
            "forward": link(queue={"discipline": "cake", "isolation": "triple-isolate", "priorities": "diffserv4"}),
            "return": link(queue={"discipline": "step", "threshold": "1 ms", "limit": "100 ms"}),
        }
    ),
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
    "a policer that drops, and one that remarks": path(
        **{
            "forward": link("20 Mbit/s", queue="policer 100 kB"),
            "return": link(queue={"discipline": "policer", "burst": "30 kB", "exceed": {"dscp": 8}}),
        },
        changes=[{"at": "5 s", "forward": {"rate": "10 Mbit/s"}}],
    ),
    "slots of several packets, both ways": path(
        **{
            "forward": link(
                "20 Mbit/s",
                loss="1 %",
                service={"process": "slots", "packets": 42, "bytes": "64 kB", "every": ["800 us", "10 ms"]},
            ),
            "return": link("5 Mbit/s", queue="fq_codel", service={"process": "slots", "every": "5 ms"}),
        }
    ),
    "an MTU that senders are told of, one below IPv6's least, and jumbo frames": path(
        **{"mtu": 9000, "forward": link("10 Mbit/s", mtu=1420), "return": link("1 Mbit/s", mtu=1000)}
    ),
    "a black hole that comes, is told of, and goes": path(
        changes=[
            {"at": "5 s", "forward": {"mtu": {"size": 1280, "icmp": False}}},
            {"at": "7.5 s", "forward": {"mtu": 1280}, "return": {"mtu": {"size": 1280, "icmp": False}}},
            {"at": "9 s", "forward": {"mtu": 1500}, "return": {"mtu": 1500}},
        ]
    ),
    "everything changes": path(
        changes=[
            {"at": "5 s", "forward": {"rate": "10 Mbit/s", "loss": "1 %"}},
            {"at": "7.5 s", "forward": {"delay": "300 ms"}, "return": {"rate": "1 Mbit/s", "loss": "0.5 %"}},
        ]
    ),
    "a pattern of all values, and outages of a direction": realise(
        path(
            forward=link("20 Mbit/s", "20 ms", queue="fq_codel", blackhole={"after": "5 s", "lasts": "50 ms", "every": "5 s"}),
            changes=[
                {
                    "at": "5 s", "every": "5 s",
                    "forward": {"rate": ["10 Mbit/s", "30 Mbit/s"], "delay": ["15 ms", "35 ms"], "queue": "100 ms"},
                    "return": {"jitter": "2 ms", "duplicate": ["0 %", "1 %"], "outage": ["20 ms", "80 ms"]},
                },
                {"at": "7 s", "every": "10 s", "forward": {"rate": "0 bit/s"}, "return": {"reorder": "1 %", "loss": "1 %"}},
                {"at": "8 s", "every": "10 s", "forward": {"rate": "5 Mbit/s"}, "return": {"reorder": "none"}},
            ],
        ),
        42,
        Duration.parse("20 s"),
    ),
}  # fmt: skip


class TextFile(SingleFileSnapshotExtension):
    """One text file a test, as a reviewer reads it."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def one_file(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


def differences(texts: Mapping[str, str]) -> str:
    """The first of several texts in full, and of each other one the lines that differ from the most similar before it."""
    parts, before = [], dict[str, list[str]]()
    for name, text in texts.items():
        lines = text.splitlines()
        compared = {
            earlier: list(difflib.unified_diff(others, lines, n=0, lineterm=""))[2:]
            for earlier, others in before.items()
        }
        nearest = min(compared, key=lambda earlier: len(compared[earlier]), default=None)
        shown = [f"=== {name}", *lines] if nearest is None else [f"=== {name}, beside {nearest}", *compared[nearest]]
        parts.append("\n".join(shown))
        before[name] = lines
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("server", get_args(Server))
@pytest.mark.parametrize("name", PATHS)
def test_path_programs(name: str, server: Server, snapshot: SnapshotAssertion) -> None:
    outages = outages_by_path(scenario(path=PATHS[name])).get("", ())
    assert "\n".join(compile_path(PATHS[name], server, seed=42, outages=outages).lines()) == snapshot


@pytest.mark.parametrize("server", get_args(Server))
def test_the_path_program_of_two_access_delays(server: Server, snapshot: SnapshotAssertion) -> None:
    changing = path(forward=link(loss="1 %"), changes=[{"at": "5 s", "forward": {"delay": "300 ms"}}])
    delays = {"193.167.0.101": "20 ms", "fd00:cafe:cafe:0::101": "20 ms", "193.167.100.102": "5 ms"}
    access = {address: Duration.parse(delay) for address, delay in delays.items()}
    assert "\n".join(compile_path(changing, server, 42, access).lines()) == snapshot


@pytest.mark.parametrize("family", FAMILIES)
def test_explanations_of_the_scenarios(family: str, one_file: SnapshotAssertion) -> None:
    """A file a family: the first scenario in full, of the others what differs from the most similar."""
    assert differences({item.name: scenario_text(item, "compose") for item in FAMILIES[family]}) == one_file


def test_the_lab_by_hand_is_in_step() -> None:
    cell_ = open_cell(catalogue().find_scenarios(["satellite/medium"])[0])
    lab = build_lab(cell_, 0)
    assert (ROOT / "compose/lab.yaml").read_text() == compose_text(lab), "run 'make generate'"
    assert json.loads((ROOT / "compose/plan/plan.json").read_text()) == sim_plan(lab, lab.simulators[0]), (
        "run 'make generate'"
    )


def _one_pair() -> Lab:
    repeats = scenario(flows=[Flow(download=Size.parse("100 MB"), repeat_after=Duration.parse("10 s"))])
    return build_lab(cell(repeats, client=implementation("alpha", session=True)), 0)


def _three_flows() -> Lab:
    flows = [Flow(download=Size.parse("10 MB"), start=Duration.parse(f"{5 * n} s")) for n in range(3)]
    return build_lab(cell(scenario(flows=flows)), 0, slot=2)


def _moving_client() -> Lab:
    """A client on two paths, one of which rewrites its port."""
    moving = catalogue().scenario(ROOT / "docs/scenarios/handover.yaml").model_copy(update={"draw": {}})
    client = implementation("alpha", image=None, build=".", moves=["migrate", "interface"])
    return build_lab(cell(moving, client, implementation("beta", image=None, build=".")), 0)


def _segments() -> Lab:
    """Three segments with two proxies."""
    row = catalogue().scenario(ROOT / "docs/scenarios/in-sequence.yaml")
    # The endpoints of TCP are no part of it.
    return build_lab(cell(row.model_copy(update={"flows": (Flow(download=Size.parse("10 MB")),)})), 0)


#: The plainest first, as it is shown in full.
LABS = {
    "one pair": _one_pair,
    "three flows": _three_flows,
    "a client that moves": _moving_client,
    "segments in a row": _segments,
}


def test_compose_files(one_file: SnapshotAssertion) -> None:
    assert differences({name: compose_text(lab()) for name, lab in LABS.items()}) == one_file


def test_simulator_plans(one_file: SnapshotAssertion) -> None:
    plans = {
        f"{name}, {simulator.name}": json.dumps(sim_plan(lab, simulator), indent=1)
        for name, lab in ((name, make()) for name, make in LABS.items())
        for simulator in lab.simulators
    }
    assert differences(plans) == one_file


def test_worlds(one_file: SnapshotAssertion) -> None:
    """What a guest in virtual time is given of each lab."""
    image = RootFs("alpha:1", "sha256:1", "sha256:1", "/exported/alpha", ["/run"], [], "/", "", 15)
    worlds = {}
    for name, make in LABS.items():
        lab = make()
        images = dict.fromkeys((*(host.name for host in lab.hosts), *(proxy.name for proxy in lab.proxies)), image)
        worlds[name] = json.dumps(world_document(lab, images, 1000), indent=1)
    assert differences(worlds) == one_file


def test_summaries(one_file: SnapshotAssertion) -> None:
    assert differences({name: json.dumps(lab_summary(make()), indent=1) for name, make in LABS.items()}) == one_file

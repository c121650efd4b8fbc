"""Cells in virtual time: the same images, exact results, whatever else the machine does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulator.world import MASKS

from harness.capture.files import read_bytes
from harness.engine.images.cache import Cache
from harness.engine.images.rootfs_export import RootFileSystems
from tests.lab.conftest import CACHE, LINKS, Harness, Manifest, build_image, left_overs, local_image
from tools.bench.theory import LOOK

pytestmark = pytest.mark.usefixtures("work_on_every_core")
VIRTUAL = ("--engine", "virtual")
NGTCP2 = ("--clients", "ngtcp2", "--servers", "ngtcp2")
IMPLEMENTATIONS = ("picoquic", "ngtcp2", "quiche", "quic-go")


def test_every_pair_transfers_over_an_exact_link(warm: Harness, harness: Harness) -> None:
    names = ",".join(IMPLEMENTATIONS)
    cells = harness.cells(harness.scenario("pairs"), "--clients", names, "--servers", names, "--repeat", "1", *VIRTUAL)
    assert len(cells) == len(IMPLEMENTATIONS) ** 2
    for cell in cells:
        who = (cell["client"], cell["server"])
        assert cell["outcomes"] == {"completed": 1}, (who, cell["sentence"])
        link = cell["link"]
        assert link["valid"], (who, link["problems"])
        assert link["kernel"].startswith("lab ")
        for direction in ("to_client", "to_server"):
            assert link[direction]["min_delay_ms"] == pytest.approx(20, abs=0.001)
            # Nothing but the flows is on the path, so that only looks at the clock are left: forty of them.
            assert link[direction]["lateness_p99_ms"] <= 40 * LOOK / 1e6
            assert link[direction]["unasked_drops"] == 0
        # 40 ms for the handshake, 40 for the request, 1 MB at 20 Mbit/s: nothing can be faster.
        assert 0.48 < cell["measurements"]["completion"]["median"] < 1.0
        # CPU costs no virtual time, so it is no figure of such a run.
        assert "cpu_client" not in cell["measurements"]
        assert cell["measurements"]["udp_receive_drops"]["median"] == 0


QUICHE = ("--clients", "quiche", "--servers", "quiche")


def _wire(cell: dict[str, Any], repetition: int = 0) -> bytes:
    """What the client's side of the simulator saw: every datagram's head and the ns it came."""
    evidence = next(Path(folder) for folder in cell["evidence"] if Path(folder).name == str(repetition))
    return read_bytes(evidence / "sim" / "trace_node_left.pcap")


def test_a_scheduled_change_takes_effect_on_time(warm: Harness, harness: Harness) -> None:
    path = {**LINKS, "changes": [{"at": "1 s", "forward": {"rate": "4 Mbit/s"}}]}
    case = harness.scenario("change", path=path, flows=[{"download": "4 MB"}], milestones=["4 MB"])
    cell = harness.cell(case, *NGTCP2, "--repeat", "1", *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert len(cell["link"]["changes_late_ms"]) == 1
    assert 0 <= cell["link"]["changes_late_ms"][0] < 1
    # About 2.3 MB fit into the first second; the rest takes 0.5 MB/s.
    assert 3.5 < cell["measurements"]["completion"]["median"] < 10


def test_flows_share_the_bottleneck_and_a_late_one_starts_late(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("two", flows=[{"download": "1 MB"}, {"download": "1 MB", "start": "1 s"}])
    cell = harness.cell(case, *NGTCP2, "--repeat", "1", *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    assert {"flow0_completion", "flow1_completion"} <= set(cell["measurements"])
    run = json.loads((Path(cell["evidence"][0]) / "run.json").read_text())
    early, late = sorted(run["transfers"], key=lambda item: item["flow"])
    assert late["started_ns"] - early["started_ns"] > 1e9


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_ipv6_and_a_repeat(warm: Harness, harness: Harness, implementation: str) -> None:
    case = harness.scenario("again", ip_version=6, flows=[{"download": "1 MB", "repeat_after": "2 s"}])
    cell = harness.cell(case, "--clients", implementation, "--servers", implementation, "--repeat", "1", *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    first, again = (cell["measurements"][name]["median"] for name in ("completion", "repeat_completion"))
    assert 0.48 < first < 10
    assert 0.44 < again < 10


def test_an_upload_takes_the_return_link(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("up", path={**LINKS, "terminal": "server"})
    cell = harness.cell(case, "--clients", "quiche", "--servers", "quiche", "--repeat", "1", *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["measurements"]["completion"]["median"] > 8e6 / 5e6


def test_long_idle_times_cost_no_wall_time(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("idle", flows=[{"download": "100 kB", "repeat_after": "600 s"}], milestones=["100 kB"])
    cell = harness.cell(case, *NGTCP2, "--repeat", "1", *VIRTUAL, timeout=120)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    run = json.loads((Path(cell["evidence"][0]) / "run.json").read_text())
    assert run["virtual"] > 600
    assert run["wall"] < 100


def test_two_runs_side_by_side_do_not_see_each_other(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("beside")
    alone = harness.cell(case, *QUICHE, "--repeat", "2", "--jobs", "1", *VIRTUAL)
    seen = [_wire(alone, repetition) for repetition in range(2)]
    beside = harness.cell(case, *QUICHE, "--repeat", "2", "--jobs", "2", "--fresh", *VIRTUAL)
    assert beside["outcomes"] == {"completed": 2}, beside["sentence"]
    assert [_wire(beside, repetition) for repetition in range(2)] == seen
    assert seen[0] != seen[1]


def test_it_runs_without_the_docker_daemon_once_the_images_are_exported(
    warm: Harness, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.cell(harness.scenario("first"), *NGTCP2, "--repeat", "1", *VIRTUAL)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    cell = harness.cell(harness.scenario("second"), *NGTCP2, "--repeat", "2", *VIRTUAL)
    assert cell["outcomes"] == {"completed": 2}, cell["sentence"]


def test_a_run_leaves_the_exported_images_as_they_were(warm: Harness, harness: Harness) -> None:
    harness.cell(harness.scenario("first"), *NGTCP2, "--repeat", "1", *VIRTUAL)
    root = _rootfs("quic-lab/ngtcp2")
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    harness.cell(harness.scenario("second"), *NGTCP2, "--repeat", "1", *VIRTUAL)
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


def _rootfs(name: str) -> Path:
    """The exported root of an image of ours."""
    root = RootFileSystems(Cache(CACHE)).known(local_image(name.removeprefix("quic-lab/")))
    assert root is not None
    return Path(root.rootfs)


@pytest.mark.parametrize("user", ["someone", "root"])
@pytest.mark.alone
def test_an_endpoint_finds_what_it_finds_in_a_container(
    warm: Harness, harness: Harness, manifest: Manifest, user: str
) -> None:
    tag = f"quic-lab-test/tells:{user}"
    build_image(
        tag, Path(__file__).parent / "tells",
        "--build-arg", f"ENDPOINT={local_image('quic-go')}", "--build-arg", f"NAME={user}",
    )  # fmt: skip
    file = manifest("tells", tag)
    logs = {}
    for engine in ("compose", "virtual"):
        words = ("--clients", "tells", "--servers", "quic-go", "--manifest", str(file), "--repeat", "1")
        cell = harness.cell(harness.scenario("tells"), *words, "--engine", engine)
        assert cell["outcomes"] == {"crashed": 1}
        assert "exit code 3" in cell["sentence"]
        logs[engine] = read_bytes(Path(cell["evidence"][0]) / "client0.log").decode().splitlines()
    # Libraries are told what of a host's processor to leave alone.
    masks = [f"{name}={value}" for name, value in MASKS.items()]
    assert [line for line in logs["virtual"] if line in masks] == masks
    assert [line for line in logs["virtual"] if line not in masks] == logs["compose"]
    assert len(logs["virtual"]) > 30
    assert left_overs() == []

"""Cells on the real thing."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from harness.engine.images.host_kernel import lacks_queues, this_machine
from tests.lab.conftest import LINKS, Harness, Manifest, left_overs, local_image

pytestmark = pytest.mark.alone

IMPLEMENTATIONS = ("picoquic", "ngtcp2", "quiche", "quic-go")
#: So slow that two processors are enough for quic-go's threads: at 20 Mbit/s they waited for 18 to 29 % of a transfer of
#: 1 MB on an idle Xeon, at 5 Mbit/s for 5 %.
SLOW = {**LINKS, "forward": {**LINKS["forward"], "rate": "5 Mbit/s"}}


def test_every_pair_transfers_over_a_proven_link(warm: Harness, harness: Harness) -> None:
    names = ",".join(IMPLEMENTATIONS)
    cells = harness.cells(harness.scenario("pairs", path=SLOW), "--clients", names, "--servers", names, "--repeat", "1")
    assert {(cell["client"], cell["server"]) for cell in cells} == set(itertools.product(IMPLEMENTATIONS, repeat=2))
    for cell in cells:
        assert cell["outcomes"] == {"completed": 1}, (cell["client"], cell["server"], cell["sentence"])
        assert cell["link"]["valid"], (cell["client"], cell["server"], cell["link"]["problems"])
        # 40 ms for the handshake, 40 for the request, 1 MB at 5 Mbit/s: nothing can be faster.
        assert cell["measurements"]["completion"]["median"] > 1.68
        assert cell["measurements"]["handshake"]["median"] > 0.04
        assert {"milestone_1MB", "first_byte", "goodput", "ack_ratio", "cpu_client", "cpu_server", "cpu_sim"} <= set(
            cell["measurements"]
        )
    assert left_overs() == []


def test_milestones_agree_with_separate_transfers(warm: Harness, harness: Harness) -> None:
    """On the satellite path of the medium case, up to where slow start has lost nothing yet."""
    links = {
        "forward": {"rate": "50 Mbit/s", "delay": "325 ms", "queue": "1 BDP"},
        "return": {"rate": "10 Mbit/s", "delay": "325 ms", "queue": "1 BDP"},
    }
    sizes = ("2 MB", "10 MB")
    times = {}
    for size in sizes:
        case = harness.scenario(
            f"only-{size.replace(' ', '')}", path=links, flows=[{"download": size}], milestones=list(sizes)
        )
        cell = harness.cell(case, "--clients", "quiche", "--servers", "quiche", "--repeat", "3")
        times[size] = {name: item["median"] for name, item in cell["measurements"].items()}
    assert times["10 MB"]["milestone_2MB"] == pytest.approx(times["2 MB"]["completion"], rel=0.02)
    assert times["10 MB"]["milestone_10MB"] == times["10 MB"]["completion"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_ipv6(warm: Harness, harness: Harness, implementation: str) -> None:
    case = harness.scenario("six", path=SLOW, ip_version=6)
    cell = harness.cell(case, "--clients", implementation, "--servers", implementation, "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_repeat_is_timed_from_its_own_first_datagram(warm: Harness, harness: Harness, implementation: str) -> None:
    case = harness.scenario("repeat", path=SLOW, flows=[{"download": "1 MB", "repeat_after": "2 s"}])
    cell = harness.cell(case, "--clients", implementation, "--servers", implementation, "--repeat", "1")
    first, again = (cell["measurements"][name]["median"] for name in ("completion", "repeat_completion"))
    assert 1.68 < first < 10
    assert 1.64 < again < 10
    assert "repeat_zero_rtt" in cell["measurements"]


def test_a_scheduled_change_takes_effect_when_it_should(warm: Harness, harness: Harness) -> None:
    path = {**LINKS, "changes": [{"at": "1 s", "forward": {"rate": "4 Mbit/s"}}]}
    case = harness.scenario("change", path=path, flows=[{"download": "4 MB"}], milestones=["4 MB"])
    cell = harness.cell(case, "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert len(cell["link"]["changes_late_ms"]) == 1
    assert 0 <= cell["link"]["changes_late_ms"][0] < 100
    # About 2.3 MB fit into the first second; the rest takes 0.5 MB/s.
    assert 3.5 < cell["measurements"]["completion"]["median"] < 10


def test_random_loss_is_the_loss_that_was_asked_for(warm: Harness, harness: Harness) -> None:
    links = {name: {**link, "loss": "2 %"} for name, link in LINKS.items()}
    case = harness.scenario("lossy", path=links, flows=[{"download": "2 MB"}], milestones=["2 MB"])
    cell = harness.cell(case, "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["to_client"]["loss_drops"] > 5
    assert cell["link"]["to_client"]["unasked_drops"] == 0


def test_two_flows_share_the_bottleneck(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("two", flows=[{"download": "1 MB"}, {"download": "1 MB", "start": "1 s"}])
    cell = harness.cell(case, "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert {"flow0_completion", "flow1_completion"} <= set(cell["measurements"])


def test_an_upload_takes_the_return_link(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("up", path={**LINKS, "terminal": "server"})
    cell = harness.cell(case, "--clients", "quiche", "--servers", "quiche", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["measurements"]["completion"]["median"] > 8e6 / 5e6


def test_a_published_image_by_name_alone_runs_unchanged(warm: Harness, harness: Harness, manifest: Manifest) -> None:
    subprocess.run(["docker", "tag", local_image("quic-go"), "quic-lab-test/published:1"], check=True)
    file = manifest("published", "quic-lab-test/published:1")
    assert not (Path(file).parent / "Dockerfile").exists()
    cell = harness.cell(
        harness.scenario("published"),
        "--clients",
        "published",
        "--servers",
        "published",
        "--manifest",
        str(file),
        "--repeat",
        "1",
    )
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    # It names no parameter, so none is set for it.
    assert cell["effective_parameters"] == {}


def test_the_lab_kernel_can_be_forced(warm: Harness, harness: Harness) -> None:
    cell = harness.cell(
        harness.scenario("forced"), "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1", "--sim-kernel", "lab"
    )
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["kernel"].startswith("lab ")


def test_the_host_kernel_runs_the_path_or_says_what_it_lacks(warm: Harness, harness: Harness) -> None:
    cell = harness.cell(
        harness.scenario("host"), "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1", "--sim-kernel", "host"
    )
    if lacks_queues(this_machine()):
        assert cell["outcomes"] == {"infrastructure": 1}
        assert "the host kernel cannot run the path program: no " in cell["sentence"]
    else:
        assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
        assert cell["link"]["kernel"].startswith("host ")


def test_congestion_control_is_set_or_the_cell_is_unsupported(warm: Harness, harness: Harness) -> None:
    cells = harness.cells(
        harness.scenario("cc"),
        "--clients",
        "ngtcp2",
        "--servers",
        "ngtcp2",
        "--repeat",
        "1",
        "--vary",
        "server.congestion_control=bbr,prague",
    )
    outcomes = {cell["parameters"]["server.congestion_control"]: cell["outcomes"] for cell in cells}
    assert outcomes == {"bbr": {"completed": 1}, "prague": {"unsupported": 1}}

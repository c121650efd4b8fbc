"""Several flows of several kinds on one bottleneck, with both engines: the same files, real kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import Harness, left_overs

#: 10 Mbit/s, 10 ms, a queue of one bandwidth-delay product.
DUMBBELL = {
    "forward": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": "25 kB"},
    "return": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": "25 kB"},
}
QUIC = {"client": "ngtcp2", "server": "ngtcp2"}
POISSON = {"model": "poisson", "rate": "1 Mbit/s", "packet": "1000 B"}
FLOWS = [
    {**QUIC, "stop": "4 s"},
    {"kind": "tcp", "start": "1 s", "stop": "4 s", "parameters": {"server.congestion_control": "reno"}},
    {"kind": "udp", "stop": "5 s", "traffic": POISSON},
    {"kind": "udp", "stop": "3 s", "direction": "to_server", "traffic": {"model": "cbr", "rate": "1 Mbit/s"}},
]
VIRTUAL = ("--engine", "virtual", "--repeat", "1")


def _medians(cell: dict[str, Any]) -> dict[str, float]:
    return {name: one["median"] for name, one in cell["measurements"].items()}


def _check(value: dict[str, float]) -> None:
    assert value["flow2_mean_throughput"] == pytest.approx(1, rel=0.15), "625 datagrams with exponential gaps"
    assert value["flow3_mean_throughput"] == pytest.approx(1, rel=0.05)
    assert value["flow0_mean_throughput"] > 1
    assert value["flow1_mean_throughput"] > 1
    assert value["agg_throughput"] < 10 + 1, "the link towards the clients, and 1 Mbit/s the other way"
    assert value["utilisation_shared"] > 0.8
    assert value["queue_drops_to_client"] > 0, "two flows of Reno and CUBIC fill a queue of 25 kB"
    assert value["flow1_mean_cwnd"] > 2
    assert value["flow1_retransmissions"] > 0
    assert 2.5 < value["flow1_flow_completion_time"] < 3.2, "from 1 to 4 s"


def test_quic_tcp_and_udp_share_in_virtual_time(warm: Harness, harness: Harness) -> None:
    cell = harness.cell(harness.scenario("mixed", path=DUMBBELL, flows=FLOWS, milestones=[]), *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    _check(_medians(cell))
    assert (Path(cell["evidence"][0]) / "series.parquet").exists()
    assert not left_overs()


def test_quic_tcp_and_udp_share_in_real_time(warm: Harness, harness: Harness) -> None:
    """Eight endpoints may be too much for the machine; then the run says so, and its flows came and went all the same."""
    cell = harness.cell(harness.scenario("mixed", path=DUMBBELL, flows=FLOWS, milestones=[]), "--repeat", "1")
    assert set(cell["outcomes"]) <= {"completed", "infrastructure"}, cell["sentence"]
    if cell["outcomes"] != {"completed": 1}:
        assert cell["link"]["problems"], cell["sentence"]
    (folder,) = [file.parent for file in harness.store.glob("runs/*/0/measured.json")]
    run, measured = (json.loads((folder / name).read_text()) for name in ("run.json", "measured.json"))
    assert run["outcome"]["status"] == "completed", run["outcome"]
    assert [item["cut_off"] for item in run["transfers"]] == [True, False, False, False]
    _check({item["name"]: item["value"] for item in measured["measurements"]})
    assert not left_overs()


def test_sixteen_flows_on_one_bottleneck(warm: Harness, harness: Harness) -> None:
    flows = [{**QUIC, "start": f"{number * 50} ms", "stop": "6 s"} for number in range(16)]
    cell = harness.cell(harness.scenario("sixteen", path=DUMBBELL, flows=flows, milestones=[]), *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    value = _medians(cell)
    shares = [value[f"flow{number}_mean_throughput"] for number in range(16)]
    assert min(shares) > 0.05
    assert 8 < value["agg_throughput"] < 10
    assert value["jain_shared"] > 0.6


def test_a_flow_that_dies_in_mid_run_ends_it_and_the_others_data_stays(warm: Harness, harness: Harness) -> None:
    # The generator takes no words for the role that does not send.
    broken = {"kind": "tcp", "stop": "4 s", "parameters": {"client.congestion_control": "reno"}}
    flows = [{**QUIC, "stop": "4 s"}, {**broken, "start": "1 s"}]
    cell = harness.cell(harness.scenario("dying", path=DUMBBELL, flows=flows, milestones=[]), *VIRTUAL)
    assert cell["outcomes"] == {"crashed": 1}, cell["sentence"]
    assert "traffic:" in cell["sentence"] or "exit code 1" in cell["sentence"]
    (folder,) = [file.parent for file in harness.store.glob("runs/*/0/run.json")]
    assert (folder / "sim" / "trace_node_left.pcap").stat().st_size > 100_000, "a second of the first flow"
    assert list((folder / "flow0" / "server" / "qlog").iterdir())


def test_an_access_delay_is_its_flows_alone(warm: Harness, harness: Harness) -> None:
    flows = [
        {"kind": "udp", "stop": "2 s", "traffic": {"model": "cbr", "rate": "1 Mbit/s"}, "access_delay": delay}
        for delay in ("0 ms", "30 ms")
    ]
    value = _medians(harness.cell(harness.scenario("access", path=DUMBBELL, flows=flows, milestones=[]), *VIRTUAL))
    near, far = value["flow0_mean_one_way_delay"], value["flow1_mean_one_way_delay"]
    assert near == pytest.approx(10, abs=1)
    assert far == pytest.approx(40, abs=1)

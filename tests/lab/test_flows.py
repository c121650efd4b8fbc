"""Several flows of several kinds on one bottleneck, with both engines: the same files, real kernels."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from harness.capture.capture import read_capture
from harness.capture.files import read_bytes, read_lab
from harness.outcome import MeasuredRun
from tests.lab.conftest import Harness, Manifest, left_overs
from tests.lab.test_faults import faulty_image

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
    return {name: measurement["median"] for name, measurement in cell["measurements"].items()}


def _values(measured: dict[str, Any]) -> dict[str, float]:
    """The figures of a run of several flows, as people call them."""
    measurements = MeasuredRun.model_validate(measured).measurements
    return {measurement.named.text(2): measurement.value for measurement in measurements}


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


@pytest.mark.alone
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
    _check(_values(measured))
    assert not left_overs()


@pytest.mark.parametrize("asked", ["cubic", "bbr"])
def test_tcp_does_what_is_asked_of_its_role(warm: Harness, harness: Harness, asked: str) -> None:
    """By iperf3's own report, which asks its socket."""
    lossy = {**DUMBBELL, "forward": {**DUMBBELL["forward"], "loss": "2 %"}}
    file = harness.scenario("asked", path=lossy, flows=[{"kind": "tcp", "download": "500 kB"}], milestones=[])
    cell = harness.cell(file, *VIRTUAL, "--set", f"server.congestion_control={asked}")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    seen = {(observation["role"], observation["parameter"]): observation["value"] for observation in cell["observed"]}
    assert seen["server", "congestion_control"] == asked
    assert cell["effective_parameters"] == {"flow0.server.congestion_control": asked}


SIZED = [
    {**QUIC, "download": "2 MB"},
    {"kind": "tcp", "download": "2 MB", "start": "1 s"},
    {
        "kind": "tcp",
        "download": "250 kB",
        "direction": "to_server",
        "traffic": {"model": "cbr", "rate": "1 Mbit/s", "packet": "1000 B"},
    },
    {"kind": "tcp", "download": "1 MB", "direction": "to_server", "start": "3 s"},
]


def _stream(folder: Path, flow: int, to_client: bool) -> tuple[int, int]:
    """(bytes of the data connection's stream that came out of the path, without repetitions; bytes iperf3 received)."""
    side = "left" if to_client else "right"
    capture = read_capture(folder / "sim" / f"trace_node_{side}.pcap", read_lab(folder / "lab.json").flows)
    mine = capture.select((capture.flow == flow) & (capture.to_client == to_client) & (capture.payload > 0))
    data = mine.select((mine.destination_port if to_client else mine.source_port) == 5202)
    receiver = "client" if to_client else "server"
    report = json.loads(read_bytes(folder / f"flow{flow}" / receiver / "iperf3.json"))
    return int((data.sequence + data.payload).max() - data.sequence.min()), report["end"]["sum_received"]["bytes"]


def _check_sized(folder: Path, value: dict[str, float]) -> None:
    # iperf3's client begins with a cookie of 37 B.
    assert _stream(folder, 1, True) == (2_000_000, 2_000_000)
    assert _stream(folder, 2, False) == (250_000 + 37, 250_000)
    assert _stream(folder, 3, False) == (1_000_000 + 37, 1_000_000)
    # 1448 of 1514 B are data: alone, 2 MB take 1.67 s on 10 Mbit/s and 1 MB 0.84 s, two round trips of 20 ms after the
    # first packet. Beside the file of 2 MB, which begins a second before, it is 3.35 - 1 s if the link is never idle; a
    # second more is for slow start and what is lost. 250 kB take 2 s of 1 Mbit/s.
    assert 1.67 + 0.03 < value["flow1_flow_completion_time"] < 2.35 + 1
    assert 0.84 + 0.03 < value["flow3_flow_completion_time"] < 0.84 + 1
    assert 1.9 < value["flow2_flow_completion_time"] < 2.3
    assert 1.67 < value["flow0_completion"] < 3.35 + 1
    assert value["flow1_mean_throughput_l7"] == pytest.approx(16 / value["flow1_flow_completion_time"])


def test_tcp_of_a_size_ends_when_all_of_it_has_arrived(warm: Harness, harness: Harness) -> None:
    cell = harness.cell(harness.scenario("sized", path=DUMBBELL, flows=SIZED, milestones=[]), *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    _check_sized(Path(cell["evidence"][0]), _medians(cell))
    assert not left_overs()


@pytest.mark.alone
def test_tcp_of_a_size_ends_in_real_time_too(warm: Harness, harness: Harness) -> None:
    harness.cell(harness.scenario("sized", path=DUMBBELL, flows=SIZED, milestones=[]), "--repeat", "1")
    (folder,) = [file.parent for file in harness.store.glob("runs/*/0/measured.json")]
    run, measured = (json.loads((folder / name).read_text()) for name in ("run.json", "measured.json"))
    assert run["outcome"]["status"] == "completed", run["outcome"]
    _check_sized(folder, _values(measured))
    assert not left_overs()


@pytest.mark.parametrize("engine", [pytest.param("compose", marks=pytest.mark.alone), "virtual"])
def test_the_kernels_of_a_flow_are_set_as_asked(engine: str, warm: Harness, harness: Harness) -> None:
    """What the sender's kernel says of both ends is what was asked; the milestones count as a download's do."""
    asked = {"server.initial_cwnd": 40, "client.initial_rwnd": 30, "server.tcp_wmem_max": "8 MB",
             "client.tcp_rmem_max": "256 KiB"}  # fmt: skip
    flow = {"kind": "tcp", "download": "2 MB", "parameters": asked}
    case = harness.scenario("set", path=DUMBBELL, flows=[flow], milestones=["1 MB", "2 MB"])
    harness.cell(case, "--repeat", "1", "--engine", engine)
    (folder,) = [file.parent for file in harness.store.glob("runs/*/0/measured.json")]
    run, measured = (json.loads((folder / name).read_text()) for name in ("run.json", "measured.json"))
    assert run["outcome"]["status"] == "completed", run["outcome"]
    seen = {observation["parameter"]: observation["value"] for observation in measured["observed"]}
    assert seen["initial_cwnd"] == 40
    assert 29 < seen["initial_rwnd"] < 32
    # Half of a buffer is data, or somewhat more.
    assert 100_000 < seen["tcp_rmem_max"] <= 256 * 1024
    value = _values(measured)
    assert value["flow0_milestone_1MB"] < value["flow0_milestone_2MB"] == value["flow0_completion"]
    assert value["flow0_completion"] == pytest.approx(value["flow0_flow_completion_time"], abs=0.001)
    assert not left_overs()


def test_tcp_that_does_not_end_in_time(warm: Harness, harness: Harness) -> None:
    flows = [{"kind": "tcp", "download": "20 MB"}]
    cell = harness.cell(harness.scenario("late", path=DUMBBELL, flows=flows, timeout="3 s", milestones=[]), *VIRTUAL)
    assert cell["outcomes"] == {"timed_out": 1}, cell["sentence"]
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


@pytest.mark.alone
def test_sixteen_flows_in_real_time_begin_when_they_should(warm: Harness, harness: Harness) -> None:
    """Thirty-two endpoints may be too much for the machine; then the run says so."""
    flows = [{**QUIC, "start": f"{number * 100} ms", "stop": "5 s"} for number in range(16)]
    harness.cell(harness.scenario("sixteen", path=DUMBBELL, flows=flows, milestones=[]), "--repeat", "1")
    (folder,) = [file.parent for file in harness.store.glob("runs/*/0/measured.json")]
    run, measured = (json.loads((folder / name).read_text()) for name in ("run.json", "measured.json"))
    assert run["outcome"]["status"] == "completed", run["outcome"]
    assert measured["link"]["valid"] or any("late" in problem for problem in measured["link"]["problems"])
    # By packets they live longer: what was queued at the stop arrives, and a server that heard of no end sends probes.
    # To start the containers one after the other would take seconds.
    transfers = sorted(run["transfers"], key=itemgetter("flow"))
    begun = [transfer["started_ns"] / 1e9 for transfer in transfers]
    lives = [transfer["ended_ns"] / 1e9 - start for transfer, start in zip(transfers, begun, strict=True)]
    assert [start - begun[0] for start in begun] == pytest.approx([number / 10 for number in range(16)], abs=1)
    assert lives == pytest.approx([5 - number / 10 for number in range(16)], abs=1)
    assert not (folder / "held").exists()
    assert not left_overs()


def test_a_flow_that_dies_in_mid_run_ends_it_and_the_others_data_stays(
    warm: Harness, harness: Harness, manifest: Manifest
) -> None:
    file = manifest("dying", faulty_image("client-crash"), protocols=["h3"])
    flows = [{**QUIC, "stop": "4 s"}, {**QUIC, "client": "dying", "start": "1 s", "stop": "4 s"}]
    case = harness.scenario("dying", path=DUMBBELL, flows=flows, milestones=[])
    cell = harness.cell(case, *VIRTUAL, "--manifest", str(file))
    assert cell["outcomes"] == {"crashed": 1}, cell["sentence"]
    assert "exit code 7" in cell["sentence"]
    (folder,) = [file.parent for file in harness.store.glob("runs/*/0/run.json")]
    assert len(read_bytes(folder / "sim" / "trace_node_left.pcap")) > 100_000, "a second of the first flow"
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

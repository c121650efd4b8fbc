from __future__ import annotations

import gzip
import itertools
import json
import math
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.metrics import flow as times
from harness.analysis.metrics import measure
from harness.analysis.metrics.flow import moving_average
from harness.analysis.metrics.observed import observe
from harness.analysis.run_view import RunView
from harness.capture import qlog
from harness.outcome import MeasuredRun, Run
from harness.stats.intervals import entropy, jain_index, product
from harness.store.records import read_run
from tests.examples import implementation
from tests.measurements import by_name, warning_texts
from tests.unit.captures import make_run
from tests.unit.shared_flows import (
    MS,
    SCENARIO,
    Passing,
    Segment,
    tcp_rows,
    transfer,
    write_captures,
    write_counters,
    write_lab,
    write_three_flows,
    write_two_flows,
)

RECORDED = Path(__file__).parent.parent / "replay/data"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredRun]:
    folder = tmp_path_factory.mktemp("run")
    yield measure(folder, write_two_flows(folder))


@pytest.fixture(scope="module")
def value(measured: MeasuredRun) -> dict[str, float]:
    return by_name(measured, 2)


def test_rates(value: dict[str, float]) -> None:
    # Nine of ten datagrams of 1000 B in 1 s; fourteen segments of 500 B in 0.75 s.
    assert value["flow0_mean_throughput"] == pytest.approx(9 * 1000 * 8 / 1e6)
    assert value["flow0_mean_sending_rate"] == pytest.approx(10 * 1000 * 8 / 1e6)
    assert value["flow1_mean_throughput"] == pytest.approx(14 * 500 * 8 / 0.75 / 1e6)
    assert value["flow0_mean_throughput_l7"] == value["flow0_mean_throughput"]
    # 10 B are acknowledged in 1 ms, from 260 ms on: 7400 at 1 s.
    assert value["flow1_mean_throughput_l7"] == pytest.approx(7400 * 8 / 0.75 / 1e6)
    assert value["flow1_mean_delivery_rate"] == pytest.approx(10 * 8 / 1000)
    assert value["flow1_mean_sending_rate_l7"] == pytest.approx(9000 * 8 / 0.75 / 1e6)
    # Samples 0.08 nine times and 0 once: variance 0.08²·0.09.
    assert value["flow0_cov_throughput"] == pytest.approx(math.sqrt(0.09) / 0.9)
    assert value["flow1_cov_throughput"] == pytest.approx(0, abs=1e-12)
    assert value["flow0_utilisation_bandwidth"] == pytest.approx(0.9 * 0.08 / 10)


def test_times(value: dict[str, float]) -> None:
    assert value["flow0_flow_completion_time"] == pytest.approx(0.985)
    assert value["flow1_flow_completion_time"] == pytest.approx(0.955 - 0.25)
    assert value["flow0_mean_one_way_delay"] == pytest.approx(35)
    assert value["flow1_mean_one_way_delay"] == pytest.approx((34 + 52) / 2)
    gaps = [100.0, 100, 100, 100, 200, 100, 100, 100]
    # After the long gap the average is 100 + 100/8, and falls back by an eighth each time.
    assert value["flow0_mean_idt"] == pytest.approx(100 + sum(12.5 * 0.875**k for k in range(4)) / len(gaps))


def test_the_sender_s_state(value: dict[str, float]) -> None:
    # On the grid from 260 ms to 1 s: 17 times 10 packets, then 21 times 20.
    assert value["flow1_mean_cwnd"] == pytest.approx((17 * 10 + 21 * 20) / 38)
    assert value["flow1_mean_in_flight"] == 6 and value["flow1_cov_in_flight"] == 0
    assert value["flow1_mean_srtt"] == 50 and value["flow1_mean_est_queue_delay"] == 30
    assert value["flow1_network_power"] == pytest.approx(0.08 / 0.05)
    assert value["flow1_utilisation_bdp"] == pytest.approx(6 * 554 / (10e6 / 8 * 0.02))
    assert (value["flow1_retransmissions"], value["flow1_timeouts"]) == (4, 1)
    assert value["flow1_mean_recovery_time"] == pytest.approx(100)


def test_utilities(value: dict[str, float], measured: MeasuredRun) -> None:
    assert value["flow0_utility_pf"] == pytest.approx(math.log(0.08))
    assert value["flow1_utility_mpdf"] == pytest.approx(-1 / 0.08)
    assert (
        "flow0_utility_pf and flow0_utility_mpdf leave out 1 of 10 samples in which nothing arrived"
        in warning_texts(measured, 2)
    )
    # Three samples of flow 0 alone, six of both, one of flow 1.
    assert value["agg_utility_pf"] == pytest.approx((3 + 2 * 6 + 1) / 10 * math.log(0.08))
    assert value["agg_utility_mpdf"] == pytest.approx(-(3 + 2 * 6 + 1) / 10 / 0.08)


def test_the_link(value: dict[str, float]) -> None:
    # On 51 points from 0 to 1 s: 1042 B at one point for each datagram, and for each pair of segments 2 · 554 and 554.
    assert value["mean_queue_length"] == pytest.approx((9 * 1042 + 7 * 3 * 554) / 51)
    assert value["mean_queue_packets"] == pytest.approx((9 * 1 + 7 * 3) / 51)
    assert value["mean_queue_delay"] == pytest.approx((9 * 25 + 7 * (24 + 42)) / 23)
    assert value["mean_link_rate"] == pytest.approx((9 * 1042 + 14 * 554) * 8 / 1e6)
    assert value["drop_rate"] == pytest.approx(1 / 24)
    assert value["queue_drops_to_client"] == 1 and "early_drops_to_client" not in value


def test_the_network(value: dict[str, float]) -> None:
    assert value["agg_throughput"] == pytest.approx((9 * 1000 + 14 * 500) * 8 / 1e6)
    assert value["agg_sending_rate"] == pytest.approx((10 * 1000 + 14 * 500) * 8 / 1e6)
    assert value["agg_utilisation_bandwidth"] == pytest.approx(value["agg_throughput"] / 10)
    assert value["agg_in_flight"] == 6
    assert value["agg_utilisation_bdp"] == pytest.approx(value["flow1_utilisation_bdp"])
    # Both are active throughout seven samples, and in one of them only one of two got anything.
    assert value["jain_samples"] == pytest.approx((6 * 1 + 0.5) / 7)
    assert value["entropy_samples"] == pytest.approx(6 * math.log(2) / 7)
    assert value["product_samples"] == pytest.approx(6 * 0.08**2 / 7)
    x, y = 0.072, 7000 * 8 / 0.75 / 1e6
    assert value["jain_means"] == pytest.approx((x + y) ** 2 / (2 * (x * x + y * y)))
    assert value["product_means"] == pytest.approx(x * y)
    p = x / (x + y)
    assert value["entropy_means"] == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p))
    assert "jain_means_responsive" not in value  # of one flow


def test_no_number_is_invented(value: dict[str, float], measured: MeasuredRun) -> None:
    """UDP has no window; neither flow has a file, a handshake that shows, or acknowledgements to be counted."""
    flow0 = {name.removeprefix("flow0_") for name in value if name.startswith("flow0_")}
    assert not {"mean_cwnd", "mean_in_flight", "mean_srtt", "retransmissions", "timeouts", "network_power"} & flow0
    bare = {name.removeprefix("flow1_").removeprefix("flow0_") for name in value}
    assert not {"completion", "goodput", "first_byte", "handshake", "ack_packets", "ack_ratio"} & bare
    assert not [warning for warning in measured.warnings if "failed" in warning or "completion" in warning]
    assert measured.observed == ()
    assert value["flow1_packets_to_client"] == 14 and value["flow0_wire_to_client"] == 10 * 1042


def test_units(measured: MeasuredRun) -> None:
    by_name = {m.named.text(2): m for m in measured.measurements}
    assert (by_name["flow0_mean_throughput"].unit, by_name["flow0_mean_throughput"].vantage) == (
        "Mbit/s",
        "left capture",
    )
    assert (by_name["flow1_mean_cwnd"].unit, by_name["flow1_mean_cwnd"].vantage) == ("packets", "tcp_info")
    assert by_name["product_means"].unit == "(Mbit/s)^2" and by_name["mean_queue_length"].unit == "B"


def test_a_kernel_that_does_not_tell(tmp_path: Path) -> None:
    run = write_two_flows(tmp_path)
    rows = [",".join([*row.split(",")[:-2], "", ""]) for row in tcp_rows()[1:]]  # before Linux 6.7
    (tmp_path / "flow1/server/tcp.csv").write_text("\n".join([tcp_rows()[0], *rows]) + "\n")
    measured_run = measure(tmp_path, run)
    assert measured_run.value("timeouts", 1) is None and measured_run.value("retransmissions", 1) == 4
    assert "timeouts of flow 1: left out, neither a qlog nor tcp_info of the sender shows it" in warning_texts(
        measured_run
    )
    (tmp_path / "flow1/server/tcp.csv").unlink()
    measured_run = measure(tmp_path, run)
    names = set(by_name(measured_run, 2))
    assert not {f"flow1_{name}" for name in ("mean_cwnd", "mean_srtt", "retransmissions", "mean_throughput_l7")} & names
    assert "agg_in_flight" not in names and "flow1_mean_throughput" in names
    assert "flow1/server/tcp.csv is missing" in warning_texts(measured_run)
    assert "mean_cwnd of flow 1: left out, neither a qlog nor tcp_info of the sender shows it" in warning_texts(
        measured_run
    )


def test_drops_by_cause(tmp_path: Path) -> None:
    run = write_two_flows(tmp_path)
    lab = json.loads((tmp_path / "lab.json").read_text())
    lab["links"]["to_client"]["discipline"] = "red"
    (tmp_path / "lab.json").write_text(json.dumps(lab))
    write_counters(tmp_path, {0.6: 5}, early=3, pdrop=2)
    measured_run = measure(tmp_path, run)
    assert measured_run.value("queue_drops_to_client") == 5
    assert (measured_run.value("early_drops_to_client"), measured_run.value("limit_drops_to_client")) == (3, 2)


def test_fairness_among_the_responsive(tmp_path: Path) -> None:
    """Three flows: those of the module, and the second one once more."""
    measured_run = measure(tmp_path, write_three_flows(tmp_path))
    x, y = 0.072, 7000 * 8 / 0.75 / 1e6
    assert measured_run.value("jain_means") == pytest.approx((x + 2 * y) ** 2 / (3 * (x * x + 2 * y * y)))
    assert measured_run.value("jain_means_responsive") == pytest.approx(1)
    assert measured_run.value("jain_samples_responsive") == pytest.approx(1)
    # Three alike, but where nothing of UDP arrived.
    assert measured_run.value("jain_samples") == pytest.approx((6 * 1 + 2 / 3) / 7)
    assert measured_run.value("product_means_responsive") == pytest.approx(y * y)
    # Nothing tells of flow 2, so the sum over flows is not known.
    assert measured_run.value("agg_in_flight") is None
    assert (
        "agg_in_flight and agg_utilisation_bdp: left out, the sender of flow 2 does not tell in_flight"
        in warning_texts(measured_run, 3)
    )


@pytest.mark.parametrize("sender", ["server", "client"])
def test_tcp_of_a_size_counts_on_the_connection_that_has_its_data(sender: str, tmp_path: Path) -> None:
    """The generator's own connection (port 40000) begins 100 ms before and has its last word 100 ms after the data."""
    down, control = sender == "server", 40000

    def segment(to_client: bool, size: int, port: int, number: int) -> Segment:
        return Segment(0, to_client, b"", size, 0, sequence=number, identification=number % 2**16, port=port)

    says = [(150, False, 30), (170, True, 30), (190, False, 30), (540, False, 1), (560, True, 1)]
    passed = [Passing(segment(up, size, control, at), at, at + 10) for at, up, size in says]
    # Numbers go round in the middle of it, and its second segment is lost and comes last.
    initial = 2**32 - 800
    opening = replace(segment(False, 0, 5202, initial), flags=0x02)
    passed.append(Passing(opening, 250, 260))
    if down:
        passed.append(Passing(replace(opening, to_client=True, flags=0x12), 260, 270))
    # iperf3's client begins with a cookie.
    cookie = 0 if down else 37
    sent = [(300, 0, 500), (350, 1000, 500), (400, 1500, 500 + cookie), (430, 500, 500)]
    passed += [Passing(segment(down, size, 5202, (initial + 1 + at) % 2**32), ms, ms + 20) for ms, at, size in sent]
    write_captures(tmp_path, sorted(passed, key=lambda passing: passing.entered))
    write_lab(tmp_path, [{"kind": "tcp", "start": 0.1, "sender": sender}])
    write_counters(tmp_path, {})
    (tmp_path / "growth.csv").write_text("t_ns,flow,transfer,bytes\n")
    (tmp_path / "cpu.csv").write_text("t_ns,container,cpu_ns,rcvbuf_errors\n")
    direction = "to_client" if down else "to_server"
    flows = [{"kind": "tcp", "download": "2 kB", "start": "100 ms", "direction": direction}]
    scenario = {**SCENARIO, "flows": flows, "milestones": ["460 B", "1 kB"]}
    ran = transfer(0)
    measured_run = measure(tmp_path, make_run(scenario=scenario, transfers=(ran,)))
    (completion,) = [item for item in measured_run.measurements if item.name == "flow_completion_time"]
    # From 250 ms, when the connection is opened, to 450 ms, when the last of its data is there.
    assert completion.value == pytest.approx(0.2)
    assert completion.direction == "lower"
    assert measured_run.value("mean_throughput_l7", 0) == pytest.approx(2000 * 8 / 0.2 / 1e6)
    assert measured_run.value("mean_throughput", 0) == pytest.approx((2000 + cookie) * 8 / 0.2 / 1e6)
    assert measured_run.value("completion", 0, "first") == pytest.approx(0.2)
    assert measured_run.value("goodput", 0, "first") == pytest.approx(2000 * 8 / 0.2 / 1e6)
    # The first 460 bytes come at 320 ms; what lies behind the gap does not count before it is filled.
    assert measured_run.value("first_byte", 0, "first") == pytest.approx(0.07)
    assert measured_run.value("milestone_460B", 0, "first") == pytest.approx(0.07)
    assert measured_run.value("milestone_1kB", 0, "first") == pytest.approx(0.2)
    late = ran.model_copy(update={"exit_code": None, "ended_ns": ran.started_ns + 2000 * MS})
    measured_run = measure(tmp_path, make_run("timed_out", scenario, transfers=(late,)))
    assert (
        measured_run.value("flow_completion_time", 0) is None and measured_run.value("completion", 0, "first") is None
    )
    assert measured_run.value("milestone_1kB", 0, "first") == pytest.approx(0.2)
    assert "flow_completion_time of flow 0: left out, it did not come to its end" in warning_texts(measured_run)


def test_what_a_kernel_tells_of_its_windows_and_buffers(tmp_path: Path) -> None:
    """The sender has had nothing left in two of four samples before the last byte is sent."""
    run = write_two_flows(tmp_path)
    flow = {"kind": "tcp", "stop": "1 s"}
    rows = ["t_ns,cwnd,mss,bytes_sent,notsent_bytes,snd_wnd"]
    rows += [f"{at},{cwnd},1000,{sent},{left},{window}" for at, cwnd, sent, left, window in (
        (1, 12, 12000, 5000, 64000), (2, 24, 36000, 0, 64000), (3, 24, 60000, 0, 256000), (4, 24, 80000, 9, 128000),
        (5, 24, 99000, 0, 128000),
    )]  # fmt: skip
    (tmp_path / "flow0/server").mkdir(parents=True, exist_ok=True)
    (tmp_path / "flow0/server/tcp.csv").write_text("\n".join(rows) + "\n")
    alone = make_run(scenario={**SCENARIO, "flows": [flow]}, transfers=run.transfers[:1])
    linux = implementation("linux", protocols=["tcp"])
    cell = alone.cell.model_copy(update={"client": linux, "server": linux})
    figures = {
        (observation.role, observation.parameter): observation.value
        for observation in observe(RunView(tmp_path, alone.model_copy(update={"cell": cell})))
    }
    assert figures == {
        ("server", "initial_cwnd"): 12, ("server", "tcp_wmem_max"): 0.5, ("client", "initial_rwnd"): 64,
        ("client", "tcp_rmem_max"): 256000,
    }  # fmt: skip


def test_moving_average() -> None:
    assert moving_average([]) == []
    assert moving_average([4.0, 12.0], 0.25) == [4.0, 6.0]


# --- a recorded run of the real thing, cut off at a time


def _udp(data: bytes, *ends: str) -> Iterator[tuple[int, int, int]]:
    """(ns, UDP source port, UDP payload) of each record of an IPv4 capture between both ends."""
    unit = 1 if data[:4] == b"\x4d\x3c\xb2\xa1" else 1000
    addresses = {bytes(int(part) for part in end.split(".")) for end in ends}
    position = 24
    while position + 16 <= len(data):
        seconds, fraction, captured, _ = struct.unpack_from("<IIII", data, position)
        at = position + 16 + 34
        source, _, length = struct.unpack_from(">HHH", data, at)
        if addresses == {data[at - 8 : at - 4], data[at - 4 : at]}:
            yield seconds * 10**9 + fraction * unit, source, length - 8
        position += 16 + captured


def _recorded(folder: Path) -> Run:
    shutil.copytree(RECORDED / "plain", folder, dirs_exist_ok=True)
    run = read_run((folder / "run.json").read_bytes())
    content = json.loads(run.cell.scenario.model_dump_json(by_alias=True, exclude_none=True))
    content |= {"flows": [{"stop": "9 s"}], "objectives": []}
    scenario = type(run.cell.scenario).model_validate(content)
    return run.model_copy(update={"cell": run.cell.model_copy(update={"scenario": scenario})})


def test_losses_of_a_trace_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three metrics ask for them."""
    read: list[Path] = []

    def counting(path: Path) -> qlog.Losses:
        read.append(path)
        return qlog.Losses(3, 2, (400.0, 600.0))

    monkeypatch.setattr(qlog, "read_losses", counting)
    measured_run = measure(tmp_path, _recorded(tmp_path))
    assert len(read) == 1
    figures = [measured_run.value(name, 0) for name in ("retransmissions", "timeouts", "mean_recovery_time")]
    assert figures == [3, 2, 500]


def test_a_recorded_run(tmp_path: Path) -> None:
    """Figures worked out anew from the recorded files, in a few lines each."""
    measured_run = measure(tmp_path, _recorded(tmp_path))
    value = by_name(measured_run)

    flow = json.loads((tmp_path / "lab.json").read_text())["flows"][0]
    ends = [flow[role]["addresses"][0] for role in ("client", "server")]
    left, right = (
        list(_udp(gzip.decompress((tmp_path / f"sim/trace_node_{side}.pcap.gz").read_bytes()), *ends))
        for side in ("left", "right")
    )
    server = 443
    begin = next(t for t, port, _ in left if port != server)
    arrived = [(t, size) for t, port, size in left if port == server]
    seconds = (arrived[-1][0] - begin) / 1e9  # lab.json knows of no stop
    assert value["flow_completion_time"] == pytest.approx(seconds)
    assert value["mean_throughput"] == pytest.approx(sum(size for _, size in arrived) * 8 / seconds / 1e6)
    averages, average = [], (arrived[1][0] - arrived[0][0]) / 1e6
    for (before, _), (after, _) in itertools.pairwise(arrived):
        average += ((after - before) / 1e6 - average) / 8
        averages.append(average)
    assert value["mean_idt"] == pytest.approx(float(np.mean(averages)))

    trace = next((tmp_path / "flow0/server/qlog").iterdir())
    lines = [
        json.loads(line.strip(b"\x1e")) for line in gzip.decompress(trace.read_bytes()).splitlines() if line.strip()
    ]
    events = [line for line in lines if "data" in line]
    assert value["retransmissions"] == sum(event["name"] == "recovery:packet_lost" for event in events)
    counts = [event["data"]["pto_count"] for event in events if "pto_count" in event["data"]]
    assert value["timeouts"] == sum(max(0, b - a) for a, b in zip([0, *counts], counts, strict=False))
    assert "mean_recovery_time" not in value and "mean_delivery_rate" not in value

    # The trace has no clock of its own: it begins when the client's first packet came out at the server's side.
    reached = next(t for t, port, _ in right if port != server)
    start = events[0]["time"]
    updates = [event for event in events if "congestion_window" in event["data"]]
    moments = [reached + (event["time"] - start) * 1e6 for event in updates]
    size = max(
        {s for _, p, s in right if p == server}, key=lambda s: sum(x for _, p, x in right if p == server and x == s)
    )
    windows = []
    t = 0
    while begin + t <= begin + seconds * 1e9:
        known = [event for event, at in zip(updates, moments, strict=True) if at <= begin + t]
        if known:
            windows.append(known[-1]["data"]["congestion_window"] / size)
        t += 20_000_000
    assert value["mean_cwnd"] == pytest.approx(float(np.mean(windows)), rel=1e-6)
    assert 0 < value["mean_est_queue_delay"] < value["mean_srtt"]
    assert value["mean_queue_delay"] > 0 and "jain_means" not in value


# --- the figures of CCPerf's experiment 93: formulas that give its network's figures from its flows'

THROUGHPUT = (8.68, 6.59, 6.82, 7.90, 7.89, 7.86)
UTILITY = (2.11, 1.75, 1.74, 2.06, 2.06, 2.05)
DELAY_UTILITY = (-0.13, -0.21, -0.28, -0.13, -0.13, -0.13)
IN_FLIGHT, SHARES = (19.92, 16.67, 15.95), (0.35, 0.29, 0.28)
SRTT, QUEUE_DELAY = (26.22, 27.08, 26.51), (11.22, 12.08, 11.51)


def test_experiment_93_sums() -> None:
    """What is summed over flows there is the mean of sums here: they are the same where all flows run all along."""
    assert sum(THROUGHPUT) == pytest.approx(45.74, abs=0.011)
    assert sum(UTILITY) == pytest.approx(11.77, abs=0.011)
    assert sum(DELAY_UTILITY) == pytest.approx(-1.00, abs=0.02)
    assert sum(IN_FLIGHT) == pytest.approx(52.54, abs=0.011)
    assert sum(SHARES) == pytest.approx(0.91, abs=0.011)
    assert sum(THROUGHPUT) / 48 == pytest.approx(0.95, abs=0.005)


def test_experiment_93_queue_delay_is_srtt_less_the_shortest_round_trip() -> None:
    assert [a - b for a, b in zip(SRTT, QUEUE_DELAY, strict=True)] == pytest.approx([15, 15, 15])


def test_experiment_93_fairness() -> None:
    """Jain's index there is the mean over samples: that of the means is another. Its entropy is that of the means."""
    assert jain_index(THROUGHPUT) == pytest.approx(0.991, abs=0.001)
    assert round(entropy(THROUGHPUT), 2) == 1.79
    assert product(THROUGHPUT) == pytest.approx(191_124, rel=0.001)


@pytest.mark.parametrize(
    ("mean", "cov", "utility"), list(zip(THROUGHPUT, (0.33, 0.46, 0.46, 0.12, 0.12, 0.13), UTILITY, strict=True))
)
def test_experiment_93_utility_is_a_mean_over_samples(mean: float, cov: float, utility: float) -> None:
    """E ln x ≈ ln E x - cov²/2 (the log's second-order expansion): the utility of the mean alone is too high."""
    assert math.log(mean) - cov**2 / 2 == pytest.approx(utility, abs=0.08)
    assert abs(math.log(mean) - cov**2 / 2 - utility) <= abs(math.log(mean) - utility)


def test_experiment_93_samples_are_of_a_tenth_of_a_second() -> None:
    """A Poisson count of n varies by 1/√n: 8 Mbit/s in packets of 1500 B."""
    per_sample = 8e6 / 8 / 1500 * 0.1
    assert 1 / math.sqrt(per_sample) == pytest.approx(0.12, abs=0.005)


@pytest.mark.parametrize(("asked", "late"), [(0.2, ""), (0.0, "0.25")])
def test_a_flow_that_begins_late_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: float, late: str
) -> None:
    monkeypatch.setattr(times, "LATE", 0.2)  # both send their first packet at 0.25 s
    run = write_three_flows(tmp_path)
    later = {"kind": "tcp", "start": asked, "stop": 1.0}
    write_lab(tmp_path, [{"kind": "udp", "stop": 1.0}, later, later])
    warnings = [line for line in measure(tmp_path, run).warnings if "later than asked" in line]
    assert warnings == ([f"flows 1, 2 began later than asked, by {late} s at most"] if late else [])

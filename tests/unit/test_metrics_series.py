from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from harness.analysis.metrics import measure_with_series
from harness.analysis.run_view import RunView
from harness.analysis.timeseries import BOTTLENECK, NETWORK, RETURN_BOTTLENECK, SERIES, RunSeries
from harness.analysis.timeseries.grid import bin_sums, last_values
from harness.execution.measured_store import StoredResults
from harness.outcome import MeasuredRun, Run
from harness.store.results import Store
from tests.measurements import by_name, warning_texts
from tests.unit.captures import T0, Packet, Recipe, make_run, write_run
from tests.unit.shared_flows import MS, SCENARIO, Passing, transfer, write_captures, write_lab, write_two_flows


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunSeries]:
    folder = tmp_path_factory.mktemp("run")
    run_series = RunView(folder, write_two_flows(folder)).series
    assert run_series is not None
    yield run_series


def values(series: RunSeries, flow: int, name: str) -> dict[float, float]:
    points = series.points(flow, name)
    return dict(zip(np.round(points.t, 6).tolist(), points.value.tolist(), strict=True))


def test_lives(series: RunSeries) -> None:
    assert series.zero_ns == T0  # flow 1 starts at 0.2 s, and its client 50 ms after that
    lifetime, other = series.lifetimes[0], series.lifetimes[1]
    assert (lifetime.start_ns, lifetime.end_ns, lifetime.last_ns, lifetime.bins) == (0, 1000 * MS, 985 * MS, (0, 9))
    assert (other.start_ns, other.end_ns, other.last_ns, other.bins) == (250 * MS, 1000 * MS, 955 * MS, (3, 9))


def test_rates_per_bin(series: RunSeries) -> None:
    tenths = [k / 10 for k in range(10)]
    # 1000 B in 0.1 s are 0.08 Mbit/s; the sixth datagram left its sender, and did not arrive.
    assert values(series, 0, "throughput") == pytest.approx({t: 0.0 if t == 0.5 else 0.08 for t in tenths})
    assert values(series, 0, "sending_rate") == pytest.approx(dict.fromkeys(tenths, 0.08))
    assert values(series, 1, "throughput") == pytest.approx({t: 0.08 if t >= 0.3 else 0.0 for t in tenths[2:]})


def test_packets_per_answer(tmp_path: Path) -> None:
    """Three a tenth of a second for one, then ten for two, then four for none; a handshake is no bulk."""
    short, initial = b"\x40" + bytes(30), b"\xc3\x00\x00\x00\x01" + bytes(30)
    items = [Passing(Packet(0, False, initial, 1200), 0, 10), Passing(Packet(0, True, initial, 1200), 20, 30)]
    for tenth, (data, answers) in enumerate([(3, 1), (10, 2), (4, 0)]):
        items += [
            Passing(Packet(0, True, short, 1200), 100 * tenth + 20 + n, 100 * tenth + 40 + n) for n in range(data)
        ]
        items += [
            Passing(Packet(0, False, short, 40), 100 * tenth + 60 + n, 100 * tenth + 70 + n) for n in range(answers)
        ]
    write_captures(tmp_path, sorted(items, key=lambda passing: passing.entered))
    write_lab(tmp_path, [{"kind": "quic"}])
    run_series = RunView(tmp_path, make_run()).series
    assert run_series is not None and values(run_series, 0, "ack_ratio") == {0.0: 3.0, 0.1: 5.0}


def test_nobody_answers_datagrams(series: RunSeries) -> None:
    assert values(series, 0, "ack_ratio") == {}


def test_delay_and_drops(series: RunSeries) -> None:
    assert values(series, 0, "one_way_delay") == pytest.approx({k / 10: 35.0 for k in range(10) if k != 5})
    assert values(series, 1, "one_way_delay") == pytest.approx({k / 10: (34 + 52) / 2 for k in range(3, 10)})
    assert sum(values(series, 0, "drops").values()) == 1 and values(series, 0, "drops")[0.5] == 1
    assert sum(values(series, 1, "drops").values()) == 0


def test_the_queue(series: RunSeries) -> None:
    """In a tenth of a second: 1042 B from 50 to 75 ms; from 300 ms on also 554 B from 1 to 25 and from 3 to 45 ms."""
    expected_bytes, expected_packets, expected_delay = {}, {}, {}
    for step in range(50):
        t, phase, late = step / 50, step % 5 * 20, step >= 15
        datagram = phase == 60 and step // 5 != 5
        expected_bytes[t] = 1042 * datagram + late * {20: 1108, 40: 554}.get(phase, 0)
        expected_packets[t] = 1 * datagram + late * {20: 2, 40: 1}.get(phase, 0)
        # The wait of the last that left: before the datagram the second segment (42 ms), or the datagram before.
        last = {20: 25, 40: 24, 60: 42 if late else 25}.get(phase, 0)
        expected_delay[t] = last if expected_packets[t] else 0
    expected_delay[0.06] = 0  # nothing had left yet
    expected_delay[0.62] = 42  # the datagram before was dropped
    queue_series = {name: values(series, BOTTLENECK, name) for name in ("queue_length", "queue_packets", "queue_delay")}
    within = {name: {t: value for t, value in points.items() if t < 1} for name, points in queue_series.items()}
    assert within["queue_length"] == expected_bytes
    assert within["queue_packets"] == expected_packets
    assert within["queue_delay"] == pytest.approx(expected_delay)


def test_the_parts_of_the_queue_are_the_queue(series: RunSeries) -> None:
    whole = values(series, BOTTLENECK, "queue_length")
    first, second = values(series, 0, "queued"), values(series, 1, "queued")
    assert {t: value for t, value in first.items() if value} and set(first.values()) == {0, 1042}
    assert {554, 1108} <= set(second.values())
    assert {t: first.get(t, 0) + second.get(t, 0) for t in second} == {t: whole[t] for t in second}


def test_the_bottleneck(series: RunSeries) -> None:
    assert values(series, BOTTLENECK, "drop") == {0.55: 0.0}  # whose it was: flow 0
    assert {t: v for t, v in values(series, BOTTLENECK, "drops").items() if v} == {0.5: 1}
    rate = values(series, BOTTLENECK, "sending_rate")
    assert rate[0.0] == pytest.approx(1042 * 8 / 0.1 / 1e6)
    assert rate[0.3] == pytest.approx((1042 + 2 * 554) * 8 / 0.1 / 1e6)
    assert rate[0.5] == pytest.approx(2 * 554 * 8 / 0.1 / 1e6)
    assert set(values(series, BOTTLENECK, "capacity").values()) == {10.0}
    assert not len(series.points(RETURN_BOTTLENECK, "queue_length").t)


def test_the_network(series: RunSeries) -> None:
    assert values(series, NETWORK, "throughput") == pytest.approx(
        {k / 10: 0.08 * ((k != 5) + (k >= 3)) for k in range(10)}
    )
    # One of two has all where the datagram was dropped; alone, flow 0 shares with nobody.
    assert values(series, NETWORK, "jain") == pytest.approx({k / 10: 0.5 if k == 5 else 1.0 for k in range(3, 10)})
    assert not len(series.points(NETWORK, "jain_responsive").t)


def test_the_kernel_s_figures(series: RunSeries) -> None:
    grid = [k / 50 for k in range(13, 51)]
    assert values(series, 1, "cwnd") == {t: 10 if t < 0.6 else 20 for t in grid}
    assert values(series, 1, "in_flight") == dict.fromkeys(grid, 8 - 2)
    assert values(series, 1, "srtt") == dict.fromkeys(grid, 50.0)
    assert not len(series.points(0, "cwnd").t)


def test_every_name_is_described(series: RunSeries) -> None:
    assert set(series.frame["name"]) <= set(SERIES)
    assert series.frame.schema == {"flow": pl.Int16, "name": pl.String, "t": pl.Float64, "value": pl.Float64}
    assert series.frame["value"].is_finite().all()


def test_in_the_store_beside_the_figures(tmp_path: Path) -> None:
    store = Store(tmp_path)
    partial = store.begin("0" * 16, 0)
    run = write_two_flows(partial)
    measured, frame = measure_with_series(partial, run)
    assert frame is not None
    folder = store.finish(partial, run, measured, frame)
    table = store.series(run.cell.key, 0)
    assert table is not None and table.equals(frame) and (folder / "series.parquet").is_file()
    assert store.series(run.cell.key, 1) is None


def test_one_download_to_its_end_has_series_and_no_figures_of_sharing(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=300, size=300_000))
    measured, frame = measure_with_series(tmp_path, run)
    new = ("mean_", "agg_", "jain", "drop_rate", "cov_", "utili", "flow")
    assert not [m.name for m in measured.measurements if m.name.startswith(new)]
    assert frame is not None
    assert {"received", "throughput", "queue_length", "capacity"} <= set(frame["name"].unique())
    received = frame.filter(pl.col("name") == "received")
    assert received.row(0)[2:] == (0.0, 0.0)
    assert received["value"].is_sorted()
    assert received["value"][-1] == 300_000
    # The file's last sample is no earlier than what was measured of it, and the period of sampling later at most.
    completion = measured.value("completion", 0, "first")
    assert completion is not None
    assert received["t"][-1] == pytest.approx(completion, abs=0.011)


def test_a_run_that_older_code_kept_without_series_gets_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    partial = store.begin("0" * 16, 0)
    run = write_run(partial, Recipe(packets=300, size=300_000))
    store.finish(partial, run, MeasuredRun(version=10**6))
    assert store.series(run.cell.key, 0) is None
    StoredResults(store, store).make_series(run)
    frame = store.series(run.cell.key, 0)
    assert frame is not None and "received" in frame["name"]
    # Runs that are kept without their artefacts have none to make them of.
    bare = run.model_copy(update={"repetition": 1})
    store.finish(store.begin("0" * 16, 1), bare, MeasuredRun(version=10**6))
    StoredResults(store, store).make_series(bare)
    assert store.series(run.cell.key, 1) is None


def test_each_transfer_begins_with_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=300, size=300_000, repeat=True))
    frame = measure_with_series(tmp_path, run)[1]
    assert frame is not None
    received = frame.filter(pl.col("name") == "received")
    begins = received.filter((pl.col("value") == 0) & (pl.col("value").shift(1, fill_value=1.0) > 0))["t"].to_list()
    second = measure_zero(tmp_path, run)
    assert begins == pytest.approx([0.0, second])
    assert received.filter(pl.col("t") < second)["value"].max() == 300_000


def measure_zero(folder: Path, run: Run) -> float:
    """When the client's first datagram of the second transfer came, s since the first's."""
    zeros = [window.zero_ns for window in RunView(folder, run).windows]
    assert zeros[0] is not None and zeros[1] is not None
    return (zeros[1] - zeros[0]) / 1e9


def test_a_file_that_was_sized_in_advance_tells_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=300, size=300_000))
    rows = (tmp_path / "growth.csv").read_text().splitlines()
    first = rows[1].split(",")
    (tmp_path / "growth.csv").write_text("\n".join([rows[0], ",".join([*first[:3], "300000"]), *rows[2:]]) + "\n")
    frame = measure_with_series(tmp_path, run)[1]
    assert frame is not None and frame.filter(pl.col("name") == "received").is_empty()
    assert not frame.filter(pl.col("name") == "throughput").is_empty()


def quic(number: int, to_client: bool, size: int) -> Packet:
    return Packet(0, to_client, b"\x40" + number.to_bytes(8, "big"), size)


def write_quic(folder: Path, lines: list[str]) -> MeasuredRun:
    """A download over QUIC that is cut off at 0.5 s, with what its server's qlog says."""
    passed = [Passing(quic(0, False, 1200), 0, 10)]
    passed += [Passing(quic(1 + k, True, 1250), 20 + 10 * k, 30 + 10 * k) for k in range(40)]
    write_captures(folder, passed)
    write_lab(folder, [{"kind": "quic", "stop": 0.5}])
    place = folder / "flow0/server/qlog"
    place.mkdir(parents=True)
    (place / "trace.sqlog").write_text("\n".join(f"\x1e{line}" for line in lines) + "\n")
    (folder / "growth.csv").write_text(
        "t_ns,flow,transfer,bytes\n" + "".join(f"{T0 + k * 100 * MS},0,0,{k * 10_000}\n" for k in range(5))
    )
    item = transfer(0).model_copy(update={"size": 10**6, "received": 40_000, "cut_off": True})
    run = make_run(scenario={**SCENARIO, "flows": [{"stop": "500 ms"}]}, transfers=(item,))
    measured, frame = measure_with_series(folder, run)
    assert frame is not None
    frame.write_parquet(folder / "series.parquet")
    return measured


def metrics(time: float, **data: float) -> str:
    return json.dumps({"time": time, "name": "recovery:metrics_updated", "data": data})


def event(time: float, name: str, **data: object) -> str:
    return json.dumps({"time": time, "name": f"recovery:{name}", "data": data})


TRACE = [
    '{"trace":{"common_fields":{"reference_time":0}}}',
    metrics(5, smoothed_rtt=333, congestion_window=12500, bytes_in_flight=1250),  # the initial RTT is no sample
    metrics(95, smoothed_rtt=40, min_rtt=22, congestion_window=25000, bytes_in_flight=12500),
    event(200, "congestion_state_updated", new="recovery"),
    event(201, "packet_lost", header={}),
    event(202, "loss_timer_updated", event_type="set", timer_type="pto"),
    event(203, "loss_timer_updated", event_type="expired", timer_type="pto"),
    metrics(205, smoothed_rtt=30, congestion_window=12500),
    event(230, "congestion_state_updated", new="congestion_avoidance"),
]


def test_a_sender_s_trace(tmp_path: Path) -> None:
    """Its first event, at 5 ms of its own clock, is when the client's packet came out at the server: at 10 ms."""
    measured = write_quic(tmp_path, TRACE)
    frame = pl.read_parquet(tmp_path / "series.parquet").filter(pl.col("flow") == 0)

    def of(name: str) -> dict[float, float]:
        rows = frame.filter(pl.col("name") == name)
        return dict(zip(rows["t"].round(6), rows["value"], strict=True))

    grid = [k / 50 for k in range(1, 26)]
    assert of("cwnd") == {t: 20 if 0.1 <= t < 0.21 else 10 for t in grid}  # of 1250 B
    assert of("in_flight") == {t: 1 if t < 0.1 else 10 for t in grid}
    assert of("srtt") == {t: 40 if t < 0.21 else 30 for t in grid if t >= 0.1}
    value = by_name(measured)
    assert value["mean_cwnd"] == pytest.approx((4 * 10 + 6 * 20 + 15 * 10) / 25)
    assert value["mean_in_flight"] == pytest.approx((4 * 1 + 21 * 10) / 25)
    assert value["mean_srtt"] == pytest.approx((6 * 40 + 15 * 30) / 21)
    assert value["mean_est_queue_delay"] == pytest.approx(value["mean_srtt"] - 22)
    assert (value["retransmissions"], value["timeouts"]) == (1, 1)
    assert value["mean_recovery_time"] == pytest.approx(30)
    # 40 datagrams of 1250 B; the file had 40 kB at 0.4 s.
    assert value["mean_throughput"] == pytest.approx(40 * 1250 * 8 / 0.5 / 1e6)
    assert value["mean_throughput_l7"] == pytest.approx(40_000 * 8 / 0.5 / 1e6)
    assert value["utilisation_bdp"] == pytest.approx(value["mean_in_flight"] * 1292 / (10e6 / 8 * 0.02))
    assert not {"completion", "goodput", "agg_throughput", "jain_means", "mean_delivery_rate"} & set(value)
    assert "mean_delivery_rate of flow 0: left out, acknowledgements of QUIC are encrypted" in warning_texts(measured)


def test_what_a_trace_does_not_say_is_absent(tmp_path: Path) -> None:
    measured = write_quic(tmp_path, [TRACE[0], '{"time":1,"name":"transport:packet_sent","data":{}}'])
    names = set(by_name(measured))
    assert not {"mean_cwnd", "mean_srtt", "timeouts", "mean_recovery_time", "network_power"} & names
    assert "mean_cwnd of flow 0: left out, neither a qlog nor tcp_info of the sender shows it" in warning_texts(
        measured
    )
    assert "timeouts of flow 0: left out, neither a qlog nor tcp_info of the sender shows it" in warning_texts(measured)
    value = by_name(measured)
    assert value["retransmissions"] == 0  # the path dropped nothing


def test_quiche_s_own_count_and_states_that_are_left_at_once(tmp_path: Path) -> None:
    own = '{"time":%d,"name":"quic:recovery_metrics_updated","data":{"cf_lost_packets":{"total":%d,"delta":1},"pto_count":%d}}'
    lines = [TRACE[0], own % (5, 0, 0), own % (50, 2, 1), own % (60, 7, 2), own % (70, 7, 0), own % (80, 7, 1)]
    lines += [event(50, "congestion_state_updated", new="recovery"), event(50.02, "congestion_state_updated", new="x")]
    value = by_name(write_quic(tmp_path, lines))
    assert (value["retransmissions"], value["timeouts"]) == (7, 3)  # 0→1→2, and again 0→1
    assert "mean_recovery_time" not in value


def test_nothing_there(tmp_path: Path) -> None:
    run = make_run(scenario=SCENARIO)
    assert RunView(tmp_path, run).series is None
    measured, frame = measure_with_series(tmp_path, run)
    assert frame is None and measured.measurements == ()
    run = write_two_flows(tmp_path)
    for side in ("left", "right"):
        path = tmp_path / f"sim/trace_node_{side}.pcap"
        path.write_bytes(path.read_bytes()[:24])
    assert measure_with_series(tmp_path, run)[1] is None


def test_a_flow_that_never_came(tmp_path: Path) -> None:
    run = write_two_flows(tmp_path)
    from tests.unit.shared_flows import passing

    write_captures(tmp_path, [item for item in passing() if item.packet.flow == 0])
    measured, frame = measure_with_series(tmp_path, run)
    assert frame is not None and set(frame["flow"]) == {0, BOTTLENECK, NETWORK}
    assert "nothing of flow 1 arrived at its receiver's side: it has no metrics" in warning_texts(measured)
    assert not any(name.startswith(("flow1_mean", "jain")) for name in by_name(measured, 2))


def test_grids() -> None:
    t_ns = np.array([0, 99_999_999, 100_000_000, 350_000_000])
    assert bin_sums(t_ns, [1, 2, 4, 8], 0, 2).tolist() == [3, 4, 0]
    assert bin_sums(t_ns, 1, 3, 2).tolist() == []
    known = last_values(np.array([10, 20, 30]), np.array([1.0, np.nan, 3.0]), np.array([5, 10, 25, 40]))
    assert known.value.tolist() == [1, 1, 3] and known.t.tolist() == [1e-8, 2.5e-8, 4e-8]

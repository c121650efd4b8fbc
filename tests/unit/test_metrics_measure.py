from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.metric_registry import declared_metrics, measuring_functions
from harness.analysis.metrics import VERSION, measure
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView
from harness.outcome import MeasuredRun, Run
from harness.scenario.metric_names import MetricName
from tests.measurements import by_name, warning_texts
from tests.unit.captures import T0, Recipe, Traffic, make_run, write_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Run, MeasuredRun]]:
    folder = tmp_path_factory.mktemp("run")
    run = write_run(folder, Recipe(repeat=True))
    server = folder / "flow0/server/qlog"
    server.mkdir(parents=True)
    for index, start in enumerate(transfer.started_ns for transfer in run.transfers):
        lines = [f'\x1e{{"trace":{{"common_fields":{{"reference_time":{start / 1e6 + 400}}}}}}}']
        lines += ['\x1e{"time":1,"name":"transport:packet_sent","data":{}}'] * 100
        lines += ['\x1e{"time":2,"name":"recovery:packet_lost","data":{}}'] * (5 + index)
        (server / f"{index}.sqlog").write_text("\n".join(lines))
    yield folder, run, measure(folder, run)


def test_all_metrics(finished: tuple[Path, Run, MeasuredRun]) -> None:
    _, _, measured = finished
    assert measured.version == VERSION and measured.warnings == ()
    value = by_name(measured)
    assert value["completion"] == pytest.approx(2.67, abs=0.011)
    assert value["goodput"] == pytest.approx(24 / value["completion"])
    assert value["first_byte"] == pytest.approx(0.2, abs=0.02)
    assert 0 < value["milestone_1MB"] < value["milestone_2MB"] < value["completion"]
    assert "milestone_10MB" not in value
    assert value["handshake"] == pytest.approx(0.1022, abs=1e-4)
    assert value["packets_to_client"] == 3002
    assert value["wire_to_client"] == 3000 * 1294 + 1242 + 1142
    assert value["ack_packets"] == value["packets_to_server"] - 2
    assert value["ack_ratio"] == pytest.approx(3000 / value["ack_packets"])
    assert value["loss_drops_to_client"] == 0
    assert 60 < value["queue_delay_p50_to_client"] <= value["queue_delay_p95_to_client"]
    assert value["queue_delay_max_to_client"] < 80.1
    assert value["retransmitted_share"] == 0.05 and value["repeat_retransmitted_share"] == 0.06
    assert "zero_rtt" not in value and value["repeat_zero_rtt"] == 1
    assert value["repeat_completion"] == pytest.approx(value["completion"], abs=0.02)
    assert value["cpu_client"] == pytest.approx(1.4, abs=0.3) and value["cpu_sim"] == pytest.approx(0.7, abs=0.2)
    assert "cpu_server" not in value and value["udp_receive_drops"] <= 2


def test_units_and_directions(finished: tuple[Path, Run, MeasuredRun]) -> None:
    by_name = {m.named.text(1): m for m in finished[2].measurements}
    assert (by_name["goodput"].unit, by_name["goodput"].direction) == ("Mbit/s", "higher")
    assert (by_name["completion"].unit, by_name["completion"].direction) == ("s", "lower")
    assert by_name["completion"].vantage == "client file" and by_name["wire_to_server"].vantage == "left capture"
    assert MeasuredRun.model_validate_json(finished[2].model_dump_json(by_alias=True)) == finished[2]


def test_metrics_are_found() -> None:
    names = measuring_functions()
    assert "harness.analysis.metrics.times.completion" in names
    assert all(function.__doc__ for function in names.values())


def test_compressed_artefacts_measure_the_same(finished: tuple[Path, Run, MeasuredRun], tmp_path: Path) -> None:
    folder, run, measured = finished
    for path in folder.rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    assert measure(tmp_path, run) == measured


def test_nothing_there(tmp_path: Path) -> None:
    measured = measure(tmp_path, make_run())
    assert measured.measurements == () and measured.link is not None and not measured.link.valid
    assert measured.link.problems[0].startswith("the path cannot be proven: ")
    assert "lab.json is missing" in warning_texts(measured)


NAMES = [
    "lab.json", "growth.csv", "cpu.csv", "sim/counters.jsonl", "sim/events.jsonl", "sim/capture.json",
    "sim/trace_node_left.pcap", "sim/trace_node_right.pcap",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["missing", "half", "noise", "empty"])
def test_one_damaged_artefact(tmp_path: Path, name: str, damage: str) -> None:
    run = write_run(tmp_path, Recipe(packets=300, size=300_000))
    path = tmp_path / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        noise = random.Random(1).randbytes(500)
        path.write_bytes({"half": data[: len(data) // 2 + 7], "noise": noise, "empty": b""}[damage])
    measured = measure(tmp_path, run)
    assert measured.link is not None
    if damage == "missing":
        assert f"{name} is missing" in warning_texts(measured)
    if "trace" not in name and name not in ("lab.json", "growth.csv"):
        assert measured.value("completion", 0) is not None and measured.link.valid
    if name in ("lab.json",):
        assert not measured.link.valid


def test_captures_without_the_flow(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=100))
    for side in ("left", "right"):
        path = tmp_path / f"sim/trace_node_{side}.pcap"
        path.write_bytes(path.read_bytes()[:24])
    measured = measure(tmp_path, run)
    assert measured.link is not None
    assert measured.link.problems == (
        "the captures hold no datagram of the servers, but the clients received 3000000 B",
    )
    assert measured.value("completion", 0) is None
    assert any("no datagram of the client was captured" in warning for warning in warning_texts(measured))


def test_a_client_that_writes_in_lumps(tmp_path: Path) -> None:
    measured = measure(tmp_path, write_run(tmp_path, Recipe(counter_step=1_500_000)))
    assert measured.value("completion", 0) is not None
    assert measured.value("milestone_1MB", 0) is None
    assert any(
        w.startswith("milestone_1MB is left out: the client writes its file in lumps of 1.5 MB")
        for w in warning_texts(measured)
    )


def grow(folder: Path, *rows: tuple[float, int]) -> None:
    lines = [f"{T0 + round(t * 1e9)},0,0,{size}" for t, size in rows]
    (folder / "growth.csv").write_text("\n".join(["t_ns,flow,transfer,bytes", *lines]) + "\n")


def test_wide_brackets(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=3000))
    steps = [(0.1 * i, 100_000 * (i - 3)) for i in range(4, 33)]
    grow(tmp_path, (0.0, 0), *steps, (3.3, 3_000_000))
    measured = measure(tmp_path, run)
    assert measured.value("milestone_1MB", 0) == pytest.approx(1.25)
    assert "milestone_1MB is known to ±50 ms only" in warning_texts(measured)
    grow(tmp_path, (0.0, 0), (0.9, 900_000), (1.3, 1_200_000), (3.1, 2_900_000), (3.2, 3_000_000))
    measured = measure(tmp_path, run)
    assert measured.value("milestone_1MB", 0) is None and measured.value("completion", 0) == pytest.approx(3.15)
    assert any(warning.startswith("milestone_1MB is left out") for warning in warning_texts(measured))


def test_a_file_that_is_sized_in_advance(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=3000))
    grow(tmp_path, (0.29, 0), (0.3, 3_000_000))
    measured = measure(tmp_path, run)
    assert measured.value("completion", 0) is None and measured.value("milestone_2MB", 0) is None
    assert any("the client sizes it in advance" in warning for warning in warning_texts(measured))


def test_an_unfinished_transfer_keeps_its_milestones(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=3000))
    partial = run.transfers[0].model_copy(update={"received": 2_500_000, "intact": False})
    text = (tmp_path / "growth.csv").read_text().splitlines()
    (tmp_path / "growth.csv").write_text("\n".join(line for line in text if not line.endswith("3000000")) + "\n")
    measured = measure(tmp_path, run.model_copy(update={"transfers": (partial,)}))
    assert measured.value("completion", 0) is None and measured.value("goodput", 0) is None
    assert measured.value("milestone_2MB", 0) is not None


def test_a_qlog_that_names_no_loss(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=3000))
    late = run.transfers[0].model_copy(update={"ended_ns": run.transfers[0].ended_ns + 5_000_000_000})
    folder = tmp_path / "flow0/server/qlog"
    folder.mkdir(parents=True)
    (folder / "a.qlog").write_text('{"name":"transport:packet_sent"}\n' * 50)
    measured = measure(tmp_path, run.model_copy(update={"transfers": (late,)}))
    assert measured.value("retransmitted_share", 0) is None
    assert measured.value("retransmitted_share", 0) is None


def test_a_trace_is_known_by_its_connection_id(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=300, size=300_000, repeat=True))
    folder = tmp_path / "flow0/server/qlog"
    folder.mkdir(parents=True)
    for number, lost in ((0, 10), (1, 20)):
        lines = [f'{{"reference_time":0,"group_id":"{number:016X}"}}']
        lines += ['{"name":"transport:packet_sent"}'] * 100 + ['{"name":"quic:packet_lost"}'] * lost
        (folder / f"{'ba'[number]}.sqlog").write_text("\n".join(lines))
    measured = measure(tmp_path, run)
    assert measured.value("retransmitted_share", 0) == 0.1 and measured.value("retransmitted_share", 0, "repeat") == 0.2


def test_names_of_further_flows(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=100))
    transfer = run.transfers[0]
    transfers = [transfer.model_copy(update={"flow": flow, "index": index}) for flow in (0, 1) for index in (0, 1)]
    view = RunView(tmp_path, run.model_copy(update={"transfers": tuple(transfers)}))
    names = [window.describe("goodput") for window in view.windows]
    assert names == ["flow0_goodput", "flow0_repeat_goodput", "flow1_goodput", "flow1_repeat_goodput"]
    measurement = transfer_measurement(declared_metrics()["goodput"], view.windows[3], 1, "client file")
    assert measurement.named == MetricName("goodput", 1, "repeat")
    assert (measurement.unit, measurement.direction) == ("Mbit/s", "higher")
    alone = RunView(tmp_path, run.model_copy(update={"transfers": tuple(transfers[:2])}))
    assert [window.describe("goodput") for window in alone.windows] == ["goodput", "repeat_goodput"]


def test_a_failing_metric_costs_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(view: RunView) -> Iterator[None]:
        raise ZeroDivisionError("oh")
        yield

    monkeypatch.setitem(__import__("harness.analysis.metric_registry", fromlist=["x"])._MEASURING, "aaa.broken", broken)
    measured = measure(tmp_path, write_run(tmp_path, Recipe(packets=300, size=300_000)))
    assert "aaa.broken failed: ZeroDivisionError: oh" in warning_texts(measured)
    assert measured.value("completion", 0) is not None


def test_steal_is_passed_on(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=100)).model_copy(update={"host": {"steal": 0.25, "idle": "?"}})
    link = measure(tmp_path, run).link
    assert link is not None and link.steal == 0.25 and link.idle is None


def test_a_caution_about_a_cut_capture(tmp_path: Path) -> None:
    run = write_run(tmp_path, replace(Recipe(), packets=300))
    path = tmp_path / "sim/trace_node_left.pcap"
    path.write_bytes(path.read_bytes()[:-10])
    lab = json.loads((tmp_path / "lab.json").read_text())
    assert lab["schema"] == 1
    measured = measure(tmp_path, run)
    assert any(w.startswith("the left capture ends inside a packet") for w in warning_texts(measured))
    assert measured.link is not None and measured.link.valid


@pytest.mark.parametrize(("every", "times"), [(2, "1.8"), (3, "")])
def test_a_caution_about_far_more_datagrams_than_the_bytes_need(tmp_path: Path, every: int, times: str) -> None:
    """Every second or third datagram has 100 B: 1.8 and 1.4 times as many as in full ones."""

    def shrink(traffic: Traffic) -> Traffic:
        down = [
            replace(packet, size=100) if index % every == 0 and index > 10 else packet
            for index, packet in enumerate(traffic.down)
        ]
        return replace(traffic, down=down)

    measured = measure(tmp_path, write_run(tmp_path, Recipe(fill=shrink)))
    cautions = [text for text in measured.warnings if "times as many as its bytes need" in text]
    assert len(cautions) == bool(times)
    if times:
        assert cautions[0].startswith("flow 0 (first): the server sent 3,00") and f", {times} times" in cautions[0]
        assert "in datagrams of 1,252 B; 1,495 had less" in cautions[0]

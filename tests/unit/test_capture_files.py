from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from harness.capture.counters import (
    count_increase,
    cumulative_increase,
    read_capture_drops,
    read_counters,
    read_cpu,
    read_events,
    read_growth,
    running_total,
    transfer_growth,
)
from harness.capture.files import find_file, read_bytes
from harness.capture.qlog import find_traces, read_recovery, summarise


def test_find_accepts_compressed(tmp_path: Path) -> None:
    assert find_file(tmp_path / "a.csv") is None
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"one") + gzip.compress(b"two"))
    path = find_file(tmp_path / "a.csv")
    assert path is not None and read_bytes(path) == b"onetwo"


def sample(t: float, drops: int, early: int = 0) -> str:
    return json.dumps(
        {
            "t": t,
            "qdiscs": [
                {
                    "kind": "tbf",
                    "dev": "to_client",
                    "root": True,
                    "drops": drops,
                    "bytes": 10,
                    "packets": 1,
                    "backlog": 5,
                },
                {
                    "kind": "red",
                    "dev": "to_client",
                    "parent": "1:",
                    "drops": 99,
                    "early": early,
                    "pdrop": 2,
                    "marked": 1,
                },
                {"kind": "ingress", "dev": "left", "parent": "ffff:fff1", "drops": 1},
            ],
        }
    )


def test_counters(tmp_path: Path) -> None:
    lines = [
        sample(1.0, 0),
        sample(1.1, 4, 3),
        "[]",
        "nonsense",
        '{"t":"x","qdiscs":[]}',
        sample(1.2, 10, 5),
        sample(1.3, 2),
    ]
    (tmp_path / "c.jsonl").write_text("\n".join(lines) + '\n{"t":1.4,"qdi')
    frame = read_counters(tmp_path / "c.jsonl")
    assert frame["device"].unique().to_list() == ["to_client"]
    assert frame["drops"].to_list() == [0, 4, 10, 2]
    assert frame["early"].to_list() == [0, 3, 5, 0] and frame["backlog"].to_list() == [5] * 4
    _, totals = running_total(frame, "to_client", "drops")
    assert totals.tolist() == [0, 4, 10, 12]  # replaced before the last sample
    assert count_increase(frame, "to_client", "drops", 0, 2**62) == 12
    assert count_increase(frame, "to_client", "drops", 1_100_000_000, 1_150_000_000) == 6
    assert count_increase(frame, "right", "drops", 0, 2**62) is None


def test_events(tmp_path: Path) -> None:
    events = [
        {"event": "kernel", "kernel": "lab", "release": "7.2.12"},
        {"event": "ready", "t": 1.5},
        {"event": "first_datagram", "t": 2.0},
        {"event": "change", "index": 0, "at": 5.0, "t": 7.001},
        {"event": "surprise", "t": 3},
        {"event": "ready"},
        {"event": "stop", "t": 9},
    ]
    (tmp_path / "e.jsonl").write_text("\n".join(map(json.dumps, events)))
    capture_events = read_events(tmp_path / "e.jsonl")
    assert capture_events.kernel == "lab 7.2.12" and capture_events.ready_ns == 1_500_000_000
    assert capture_events.first_datagram_ns == 2_000_000_000 and capture_events.stop_ns == 9_000_000_000
    assert capture_events.changes == {0: 7_001_000_000}


def test_capture_drops(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"left":{"dropped":2},"right":{"captured":5,"dropped":3},"note":"x"}')
    assert read_capture_drops(tmp_path / "c.json") == 5


def test_growth(tmp_path: Path) -> None:
    rows = [
        "t_ns,flow,transfer,bytes",
        "0,0,0,0",
        "10,0,0,5",
        "90,0,0,5",
        "100,0,0,25",
        "50,1,0,7",
        "nonsense",
        "200,0,0,3",
    ]
    (tmp_path / "g.csv").write_text("\n".join(rows))  # the last row is cut short: 30 or 3000?
    growth = transfer_growth(read_growth(tmp_path / "g.csv"), 0, 0)
    assert growth.size.tolist() == [0, 5, 5, 25]
    moment = growth.time_of(20, 0)
    assert moment is not None and (moment.after_ns, moment.before_ns, moment.middle_ns, moment.gap_ns) == (
        90,
        100,
        95,
        10,
    )
    first = transfer_growth(read_growth(tmp_path / "g.csv"), 1, 0).time_of(7, 20)
    assert first is not None and (first.after_ns, first.before_ns) == (20, 50)
    assert growth.time_of(26, 0) is None
    assert growth.typical_step == 20
    assert transfer_growth(read_growth(tmp_path / "g.csv"), 2, 0).typical_step == 0


@pytest.mark.parametrize("text", ["", "t_ns,flow,transfer,bytes\n", "t_ns,flow"])
def test_empty_growth(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.csv").write_text(text)
    assert read_growth(tmp_path / "g.csv").is_empty()


def test_cpu(tmp_path: Path) -> None:
    rows = ["t_ns,container,cpu_ns,rcvbuf_errors"]
    rows += [f"{t},sim,{t * 2}," for t in (0, 50, 100, 150)]
    rows += ["50,client0,7,0", "100,client0,9,4", "150,client0,3,1"]
    (tmp_path / "c.csv").write_text("\n".join(rows) + "\n")
    frame = read_cpu(tmp_path / "c.csv")
    assert cumulative_increase(frame, "sim", "cpu_ns", 60, 90) == 100
    assert cumulative_increase(frame, "sim", "rcvbuf_errors", 0, 150) is None
    assert cumulative_increase(frame, "client0", "cpu_ns", 20, 100) == 9  # new since the start
    assert cumulative_increase(frame, "client0", "cpu_ns", 20, 150) == 12  # and replaced by another
    assert cumulative_increase(frame, "client0", "rcvbuf_errors", 50, 100) == 4
    assert cumulative_increase(frame, "client0", "cpu_ns", 160, 200) is None
    assert cumulative_increase(frame, "server0", "cpu_ns", 0, 150) is None


EVENTS = [
    '{"time":0,"name":"transport:parameters_set","data":{}}',
    '{"time":10.5,"name":"recovery:metrics_updated","data":{"smoothed_rtt":0.65,"congestion_window":12000}}',
    '{"time":11,"name":"transport:packet_sent","data":{"header":{"packet_number":1}}}',
    '{"time":12,"name":"quic:packet_sent","data":{}}',
    '{"time":13,"name":"recovery:packet_lost","data":{}}',
    '{"time":20,"name":"quic:recovery_metrics_updated","data":{"bytes_in_flight":5}}',
]


def check_recovery(frame: pl.DataFrame) -> None:
    assert frame["t_ms"].to_list() == [10.5, 20.0]
    assert frame["congestion_window"].to_list() == [12000, 12000]
    assert frame["bytes_in_flight"].to_list() == [None, 5]
    assert frame["smoothed_rtt_ms"].to_list() == [650.0, 650.0]


def test_qlog_in_sequence(tmp_path: Path) -> None:
    header = '{"qlog_version":"0.3","trace":{"common_fields":{"reference_time":1790000000000.0}}}'
    text = "".join(f"\x1e{line}\n" for line in [header, *EVENTS]) + '\x1e{"time":30,"name":"recovery:metrics_upd'
    (tmp_path / "a.sqlog").write_text(text)
    check_recovery(read_recovery(tmp_path / "a.sqlog", rtt_ms=650))
    summary = summarise(tmp_path / "a.sqlog")
    assert (summary.sent, summary.lost, summary.start_ns) == (2, 1, 1_790_000_000_000_000_000)
    (tmp_path / "b.sqlog.gz").write_bytes(gzip.compress(text.encode()))
    check_recovery(read_recovery(tmp_path / "b.sqlog.gz", rtt_ms=650))
    assert [path.name for path in find_traces(tmp_path)] == ["a.sqlog", "b.sqlog.gz"]
    assert find_traces(tmp_path / "nowhere") == []


def test_contained_qlog(tmp_path: Path) -> None:
    events = [json.dumps(dict(reversed(json.loads(line).items()))) for line in EVENTS]  # data first, as aioquic
    text = '{"qlog_version": "0.3", "traces": [{"events": [' + ", ".join(events) + "]}]}"
    (tmp_path / "a.qlog").write_text(text)
    check_recovery(read_recovery(tmp_path / "a.qlog", rtt_ms=650))
    (tmp_path / "cut.qlog").write_text(text[:-40])
    assert read_recovery(tmp_path / "cut.qlog", rtt_ms=650).height == 1


@pytest.mark.parametrize("nested", ["", ', "more": [{"cwnd": 1}]'])
def test_events_that_are_arrays(nested: str, tmp_path: Path) -> None:
    """As picoquic writes them, the trace's end in the last line; where one has more inside, all are decoded instead."""
    head = '{"qlog_version":"draft-00","traces":[\n{"configuration":{"time_units":"us"},"events":[\n'
    rows = [
        '[1000, "recovery", "metrics_updated", {"cwnd": 15360,"bytes_in_flight": "7"}]',
        '[2000, 0, "recovery", "metrics_updated", {"bytes_in_flight": -1.5e3' + nested + "}]",
        '[3000, 1, "transport", "metrics_updated", {"smoothed_rtt": 650000,"pacing_rate": 1.5}]',
    ]
    (tmp_path / "a.qlog").write_text(head + ",\n".join(rows) + "]}]}\n")
    frame = read_recovery(tmp_path / "a.qlog")
    assert frame["t_ms"].to_list() == [0, 1, 2]
    assert frame["congestion_window"].to_list() == [15360, 15360, 15360]
    assert frame["bytes_in_flight"].to_list() == [None, -1500, -1500]
    assert frame["smoothed_rtt_ms"].to_list() == [None, None, 650] and frame["pacing_rate"][-1] == 1.5


def test_old_and_odd_qlog(tmp_path: Path) -> None:
    head = '{"traces":[{"configuration":{"time_units":"us"},"event_fields":["relative_time","category","event","data"],"events":[\n'
    text = (
        head
        + '[0,"transport","packet_sent",{}],\n[65000,"recovery","metrics_updated",{"cwnd":14000,"smoothed_rtt":650000}]\n'
    )
    (tmp_path / "a.qlog").write_text(text)
    frame = read_recovery(tmp_path / "a.qlog")
    assert frame["congestion_window"].to_list() == [14000] and frame["smoothed_rtt_ms"].to_list() == [650]
    (tmp_path / "b.qlog").write_text('{"time_format":"delta"}\n' + EVENTS[1])
    assert read_recovery(tmp_path / "b.qlog").is_empty()
    (tmp_path / "c.qlog").write_bytes(b"")
    assert read_recovery(tmp_path / "c.qlog", 650).is_empty() and summarise(tmp_path / "c.qlog").sent == 0
    wall = '{"trace":{"common_fields":{"reference_time":{"clock_type":"monotonic","epoch":"unknown","wall_clock_time":"2026-11-21T00:00:00Z"}}}}'
    (tmp_path / "d.qlog").write_text(wall)
    assert summarise(tmp_path / "d.qlog").start_ns == 1_795_219_200_000_000_000
    (tmp_path / "e.qlog").write_text('{"time":1790000000000.5,"name":"x"}')
    assert summarise(tmp_path / "e.qlog").start_ns == pytest.approx(1_790_000_000_000_500_000, abs=1000)

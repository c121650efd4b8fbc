"""Long qlogs made small: what stays is what is read of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from harness.capture import qlog_thinning
from harness.capture.qlog import read_losses, read_recovery
from harness.capture.qlog_parameters import read_settings
from harness.capture.qlog_thinning import STEP_MS, thin
from harness.engine.exit_rules import LOG_STEP, log_limit, log_overflow_outcome
from harness.execution.runner import thin_logs
from harness.topology import build_lab
from tests.examples import ROOT, cell, scenario

RECORDED = sorted((ROOT / "tests/replay/data").glob("*/flow0/server/qlog/*.gz"))
HEAD = 60_000


@pytest.fixture(params=RECORDED, ids=lambda path: path.parents[3].name)
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A recorded trace as its stack wrote it."""
    recorded: Path = request.param
    file = tmp_path / recorded.stem
    file.write_bytes(gzip.decompress(recorded.read_bytes()))
    return file


def test_the_sender_s_state_is_the_same_at_every_time_that_stays(trace: Path) -> None:
    before, settings, losses = read_recovery(trace), read_settings(trace), read_losses(trace)
    size = trace.stat().st_size
    thinned_sizes = thin(trace, whole=100_000, head=HEAD)
    assert thinned_sizes is not None and (thinned_sizes.before, thinned_sizes.after) == (size, trace.stat().st_size)
    assert thinned_sizes.after < size
    after = read_recovery(trace)
    # Every state that stays is whole, with what came of events that were left out.
    assert set(after.rows()) <= set(before.rows())
    assert len(after) > 10
    assert read_settings(trace).initial_congestion_window == settings.initial_congestion_window
    if b'packet_lost"' in gzip.decompress(next(path for path in RECORDED if path.stem == trace.name).read_bytes()):
        assert read_losses(trace).lost == losses.lost


def test_behind_the_head_there_is_a_state_every_step_and_no_packet(trace: Path) -> None:
    thin(trace, whole=100_000, head=HEAD)
    behind = trace.read_bytes()[HEAD + 10_000 :]
    # A trace in one document ends behind its last event.
    assert b'packet_sent"' not in behind[:-5000] and b'packet_received"' not in behind[:-5000]
    times = read_recovery(trace)["t_ms"].to_list()
    since = times[len([0 for line in trace.read_bytes()[:HEAD].splitlines() if b'metrics_updated"' in line]) + 1 :]
    assert len(since) > 10
    assert all(later - earlier >= STEP_MS * 0.99 for earlier, later in pairwise(since[:-1]))


def test_a_trace_of_usual_length_stays_as_it_is(trace: Path) -> None:
    content = trace.read_bytes()
    assert thin(trace) is None
    assert trace.read_bytes() == content


def lines(count: int) -> Iterator[str]:
    yield json.dumps({"qlog_format": "JSON-SEQ", "trace": {}})
    for number in range(count):
        yield json.dumps({"time": number, "name": "quic:packet_received", "data": {"raw": {"length": 1200}}})
        yield json.dumps({"time": number, "name": "recovery:metrics_updated", "data": {"congestion_window": number}})


def test_what_a_line_lacks_that_stays_comes_from_those_left_out(tmp_path: Path) -> None:
    file = tmp_path / "x.sqlog"
    events = [
        {"time": t, "name": "recovery:metrics_updated", "data": data}
        for t, data in [(0, {"congestion_window": 1}), (1, {"ssthresh": 7}), (2, {"congestion_window": 2}), (20, {})]
    ]
    file.write_text("\x1e" + "\n\x1e".join(json.dumps(event) for event in events) + "\n")
    thin(file, whole=10, head=0)
    kept = [json.loads(line.strip("\x1e")) for line in file.read_text().strip().split("\n")]
    assert [(event["time"], event["data"]) for event in kept] == [
        (0, {"congestion_window": 1}),
        (20, {"ssthresh": 7, "congestion_window": 2}),
    ]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"traces": [{"events": [{"time": 1, "name": "x", "data": {"x": "y" * 3_000_000}}]}]}),
        '{"trace": {"common_fields": {"time_format": "relative_to_previous_event"}}}\n' + "\n".join(lines(2000)),
    ],
    ids=["one line", "times as differences"],
)
def test_what_cannot_be_cut_by_lines_stays_whole(tmp_path: Path, content: str) -> None:
    file = tmp_path / "x.qlog"
    file.write_text(content)
    assert thin(file, whole=1000, head=2_500_000) is None
    assert file.read_text() == content


def test_an_event_that_is_never_rare_has_its_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qlog_thinning, "MAX_EVENT_BYTES", 10_000)
    file = tmp_path / "x.sqlog"
    chatter = [json.dumps({"time": n, "name": "quic:stream_data_moved", "data": {"n": n}}) for n in range(5000)]
    file.write_text("\n".join([*chatter, *lines(10)]) + "\n")
    thinned_sizes = thin(file, whole=1000, head=100)
    assert thinned_sizes is not None and thinned_sizes.after < 12_000
    assert b"congestion_window" in file.read_bytes()


def test_a_run_says_which_traces_were_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("client", "server"):
        place = tmp_path / "flow0" / role / "qlog"
        place.mkdir(parents=True)
        (place / "x.sqlog").write_text("\n".join(lines(3000 if role == "server" else 1)) + "\n")
    monkeypatch.setattr("harness.execution.runner.thin", lambda file: thin(file, whole=100_000, head=1000))
    (text,) = thin_logs(tmp_path, 1)
    assert text.startswith("flow0/server/qlog/x.sqlog: ") and "are kept" in text


def test_the_limit_of_logs_grows_with_the_file_and_is_named() -> None:
    def limit(size: str, **overrides: object) -> int:
        flow = {"download": size, **overrides}
        return log_limit(build_lab(cell(scenario(flows=[flow], milestones=[], objectives=[])), 0), 2 << 30)

    assert limit("10 MB") == limit("500 MB") == 2 << 30
    assert limit("10 GB") == (2 << 30) * 10**10 // LOG_STEP
    assert limit("500 MB", repeat_after="1 s") == 4 << 30
    assert "HARNESS_LOG_LIMIT" in log_overflow_outcome(build_lab(cell(), 0).host("server0")).detail

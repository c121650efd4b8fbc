"""The quick way through a qlog reads what decoding every event reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.capture import qlog
from harness.capture.files import read_bytes
from tests.examples import ROOT

TRACES = sorted((ROOT / "tests/replay/data").glob("*/flow0/server/qlog/*"))


@pytest.mark.parametrize("file", TRACES, ids=lambda file: f"{file.parts[-5]}-{file.name[:14]}")
def test_recorded_traces_read_the_same(file: Path) -> None:
    data = read_bytes(file)
    decoded, lines = qlog._decode_events(data), qlog.find_event_lines(data, qlog._METRICS)
    assert decoded.height > 100
    # picoquic's trace is a document of JSON, with a line for each event.
    assert lines is not None and qlog._scan_lines(lines).equals(decoded)


def _event(time: object, **figures: object) -> str:
    return json.dumps({"time": time, "name": "quic:recovery_metrics_updated", "data": figures})


def test_forms_of_numbers_read_the_same() -> None:
    text = "\n".join(
        [
            _event(0, congestion_window=12000, cf_lost_bytes={"total": 5, "delta": 5}),
            "\x1e" + _event(1.5, smoothed_rtt=1e-3, cwnd=7, min_rtt=-1),
            _event("2.25", bytes_in_flight="12", ssthresh=1.8446744073709552e19),
            _event(3, congestion_window=None, pacing_rate=10**9),
        ]
    ).encode()
    lines = qlog.find_event_lines(text, qlog._METRICS)
    assert lines is not None and len(lines) == 4
    assert qlog._scan_lines(lines).equals(qlog._decode_events(text))


def test_what_was_cut_short_is_decoded_as_far_as_it_goes(tmp_path: Path) -> None:
    text = f"{_event(0, cwnd=10)}\n{_event(1, cwnd=20)}\n{_event(2, cwnd=30)[:-9]}"
    assert qlog.find_event_lines(text.encode(), qlog._METRICS) is None
    (tmp_path / "cut.sqlog").write_text(text)
    assert qlog.read_recovery(tmp_path / "cut.sqlog")["congestion_window"].to_list() == [10, 20]

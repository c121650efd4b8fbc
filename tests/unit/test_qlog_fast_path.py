"""The quick way through a qlog reads what decoding every event reads."""

from __future__ import annotations

import json
import mmap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.capture import files, qlog
from harness.capture.files import read_bytes
from tests.examples import ROOT

TRACES = sorted((ROOT / "tests/replay/data").glob("*/flow0/server/qlog/*"))


@pytest.mark.parametrize("file", TRACES, ids=lambda file: f"{file.parts[-5]}-{file.name[:14]}")
def test_recorded_traces_read_the_same(file: Path) -> None:
    data = read_bytes(file)
    decoded, scanned = qlog._decode_events(data), qlog._scan_events(data)
    assert decoded.height > 100
    # picoquic's trace is a document of JSON, with a line for each event.
    assert scanned is not None and scanned.equals(decoded)


def test_a_large_trace_is_scanned_in_parts_and_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    file = TRACES[0]
    whole, counts = qlog.read_recovery(file), qlog.summarise(file)
    assert isinstance(files.map_content(file), bytes)
    monkeypatch.setattr(qlog, "_BLOCK", 1700)
    monkeypatch.setattr(files, "MAX_IN_MEMORY", 100)
    assert isinstance(files.map_content(file), mmap.mmap)
    assert files.map_content(file)[:] == read_bytes(file)
    assert qlog.read_recovery(file).equals(whole)
    assert qlog.summarise(file) == counts


@pytest.mark.parametrize("place", ["/dev/full", "missing/file"])
def test_a_trace_is_read_into_memory_where_the_disk_takes_no_copy(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the chaos test lost two measurements to a full TMPDIR, with no error."""
    file = TRACES[0]
    monkeypatch.setattr(files, "MAX_IN_MEMORY", 100)
    monkeypatch.setattr(files, "unnamed_file", lambda: Path(place).open("r+b", buffering=0))  # noqa: SIM115
    assert files.map_content(file) == read_bytes(file)


@given(st.lists(st.sampled_from((b"ab", b"a", b"b", b"c"))), st.integers(1, 5))
def test_words_are_counted_across_the_borders_of_blocks(parts: list[bytes], block: int) -> None:
    content = b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BUFFER", block)
        assert files.count_word(content, b"ab") == content.count(b"ab")


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
    scanned = qlog._scan_events(text)
    assert scanned is not None and scanned.height == 4
    assert scanned.equals(qlog._decode_events(text))


def test_what_was_cut_short_is_decoded_as_far_as_it_goes(tmp_path: Path) -> None:
    text = f"{_event(0, cwnd=10)}\n{_event(1, cwnd=20)}\n{_event(2, cwnd=30)[:-9]}"
    assert qlog._scan_events(text.encode()) is None
    lines = qlog.find_event_lines(text.encode(), qlog._METRICS)
    assert [next(lines), next(lines)] == [line.encode() for line in text.splitlines()[:2]]
    with pytest.raises(qlog.NotAnEventError, match="not one event"):
        next(lines)
    (tmp_path / "cut.sqlog").write_text(text)
    assert qlog.read_recovery(tmp_path / "cut.sqlog")["congestion_window"].to_list() == [10, 20]

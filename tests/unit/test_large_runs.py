"""What is done otherwise where a run is too large for memory comes to the same: captures in parts, arrays on the disk."""

from __future__ import annotations

import errno
import io
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.metrics import measure
from harness.capture import capture, connections, files, memmap, pcap, qlog, streams
from harness.capture.divergence import trail, trail_of_parts
from harness.capture.files import capture_path, read_bytes
from harness.capture.quic import protection
from harness.store.records import read_run
from tests.examples import ROOT

DATA = ROOT / "tests/replay/data"
RUNS = sorted(folder.name for folder in DATA.iterdir() if (folder / "run.json").exists())


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of 10 GB: nothing of a packet stays in memory, and everything comes in parts."""
    parts = pcap.read_parts
    monkeypatch.setattr(pcap, "read_parts", lambda file: parts(file, 10_000))
    monkeypatch.setattr(capture, "_PARTS_IN_MEMORY", 3)
    monkeypatch.setattr(memmap, "MAX_IN_MEMORY", 100)
    monkeypatch.setattr(files, "MAX_IN_MEMORY", 100)
    monkeypatch.setattr(qlog, "_BLOCK", 4096)
    monkeypatch.setattr(memmap, "_PART", 64)
    monkeypatch.setattr(connections, "_MAX_KEPT", 10)
    monkeypatch.setattr(connections, "_PART", 50)
    monkeypatch.setattr(protection, "_PART", 37)
    monkeypatch.setattr(streams, "_PART", 41)


@pytest.mark.parametrize("name", RUNS)
def test_a_large_run_is_measured_as_a_small_one(name: str, request: pytest.FixtureRequest) -> None:
    run = read_run((DATA / name / "run.json").read_bytes())
    small = measure(DATA / name, run)
    request.getfixturevalue("as_if_large")
    assert measure(DATA / name, run) == small


@pytest.mark.parametrize("size", [1, 100, 5000, 1 << 25])
@pytest.mark.parametrize("cut", [0, 1, 50])
def test_a_capture_in_parts_is_the_whole(size: int, cut: int) -> None:
    data = read_bytes(capture_path(DATA / RUNS[0], "left"))
    data = data[: min(len(data), 40_000) - cut]
    whole, parts = pcap.parse(data), list(pcap.read_parts(io.BytesIO(data), size))
    for name in ("t_ns", "heads", "captured", "length"):
        assert np.array_equal(np.concatenate([getattr(records, name) for records in parts]), getattr(whole, name))
    assert [records.truncated for records in parts] == [*[False] * (len(parts) - 1), whole.truncated]


@pytest.mark.parametrize("size", [1, 5000, 1 << 25])
def test_the_trail_of_parts_is_that_of_the_whole(size: int) -> None:
    data = read_bytes(capture_path(DATA / RUNS[0], "left"))
    assert trail_of_parts(pcap.read_parts(io.BytesIO(data), size)) == trail(pcap.parse(data))


def test_a_capture_that_is_damaged_in_the_middle_ends_there() -> None:
    data = bytearray(read_bytes(capture_path(DATA / RUNS[0], "left")))
    offsets, _ = pcap._record_offsets(bytes(data), "<")
    assert all(after > before for before, after in pairwise(offsets))
    data[offsets[100] + 8 : offsets[100] + 12] = b"\xff\xff\xff\x7f"
    whole = pcap.parse(bytes(data))
    parts = list(pcap.read_parts(io.BytesIO(bytes(data)), 3000))
    assert sum(len(records.t_ns) for records in parts) == len(whole.t_ns) == 100
    assert whole.truncated and parts[-1].truncated


def test_arrays_on_the_disk_are_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(3000, dtype=np.int64).reshape(1000, 3)
    mask = rows[:, 0] % 2 == 0
    monkeypatch.setattr(memmap, "MAX_IN_MEMORY", 1000)
    monkeypatch.setattr(memmap, "_PART", 7)
    assert np.array_equal(memmap.take_rows(rows, mask), rows[mask])
    assert np.array_equal(memmap.take_rows(rows, np.array([5, 5, 0])), rows[[5, 5, 0]])
    assert np.array_equal(memmap.concatenate([rows, rows[:2]]), np.concatenate([rows, rows[:2]]))
    array = memmap.allocate((1000, 3), np.int64)
    array[:] = 1
    assert array.flags.writeable and (array == 1).all()


def test_an_array_is_in_memory_where_the_disk_is_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(file: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    array = memmap.allocate((files.MAX_IN_MEMORY, 2), np.uint8)
    array[:] = 1
    assert array.shape == (files.MAX_IN_MEMORY, 2) and array.base is None
    assert not list(tmp_path.iterdir())

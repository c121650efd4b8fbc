"""ECN marks at the bottleneck: from both captures, per direction and over time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from harness.analysis.metrics import measure_with_series
from harness.analysis.run_view import RunView
from harness.analysis.timeseries import BOTTLENECK
from harness.outcome import MeasuredRun, Run
from tests.unit.captures import SCENARIO, Recipe, write_run

ECT_0, CE, NOT_ECT = 0b10, 0b11, 0b00
#: DSCP AF41, which marking leaves alone (RFC 2474 §3).
DSCP = 34 << 2
#: Where the byte of DSCP and ECN stands in a frame with IPv4.
_AT = 15


def _scenario(*, ecn: bool) -> dict[str, Any]:
    red = {"discipline": "red", "limit": "100 kB", "min": "9 kB", "max": "80 kB", "probability": "10 %", "wq": 0.002}
    path = SCENARIO["path"]
    return {"path": {**path, "forward": {**path["forward"], "queue": {**red, "ecn": ecn}}}}


def _written(folder: Path, codepoint: Callable[[str, int], int], *, ecn: bool = True) -> Run:
    """A download whose packets to the client have the codepoints that (side, number of the packet there) gives."""
    run = write_run(folder, Recipe(packets=400, size=400_000, load=0.8, scenario=_scenario(ecn=ecn)))
    for side in ("left", "right"):
        file = folder / "sim" / f"trace_node_{side}.pcap"
        file.write_bytes(_marked(file.read_bytes(), lambda number, side=side: codepoint(side, number)))  # type: ignore[misc]
    return run


def _marked(data: bytes, codepoint: Callable[[int], int]) -> bytes:
    """A pcap with another byte of DSCP and ECN in each packet to the client, which comes from port 443."""
    made, at, number = bytearray(data), 24, 0
    while at < len(made):
        (length,) = struct.unpack_from("<I", made, at + 8)
        frame = at + 16
        if struct.unpack_from(">H", made, frame + 34)[0] == 443:
            made[frame + _AT] = DSCP | codepoint(number)
            number += 1
        at = frame + length
    return bytes(made)


def _marks(measured: MeasuredRun) -> dict[str, float]:
    return {
        measurement.name: measurement.value
        for measurement in measured.measurements
        if measurement.name.startswith("ecn_marks")
    }


def test_what_came_unmarked_and_left_marked_was_marked_here(tmp_path: Path) -> None:
    # Every tenth is marked on the way; every fiftieth, which is one of them, came so.
    def codepoint(side: str, number: int) -> int:
        if number % 50 == 0 or (side == "left" and number % 10 == 0):
            return CE
        return ECT_0

    run = _written(tmp_path, codepoint)
    measured, series = measure_with_series(tmp_path, run)
    view = RunView(tmp_path, run)
    assert view.to_client is not None
    count = len(view.to_client.entered)
    expected = [number for number in range(count) if number % 10 == 0 and number % 50]
    assert view.to_client.arrived.all() and np.flatnonzero(view.to_client.marked).tolist() == expected
    # The way back has no queue that marks.
    assert _marks(measured) == {"ecn_marks_to_client": len(expected)}
    assert series is not None
    marks = series.filter((pl.col("flow") == BOTTLENECK) & (pl.col("name") == "mark"))
    assert marks.height == len(expected)
    assert marks["value"].unique().to_list() == [0.0]
    zero = view.left.t_ns[~view.left.to_client][0] if view.left is not None else 0
    assert marks["t"].to_list() == pytest.approx(((view.to_client.entered.t_ns[expected] - zero) / 1e9).tolist())


def test_one_that_was_dropped_is_not_marked(tmp_path: Path) -> None:
    run = _written(tmp_path, lambda side, number: CE if side == "left" else ECT_0)
    view = RunView(tmp_path, run)
    assert view.to_client is not None
    passage = view.to_client
    lost = np.zeros(len(passage.entered), np.bool_)
    lost[5] = True
    from dataclasses import replace

    without = replace(passage, out_ns=np.where(lost, -1, passage.out_ns))
    assert without.marked.sum() == passage.marked.sum() - 1 and not without.marked[5]


def test_where_nobody_is_capable_that_is_said(tmp_path: Path) -> None:
    measured = measure_with_series(tmp_path, _written(tmp_path, lambda side, number: NOT_ECT))[0]
    assert _marks(measured) == {"ecn_marks_to_client": 0.0}
    [message] = [text for text in measured.warnings if "ECN" in text]
    assert message == "no packet to client was ECN-capable, so that RED dropped what it would have marked"


def test_a_queue_that_only_drops_has_no_marks(tmp_path: Path) -> None:
    measured = measure_with_series(tmp_path, _written(tmp_path, lambda side, number: ECT_0, ecn=False))[0]
    assert _marks(measured) == {}
    assert not [text for text in measured.warnings if "ECN" in text]

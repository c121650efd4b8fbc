"""ECN marks at the bottleneck: from both captures, per direction and over time."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from harness.analysis.metrics import measure_with_series
from harness.analysis.metrics.link_proof import prove
from harness.analysis.run_view import RunView
from harness.analysis.timeseries import BOTTLENECK
from harness.outcome import MeasuredRun, Run
from tests.unit.captures import SCENARIO, Link, Recipe, write_run

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
    marked, at, number = bytearray(data), 24, 0
    while at < len(marked):
        (length,) = struct.unpack_from("<I", marked, at + 8)
        frame = at + 16
        if struct.unpack_from(">H", marked, frame + 34)[0] == 443:
            marked[frame + _AT] = DSCP | codepoint(number)
            number += 1
        at = frame + length
    return bytes(marked)


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
    assert message == "no packet to client was ECN-capable, so that RED marked none"


def test_a_queue_that_only_drops_has_no_marks(tmp_path: Path) -> None:
    measured = measure_with_series(tmp_path, _written(tmp_path, lambda side, number: ECT_0, ecn=False))[0]
    assert _marks(measured) == {}
    assert not [text for text in measured.warnings if "ECN" in text]


def test_red_behind_a_bucket_gets_a_caution_and_behind_a_serial_server_none(tmp_path: Path) -> None:
    for name, burst in (("bucket", 3028), ("serial", None)):
        link = Link(burst_bytes=burst)
        recipe = Recipe(configured=link, packets=400, size=400_000, load=0.8, scenario=_scenario(ecn=False))
        run = write_run(tmp_path / name, recipe)
        file = tmp_path / name / "lab.json"
        lab = json.loads(file.read_text())
        lab["links"]["to_client"]["discipline"] = "red"
        file.write_text(json.dumps(lab))
        cautions = [text for text in prove(RunView(tmp_path / name, run))[1] if "RED's average does not decay" in text]
        assert len(cautions) == (burst is not None)
        assert all("after a rest RED drops as if the queue were as long as before" in text for text in cautions)


# --- a node on the way that drops what is ECN-capable


def _dropped_by_rule(folder: Path, *, capable: Callable[[bool], bool], asked: bool = True) -> list[str]:
    """The proof's problems of a link on which packets vanish behind a queue that is often full.

    `capable`: whether a packet that vanished (True) or arrived (False) came with ECT(0).
    """
    forward = {**SCENARIO["path"]["forward"], **({"ecn": "drop"} if asked else {})}
    scenario = {"path": {**SCENARIO["path"], "forward": forward}}
    run = write_run(folder, Recipe(actual=Link(unexplained_loss=0.05), scenario=scenario))
    passage = RunView(folder, run).to_client
    assert passage is not None and 50 < (~passage.arrived).sum() < len(passage.arrived) / 2
    vanished = (~passage.arrived).tolist()
    file = folder / "sim" / "trace_node_right.pcap"
    file.write_bytes(_marked(file.read_bytes(), lambda number: ECT_0 if capable(vanished[number]) else NOT_ECT))
    proof, _ = prove(RunView(folder, run))
    return list(proof.problems)


def test_what_a_node_on_the_way_drops_by_rule_was_asked(tmp_path: Path) -> None:
    assert _dropped_by_rule(tmp_path / "asked", capable=lambda vanished: vanished) == []
    assert "vanished" in _dropped_by_rule(tmp_path / "not", capable=lambda vanished: vanished, asked=False)[0]


def test_what_such_a_node_lets_pass_or_drops_without_ecn_is_a_problem(tmp_path: Path) -> None:
    assert "vanished" in _dropped_by_rule(tmp_path / "none", capable=lambda vanished: False)[0]
    problems = _dropped_by_rule(tmp_path / "all", capable=lambda vanished: True)
    assert any("packets left with ECN that was to be changed" in problem for problem in problems)

"""Shares by phase, on a run of two flows made by hand (see shared_flows)."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.analysis.metrics import measure
from tests.measurements import by_name
from tests.unit.captures import T0, make_run
from tests.unit.shared_flows import (
    MS,
    SCENARIO,
    Passing,
    Segment,
    data,
    transfer,
    udp,
    write_captures,
    write_counters,
    write_lab,
)


def _run(folder: Path, first: str) -> dict[str, float]:
    """Flow 0 sends 1000 B every 100 ms from 0 to 2 s, flow 1 500 B every 50 ms from 1 to 2 s; nothing waits."""
    passing = [
        Passing(udp(0, to_client=False, size=20), 0, 10),
        Passing(Segment(0, False, b"", 0, 1, flags=0x02), 1000, 1010),
    ]
    for number in range(20):
        passing.append(Passing(udp(number), 100 * number + 50, 100 * number + 60))
        passing.append(Passing(data(number), 1000 + 50 * number + 25, 1000 + 50 * number + 35))
    write_captures(folder, passing)
    write_lab(folder, [{"kind": first, "stop": 2.0}, {"kind": "tcp", "start": 1.0, "stop": 2.0}])
    write_counters(folder, {})
    run = make_run(
        scenario=SCENARIO,
        transfers=tuple(transfer(flow).model_copy(update={"ended_ns": T0 + 2300 * MS}) for flow in range(2)),
    )
    return by_name(measure(folder, run), 2)


def test_phases_begin_where_flows_come_and_go(tmp_path: Path) -> None:
    value = _run(tmp_path, "quic")
    # Ten datagrams of 1000 B in the first second, and in the second; twenty segments of 500 B in the second.
    assert value["phase1_flow0_throughput"] == pytest.approx(0.08)
    assert value["phase2_flow0_throughput"] == pytest.approx(0.08)
    assert value["phase2_flow1_throughput"] == pytest.approx(0.08)
    assert "phase1_flow1_throughput" not in value
    assert "phase1_jain" not in value, "one flow shares with nobody"
    assert value["phase2_jain"] == pytest.approx(1)
    assert value["jain_shared"] == value["phase2_jain"]
    assert "phase3_jain" not in value


def test_flows_without_congestion_control_make_no_phases(tmp_path: Path) -> None:
    value = _run(tmp_path, "udp")
    assert not any(name.startswith("phase") for name in value)
    assert "jain_shared" not in value
    # One second of 500 B every 50 ms and 1000 B every 100 ms, each with its headers, of 10 Mbit/s.
    assert 0.015 < value["utilisation_shared"] < 0.02


def test_a_phase_in_which_nobody_receives_costs_its_own_index_alone(tmp_path: Path) -> None:
    passing = [
        Passing(udp(0, to_client=False, size=20), 0, 10),
        Passing(Segment(0, False, b"", 0, 1, flags=0x02), 500, 510),
    ]
    for number in range(4):
        passing.append(Passing(udp(number), 100 * number + 50, 100 * number + 60))
        passing.append(Passing(data(number), 2000 + 50 * number + 25, 2000 + 50 * number + 35))
    write_captures(tmp_path, passing)
    write_lab(tmp_path, [{"kind": "quic", "stop": 2.0}, {"kind": "tcp", "start": 0.5, "stop": 2.5}])
    write_counters(tmp_path, {})
    run = make_run(
        scenario=SCENARIO,
        transfers=tuple(transfer(flow).model_copy(update={"ended_ns": T0 + 2800 * MS}) for flow in range(2)),
    )
    measured = measure(tmp_path, run)
    value = by_name(measured, 2)
    assert (value["phase2_flow0_throughput"], value["phase2_flow1_throughput"]) == (0, 0)
    assert value["phase3_flow1_throughput"] == pytest.approx(4 * 500 * 8 / 0.5 / 1e6)
    assert "phase2_jain" not in value and "jain_shared" not in value
    why = {absence.metric: absence.why for absence in measured.absent}
    assert why["jain"] == why["jain_shared"] == "nobody received anything in phase 2"
    assert not [warning for warning in measured.warnings if "shares" in warning]

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
    link,
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


def _joined(folder: Path, rate_bps: int) -> dict[str, float]:
    """Flow 0 sends 1000 B every 100 ms from 0 to 6 s; flow 1 joins at 1 s, and sends as much but in five bins.

    In the first two seconds that both are there one packet is dropped, and two afterwards.
    """
    passing = [
        Passing(udp(0, to_client=False, size=20), 0, 10),
        Passing(Segment(0, False, b"", 0, 1, flags=0x02), 1000, 1010),
    ]
    silent = {10, 11, 12, 13, 15}
    for number in range(60):
        at = 100 * number
        passing.append(Passing(udp(number), at + 50, None if number in (12, 40, 50) else at + 60))
        if number >= 10 and number not in silent:
            passing.append(Passing(data(2 * number), at + 25, at + 35))
            passing.append(Passing(data(2 * number + 1), at + 50, at + 60))
    write_captures(folder, passing)
    links = {name: link(name, rate_bps=rate_bps) for name in ("to_client", "to_server")}
    write_lab(folder, [{"kind": "quic", "stop": 6.0}, {"kind": "tcp", "start": 1.0, "stop": 6.0}], links=links)
    write_counters(folder, {1.3: 1, 4.1: 2, 5.1: 3})
    run = make_run(
        scenario=SCENARIO,
        transfers=tuple(transfer(flow).model_copy(update={"ended_ns": T0 + 6300 * MS}) for flow in range(2)),
    )
    return by_name(measure(folder, run), 2)


def test_a_phase_tells_its_start_from_its_rest(tmp_path: Path) -> None:
    value = _joined(tmp_path, 180_000)
    # A datagram in each bin, and two segments in all but five: 20 + 30, and 30 + 60.
    assert value["phase2_onset_drop_rate"] == pytest.approx(1 / 50)
    assert value["phase2_settled_drop_rate"] == pytest.approx(2 / 90)
    assert value["phase1_onset_drop_rate"] == 0
    assert "phase1_settled_drop_rate" not in value, "it takes a second"
    # One bin in which both have as much is chance, three in a row are not.
    assert value["phase2_convergence_time"] == pytest.approx(0.6)
    assert "phase1_convergence_time" not in value
    # 1042 B and 1108 B of frames in a bin are 172 kbit/s, and the first alone 83.
    assert value["phase2_fill_time"] == pytest.approx(0.6)
    assert value["phase1_fill_time"] == 1, "a link that is never full counts with all of the phase"
    assert value["phase1_onset_peak_rate"] == pytest.approx(0.08)
    assert value["phase2_onset_peak_rate"] == pytest.approx(0.16)


def test_a_link_that_flows_never_fill_counts_with_the_whole_phase(tmp_path: Path) -> None:
    assert _joined(tmp_path, 10_000_000)["phase2_fill_time"] == pytest.approx(5)

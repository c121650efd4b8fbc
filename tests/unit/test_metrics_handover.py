"""What a client's move costs and what the server makes of it, in made-up runs of which the answer is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.analysis.metric_registry import declared_metrics
from harness.analysis.metrics import measure
from harness.outcome import Handover, MeasuredRun, Run
from harness.outcome.measured import TRACE_FROM, TRACE_STEP, TRACE_TO
from tests.unit.moving_run import DELAY, MOVE, RecoveryMetrics, Story

#: (after the server's first event, which is at 20 ms): old path, then what a stack might tell.
INITIAL, BEFORE = 12_000, 400_000
OLD: RecoveryMetrics = [
    (0, {"congestion_window": INITIAL, "smoothed_rtt": 333.0}),
    (40, {"congestion_window": 2 * INITIAL, "smoothed_rtt": 40.0, "latest_rtt": 40.0}),
    (300, {"congestion_window": BEFORE, "smoothed_rtt": 40.5, "latest_rtt": 41.0, "ssthresh": 200_000}),
]
#: When the server can answer to a migration, on that clock.
AT = MOVE + 16 - 20


def measure_story(folder: Path, story: Story, *later: tuple[float, Mapping[str, float]]) -> MeasuredRun:
    return measure(folder, story.write(folder, [*OLD, *later]))


def answer(measured: MeasuredRun) -> Handover:
    (handover,) = measured.moves
    return handover


def value(measured: MeasuredRun, name: str) -> float | None:
    return measured.value(name, 0, "first", move=1)


def why(measured: MeasuredRun, name: str) -> str:
    return next(absence.why for absence in measured.absent if (absence.metric, absence.move) == (name, 1))


def test_a_migration_on_the_wire(tmp_path: Path) -> None:
    story = Story("migrate")
    measured_run = measure(tmp_path, story.write(tmp_path))
    assert value(measured_run, "address_used") == pytest.approx(0)
    assert value(measured_run, "address_seen") == pytest.approx(DELAY["campus"])
    assert value(measured_run, "address_answered") == pytest.approx(11)
    assert value(measured_run, "path_validation") == pytest.approx(10)
    assert value(measured_run, "path_probe") == pytest.approx(10)
    assert value(measured_run, "delivery_gap") == 0
    handover = answer(measured_run)
    assert (handover.how, handover.path, handover.at, handover.why_not) == ("migrate", "campus", 0.5, "")
    assert (handover.address_changed, handover.port_changed) == (True, False)
    assert (handover.destination_id_changed, handover.probed) == (True, True)
    assert (handover.window, handover.rtt) == ("unknown", "unknown")
    assert "no qlog" in handover.window_evidence
    assert "qlog" in why(measured_run, "cwnd_kept")


def test_a_hard_handover_on_the_wire(tmp_path: Path) -> None:
    story = Story("interface")
    measured_run = measure(tmp_path, story.write(tmp_path))
    handover = answer(measured_run)
    assert (handover.address_changed, handover.destination_id_changed, handover.probed) == (True, True, False)
    assert value(measured_run, "path_validation") == pytest.approx(10)
    assert "path_probe" not in {absence.metric for absence in measured_run.absent}
    # The last data by the cellular path comes at 498 ms, the first by the campus' at 511.
    last = max(at for at, path in story.arrivals if path == "cellular")
    assert value(measured_run, "delivery_gap") == pytest.approx(MOVE + 6 + DELAY["campus"] - last) == 13


@pytest.mark.parametrize("how", ["migrate", "interface"])
def test_what_comes_after_the_move_counts_by_whatever_path(tmp_path: Path, how: str) -> None:
    story = Story(how, until=1200)
    measured_run = measure(tmp_path, story.write(tmp_path))
    for name, span in (("delivered_100ms", 100), ("delivered_500ms", 500)):
        packets = sum(MOVE <= at < MOVE + span for at, _ in story.arrivals)
        # Header, number and tag are 1 + 8 + 2 + 16 B, the STREAM frame's own header 9 or less.
        assert value(measured_run, name) == pytest.approx(packets * 1234, rel=0.01)
    assert value(measured_run, "handover_throughput") == pytest.approx(
        8 * (value(measured_run, "delivered_100ms") or 0) / 1e5
    )
    assert value(measured_run, "delivered_2s") is None
    assert why(measured_run, "delivered_2s").startswith("the transfer ended 703 ms after it")


def test_a_port_that_is_rewritten(tmp_path: Path) -> None:
    measured_run = measure(tmp_path, Story("nat-port").write(tmp_path))
    handover = answer(measured_run)
    assert (handover.address_changed, handover.port_changed) == (False, True)
    assert handover.demands_reset is False
    assert (handover.destination_id_changed, handover.probed) == (False, None)
    assert value(measured_run, "address_used") == pytest.approx(0.5)
    assert value(measured_run, "address_seen") == pytest.approx(20.5)
    assert value(measured_run, "path_validation") == pytest.approx(40)
    assert "path_probe" not in {absence.metric for absence in measured_run.absent}


def test_data_that_comes_twice_was_sent_again_without_need(tmp_path: Path) -> None:
    assert value(measure(tmp_path / "a", _write_story(tmp_path / "a", Story())), "spurious_retransmissions") == 0
    # The first of these is before the move.
    twice = Story(retransmissions=(300, 620, 700))
    assert value(measure(tmp_path / "b", _write_story(tmp_path / "b", twice)), "spurious_retransmissions") == 2


def _write_story(folder: Path, story: Story) -> Run:
    folder.mkdir()
    return story.write(folder)


def test_without_keys_what_is_in_packets_is_not_known(tmp_path: Path) -> None:
    measured_run = measure(tmp_path, Story(logs_secrets=False).write(tmp_path))
    assert "no keys" in why(measured_run, "path_validation") and "no keys" in why(
        measured_run, "spurious_retransmissions"
    )
    assert answer(measured_run).probed is None
    assert value(measured_run, "delivery_gap") == 0


def test_every_metric_of_moves_is_there_or_why_it_is_not(tmp_path: Path) -> None:
    after = {"congestion_window": INITIAL, "smoothed_rtt": 10.2, "latest_rtt": 10.2}
    measured_run = measure_story(tmp_path, Story(until=2600), (AT + 11, after))
    named = {measurement.name for measurement in measured_run.measurements if measurement.move == 1}
    assert named == {name for name, metric in declared_metrics().items() if metric.layer == "move"}
    assert {
        (measurement.flow, measurement.transfer) for measurement in measured_run.measurements if measurement.move
    } == {(0, "first")}


# --- the window


def test_a_window_that_starts_again(tmp_path: Path) -> None:
    after = {"congestion_window": INITIAL, "ssthresh": 1e12, "smoothed_rtt": 10.2, "latest_rtt": 10.2}
    measured_run = measure_story(tmp_path, Story(), (AT + 11, after), (AT + 60, {"congestion_window": 30_000}))
    handover = answer(measured_run)
    assert handover.window == "reset", handover.window_evidence
    assert (value(measured_run, "cwnd_before"), value(measured_run, "cwnd_after")) == (BEFORE, INITIAL)
    assert value(measured_run, "cwnd_kept") == pytest.approx(INITIAL / BEFORE)
    assert (value(measured_run, "ssthresh_before"), value(measured_run, "ssthresh_after")) == (200_000, 1e12)


def test_the_trace_through_a_move(tmp_path: Path) -> None:
    handover = answer(measure_story(tmp_path, Story(), (AT + 11, {"congestion_window": INITIAL, "smoothed_rtt": 10.2})))
    moments = range(TRACE_FROM, TRACE_TO + 1, TRACE_STEP)
    # It is told at 527 ms.
    assert list(handover.window_trace) == [BEFORE if moment < 30 else INITIAL for moment in moments]
    assert list(handover.rtt_trace) == [40.5 if moment < 30 else 10.2 for moment in moments]


def test_a_window_that_is_kept(tmp_path: Path) -> None:
    measured_run = measure_story(
        tmp_path, Story(), (AT + 11, {"congestion_window": BEFORE + 1252}), (AT + 60, {"congestion_window": 5e5})
    )
    assert answer(measured_run).window == "kept"
    assert value(measured_run, "cwnd_kept") == 1


def test_a_window_that_becomes_what_a_rule_says(tmp_path: Path) -> None:
    """Back to the initial one, and on the first sample to (40 - 10) / 40 of what it was."""
    measured_run = measure_story(
        tmp_path, Story(), (AT, {"congestion_window": INITIAL}), (AT + 11, {"congestion_window": 0.75 * BEFORE})
    )
    assert answer(measured_run).window == "kept a share", answer(measured_run).window_evidence
    assert value(measured_run, "cwnd_kept") == pytest.approx(0.75)


def test_a_leap_that_the_stack_makes_at_its_own_start_is_none_of_the_move(tmp_path: Path) -> None:
    start: RecoveryMetrics = [(0, OLD[0][1]), (40, {"congestion_window": 6 * INITIAL}), *OLD[2:]]
    later: RecoveryMetrics = [(AT, {"congestion_window": INITIAL}), (AT + 11, {"congestion_window": 6 * INITIAL})]
    measured_run = measure(tmp_path, Story().write(tmp_path, [*start, *later]))
    assert answer(measured_run).window == "reset", answer(measured_run).window_evidence


def test_controllers_of_both_paths_in_one_trace_are_told_apart(tmp_path: Path) -> None:
    """quiche's qlog does not say whose a window is: the old path's is told in between."""
    told_by_turns: RecoveryMetrics = [
        (AT, {"congestion_window": INITIAL, "smoothed_rtt": 333.0}),
        (AT + 5, {"congestion_window": BEFORE + 1252, "smoothed_rtt": 40.5}),
        (AT + 11, {"congestion_window": INITIAL + 1252, "smoothed_rtt": 10.2}),
    ]
    handover = answer(measure_story(tmp_path, Story(), *told_by_turns))
    assert (handover.window, handover.rtt) == ("reset", "reset"), handover.window_evidence


def test_a_reset_that_is_told_late_is_found(tmp_path: Path) -> None:
    """Some 12 packets were acknowledged by then."""
    assert answer(measure_story(tmp_path, Story(), (AT + 35, {"congestion_window": INITIAL + 9_000}))).window == "reset"
    (tmp_path / "other").mkdir()
    handover = answer(measure_story(tmp_path / "other", Story(), (AT + 35, {"congestion_window": INITIAL + 60_000})))
    assert handover.window == "kept a share"


def test_a_reset_behind_a_reduction_is_found(tmp_path: Path) -> None:
    """Packets that are overtaken on the shorter path count as lost until the stack goes over to it."""
    steps: RecoveryMetrics = [(AT - 4, {"congestion_window": 0.7 * BEFORE}), (AT + 11, {"congestion_window": INITIAL})]
    assert answer(measure_story(tmp_path, Story(), *steps)).window == "reset"


def test_a_reduction_without_a_loss_is_one_all_the_same(tmp_path: Path) -> None:
    handover = answer(measure_story(tmp_path, Story(), (AT + 11, {"congestion_window": 0.5 * BEFORE})))
    assert (handover.window, "50%" in handover.window_evidence) == ("kept", True)


def test_a_window_that_the_old_path_s_acknowledgements_feed_was_set_back(tmp_path: Path) -> None:
    """As msquic's: what was under way by the old path counts for the new one."""
    fed: RecoveryMetrics = [(AT + 2 * i, {"congestion_window": INITIAL + 67_000 * i}) for i in range(6)]
    handover = answer(measure_story(tmp_path, Story(), *fed))
    assert handover.window == "reset", handover.window_evidence
    assert "more than was acknowledged" in handover.window_evidence


def test_larger_datagrams_are_no_leap(tmp_path: Path) -> None:
    steps: RecoveryMetrics = [
        (AT, {"congestion_window": INITIAL}),
        (AT + 11, {"congestion_window": INITIAL / 1200 * 1452 + 1452}),
    ]
    assert answer(measure_story(tmp_path, Story(), *steps)).window == "reset"


def test_a_window_that_losses_take(tmp_path: Path) -> None:
    steps: RecoveryMetrics = [
        (AT + 11 + i, {"congestion_window": size}) for i, size in enumerate((200_000, 100_000, 50_000, 9_000))
    ]
    handover = answer(measure_story(tmp_path, Story("interface"), *steps))
    assert handover.window == "collapsed by loss", handover.window_evidence
    # Where nothing was lost it was not that.
    (tmp_path / "other").mkdir()
    assert answer(measure_story(tmp_path / "other", Story("migrate"), *steps)).window == "kept a share"


def test_one_reduction_by_a_loss_is_no_answer_to_the_move(tmp_path: Path) -> None:
    measured_run = measure_story(
        tmp_path, Story("interface"), (AT + 11, {"congestion_window": 0.7 * BEFORE, "ssthresh": 0.7 * BEFORE})
    )
    assert answer(measured_run).window == "kept"
    assert "70%" in answer(measured_run).window_evidence


def test_a_small_window_may_be_set_up_to_the_initial_one(tmp_path: Path) -> None:
    before: RecoveryMetrics = [*OLD[:2], (300, {"congestion_window": 5_000})]
    up = measure(tmp_path, Story().write(tmp_path, [*before, (AT + 11, {"congestion_window": INITIAL})]))
    assert answer(up).window == "reset"
    (tmp_path / "other").mkdir()
    measured_run = measure(
        tmp_path / "other", Story().write(tmp_path / "other", [*before, (AT + 11, {"congestion_window": 6_000})])
    )
    assert answer(measured_run).window == "kept"


def test_a_window_that_grows_past_an_initial_one_is_kept(tmp_path: Path) -> None:
    before: RecoveryMetrics = [*OLD[:2], (300, {"congestion_window": INITIAL + 3_000})]
    grown = measure(tmp_path, Story().write(tmp_path, [*before, (AT + 11, {"congestion_window": INITIAL + 4_000})]))
    assert answer(grown).window == "kept"


def test_a_window_that_was_an_initial_one_does_not_tell(tmp_path: Path) -> None:
    story = Story()
    measured_run = measure(tmp_path, story.write(tmp_path, [OLD[0], (AT + 11, {"congestion_window": INITIAL + 1})]))
    assert answer(measured_run).window == "unknown"


# --- the round-trip time


def test_an_estimate_that_begins_anew(tmp_path: Path) -> None:
    measured_run = measure_story(tmp_path, Story(), (AT + 11, {"smoothed_rtt": 10.5, "latest_rtt": 10.5}))
    handover = answer(measured_run)
    assert handover.rtt == "reset", handover.rtt_evidence
    assert (value(measured_run, "srtt_before"), value(measured_run, "srtt_after")) == (40.5, 10.5)
    # It came at 505 ms, and the estimate was right at 527.
    assert value(measured_run, "rtt_estimate_off") == pytest.approx(22)
    assert (handover.old_samples, value(measured_run, "old_path_samples")) == (0, 0)


def test_an_estimate_that_goes_on_from_the_old(tmp_path: Path) -> None:
    estimate, steps = 40.5, []
    for i in range(24):
        estimate += (10 - estimate) / 8
        steps.append((AT + 11 + 10 * i, {"smoothed_rtt": estimate, "latest_rtt": 10.0 + i / 100}))
    measured_run = measure_story(tmp_path, Story(), *steps)
    assert answer(measured_run).rtt == "carried over", answer(measured_run).rtt_evidence
    # 7/8 of the difference is left after each: from 30.5 ms to 2 ms in 21 steps.
    assert value(measured_run, "rtt_estimate_off") == pytest.approx(22 + 20 * 10)


def test_samples_of_packets_sent_before_the_switch_are_the_old_path_s(tmp_path: Path) -> None:
    mixed = [(AT + 4 + i, {"latest_rtt": 36.0 + i}) for i in range(3)]
    measured_run = measure_story(tmp_path, Story(), *mixed, (AT + 11, {"latest_rtt": 10.2, "smoothed_rtt": 30.0}))
    assert value(measured_run, "old_path_samples") == 3


def test_paths_of_one_round_trip_do_not_tell(tmp_path: Path) -> None:
    story = Story("nat-port")
    handover = answer(measure_story(tmp_path, story, (AT + 60, {"smoothed_rtt": 40.6, "latest_rtt": 40.2})))
    assert handover.rtt == "unknown"
    assert "40.0 ms, too" in handover.rtt_evidence


# --- moves that are none


def test_a_move_after_the_end_is_not_observed(tmp_path: Path) -> None:
    measured_run = measure(tmp_path, Story(until=400, obeys=False).write(tmp_path, OLD))
    assert any(
        warning.startswith("move1: migrate at 0.5 s is not observed: it came 0.082 s after")
        for warning in measured_run.warnings
    )
    assert not [measurement for measurement in measured_run.measurements if measurement.move is not None]
    assert "after the end of the transfer" in why(measured_run, "handover_throughput")
    assert answer(measured_run).why_not and answer(measured_run).address_changed is None


def test_a_path_that_nothing_went_by_has_no_capacity_to_use(tmp_path: Path) -> None:
    measured_run = measure(tmp_path, Story(obeys=False, cut_off=True).write(tmp_path))
    assert not [warning for warning in measured_run.warnings if "failed" in warning]
    absent = next(absence for absence in measured_run.absent if absence.metric == "utilisation_bandwidth")
    assert absent.why == "nothing went by a path that its client was to be on"


def test_a_client_that_does_not_move_is_said(tmp_path: Path) -> None:
    measured_run = measure(tmp_path, Story(obeys=False).write(tmp_path))
    assert answer(measured_run).why_not == "nothing came to the server from the new address"
    assert why(measured_run, "delivery_gap") == answer(measured_run).why_not


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"\x1c\x01\x00\x03bad", "the server closed the connection 55 ms after it: INTERNAL_ERROR: bad"),
        (b"\x1d\x41\x02\x00", "the server closed the connection 55 ms after it: application error 0x102"),
        # In order, and what is no close but a stateless reset's random bytes.
        (b"\x1d\x41\x00\x00", ""),
        (b"\x1c\x00\x00\x00", ""),
        (b"\x1c\x44\x92\x00\x02\xff\xfe", ""),
    ],
)
def test_a_server_that_refuses_a_move_is_named_with_its_error(tmp_path: Path, frame: bytes, says: str) -> None:
    story = Story("interface")
    story.send(MOVE + 50, True, frame + bytes(30), "campus", new=True)
    handover = answer(measure(tmp_path, story.write(tmp_path)))
    assert handover.closed == says

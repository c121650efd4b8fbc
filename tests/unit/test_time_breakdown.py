"""Where the time goes: rules and the partition, on conversations of which one thing at a time is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.time_breakdown import rules
from harness.analysis.time_breakdown.partition import BANDS, band_text, partition, state_durations
from harness.analysis.time_breakdown.rules import notes_of
from harness.analysis.time_breakdown.transfer import (
    NO_SPANS,
    Conversation,
    SentArrays,
    cut_edges,
    in_spans,
    intersect,
    merge_spans,
    subtract,
    total_ns,
)
from harness.outcome.measured import STATES, State
from tests.unit.simulated_transfers import MS, SIZE, conversation

#: Losses far apart, so that each begins a recovery period of its own.
LOSSES = frozenset(range(60, 6_000, 150))


def seconds(transfer: Conversation) -> dict[State, float]:
    return {state: ns / 1e9 for state, ns in state_durations(*partition(transfer)).items()}


FREE = conversation()


def gained(**options: Any) -> tuple[dict[State, float], float]:
    """What each state gained against the free conversation, of the time that it took longer."""
    transfer = conversation(**options)
    before, after = seconds(FREE), seconds(transfer)
    longer = (transfer.end_ns - FREE.end_ns) / 1e9
    return {state: after.get(state, 0) - before.get(state, 0) for state in STATES}, longer


def test_a_conversation_without_fault_is_slow_start_and_line_rate() -> None:
    states = seconds(FREE)
    assert set(states) == {"handshake", "request", "slow_start", "line_rate"}
    assert states["handshake"] == 0.1
    # 2,000 packets, of which each takes a millisecond; the first byte has come when the first one has.
    assert states["line_rate"] == pytest.approx(1.999)
    # 10, 20, 40 and 80 packets in round trips of 100 ms, which have room for 100.
    assert states["slow_start"] == pytest.approx(0.09 + 0.08 + 0.06 + 0.02, abs=0.005)


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        ("slow_start", {"window": 2}),
        ("window_limited", {"threshold": 50}),
        ("window_limited", {"threshold": 50, "reports_window": False}),
        ("window_limited", {"window_limit": 40}),
        ("flow_control", {"credit": 40}),
        ("flow_control", {"credit": 40, "reports_window": False}),
        ("buffer_limited", {"buffer": 40}),
        ("buffer_limited", {"buffer": 40, "reports_window": False}),
        ("buffer_limited", {"buffer": 40, "pace": 3 * MS // 2, "reports_window": False}),
        ("buffer_limited", {"buffer": 60, "free_slots_to_resume": 20}),
        ("buffer_limited", {"buffer": 60, "free_slots_to_resume": 20, "reports_window": False}),
        ("sender_idle", {"pace": 2 * MS}),
        ("sender_idle", {"pace": 2 * MS, "reports_window": False}),
        ("acknowledgements", {"ack_delay": 100 * MS}),
        ("acknowledgements", {"ack_serialization": 5 * MS}),
        ("probe_timeouts", {"outage": (1_000 * MS, 7_000 * MS), "threshold": 100}),
        ("shared", {"competing_flow": (0, 10**12)}),
        ("spurious_recovery", {"late": LOSSES}),
        ("spurious_recovery", {"late": LOSSES, "reports_window": False}),
    ],
)
def test_what_is_forced_has_the_excess(state: State, asked: dict[str, Any]) -> None:
    gains, longer = gained(**asked)
    assert longer > 0.2
    assert gains[state] >= 0.8 * longer, gains


def test_losses_are_recovery_and_a_window_that_has_to_grow_again() -> None:
    gains, longer = gained(lost=LOSSES, packets=2_000)
    assert longer > 0.2
    assert gains["recovery"] > 0
    assert gains["recovery"] + gains["window_limited"] >= 0.8 * longer, gains


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        ("window_limited", {"credit": 40}),
        ("flow_control", {"outage": (1_000 * MS, 3_000 * MS)}),
        ("flow_control", {"buffer": 40}),
        ("flow_control", {"window_limit": 40}),
        ("sender_idle", {"threshold": 50}),
        ("sender_idle", {"window_limit": 40}),
        ("acknowledgements", {"threshold": 50}),
        ("probe_timeouts", {"lost": LOSSES}),
        ("probe_timeouts", {"pace": 2 * MS}),
        ("shared", {"lost": LOSSES}),
        ("recovery", {"late": LOSSES}),
        ("window_limited", {"late": LOSSES}),
        ("spurious_recovery", {"lost": LOSSES}),
        ("spurious_recovery", {"window_limit": 40}),
        ("sender_idle", {"buffer": 40}),
        ("buffer_limited", {"pace": 2 * MS}),
        ("buffer_limited", {"pace": 2 * MS, "reports_window": False}),
        ("buffer_limited", {"threshold": 50}),
        ("slow_start", {"competing_flow": (0, 10**12)}),
        ("unexplained", {"pace": 2 * MS}),
    ],
)
def test_what_is_not_forced_gains_nothing(state: State, asked: dict[str, Any]) -> None:
    gains, longer = gained(**asked)
    assert gains[state] <= 0.05 * longer, gains


def test_whether_credit_or_the_sender_is_missing_is_not_guessed() -> None:
    """Nothing was decrypted and the window has room: either may be the reason."""
    for transfer in (
        conversation(credit=40, has_keys=False, reports_window=False),
        conversation(buffer=40, has_keys=False, reports_window=False),
    ):
        states = seconds(transfer)
        assert "sender_idle" not in states
        assert "flow_control" not in states
        assert states["unexplained"] > 2.5


def test_what_comes_after_the_last_packet_is_unexplained() -> None:
    """The client was slow to write: no rule knows of that, and no other part takes it."""
    states = seconds(replace(FREE, end_ns=FREE.end_ns + 300 * MS))
    assert states.pop("unexplained") == pytest.approx(0.3)
    assert states == seconds(FREE)


def test_a_probe_of_the_path_mtu_that_is_lost_begins_no_recovery() -> None:
    sent = FREE.sent
    size, came = sent.size.copy(), sent.arrived.copy()
    size[50], came[50] = SIZE + 200, False
    transfer = replace(FREE, sent=replace(sent, size=size, arrived=came, lost=~came))
    assert not len(transfer.loss_detections[0])
    came[51] = False
    transfer = replace(FREE, sent=replace(sent, size=size, arrived=came, lost=~came))
    assert transfer.loss_detections[1].tolist() == [51]


def test_a_sender_whose_data_have_all_left_is_not_idle_but_repairs() -> None:
    # The loss of packet 1,990 is known a round trip later, when the link has been empty since the last one; the sender's
    # window has room, and what it acknowledges itself makes the rest to send larger than what was lost.
    transfer = conversation(lost=frozenset({1_990}), window_limit=200)
    sent, more = transfer.sent, np.arange(100) * MS
    after = SentArrays(
        np.concatenate([sent.t_ns, transfer.end_ns + more]), np.concatenate([sent.size, np.full(100, 45)]),
        np.concatenate([sent.start_ns, transfer.end_ns + more]), np.concatenate([sent.end_ns, transfer.end_ns + more]),
        np.concatenate([sent.arrived, np.ones(100, bool)]), np.concatenate([sent.lost, np.zeros(100, bool)]),
    )  # fmt: skip
    for variant in (transfer, replace(transfer, sent=after)):
        states = seconds(variant)
        # The link's own time for the packet that was lost behind it, before the last byte came.
        assert states.get("sender_idle", 0) <= 0.001
        assert states["recovery"] == pytest.approx(0.095, abs=0.005)
        assert states.get("unexplained", 0) == 0


def test_a_loss_is_known_by_the_packet_threshold() -> None:
    transfer = conversation(lost=frozenset({30}), packets=200)
    (when,), (which,) = transfer.loss_detections
    assert which == 30
    # Three that left later have come (RFC 9002 §6.1.1), and the acknowledgement took the way back.
    assert when == transfer.sent.end_ns[33] + transfer.rtt_ns
    begin, end = rules.recovery(transfer)[-1]
    assert begin <= when
    left = transfer.sent.t_ns[transfer.sent.t_ns > when][0]
    assert end >= left + transfer.rtt_ns


def test_rounds_begin_when_the_first_packet_of_the_one_before_is_acknowledged() -> None:
    rounds = FREE.rounds
    assert (rounds.size[:4] // SIZE).tolist() == [10, 20, 40, 80]
    assert rounds.begin_ns[0] == 200 * MS
    assert rounds.begin_ns[1] == FREE.sent.end_ns[0] + FREE.rtt_ns
    assert (rounds.late_ns == 0).all()
    # Each is longer by what the client holds its acknowledgement.
    assert (conversation(ack_delay=7 * MS).rounds.late_ns[:-1] == 7 * MS).all()


def test_what_the_first_round_trip_sends_is_counted_as_a_window_counts_it() -> None:
    """Short packets are packets (TCP counts segments), and what only acknowledges is none (RFC 9002 §2, §7.2): ten
    segments of which four are short were said to be seven packets, and ten of 1,200 B eight of 1,452 B.
    """
    sent = FREE.sent
    size, bare = sent.size.copy(), np.zeros(len(sent), bool)
    size[:4] = 100
    assert notes_of(replace(FREE, sent=replace(sent, size=size)))["slow_start"] == "from 7.9 kB in 10 packets"
    bare[:2] = True
    assert (
        notes_of(replace(FREE, sent=replace(sent, size=size, ack_only=bare)))["slow_start"]
        == "from 7.9 kB in 8 packets"
    )


def test_notes_have_the_figures_behind_the_parts() -> None:
    assert notes_of(conversation(window=2))["slow_start"] == "from 2.5 kB in 2 packets"
    assert notes_of(conversation(credit=40))["flow_control"] == "credit of the stream"
    assert notes_of(conversation(lost=LOSSES))["recovery"].startswith("14 packets lost, ")
    assert notes_of(conversation(buffer=40))["buffer_limited"] == "with up to 50 kB in flight"
    assert notes_of(conversation(late=LOSSES))["spurious_recovery"].endswith(" packets taken for lost that came")
    assert notes_of(conversation(ack_delay=100 * MS))["acknowledgements"] == "up to 100 ms late"
    assert "probe_timeouts" in notes_of(conversation(outage=(1_000 * MS, 3_000 * MS)))


CASES = st.fixed_dictionaries(
    {},
    optional={
        "packets": st.integers(1, 400),
        "window": st.integers(2, 50),
        "threshold": st.integers(2, 200),
        "credit": st.integers(2, 100),
        "buffer": st.integers(2, 100),
        "pace": st.integers(0, 3 * MS),
        "ack_delay": st.integers(0, 50 * MS),
        "ack_serialization": st.integers(0, 2 * MS),
        "lost": st.frozensets(st.integers(0, 300), max_size=20),
        "late": st.frozensets(st.integers(0, 300), max_size=20),
        "outage": st.just((300 * MS, 600 * MS)),
        "competing_flow": st.just((250 * MS, 400 * MS)),
        "reports_window": st.booleans(),
        "has_keys": st.booleans(),
    },
)


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_parts_are_a_partition_of_the_time(asked: dict[str, Any]) -> None:
    transfer = conversation(**asked)
    edges, states = partition(transfer)
    assert edges[0] == 0
    assert edges[-1] == transfer.end_ns
    assert (np.diff(edges) > 0).all()
    assert (states[1:] != states[:-1]).all()
    assert sum(state_durations(edges, states).values()) == transfer.end_ns
    assert sum(int(part[1:]) for part in _split(band_text(edges, states))) == BANDS
    # Whatever else is the matter, the bottleneck served what came for as long as it takes.
    served = intersect(transfer.useful_service, merge_spans([(transfer.first_byte_ns, transfer.end_ns)]))
    assert state_durations(edges, states).get("line_rate", 0) == total_ns(served)


def _split(text: str) -> list[str]:
    words: list[str] = []
    for letter in text:
        if letter.isalpha():
            words.append(letter)
        else:
            words[-1] += letter
    return words


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12).map(merge_spans)


@given(SPANS, SPANS)
def test_spans_are_sets_of_moments(first_spans: Any, second_spans: Any) -> None:
    moments = np.arange(62)
    first, second = in_spans(moments, first_spans), in_spans(moments, second_spans)
    assert (in_spans(moments, intersect(first_spans, second_spans)) == (first & second)).all()
    assert (in_spans(moments, subtract(first_spans, second_spans)) == (first & ~second)).all()
    assert total_ns(first_spans) == first.sum()
    edges = cut_edges(0, 61, [first_spans, second_spans])
    assert edges[0] == 0
    assert edges[-1] == 61


def test_spans_that_are_close_are_one() -> None:
    assert merge_spans([(0, 5), (6, 9), (20, 20)], gap_ns=1).tolist() == [[0, 9]]
    assert merge_spans([(6, 9), (0, 5)]).tolist() == [[0, 5], [6, 9]]
    assert merge_spans([]).tolist() == NO_SPANS.tolist()

"""The rule of the congestion window after a move, in a recorded run."""

from __future__ import annotations

from pathlib import Path

from harness.analysis.handover import client_moves
from harness.analysis.run_view import RunView
from harness.store.records import read_run
from tests import window_rule

RECORDED = Path(__file__).parent / "data" / "moved"


def test_the_window_after_the_move_is_the_rule_s_of_the_captured_round_trips() -> None:
    (moved,) = client_moves(RunView(RECORDED, read_run((RECORDED / "run.json").read_bytes())))
    window_rule.obeys(moved)

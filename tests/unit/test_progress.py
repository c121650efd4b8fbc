from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from harness import progress
from harness.errors import EngineError
from harness.events import (
    BuildEnded,
    BuildStarted,
    ImageStarted,
    PhaseStarted,
    PlanMade,
    RunFinished,
    RunStarted,
    RunsWait,
    Warned,
)
from harness.outcome import Outcome, Run, Verdict
from harness.progress import Talk, span
from tests.examples import cell


def test_everything_that_happens_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.05)
    out = io.StringIO()
    one, outcome = cell(), Outcome(status="crashed", role="client", detail="the client ended with exit code 7")
    run = Run(cell=one, repetition=0, outcome=outcome, started_at="2026-11-21T00:00:00+00:00", wall=12.34)
    with Talk(Console(file=out, width=200)) as talk:
        talk(PlanMade(to_run=3, stored=1, cells=2, seconds=600))
        talk(ImageStarted("sim", 20))
        talk(RunStarted(one, 0, 1, 3, 40, 300))
        talk(PhaseStarted(one, 0, "transfer"))
        time.sleep(0.2)
        talk(RunFinished(one, run, outcome, Verdict(status="error", reason="crashed_client", sentence="")))
        talk(Warned("look here"))
    text = out.getvalue()
    for words in (
        "3 runs of 2 cells to do, 1 are stored; about 10 min",
        "making the image sim (about 20 s)",
        "[1/3] test/case alpha→beta #0 · about 5 min left",
        "… [1/3] test/case alpha→beta #0 · transfer · 0 s of about 40 s",
        "! error after 12.3 s: crashed (the client ended with exit code 7)",
        "warning: look here",
    ):
        assert words in text


def test_of_runs_side_by_side_each_has_its_own_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.05)
    out = io.StringIO()
    one = cell()
    with Talk(Console(file=out, width=200)) as talk:
        talk(RunStarted(one, 0, 1, 2, 40, 300))
        talk(RunStarted(one, 1, 2, 2, 40, 300))
        talk(PhaseStarted(one, 0, "transfer"))
        talk(PhaseStarted(one, 1, "measure"))
        time.sleep(0.2)
        first = out.getvalue()
        outcome = Outcome(status="completed")
        run = Run(cell=one, repetition=0, outcome=outcome, started_at="", wall=1)
        talk(RunFinished(one, run, outcome, Verdict(status="pass", reason="objectives_met", sentence="")))
        time.sleep(0.2)
        second = out.getvalue()[len(first) :]
    assert "… [1/2] test/case alpha→beta #0 · transfer · 0 s of about 40 s · 1 more beside it" in first
    assert "… [2/2] test/case alpha→beta #1 · measure · 0 s of about 40 s" in second
    assert "beside" not in second


def test_nothing_to_do_is_said() -> None:
    out = io.StringIO()
    with Talk(Console(file=out, width=200)) as talk:
        talk(PlanMade(to_run=0, stored=9, cells=9, seconds=0))
    assert "all 9 runs are stored: nothing to run" in out.getvalue()


def test_builds_beside_are_told_with_what_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.05)
    out = io.StringIO()
    one = cell()
    with Talk(Console(file=out, width=200)) as talk:
        talk(BuildStarted("go", 30))
        talk(BuildStarted("quiche", 280))
        talk(RunStarted(one, 0, 1, 3, 40, 300))
        time.sleep(0.2)
        talk(BuildEnded("go", 12.3))
        run = Run(cell=one, repetition=0, outcome=Outcome(status="completed"), started_at="", wall=1)
        talk(RunFinished(one, run, run.outcome, Verdict(status="pass", reason="objectives_met", sentence="")))
        talk(RunsWait("quiche", 170))
        time.sleep(0.2)
        failed = EngineError("the image quiche could not be built; the end of x.log:\n  no such crate", "read x.log")
        talk(BuildEnded("quiche", 200, failed, 7))
    text = out.getvalue()
    for words in (
        "building the image go (about 30 s)",
        "#0 · 0 s of about 40 s · building go, 0 s of about 30 s · building quiche, 0 s of about 5 min",
        "the image go is built, after 12 s",
        "waiting for the image quiche (about 3 min left)",
        "… waiting for the image quiche · building quiche, 0 s of about 5 min",
        "error: the image quiche could not be built; the end of x.log:\n  no such crate",
        "hint: read x.log",
        "7 runs left out for want of the image quiche",
    ):
        assert words in text
    assert "building go" not in text[text.index("is built") :]


def test_spans() -> None:
    assert [span(40), span(89), span(600)] == ["40 s", "89 s", "10 min"]

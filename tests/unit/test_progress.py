from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.errors import EngineError
from harness.execution.events import (
    BuildEnded,
    BuildStarted,
    ImageStarted,
    PhaseStarted,
    PlanMade,
    RunEnded,
    RunFinished,
    RunStarted,
    WaitingForImage,
    WaitingForMachine,
    Warned,
)
from harness.execution.matrix import varied_parameters
from harness.outcome import Outcome, Run, Verdict
from harness.report import progress
from harness.report.progress import SILENCE, ProgressPrinter, duration_text
from tests.clocks import FakeClock
from tests.examples import cell
from tests.polling import wait_for


def pass_silence(printer: ProgressPrinter, clock: FakeClock) -> None:
    """Let the next sign of life become due, and print it."""
    clock.now += SILENCE + 1
    printer.tick()


def test_everything_that_happens_is_said() -> None:
    clock, out = FakeClock(), io.StringIO()
    tested_cell, outcome = cell(), Outcome(status="crashed", role="client", detail="the client ended with exit code 7")
    run = Run(cell=tested_cell, repetition=0, outcome=outcome, started_at="2026-11-21T00:00:00+00:00", wall=12.34)
    with ProgressPrinter(Console(file=out, width=200), clock=clock) as printer:
        printer(PlanMade(to_run=3, stored=1, cells=2, seconds=600))
        printer(ImageStarted("sim", 20))
        printer(RunStarted(tested_cell, 0, 1, 3, 40, 300))
        printer(PhaseStarted(tested_cell, 0, "transfer"))
        pass_silence(printer, clock)
        printer(RunFinished(tested_cell, run, outcome, Verdict(status="error", reason="crashed_client", sentence="")))
        printer(Warned("look here"))
    text = out.getvalue()
    for words in (
        "3 runs of 2 cells to do, 1 are stored; about 10 min",
        "making the image sim (about 20 s)",
        "[1/3] test/case alpha→beta #0 · about 5 min left",
        "… [1/3] test/case alpha→beta #0 · transfer · 31 s of about 40 s",
        "! error after 12.3 s: crashed (the client ended with exit code 7)",
        "warning: look here",
    ):
        assert words in text


def test_of_runs_side_by_side_each_has_its_own_phase() -> None:
    clock, out = FakeClock(), io.StringIO()
    tested_cell = cell()
    with ProgressPrinter(Console(file=out, width=200), clock=clock) as printer:
        printer(RunStarted(tested_cell, 0, 1, 2, 40, 300))
        printer(RunStarted(tested_cell, 1, 2, 2, 40, 300))
        printer(PhaseStarted(tested_cell, 0, "transfer"))
        printer(PhaseStarted(tested_cell, 1, "measure"))
        pass_silence(printer, clock)
        first = out.getvalue()
        outcome = Outcome(status="completed")
        run = Run(cell=tested_cell, repetition=0, outcome=outcome, started_at="", wall=1)
        printer(RunFinished(tested_cell, run, outcome, Verdict(status="pass", reason="objectives_met", sentence="")))
        pass_silence(printer, clock)
        second = out.getvalue()[len(first) :]
    assert "… [1/2] test/case alpha→beta #0 · transfer · 31 s of about 40 s\n" in first
    assert "… [2/2] test/case alpha→beta #1 · measure · 31 s of about 40 s\n" in first
    assert "[1/2] test/case alpha→beta #0 ✓ pass after" in second
    assert "… [2/2] test/case alpha→beta #1 · measure · 62 s, longer than the 40 s that were expected" in second
    assert "… [1/2]" not in second


def test_a_run_that_is_not_judged_is_over_when_it_ends() -> None:
    clock, out, tested_cell = FakeClock(), io.StringIO(), cell()
    with ProgressPrinter(Console(file=out, width=200), clock=clock) as printer:
        printer(PhaseStarted(tested_cell, 0, "store"))
        pass_silence(printer, clock)
        printer(RunEnded(tested_cell, 0))
        ended = len(out.getvalue())
        pass_silence(printer, clock)
    assert "… test/case alpha→beta #0 · store" in out.getvalue()[:ended]
    assert out.getvalue()[ended:] == ""


def test_a_sign_of_life_comes_by_itself_and_not_before_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.05)
    clock, out = FakeClock(), io.StringIO()
    with ProgressPrinter(Console(file=out, width=200), clock=clock) as printer:
        printer(ImageStarted("sim", 20))
        printer.tick()
        assert "…" not in out.getvalue()
        clock.now = 7
        wait_for(lambda: "… making the image sim · 7 s of about 20 s\n" in out.getvalue())


def test_nothing_to_do_is_said() -> None:
    out = io.StringIO()
    with ProgressPrinter(Console(file=out, width=200)) as printer:
        printer(PlanMade(to_run=0, stored=9, cells=9, seconds=0))
    assert "all 9 runs are stored: nothing to run" in out.getvalue()


def test_an_image_that_is_made_is_no_longer_named_while_others_build() -> None:
    clock, out = FakeClock(), io.StringIO()
    with ProgressPrinter(Console(file=out, width=200), clock=clock) as printer:
        printer(ImageStarted("sim", 20))
        printer(BuildStarted("go", 30))
        printer(BuildStarted("quiche", 280))
        printer(WaitingForImage("go", 30))
        pass_silence(printer, clock)
        printer(BuildEnded("go", 31))
        ended = len(out.getvalue())
        pass_silence(printer, clock)
    assert "making the image sim ·" not in out.getvalue()
    assert "… waiting for the image go" in out.getvalue()[:ended]
    assert [line.partition("…")[2] for line in out.getvalue()[ended:].splitlines()] == [
        " building quiche · 62 s of about 5 min"
    ]


def test_builds_beside_are_told_with_what_waits_for_them() -> None:
    clock, out = FakeClock(), io.StringIO()
    tested_cell = cell()
    with ProgressPrinter(Console(file=out, width=200), clock=clock) as printer:
        printer(BuildStarted("go", 30))
        printer(BuildStarted("quiche", 280))
        printer(RunStarted(tested_cell, 0, 1, 3, 40, 300))
        pass_silence(printer, clock)
        printer(BuildEnded("go", 12.3))
        run = Run(cell=tested_cell, repetition=0, outcome=Outcome(status="completed"), started_at="", wall=1)
        printer(
            RunFinished(tested_cell, run, run.outcome, Verdict(status="pass", reason="objectives_met", sentence=""))
        )
        printer(WaitingForImage("quiche", 170))
        pass_silence(printer, clock)
        failed = EngineError("the image quiche could not be built; the end of x.log:\n  no such crate", "read x.log")
        printer(BuildEnded("quiche", 200, failed, 7))
    text = out.getvalue()
    for words in (
        "building the image go (about 30 s)",
        "… [1/3] test/case alpha→beta #0 · 31 s of about 40 s\n",
        "… building go · 31 s of about 30 s\n",
        "… building quiche · 31 s of about 5 min\n",
        "the image go is built, after 12 s",
        "waiting for the image quiche (about 3 min left)",
        "… waiting for the image quiche\n",
        "error: the image quiche could not be built; the end of x.log:\n  no such crate",
        "hint: read x.log",
        "7 runs left out for want of the image quiche",
    ):
        assert words in text
    assert "building go" not in text[text.index("is built") :]


def test_spans() -> None:
    assert [duration_text(40), duration_text(89), duration_text(600)] == ["40 s", "89 s", "10 min"]


def test_lines_name_what_is_varied_and_nothing_else() -> None:
    asked = {"server.congestion_control": "cubic", "client.initial_rtt": "100 ms", "path.forward.loss": "1 %"}
    tested_cell, other = cell(parameters=asked), cell(parameters={**asked, "server.congestion_control": "reno"})
    assert varied_parameters([tested_cell, other]) == {"server.congestion_control"}
    out = io.StringIO()
    with ProgressPrinter(Console(file=out, width=60)) as printer:
        printer(
            PlanMade(to_run=2, stored=0, cells=2, seconds=9, varied_parameters=varied_parameters([tested_cell, other]))
        )
        for number, varied_cell in enumerate((tested_cell, other), 1):
            printer(RunStarted(varied_cell, 0, number, 2, 4, 9))
            printer(Warned("look here", varied_cell, 0))
            run = Run(cell=varied_cell, repetition=0, outcome=Outcome(status="completed"), started_at="", wall=1)
            printer(
                RunFinished(
                    varied_cell, run, run.outcome, Verdict(status="measured", reason="no_objectives", sentence="")
                )
            )
    text = out.getvalue()
    for number, name in enumerate(("cubic", "reno"), 1):
        what = f"[{number}/2] test/case alpha→beta (server.congestion_control={name}) #0"
        assert f"{what} · about" in text
        assert f"warning: {what}: look here" in text
        assert f"{what} ● measured after 1.0 s: completed" in text
    assert "initial_rtt" not in text and "path.forward" not in text


def test_before_the_plan_all_that_is_asked_for_is_named() -> None:
    out = io.StringIO()
    with ProgressPrinter(Console(file=out, width=60)) as printer:
        printer(RunStarted(cell(parameters={"server.congestion_control": "reno"}), 0, 1, 1, 4, 9))
    assert "(server.congestion_control=reno) #0" in out.getvalue()


def test_who_must_wait_for_another_harness_is_told_for_what() -> None:
    out = io.StringIO()
    with ProgressPrinter(Console(file=out, width=200)) as printer:
        printer(WaitingForMachine("compose"))
        printer(WaitingForMachine("virtual"))
    text = out.getvalue()
    assert "waiting for another harness to end, which runs cells on this machine\n" in text
    assert "waiting for another harness to end, which runs real-time cells on this machine\n" in text

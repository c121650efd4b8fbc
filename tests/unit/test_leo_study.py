"""What the study of low orbits makes of runs: a row a stack, sentences, two figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import LinkProof, MeasuredRun, Measurement, Outcome, Run
from studies.leo.claims import HANDOVERS, STEADY
from studies.leo.compared import GOODPUT, LONGEST, RECOVERY, SPURIOUS, UNRECOVERED, USE, stacks
from studies.leo.figures import goodputs, recoveries
from studies.leo.page import low_orbit
from tests.examples import SIM, catalogue, images

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}


def result(scenario: str, stack: str, runs: Sequence[Mapping[str, float]], valid: bool = True) -> CellResult:
    """A cell of the study; each run has its metrics."""
    (definition,) = catalogue().find_scenarios([scenario])
    request = Request([definition], [KNOWN[stack]], [KNOWN[stack]], engine="virtual")
    (cell,) = build_matrix(request, images(*KNOWN), SIM, KNOWN)
    measured_runs = tuple(
        (
            Run(cell=cell, repetition=number, outcome=Outcome(status="completed"), started_at="2026-11-26"),
            MeasuredRun(
                version=VERSION,
                link=LinkProof(valid=valid),
                measurements=tuple(
                    Measurement(
                        name=name,
                        value=value,
                        unit="1",
                        flow=None if name == USE else 0,
                        transfer=None if name in (GOODPUT, USE) else "first",
                    )
                    for name, value in metrics.items()
                ),
            ),
        )
        for number, metrics in enumerate(runs)
    )
    return CellResult(
        cell, measured_runs, judge(cell.scenario, measured_runs, []), tuple(Path("x") for _ in measured_runs)
    )


def moved(goodput: float, recovery: float, spurious: float = 0.0, unrecovered: float = 0.0) -> dict[str, float]:
    return {
        GOODPUT: goodput, USE: goodput / 80, RECOVERY: recovery, LONGEST: 2 * recovery, UNRECOVERED: unrecovered, SPURIOUS: spurious,
    }  # fmt: skip


RESULTS = [
    result(HANDOVERS, "quinn", [moved(60, 400, 12, 1), moved(64, 420, 14)]),
    result(STEADY, "quinn", [{GOODPUT: 93, USE: 0.98, SPURIOUS: 0}] * 2),
    result(HANDOVERS, "picoquic", [moved(72, 175), moved(76, 185)]),
    result(STEADY, "picoquic", [{GOODPUT: 92.5, USE: 0.96, SPURIOUS: 0}] * 2),
]


def test_a_row_is_a_stack_and_the_fastest_is_first() -> None:
    first, second = stacks(RESULTS)
    assert (first.name, second.name) == ("picoquic", "quinn")
    assert second.unrecovered == 0.5
    rows = [row for row in low_orbit(RESULTS).splitlines() if row.startswith(("| picoquic", "| quinn"))]
    assert "| 92.5% | 96.0% |" in rows[0] and "| 0.5 |" in rows[1]


def test_sentences_say_what_the_table_says() -> None:
    text = low_orbit(RESULTS)
    assert "The stacks use 77.5% (quinn) to 92.5% (picoquic) of what the link could carry." in text
    assert "The middle of 2 stacks uses 85.0%, and 97.0% without reconfigurations." in text
    assert (
        "picoquic fills the link again within 180 ms after an outage of up to 80 ms, and quinn within 410 ms." in text
    )
    assert "The next outage sometimes comes before the link is full: quinn." in text
    assert "1 of 2 stacks takes packets for lost that come.\n* The largest number of these is 13 a run (quinn)." in text


def test_runs_over_another_link_say_nothing() -> None:
    other = result(HANDOVERS, "ngtcp2", [moved(99, 1)], valid=False)
    assert low_orbit([*RESULTS, other]) == low_orbit(RESULTS)


def test_without_runs_the_page_says_so() -> None:
    assert "No runs are stored." in low_orbit([])
    assert goodputs([]) is None and recoveries([]) is None


def test_the_figures_have_what_the_table_has() -> None:
    drawn = goodputs(RESULTS)
    assert drawn is not None
    values = [row for rows in drawn["datasets"].values() for row in rows if "link" in row]
    assert {(row["stack"], row["value"]) for row in values} == {
        ("picoquic", 74.0), ("picoquic", 92.5), ("quinn", 62.0), ("quinn", 93.0),
    }  # fmt: skip
    again = recoveries(RESULTS)
    assert again is not None
    assert [row["value"] for rows in again["datasets"].values() for row in rows][:2] == [180, 410]

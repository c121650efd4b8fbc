"""What the study of second connections makes of runs: times against the first, courses, and what others lose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix, named_implementations, swept_points
from harness.outcome import LinkProof, MeasuredRun, Measurement, Observation, Outcome, Run
from studies.remembered.claims import ALIKE, CHANGED, OTHER, TAKEN
from studies.remembered.compared import by_mechanism, course, harmed
from studies.remembered.figures import gains
from studies.remembered.page import remembered
from tests.examples import SIM, catalogue, images

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}
JUMP = "reconnaissance, unvalidated, validating, normal"
RETREAT = "reconnaissance, unvalidated, validating, safe_retreat, normal"
STAY = "reconnaissance, normal"


def results(
    scenario: str, seeds: dict[str, Sequence[float]], phases: str = JUMP, other: Sequence[float] = ()
) -> list[CellResult]:
    """Cells of quinn by their seed, with the repeat's time of each run after a first one of 10 s."""
    tested_scenario = catalogue().find_scenarios([scenario])[0]
    request = Request(
        [tested_scenario], [KNOWN["quinn"]], [KNOWN["quinn"]], engine="virtual",
        parameters={"zero_rtt": "on"}, vary={"server.bdp_seed": list(seeds)},
    )  # fmt: skip
    cell_results = []
    for cell in build_matrix(request, images(*named_implementations(swept_points(request)), "quinn"), SIM, KNOWN):
        seed = str(cell.parameters["server.bdp_seed"])
        runs = tuple(
            (
                Run(cell=cell, repetition=number, outcome=Outcome(status="completed"), started_at="2026-11-22"),
                MeasuredRun(
                    version=VERSION,
                    link=LinkProof(valid=True),
                    observed=tuple(
                        Observation(role="server", parameter=name, value=value, unit="", source="a test")
                        for name, value in (("bdp_seed", 1.0 if seed == "off" else 9.0), ("careful_resume", phases))
                    ),
                    measurements=(
                        Measurement(name="completion", value=10.0, unit="s", flow=0, transfer="first"),
                        Measurement(name="completion", value=time, unit="s", flow=0, transfer="repeat"),
                        *(
                            Measurement(
                                name="mean_throughput", value=rate * (1.0 if seed == "off" else 0.9), unit="Mbit/s",
                                flow=OTHER,
                            )
                            for rate in other[number : number + 1]
                        ),
                    ),
                ),
            )
            for number, time in enumerate(seeds[seed])
        )  # fmt: skip
        cell_results.append(CellResult(cell, runs, judge(cell.scenario, runs, []), tuple(Path("x") for _ in runs)))
    return cell_results


@pytest.mark.parametrize(
    ("phases", "expected_course"), [(JUMP, "jumps"), (RETREAT, "jumps and retreats"), (STAY, "does not jump")]
)
def test_phases_are_a_course(phases: str, expected_course: str) -> None:
    assert course(phases) == expected_course


def test_harm_is_of_pairs_of_repetitions() -> None:
    rates = [20.0, 30.0, 40.0, 25.0, 35.0, 45.0]
    mechanisms = by_mechanism(results(TAKEN, {"off": [9.0] * 6, "careful-resume": [8.0] * 6}, other=rates), TAKEN)
    off, careful = mechanisms
    span = harmed(mechanisms[careful], mechanisms[off], OTHER)
    # Over runs that differ by half there is nothing between the pairs.
    assert span is not None and (span.low, span.high) == pytest.approx((0.1, 0.1))


def test_the_page() -> None:
    cell_results = results(next(iter(ALIKE)), {"off": [7.0, 8.0, 7.5], "careful-resume": [4.0, 4.5, 5.0]})
    for change in CHANGED:
        other = [30.0, 31.0] if change.scenario == TAKEN else []
        phases = RETREAT if change.expected == "jumps and retreats" else STAY
        cell_results += results(change.scenario, {"off": [9.0, 9.5], "careful-resume": [9.9, 10.45]}, phases, other)
    text = remembered(cell_results)
    assert "| quinn | 0-RTT, careful-resume | 3 | 10 | 4.5 [4, 5] | 0.45 [0.4, 0.5] | × 9 | jumps |" in text
    assert "| quinn | 0-RTT | 3 | 10 | 7.5 [7, 8] | 0.75 [0.7, 0.8] | × 1 |  |" in text
    for change in CHANGED:
        row = next(line for line in text.splitlines() if line.startswith(f"| {change.title} |"))
        assert f"| {change.expected} | {change.expected} |" in row, "what the RFC says is what is seen"
        assert "| × 9 | 10.2 [9.9, 10.4] | 1.1 |" in row
        assert f"* {change.title} (`{change.scenario}`): {change.why}." in text
    assert "| quinn | 0-RTT, careful-resume | 10.2 [9.9, 10.4] | 27.5 [27, 27.9] | – | 0.1 |" in text
    # What a session alone saves is counted, and not only said.
    assert "saves at most 2.5 [2, 3] s with 0-RTT (quinn over 10/2 Mbit/s, 10 MB)." in text
    assert "a round trip, which is 0.65 s: 0 of 1 rows save no more." in text


def test_a_course_that_not_every_run_takes_is_counted() -> None:
    scenario = next(iter(ALIKE))
    (first,) = results(scenario, {"careful-resume": [4.0, 5.0]})
    (result,) = results(scenario, {"careful-resume": [9.0]}, RETREAT)
    run, measured = result.runs[0]
    third = (run.model_copy(update={"repetition": 2}), measured)
    both = CellResult(first.cell, (*first.runs, third), first.verdict, (*first.folders, *result.folders))
    assert "jumps (2), jumps and retreats (1)" in remembered([both])


def test_scenarios_without_runs_say_so() -> None:
    text = remembered([])
    assert text.count("No runs are stored.") == len(ALIKE) + 1


def test_the_figure_has_a_row_with_a_seed_and_one_without() -> None:
    drawn = gains(results("remembered/same-50-10mb", {"off": [9.0] * 3, "careful-resume": [6.0] * 3}))
    assert drawn is not None
    values = {row["row"]: row["value"] for rows in drawn["datasets"].values() for row in rows if "case" in row}
    assert values == {"quinn, careful-resume": 0.6, "quinn": 0.9}
    assert gains([]) is None

"""What the study of the window after a move makes of runs: pairs of rules, verdicts, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix, named_implementations, swept_points
from harness.outcome import Handover, LinkProof, MeasuredRun, Measurement, Outcome, Run
from studies.handover.claims import AGAIN, DOCUMENT, FIRST, OTHERS, RULES, SECOND
from studies.handover.compared import by_rule, ratio
from studies.handover.figures import mean_windows, throughputs, windows
from studies.handover.page import handover
from tests.examples import SIM, catalogue, images

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}
#: Rule → share of the window kept, and Mbit/s in the first 100 ms, a value a run.
Figures = dict[str, tuple[float, Sequence[float]]]


def results(figures: Figures, scenario: str = DOCUMENT.scenario, server: str = FIRST) -> list[CellResult]:
    tested_scenario = catalogue().find_scenarios([scenario])[0]
    request = Request(
        [tested_scenario], [KNOWN["picoquic"]], [KNOWN[server]], engine="virtual", parameters={"flow0.server": server}
    )
    cell_results = []
    for cell in build_matrix(request, images(*named_implementations(swept_points(request))), SIM, KNOWN):
        rule = str(cell.parameters["server.migration_cwnd"])
        if rule not in figures:
            continue
        share, rates = figures[rule]
        runs = tuple(
            (
                Run(cell=cell, repetition=number, outcome=Outcome(status="completed"), started_at="2026-11-22"),
                MeasuredRun(
                    version=VERSION,
                    link=LinkProof(valid=True),
                    moves=(
                        Handover(
                            flow=0, transfer="first", move=1, at=0.2, how="migrate", path="campus",
                            window_trace=(None, 100_000.0, 100_000.0 + 20_000 * number, share * 100_000),
                        ),
                    ),
                    measurements=tuple(
                        Measurement(name=name, value=value, unit="1", flow=0, transfer="first", move=1)
                        for name, value in (
                            ("cwnd_before", 100_000.0), ("cwnd_kept", share), ("handover_throughput", rate), ("delivered_2s", rate * 2.5e5)
                        )
                    ),
                ),
            )
            for number, rate in enumerate(rates)
        )  # fmt: skip
        cell_results.append(CellResult(cell, runs, judge(cell.scenario, runs, []), tuple(Path("x") for _ in runs)))
    return cell_results


RATES = [80.0, 90.0, 100.0, 110.0, 120.0, 130.0]


def test_a_ratio_is_of_pairs_of_repetitions() -> None:
    cell_results = by_rule(
        results({"reset": (0.3, RATES), "adaptive": (0.86, [1.9 * rate for rate in RATES])}), DOCUMENT.scenario
    )
    compared = ratio(cell_results["adaptive"], cell_results["reset"], "handover_throughput")
    assert compared is not None
    # Over runs that differ by half there is nothing between the pairs.
    assert (compared.span.low, compared.span.high) == pytest.approx((1.9, 1.9))
    assert compared.verdict == "helps"


@pytest.mark.parametrize(
    ("times", "share", "verdicts"),
    [
        ([1.9] * 6, 0.86, ("borne out", "borne out")),
        ([1.2] * 6, 0.93, ("more is kept", "contradicted: a smaller gain")),
        ([1.0] * 6, 0.5, ("less is kept", "contradicted: makes no difference")),
        ([0.5] * 6, 0.86, ("borne out", "contradicted: hurts")),
        ([0.7, 0.9, 1.0, 1.1, 1.2, 1.3], 0.86, ("borne out", "contradicted: no difference is shown")),
        ([1.0, 1.2, 1.5, 1.7, 1.9, 2.5], 0.86, ("borne out", "neither borne out nor contradicted")),
    ],
)
def test_the_verdict_is_the_one_the_data_support(times: list[float], share: float, verdicts: tuple[str, str]) -> None:
    rates = [time * rate for time, rate in zip(times, RATES, strict=True)]
    text = handover(results({"reset": (0.3, RATES), "adaptive": (share, rates)}))
    rows = [row for row in text.splitlines() if row.startswith(("| share of the window", "| throughput of the first"))]
    kept, every, large = rows
    assert verdicts[0] in kept
    assert verdicts[1] in every and verdicts[1] in large
    assert "It is larger in 6 of 6 runs" in text


def test_the_rule_is_judged_where_it_has_a_say() -> None:
    """Where the window was no larger than the initial one, what is kept of it says nothing."""
    cell_results = results({"reset": (0.3, RATES), "adaptive": (0.86, [1.9 * rate for rate in RATES])})
    adaptive = by_rule(cell_results, DOCUMENT.scenario)["adaptive"]
    small = [
        (
            run,
            measured.model_copy(
                update={"measurements": tuple(_small(measurement) for measurement in measured.measurements)}
            ),
        )
        for run, measured in adaptive.runs[:4]
        if measured is not None
    ]
    result = replace(adaptive, runs=(*small, *adaptive.runs[4:]))
    text = handover([cell_result for cell_result in cell_results if cell_result is not adaptive] + [result])
    assert "It is larger in 2 of 6 runs" in text


def _small(measurement: Measurement) -> Measurement:
    return measurement.model_copy(update={"value": 20_000.0}) if measurement.name == "cwnd_before" else measurement


def test_cases_that_have_no_runs_say_so() -> None:
    text = handover([])
    assert text.count("No runs are stored.") == len(OTHERS) + 2
    assert "claims**" not in text and "## In all" not in text


def test_the_second_implementation_stands_beside_the_first() -> None:
    first = results({"reset": (0.3, RATES), "adaptive": (0.86, [1.9 * rate for rate in RATES])})
    second = results({"reset": (0.2, RATES), "adaptive": (0.9, [1.5 * rate for rate in RATES])}, server=SECOND)
    assert "No runs are stored." in handover(first).partition("## A second implementation")[2]
    for stored in (first + second, second + first):
        text, _, again = handover(stored).partition("## A second implementation")
        # All else is of the first alone, whoever was stored last.
        assert "1.9" in text and "1.5 " not in text
        rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in again.splitlines() if "| 6 |" in row]
        assert [(rule, server, kept, gain) for _, rule, server, _, kept, gain, *_ in rows] == [
            ("reset", FIRST, "0.3", "–"), ("reset", SECOND, "0.2", "–"),
            ("adaptive", FIRST, "0.86", "1.9"), ("adaptive", SECOND, "0.9", "1.5"),
        ]  # fmt: skip


def test_every_rule_and_case_is_one_that_there_is() -> None:
    assert set(RULES) == {"reset", "keep", "adaptive"}
    for server in (FIRST, SECOND):
        assert all(word in str(KNOWN[server].parameters["migration_cwnd"]) for word in RULES)
    assert set(AGAIN) <= {DOCUMENT, *OTHERS}
    for case in (DOCUMENT, *OTHERS):
        (scenario,) = catalogue().find_scenarios([case.scenario])
        assert set(map(str, scenario.vary["server.migration_cwnd"])) == set(RULES)
        assert scenario.flows[0].moves


def test_the_mean_window_is_over_the_runs_that_tell_it() -> None:
    cell_results = results({"reset": (0.3, RATES[:2]), "adaptive": (0.86, RATES[:2])})
    frame = mean_windows(cell_results)
    reset = frame.filter(frame["rule"] == "reset").sort("t")
    assert reset["t"].to_list() == [105.0, 110.0, 115.0]
    assert reset["value"].to_list() == pytest.approx([100.0, 110.0, 30.0])
    assert windows(cell_results) is not None and throughputs(cell_results) is not None
    assert windows([]) is None and throughputs([]) is None

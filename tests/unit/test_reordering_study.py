"""The page on packets that overtake others, on made-up measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, LinkProof, MeasuredRun, Measurement, Outcome, Run
from harness.scenario.schema import Path as PathModel
from harness.stats.intervals import interval
from studies.reordering import STUDY
from studies.reordering.claims import CASES, FAR_AHEAD, IN_ORDER, JITTER, LIMIT, NEIGHBOURS
from studies.reordering.compared import stacks
from studies.reordering.figures import slowdowns, spurious_counts
from studies.reordering.page import reordering, sentences
from tests.examples import SIM, catalogue, images

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}
#: One run: seconds, None where the download did not end; spurious losses.
Values = tuple[float | None, int]


def results(scenario: str, values: dict[str, Sequence[Values]]) -> list[CellResult]:
    """Cells of a scenario, each stack with itself."""
    tested = catalogue().find_scenarios([scenario])[0]
    pairs = [KNOWN[name] for name in values]
    request = Request([tested], pairs, pairs, engine="virtual")
    cell_results = []
    for cell in build_matrix(request, images(*values), SIM, KNOWN):
        # Of two different ones, there is a run as well: it must not count.
        of_cell = values[cell.server.name] if cell.server.name == cell.client.name else [(99.0, 99)]
        runs = tuple(_run(cell, number, values_of_run) for number, values_of_run in enumerate(of_cell))
        cell_results.append(CellResult(cell, runs, judge(cell.scenario, runs, []), tuple(Path("x") for _ in runs)))
    return cell_results


def _run(cell: Cell, number: int, values: Values) -> tuple[Run, MeasuredRun]:
    seconds, spurious = values
    status = "completed" if seconds is not None else "timed_out"
    run = Run(cell=cell, repetition=number, outcome=Outcome(status=status), started_at="2026-11-27")
    figures = {"completion": seconds, "spurious_losses": spurious}
    measured = MeasuredRun(
        version=VERSION, link=LinkProof(valid=True),
        measurements=tuple(
            Measurement(name=name, value=value, unit="s", flow=0, transfer="first")
            for name, value in figures.items() if value is not None
        ),
    )  # fmt: skip
    return run, measured


def study_results() -> list[CellResult]:
    """ngtcp2 takes it well, quinn badly, picoquic's download never ends with jitter; https has TCP."""
    return [
        *results(IN_ORDER, {"ngtcp2": [(8.0, 0), (8.0, 0), (8.2, 0)], "quinn": [(8.0, 0)], "picoquic": [(8.0, 0)]}),
        *results(NEIGHBOURS.scenario, {"ngtcp2": [(8.0, 1)], "quinn": [(8.2, 46)], "picoquic": [(8.0, 3)]}),
        *results(FAR_AHEAD.scenario, {"ngtcp2": [(8.0, 8)], "quinn": [(40.0, 400)], "picoquic": [(16.0, 500)]}),
        *results(JITTER.scenario, {"ngtcp2": [(9.6, 1000)], "quinn": [(80.0, 700)], "picoquic": [(None, 900)]}),
        *results(IN_ORDER, {"https": [(8.0, 0)]}),
        *results(FAR_AHEAD.scenario, {"https": [(12.0, 5)]}),
    ]  # fmt: skip


def test_stacks_with_themselves_by_name_and_tcp_last() -> None:
    by_title = stacks(study_results())
    assert [stack.title for stack in by_title] == ["ngtcp2", "picoquic", "quinn", "https (TCP)"]
    by_name = {stack.name: stack for stack in by_title}
    assert by_name["ngtcp2"].spurious(NEIGHBOURS) == interval([1])
    assert by_name["quinn"].slowdown(FAR_AHEAD) == interval([5.0])
    # A download that does not end takes infinitely long.
    never = by_name["picoquic"].slowdown(JITTER)
    assert never is not None and math.isinf(never.median)
    assert by_name["https"].slowdown(NEIGHBOURS) is None and by_name["https"].spurious(JITTER) is None


def test_a_sentence_a_case() -> None:
    assert sentences(stacks(study_results())) == [
        "neighbours: QUIC has 1 (ngtcp2) to 46 (quinn) spurious losses and takes "
        "1.00 (ngtcp2) to 1.02 (quinn) times as long.",
        "1 % far ahead: QUIC has 8 (ngtcp2) to 500 (picoquic) spurious losses and takes "
        "1.00 (ngtcp2) to 5.00 (quinn) times as long.",
        "±5 ms: QUIC has 700 (quinn) to 1,000 (ngtcp2) spurious losses and takes "
        "1.20 (ngtcp2) to ∞ (picoquic) times as long.",
        "Linux's TCP takes 1.50 (1 % far ahead) times as long as in order.",
    ]


def test_the_page_has_a_row_for_each_and_says_so_where_there_is_none() -> None:
    page = reordering(study_results())
    assert "| ngtcp2 | 1 to 3 | 8 [8, 8.2] | 0 | 8 | 1 | 8 | 8 | 9.6 | 1,000 |" in page
    assert "| picoquic | 1 | 8 | 0 | 8 | 3 | 16 | 500 | never | 900 |" in page
    assert "| https (TCP) | 1 | 8 | 0 | – | – | 12 | 5 | – | – |" in page
    assert "No runs are stored." in reordering([])


def test_figures_have_a_row_for_each_stack_the_worst_first() -> None:
    counts, costs = spurious_counts(study_results()), slowdowns(study_results())
    assert counts is not None and costs is not None
    assert _rows(counts) == ["ngtcp2", "picoquic", "quinn", "https (TCP)"]
    assert _rows(costs) == ["picoquic", "quinn", "https (TCP)", "ngtcp2"]
    assert [row["text"] for row in _data(costs, 4)] == ["never ends: ±5 ms"] and not _data(counts, 4)
    assert len(_data(costs, 3)) == 9
    assert spurious_counts([]) is None and slowdowns([]) is None
    assert set(STUDY.scenarios) == {IN_ORDER, *(case.scenario for case in CASES)} and len(STUDY.drawings) == 2


def test_the_scenarios_differ_in_their_reordering_alone() -> None:
    tested = catalogue().find_scenarios(STUDY.scenarios)
    assert {str(scenario.timeout) for scenario in tested} == {LIMIT}
    plain = [
        scenario.path.model_copy(
            update={"forward": scenario.path.forward.model_copy(update={"reorder": None, "jitter": None})}
        )
        for scenario in tested
        if isinstance(scenario.path, PathModel)
    ]
    assert len(plain) == 4 and all(path == plain[0] for path in plain)
    assert all(scenario.flows == tested[0].flows and scenario.draw == tested[0].draw for scenario in tested)


def _rows(spec: dict[str, object]) -> list[str]:
    return list(spec["layer"][1]["encoding"]["y"]["sort"])  # type: ignore[index]


def _data(spec: dict[str, object], layer: int) -> list[dict[str, object]]:
    return list(spec["datasets"][spec["layer"][layer]["data"]["name"]])  # type: ignore[index]

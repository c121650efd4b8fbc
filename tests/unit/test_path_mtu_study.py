"""What the study of a path whose MTU falls makes of runs: rows, sentences, figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Absence, LinkProof, MeasuredRun, Measurement, Outcome, Run
from studies.path_mtu import STUDY
from studies.path_mtu.claims import CASES, SILENT, TOLD
from studies.path_mtu.compared import rows
from studies.path_mtu.figures import bars
from studies.path_mtu.page import path_mtu, sentences
from tests.examples import SIM, catalogue, images

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}
#: One run: seconds, seconds until data came again, packets that were too large; None where the download did not end.
Values = tuple[float | None, float | None, int]


def results(scenario: str, values: dict[str, Sequence[Values]]) -> list[CellResult]:
    """Cells of a scenario, by server."""
    tested = catalogue().find_scenarios([scenario])[0]
    tcp = tested.flows[0].kind == "tcp"
    servers = [] if tcp else [KNOWN[name] for name in values]
    request = Request([tested], [] if tcp else [KNOWN["quinn"]], servers, engine="virtual")
    cell_results = []
    for cell in build_matrix(request, images("quinn", "linux", *values), SIM, KNOWN):
        runs = tuple(
            _run(cell, number, values_of_run)
            for number, values_of_run in enumerate(values[cell.implementation("server", 0).name])
        )
        cell_results.append(CellResult(cell, runs, judge(cell.scenario, runs, []), tuple(Path("x") for _ in runs)))
    return cell_results


def _run(cell: object, number: int, values: Values) -> tuple[Run, MeasuredRun]:
    seconds, recovery, large = values
    status = "completed" if seconds is not None else "timed_out"
    run = Run(cell=cell, repetition=number, outcome=Outcome(status=status), started_at="2026-11-22")
    figures = {"completion": seconds, "mtu_recovery_time": recovery, "size_drops_to_client": large,
               "discovered_mtu_to_client": 1280}  # fmt: skip
    measured = MeasuredRun(
        version=VERSION, link=LinkProof(valid=True),
        measurements=tuple(
            Measurement(name=name, value=value, unit="s", flow=0, transfer="first")
            for name, value in figures.items() if value is not None
        ),
        absent=(Absence(metric="mtu_recovery_time", flows=(0,), transfer="first", why="none came"),)[: recovery is None],
    )  # fmt: skip
    return run, measured


def study_results() -> list[CellResult]:
    """picoquic survives both, sooner with ICMP; tquic with it alone; quiche neither; aioquic meets nothing."""
    return [
        *results(TOLD.quic, {"picoquic": [(4.7, 0.2, 9), (4.8, 0.3, 9)], "tquic": [(4.4, 0.05, 40)],
                             "quiche": [(None, 0.06, 800)], "aioquic": [(4.4, 0.02, 0)]}),
        *results(SILENT.quic, {"picoquic": [(4.9, 0.5, 9), (5.0, 0.6, 9)], "tquic": [(None, None, 175)],
                               "quiche": [(None, 0.05, 900)], "aioquic": [(4.4, 0.02, 0)]}),
        *results(TOLD.tcp, {"linux": [(4.5, 0.07, 81)]}),
        *results(SILENT.tcp, {"linux": [(None, None, 120)]}),
    ]  # fmt: skip


def test_rows_are_the_stacks_by_name_and_tcp_last() -> None:
    signalled, silent = (rows(study_results(), case) for case in CASES)
    assert [row.name for row in signalled] == ["aioquic", "picoquic", "quiche", "tquic", "TCP (Linux)"]
    by_name = {row.name: row for row in silent}
    assert by_name["picoquic"].survives and by_name["picoquic"].recovery == rows(study_results(), SILENT)[1].recovery
    assert not by_name["aioquic"].is_affected and by_name["tquic"].is_affected
    # What came of a download that did not end is no recovery.
    for name in ("quiche", "tquic"):
        recovery = by_name[name].recovery
        assert recovery is not None and math.isinf(recovery.median) and by_name[name].endings == ("timed out",)


def test_three_texts() -> None:
    signalled, silent = (rows(study_results(), case) for case in CASES)
    survivors, times, worth = sentences(signalled, silent)
    assert survivors == (
        "3 of 4 stacks of QUIC end every download with ICMP; quiche does not. "
        "2 of 4 stacks of QUIC end every download without ICMP; quiche and tquic do not."
    )
    assert "after 0.55 s (picoquic), the only one to survive" in times
    assert "These sent nothing that was too large: aioquic." in times
    assert worth == (
        "Only ICMP saves tquic. Data of picoquic come again sooner with ICMP in every run. "
        "The same download over Linux's TCP ends with ICMP and does not end without."
    )


def test_the_page_has_a_row_for_each_and_says_so_where_there_is_none() -> None:
    page = path_mtu(study_results())
    assert page.count("| picoquic | 2 of 2 |") == 2 and page.count("| TCP (Linux) |") == 2
    assert "never" in page
    assert "No runs are stored." in path_mtu([])


def test_figures_have_a_panel_for_each_kind_of_path() -> None:
    for amount in ("seconds", "recovery"):
        spec = bars(amount, "title")(study_results())
        assert spec is not None and len(spec["hconcat"]) == 2
        assert bars(amount, "title")([]) is None
    assert len(STUDY.drawings) == 2 and set(STUDY.scenarios) == {
        name for case in CASES for name in (case.quic, case.tcp)
    }

"""The table of what servers do when a client moves, and where it contradicts a published survey."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Handover, LinkProof, MeasuredRun, Outcome, Run
from harness.report import migration
from harness.report.markdown import render_markdown
from tests.examples import SIM, catalogue, images
from tests.measurements import measurement
from tests.rendering import printed

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}
CLIENT = "picoquic"


def handover(**overrides: Any) -> Handover:
    known = {"flow": 0, "transfer": "first", "move": 1, "at": 1.5, "how": "migrate", "path": "b"}
    seen = {"address_changed": True, "port_changed": True, "destination_id_changed": True, "probed": True}
    return Handover.model_validate({**known, **seen, **overrides})


def result(server: str, *runs: Handover) -> CellResult:
    """The case handover/migrate with a server, a move a run."""
    scenario = catalogue().find_scenarios(["handover/migrate"])[0]
    request = Request([scenario], [KNOWN[CLIENT]], [KNOWN[server]], engine="virtual")
    (cell,) = build_matrix(request, images(CLIENT, server), SIM, KNOWN)
    values = {"move1_cwnd_before": 280_000.0, "move1_cwnd_after": 12_000.0, "move1_delivery_gap": 3.5}
    measured_runs = tuple(
        (
            Run(cell=cell, repetition=number, outcome=Outcome(status="completed"), started_at="2026-11-22"),
            MeasuredRun(
                version=VERSION,
                link=LinkProof(valid=True),
                moves=(move,),
                measurements=tuple(measurement(name, value) for name, value in values.items() if not move.why_not),
            ),
        )
        for number, move in enumerate(runs)
    )
    return CellResult(
        cell, measured_runs, judge(cell.scenario, measured_runs, []), tuple(Path("x") for _ in measured_runs)
    )


RESET = handover(window="reset", rtt="reset", window_evidence="280,000 B → 12,000 B in a step", old_samples=0)
KEPT = handover(window="kept", rtt="carried over", old_samples=4)
PORT = {"how": "nat-port", "address_changed": False, "destination_id_changed": False, "probed": None}


@pytest.mark.parametrize(
    ("seen", "conduct"),
    [
        ((RESET, RESET), "begins anew"),
        ((RESET, KEPT), "keeps"),
        ((KEPT,), "keeps"),
        ((handover(window="reset", rtt="carried over"),), "keeps"),
        ((handover(),), "not known"),
        ((handover(**PORT, window="kept"),), "may keep"),
        ((handover(**PORT, window="reset", rtt="reset"),), "begins anew"),
    ],
)
def test_what_a_server_does_by_the_rfc(seen: tuple[Handover, ...], conduct: str) -> None:
    (row,) = migration.rows([result("quinn", *seen)])
    assert row.conduct == conduct


@pytest.mark.parametrize(
    ("server", "seen", "contradicts"),
    [
        ("quic-go", KEPT, True),
        ("quic-go", RESET, False),
        ("picoquic", RESET, True),
        ("picoquic", handover(window="collapsed by loss"), False),
        ("quic-go", handover(**PORT, window="kept"), True),
        ("msquic", handover(**PORT, window="kept"), False),
        # Of a port alone it says nothing of this one; and of the other one nothing at all.
        ("quiche", handover(**PORT, window="kept"), False),
        ("quinn", KEPT, False),
        ("quic-go", handover(), False),
    ],
)
def test_a_contradiction_of_the_survey_is_said(server: str, seen: Handover, contradicts: bool) -> None:
    (row,) = migration.rows([result(server, seen)])
    assert bool(row.contradiction) == contradicts


def test_the_table_and_its_json() -> None:
    late = handover(why_not="it came 0.082 s after the end of the transfer")
    results = [result("quic-go", RESET, late), result("quiche", late)]
    document = migration.migration_document(results)
    text = printed(document, 260)
    assert "begins anew" in text and "280 → 12" in text
    assert "not observed in 1 of 2 runs: it came 0.082 s after" in text
    content = document.data
    assert [(entry["server"], len(entry["runs"]), entry["not_observed"]) for entry in content["moves"]] == [
        ("quic-go", 1, [late.why_not]),
        ("quiche", 0, [late.why_not]),
    ]
    assert content["moves"][0]["conduct"] == "begins anew"
    page = render_markdown(document)
    assert page.count("\n| quic") == 2 and "not observed: it came" in page


def test_nothing_that_moves_is_said() -> None:
    assert printed(migration.migration_document([]), 120).strip() == "no stored run has a client that moves"

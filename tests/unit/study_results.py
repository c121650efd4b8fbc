"""Results of stored scenarios with figures of our choice, for the tests of studies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import EngineName, LinkProof, MeasuredRun, Measurement, Outcome, Run
from tests.examples import SIM, catalogue, images

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}


def results_of(
    scenario: str,
    client: str,
    server: str,
    *flows: Mapping[str, float],
    engine: EngineName = "virtual",
    path: Mapping[str, float] | None = None,
) -> list[CellResult]:
    """The cells of a scenario for a pair, of one run each; each of its flows has its figures, as of a first transfer.

    `path`: figures of no flow.
    """
    (definition,) = catalogue().find_scenarios([scenario])
    request = Request([definition], [KNOWN[client]], [KNOWN[server]], engine=engine)
    measurements = tuple(
        Measurement(name=name, value=value, unit="1", flow=flow, transfer="first")
        for flow, figures in (*enumerate(flows), (None, path or {}))
        for name, value in figures.items()
    )
    results = []
    for cell in build_matrix(request, images(*KNOWN), SIM, KNOWN):
        run = Run(cell=cell, repetition=0, outcome=Outcome(status="completed"), started_at="2026-11-27")
        runs = ((run, MeasuredRun(version=VERSION, link=LinkProof(valid=True), measurements=measurements)),)
        results.append(CellResult(cell, runs, judge(cell.scenario, runs, []), (Path("x"),)))
    return results


def table_cells(page: str, name: str) -> list[str]:
    """The cells of the only row of a page that begins with this name."""
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {name} |"))
    return [item.strip() for item in line.strip("| ").split(" | ")]

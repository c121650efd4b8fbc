"""QUIC over a GEO satellite against objectives: what the document found, and which pairs meet them here."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.report.markdown import table_row
from harness.report.results import group_by_scenario
from studies.in_sequence_satellite.claims import CLAIM, CLAIMS


def satellite(results: Sequence[CellResult]) -> str:
    """A row for each case and engine: the document's finding, the pairs that meet every objective, how many do not."""
    lines = [
        "## QUIC over a GEO satellite, against objectives",
        "",
        CLAIM,
        "",
        table_row(["case", "engine", "document", "pairs here", "meet every objective here", "miss one"]),
        table_row(["---", "---", "---", "---:", "---", "---:"]),
    ]
    for group in group_by_scenario(judged(results)):
        cell = group[0].cell
        met = [result for result in group if result.verdict.status == "pass"]
        row = [f"`{cell.scenario.name}`", cell.engine, CLAIMS[cell.scenario.name], str(len(group))]
        lines.append(table_row([*row, ", ".join(map(_told, met)) or "none", str(len(group) - len(met))]))
    return "\n".join(lines) + "\n"


def claim(results: Sequence[CellResult]) -> str:
    """The document's claim and what the stored runs of its first case say to it, in a paragraph; empty without runs."""
    group = [result for result in judged(results) if result.cell.scenario.name == "satellite/medium"]
    said = []
    for engine in sorted({result.cell.engine for result in group}):
        mine = [result for result in group if result.cell.engine == engine]
        met = [result for result in mine if result.verdict.status == "pass"]
        names = ", ".join(f"{one.cell.client.name} → {one.cell.server.name}" for one in met) or "none"
        said.append(f"of {format_count(len(mine), 'pair')} in {_ENGINES[engine]} by {names}")
    return f"{CLAIM} Here they are met, {'; '.join(said)}.\n" if said else ""


_ENGINES = {"compose": "real time", "virtual": "virtual time"}


def judged(results: Sequence[CellResult]) -> list[CellResult]:
    """The document's cells as they are, no parameter set, that came to a pass or a fail."""
    return [
        result
        for result in results
        if result.cell.scenario.name in CLAIMS
        and not result.cell.parameters
        and result.verdict.status in ("pass", "fail")
    ]


def _told(result: CellResult) -> str:
    """A pair with the medians of its milestones."""
    times = [
        span.median
        for size in result.cell.scenario.milestones_within()
        if (span := result.interval(f"milestone_{size.label()}", 0, "first")) is not None
    ]
    seconds = " / ".join(f"{time:.2f}" for time in times)
    return f"{result.cell.client.name} → {result.cell.server.name} ({seconds} s)"

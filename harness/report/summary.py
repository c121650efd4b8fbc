"""A nightly run in Markdown, for the summary of a CI job."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.report import gate, markdown
from harness.report.gate import GateReport


def nightly_summary(results: Sequence[CellResult], gate_report: GateReport | None = None) -> str:
    """What changed since the baseline, where there is one, then verdicts and tables."""
    parts = [] if gate_report is None else ["## Since the baseline", "", gate.markdown(gate_report)]
    return "\n".join([*parts, "## Verdicts", "", markdown.summary(results), "", markdown.report(results)])

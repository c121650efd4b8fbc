"""What `harness check` found of implementations: a table each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from harness.outcome.conformance import Finding
from harness.report.document import SENTENCE_WIDTH, Block, Column, Document, Paragraph, Row, Span, Table

_SYMBOLS = {
    "holds": ("✓", "green"),
    "does not hold": ("✕", "red"),
    "not offered": ("–", "bright_black"),
    "not tried": ("·", "bright_black"),
}


def findings_document(findings: Sequence[Finding], absent: Mapping[str, str]) -> Document:
    """A table per implementation, and the implementations left out with the reason."""
    columns = [
        Column("role", identifies=True),
        Column("question", identifies=True),
        Column(""),
        Column("seen", text=SENTENCE_WIDTH),
        Column("against"),
    ]
    blocks: list[Block] = []
    for name, group in groupby(findings, key=lambda item: item.implementation):
        rows = [Row([item.role, item.question, _answer(item), item.seen, item.against]) for item in group]
        blocks.append(Table(columns, rows, name))
    blocks += [Paragraph(f"{name}: not built here: {why}") for name, why in absent.items()]
    failed = sum(item.failed for item in findings)
    untried = sum(item.answer == "not tried" for item in findings)
    parts = [f"{len(findings)} questions"]
    if failed:
        parts.append(f"{failed} do not hold")
    else:
        parts.append("none fails" if untried else "all hold")
    if untried:
        parts.append(f"{untried} not tried")
    blocks.append(Paragraph(", ".join(parts)))
    data = {"schema": 1, "findings": [asdict(item) for item in findings], "absent": dict(absent)}
    return Document(data, blocks)


def _answer(finding: Finding) -> Span:
    symbol, colour = _SYMBOLS[finding.answer]
    return Span(f"{symbol} {finding.answer}", style=colour)

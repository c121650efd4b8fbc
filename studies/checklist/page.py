"""The page: every claim of five documents, and what stored runs say to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.report.markdown import table_row
from studies import FIGURE, findings
from studies.charts import draw_stacks
from studies.checklist import migration, red, satellite, sharing, udp
from studies.checklist.verdicts import STATUSES, Claim, Document, Status, Verdict
from studies.handover.claims import SOURCE as KIM
from studies.in_sequence.claims import SOURCE as KUHN
from studies.link_sharing.claims import SOURCE as INET
from studies.red_droptail.claims import SOURCE as SHANKS
from studies.udp_background.claims import SOURCE as CCPERF

DOCUMENTS = (
    Document(INET, sharing.claims),
    Document(SHANKS, red.claims),
    Document(KIM, migration.claims),
    Document(CCPERF, udp.claims),
    Document(KUHN, satellite.claims),
)
SCENARIOS = tuple(
    dict.fromkeys(scenario for module in (sharing, red, migration, udp, satellite) for scenario in module.SCENARIOS)
)


#: Verdicts that the runs decide.
_DECIDED: tuple[Status, ...] = ("reproduced", "in part", "contradicted")
_COLOURS: dict[str, str] = dict(zip(_DECIDED, ("#4c9f70", "#e0a526", "#c8453b"), strict=True))


def checklist(results: Sequence[CellResult]) -> str:
    """The page."""
    judged = {document.source: judge(document, results) for document in DOCUMENTS}
    lines = [
        "# Claim by claim",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *findings(_sentences(judged)),
        FIGURE,
        "",
        "This page has every figure, table and sentence with a number or a direction of five documents, in our words.",
        "Beside each you find what the stored runs say to it. [Another page](documents.md) has the tables behind it.",
        "A figure here is a median with its interval. *Over n stacks* it is the middle of their medians, with the",
        "outermost ends of their intervals. Some documents say *close*, *quick* or *minimal* without a number. Our",
        "meaning of these words stands with the claims in [their code](../studies/checklist/).",
        "",
        *_summary(judged),
        "",
        table_row(["verdict", "meaning"]),
        table_row(["---", "---"]),
        *(table_row([status, meaning]) for status, meaning in STATUSES.items()),
        "",
    ]
    for source, rows in judged.items():
        lines += _section(source, rows)
    return "\n".join(lines)


def judge(document: Document, results: Sequence[CellResult]) -> list[tuple[Claim, Verdict]]:
    """Each claim of a document with its verdict."""
    return [(claim, claim.judge(results)) for claim in document.claims(results)]


def verdict_counts(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the decided claims of each document: how many are reproduced, in part, and contradicted."""
    rows: dict[str, dict[str, float]] = {}
    for document in DOCUMENTS:
        counts = Counter(verdict.status for _, verdict in judge(document, results))
        rows[document.source.partition(",")[0]] = {status: float(counts[status]) for status in _DECIDED}
    return draw_stacks(rows, _COLOURS, "claims", "Claims of five documents", ["claims that the runs decide"])


def _sentences(judged: dict[str, list[tuple[Claim, Verdict]]]) -> Iterator[str]:
    """How many claims have each verdict, and which documents have the most and the fewest reproduced."""
    counts = {source: Counter(verdict.status for _, verdict in rows) for source, rows in judged.items()}
    whole = sum(counts.values(), Counter[Status]())
    decided = {source: sum(map(count.__getitem__, _DECIDED)) for source, count in counts.items()}
    if not (total := sum(decided.values())):
        return
    yield (
        f"The runs reproduce {whole['reproduced']} of {total} claims that they decide, {whole['in part']} more in "
        f"part, and contradict {whole['contradicted']}."
    )
    yield (
        f"{format_count(whole['not decided'], 'claim')} are not decided, {whole['not applicable']} not applicable, and "
        f"{whole['missing']} have no runs."
    )
    shares = {source: counts[source]["reproduced"] / number for source, number in decided.items() if number}
    for words, choose in (("largest", max), ("smallest", min)):
        source = choose(shares, key=lambda name: shares[name])
        yield f"The {words} share is reproduced of {source}: {counts[source]['reproduced']} of {decided[source]}."


def _summary(judged: dict[str, list[tuple[Claim, Verdict]]]) -> Iterator[str]:
    yield table_row(["document", "claims", *STATUSES])
    yield table_row(["---", *["---:"] * (len(STATUSES) + 1)])
    for source, rows in judged.items():
        counts = Counter(verdict.status for _, verdict in rows)
        yield table_row([source, str(len(rows)), *(str(counts[status] or "–") for status in STATUSES)])


def _section(source: str, rows: Sequence[tuple[Claim, Verdict]]) -> Iterator[str]:
    yield f"## {source}"
    yield ""
    yield table_row(["where", "it says", "verdict", "here", "why"])
    yield table_row(["---"] * 5)
    for claim, verdict in rows:
        yield table_row([claim.where, claim.says, f"**{verdict.status}**", verdict.here or "–", verdict.why or "–"])
    yield ""

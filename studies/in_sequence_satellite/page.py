"""QUIC over a GEO satellite against objectives: what the document found, and which pairs meet them here."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.evaluation.objective_claim import count_text, judge_claim, judged, meeting_pairs, objectives_answer
from harness.formatting import format_count, format_list
from harness.report.markdown import table_row
from harness.report.results import group_by_scenario
from studies import ONLY_PICOQUIC
from studies.in_sequence_satellite.claims import CLAIM, CLAIMS


def satellite(results: Sequence[CellResult]) -> str:
    """A row for each case and engine: the document's finding, the pairs that meet every objective, and the others."""
    lines = [
        "## QUIC over a GEO satellite, against objectives",
        "",
        CLAIM,
        "",
        table_row(["case", "engine", "document", "pairs here", "meet every objective here", "not decided", "miss one"]),
        table_row(["---", "---", "---", "---:", "---", "---", "---:"]),
    ]
    for group in group_by_scenario(_cases(results)):
        cell = group[0].cell
        undecided = [result for result in group if objectives_answer(result) == "undecided"]
        missed = [result for result in group if objectives_answer(result) == "misses"]
        row = [f"`{cell.scenario.name}`", cell.engine, CLAIMS[cell.scenario.name], str(len(group))]
        row += [", ".join(map(_times, meeting_pairs(group))) or "none", ", ".join(map(_counted, undecided)) or "none"]
        lines.append(table_row([*row, str(len(missed))]))
    verdicts = _verdicts(results)
    return "\n".join([*lines, *(["", *verdicts] if verdicts else [])]) + "\n"


def claim(results: Sequence[CellResult]) -> str:
    """The document's claim and what the stored runs say to it, in a paragraph; empty without runs."""
    verdicts = _verdicts(results)
    return "\n".join([CLAIM, *verdicts]) + "\n" if verdicts else ""


def finding(results: Sequence[CellResult]) -> str:
    """The claim, and how many pairs meet the objectives on each of its paths, in a sentence; empty without runs."""
    counts: list[str] = []
    for path, only in ONLY_PICOQUIC.items():
        group = [result for result in _cases(results) if result.cell.scenario.name == only.scenarios[0]]
        meeting = set(map(_pair, meeting_pairs(group)))
        undecided = {_pair(result) for result in group if objectives_answer(result) == "undecided"} - meeting
        number = len(set(map(_pair, group)))
        if group:
            among = str(number) if counts else f"{format_count(number, 'pair')} do"
            aside = f" ({len(undecided)} not decided)" if undecided else ""
            counts.append(f"{len(meeting)} of {among}{aside} on {_WORDS[path]}")
    claimed = "N. Kuhn says that only picoquic with picoquic meets the satellite objectives"
    return f"{claimed}; here {format_list(counts)}." if counts else ""


def _verdicts(results: Sequence[CellResult]) -> list[str]:
    """The answer to the claim on each path of the document."""
    lines = []
    for path, only in ONLY_PICOQUIC.items():
        verdict = judge_claim(only, results)
        if verdict.status == "not run":
            continue
        lines.append(f"On {_WORDS[path]} that is {verdict.text}.")
    return lines


#: What the paths of the claim are called.
_WORDS = {"medium": "50/10 Mbit/s", "large-lossy": "250/3 Mbit/s with 1 % loss"}


def _cases(results: Sequence[CellResult]) -> list[CellResult]:
    """The document's cells that count."""
    return [result for result in judged(results) if result.cell.scenario.name in CLAIMS]


def _pair(result: CellResult) -> tuple[str, str]:
    return result.cell.client.name, result.cell.server.name


def _counted(result: CellResult) -> str:
    """A pair with its runs within the objective that fewest of them meet."""
    return f"{' → '.join(_pair(result))} ({count_text(result)})"


def _times(result: CellResult) -> str:
    """A pair with the medians of its milestones."""
    times = [
        span.median
        for size in result.cell.scenario.milestones_within()
        if (span := result.interval(f"milestone_{size.label()}", 0, "first")) is not None
    ]
    seconds = " / ".join(f"{time:.2f}" for time in times)
    return f"{' → '.join(_pair(result))} ({seconds} s)"

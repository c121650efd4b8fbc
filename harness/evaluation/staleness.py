"""Whether stored cells are current, and which of their code and image versions or measuring code are outdated. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.evaluation.cell_result import CellResult, point_of
from harness.formatting import name_first
from harness.outcome import Cell
from harness.store.build_diff import differing_components
from harness.store.identity import Ledger

#: Mark of a row that is not current.
MARK = "‡"
#: Reason for a cell that no current request would run.
NOT_ASKED = "no longer asked for"
#: How many differences a note names.
_NAMED = 5


def mark_outdated(
    results: Sequence[CellResult], today: Mapping[object, Cell], version: int, ledger: Ledger
) -> list[CellResult]:
    """The results, each with what of it is outdated.

    `today`: point → the cell that would be run there now; `version`: of the current measuring code; `ledger`: which
    digests are equivalent.
    """
    return [
        replace(result, staleness=_outdated_parts(result, today.get(point_of(result.cell)), version, ledger))
        for result in results
    ]


def _outdated_parts(result: CellResult, today: Cell | None, version: int, ledger: Ledger) -> tuple[str, ...]:
    differences = (NOT_ASKED,) if today is None else differing_components(result.cell, today, ledger)
    versions = {measured.version for _, measured in result.runs if measured is not None}
    return (*differences, *(("the measuring code",) if versions - {version} else ()))


def row_text(text: str, result: CellResult) -> str:
    """A row's text, with the mark if the row is not current."""
    return f"{text} {MARK}" if result.staleness else text


def outdated_note(results: Sequence[CellResult]) -> str:
    """How many rows are not current, and why; empty if all are."""
    stale = [result for result in results if result.staleness]
    if not stale:
        return ""
    counts = Counter(difference for result in stale for difference in result.staleness)
    unasked = counts.pop(NOT_ASKED, 0)
    sentences = [f"{MARK} {len(stale)} of {len(results)} were run with other code or images than today's."]
    if counts:
        # The most frequent difference first; equal counts by name, so that the same rows give the same text.
        ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        parts = name_first([f"{difference} ({count})" for difference, count in ordered], _NAMED)
        sentences.append(f"They differ in {parts}.")
    if unasked:
        sentences.append(f"{unasked} are {NOT_ASKED}.")
    return " ".join(sentences)

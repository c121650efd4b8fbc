"""How stored cells stand to today: of today's bits and measuring code, or what of them is not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.evaluation.cell_result import CellResult, point_of
from harness.outcome import Cell
from harness.store.build_diff import other_bits
from harness.store.identity import Ledger

#: What marks a row that is not of today.
MARK = "‡"
#: Of a cell that nobody would run today.
NOT_ASKED = "no longer asked for"


def standing(
    results: Sequence[CellResult], today: Mapping[object, Cell], version: int, ledger: Ledger
) -> list[CellResult]:
    """The results with what of each is not of today.

    `today`: point → the cell that would be run there now; `version`: of today's measuring code; `ledger`: which digests
    are the same thing.
    """
    return [
        replace(result, older=_older(result, today.get(point_of(result.cell)), version, ledger)) for result in results
    ]


def _older(result: CellResult, today: Cell | None, version: int, ledger: Ledger) -> tuple[str, ...]:
    differences = (NOT_ASKED,) if today is None else other_bits(result.cell, today, ledger)
    versions = {measured.version for _, measured in result.runs if measured is not None}
    return (*differences, *(("the measuring code",) if versions - {version} else ()))


def marked(text: str, result: CellResult) -> str:
    """A row's text, with the mark where the row is not of today."""
    return f"{text} {MARK}" if result.older else text


def note(results: Sequence[CellResult]) -> str:
    """How many rows are not of today, and what of them; empty where all are."""
    stale = [result for result in results if result.older]
    if not stale:
        return ""
    counts = Counter(difference for result in stale for difference in result.older)
    # What most rows differ in first; of equals by name, so that the same rows give the same text.
    parts = ", ".join(
        f"{difference} ({count})"
        for difference, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    )
    return f"{MARK} {len(stale)} of {len(results)} are not of today's bits. What differs: {parts}."

"""The page of what the gate decided: every cell that is not as in the baseline, and a badge for each. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from harness.evaluation.regression.decision import STATUS_ORDER, ChangeStatus
from harness.report.gate import (
    CHANGE_SYMBOLS,
    CellReport,
    GateReport,
    acceptance_notes,
    acceptance_text,
    across_notes,
    cause_text,
    changed_cells,
    deciding_text,
    departure_notes,
    false_alarm_text,
    sentence,
)
from harness.report.site.cell import cell_address

#: Standing → what it means, for new readers.
CHANGE_MEANING: dict[ChangeStatus, str] = {
    "same": "as in the baseline",
    "better": "better than in the baseline",
    "worse": "worse than in the baseline",
    "differs": "the bits are the same, and a figure is not",
    "cannot tell": "too few runs, or too far apart",
    "new": "not in the baseline",
    "gone": "in the baseline only",
}


@dataclass(frozen=True)
class ChangeBadge:
    """The standing of a cell, as a mark on its tile and a line on its page."""

    status: ChangeStatus
    symbol: str
    text: str
    """What it means, and the figures before and now."""

    @property
    def name(self) -> str:
        """The standing as a word of a style."""
        return self.status.replace(" ", "-")


@dataclass(frozen=True)
class ChangedCell:
    """A row of the page."""

    badge: ChangeBadge
    name: str
    address: str
    """Of the cell's page; empty where the site has none."""
    figures: str
    because: str
    accepted: str
    causes: tuple[str, ...]
    """What differs in the bits."""


@dataclass(frozen=True)
class ChangesPage:
    """The page."""

    open: bool
    sentence: str
    chance: str
    """How likely a false alarm is."""
    counts: dict[ChangeStatus, int]
    """Standing → number of cells, the gravest first."""
    rows: tuple[ChangedCell, ...]
    notes: tuple[str, ...]
    badges: dict[str, ChangeBadge]
    """Key of a cell of now → its standing; of cells that are not the same."""


def changes_page(gate_report: GateReport, keys: Collection[str]) -> ChangesPage:
    """The page of what a gate decided. `keys`: the cells that have a page on the site."""
    cells = changed_cells(gate_report)
    rows = tuple(_row(cell, keys) for cell in cells)
    current = (cell.weighed.decision.pair.current for cell in cells)
    return ChangesPage(
        gate_report.open,
        sentence(gate_report),
        false_alarm_text(gate_report),
        {status: count for status in STATUS_ORDER if (count := gate_report.counts.get(status, 0))},
        rows,
        (*acceptance_notes(gate_report.applied), *across_notes(gate_report), *departure_notes(gate_report)),
        {result.cell.key: row.badge for result, row in zip(current, rows, strict=True) if result is not None},
    )


def _row(cell: CellReport, keys: Collection[str]) -> ChangedCell:
    decision = cell.weighed.decision
    figures = deciding_text(cell)
    badge = ChangeBadge(
        decision.status,
        CHANGE_SYMBOLS[decision.status][0],
        ": ".join(filter(None, [CHANGE_MEANING[decision.status], figures])),
    )
    current = decision.pair.current
    address = cell_address(current.cell) if current is not None and current.cell.key in keys else ""
    return ChangedCell(
        badge, decision.pair.name, address, figures, cause_text(cell), acceptance_text(cell), cell.causes
    )

"""docs/changed.md: the reference's figures that are not what they were before its last campaign, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult, point_of
from harness.evaluation.regression.baseline import BaselineComparison
from harness.evaluation.regression.decision import (
    STATUS_ORDER,
    ContentsLookup,
    Decision,
    decide,
    match_cells,
    version_differences,
)
from harness.formatting import escape_stored, format_count, format_list, name_first
from harness.report.gate import figure_text
from harness.report.markdown import table_row
from harness.stats.two_sample import ALPHA
from harness.store.identity import Ledger
from studies import findings

_HEAD = """# What changed

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md) and from those of
`results/former/`.
"""
_METHOD = """\
The page lists the cells whose figures changed with the last campaign. This command compared them:

```
harness gate --baseline OLD --store results/reference --keep results/former
```

`OLD` is the former reference, whose runs are of many ages. Four things changed since its oldest runs:

* A link sends one packet after the other. Before, a token bucket let bursts through.
* A guest has one processor. So a packet and the program that waits for it come in one order.
* The lab kernel is in every program's process.
* Images are of later releases, or do more.

The last column names what differs in a cell's code and images.
"""
_NAMED = 4
"""Figures of a cell, and causes, that are named; of more only the number is said."""


@dataclass(frozen=True)
class Changed:
    """A cell of the former reference beside that of today."""

    decision: Decision
    causes: tuple[str, ...]


def changed(
    former: Sequence[CellResult],
    now: Sequence[CellResult],
    within: float,
    known: tuple[ContentsLookup, ContentsLookup],
    ledger: Ledger,
) -> list[Changed]:
    """The cells of a former reference beside those of today, the gravest first; `known`: contents of images of each."""
    points = {point_of(result.cell) for result in former}
    decisions = decide(
        match_cells(former, [result for result in now if point_of(result.cell) in points]), within=within
    )
    ordered = sorted(
        decisions,
        key=lambda decision: (
            decision.pair.cell.scenario.name,
            STATUS_ORDER.index(decision.status),
            decision.pair.name,
        ),
    )
    return [Changed(decision, tuple(version_differences(decision.pair, known, ledger))) for decision in ordered]


def changed_page(cells: Sequence[Changed], compared: BaselineComparison) -> str:
    """The page. `compared`: what the whole comparison came to."""
    summary = (
        f"A figure has changed if it differs by more than {100 * compared.within:.3g} %. If it depends on chance, a "
        f"test has to show the change, too (Mann and Whitney, at {ALPHA:.0%} over all figures together). Cells that "
        "*cannot tell* have too few runs for the test. They have no line here."
    )
    lines = [_HEAD, *findings(_sentences(cells, compared)), _METHOD, summary, ""]
    for folder in dict.fromkeys(_folder(cell) for cell in cells):
        mine = [cell for cell in cells if _folder(cell) == folder]
        lines += [
            f"## {folder}",
            "",
            table_row(["", "cell", "before → now", "what differs"]),
            table_row(["---"] * 4),
        ]
        for cell in mine:
            texts = (
                cell.decision.status,
                cell.decision.pair.name,
                _figures(cell.decision),
                name_first(cell.causes, _NAMED),
            )
            lines.append(table_row([escape_stored(text) for text in texts]))
        lines.append("")
    return "\n".join(lines)


def _sentences(cells: Sequence[Changed], compared: BaselineComparison) -> Iterator[str]:
    """How many cells changed, where, and by how much at most."""
    counts = ", ".join(f"{compared.counts[status]} {status}" for status in STATUS_ORDER if compared.counts.get(status))
    if not counts:
        return
    yield f"The comparison has {format_count(sum(compared.counts.values()), 'cell')}: {counts}."
    folders = Counter(map(_folder, cells)).most_common()
    if folders:
        yield f"The changed cells are in {format_list([f'{name} ({count})' for name, count in folders])}."
    for status, words in (("worse", "deterioration"), ("better", "improvement")):
        figures = [
            (abs(math.log(figure.factor)), cell.decision.pair.name, figure)
            for cell in cells
            for figure in cell.decision.figures
            if figure.status == cell.decision.status == status and figure.factor
        ]
        if figures:
            _, name, figure = max(figures, key=lambda item: item[0])
            yield f"The largest {words} is in {escape_stored(name)}: {escape_stored(figure_text(figure))}."


def _folder(cell: Changed) -> str:
    return cell.decision.pair.cell.scenario.name.partition("/")[0]


def _figures(decision: Decision) -> str:
    return name_first(
        [figure_text(figure) for figure in decision.figures if figure.status == decision.status], _NAMED, "; "
    )

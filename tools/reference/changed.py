"""docs/changed.md: the reference's figures that are not what they were before its last campaign, and why."""

from __future__ import annotations

from collections.abc import Sequence
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
from harness.formatting import escape_stored, format_count
from harness.report.gate import figure_text
from harness.report.markdown import table_row
from harness.stats.two_sample import ALPHA
from harness.store.identity import Ledger

_HEAD = """# What changed

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md) and from those of
`results/former/`: the cells of the reference before its last campaign whose figures are other now. It was made by

```
harness gate --baseline OLD --store results/reference --keep results/former
```

where `OLD` is the former reference, of many ages. Since its oldest runs a link sends one packet after the other
(before, a token bucket let bursts through), a guest has one processor, so that a packet and whoever waits for it come
in one order, the lab kernel is in every program's process, and images are of later releases or do more. What of that
a cell owes its change to stands beside it, as far as its bits tell.
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
    found = decide(match_cells(former, [one for one in now if point_of(one.cell) in points]), within=within)
    ordered = sorted(
        found, key=lambda one: (one.pair.cell.scenario.name, STATUS_ORDER.index(one.status), one.pair.name)
    )
    return [Changed(one, tuple(version_differences(one.pair, known, ledger))) for one in ordered]


def changed_page(cells: Sequence[Changed], compared: BaselineComparison) -> str:
    """The page. `compared`: what the whole comparison came to."""
    counts = ", ".join(f"{compared.counts[one]} {one}" for one in STATUS_ORDER if compared.counts.get(one))
    said = (
        f"Of {format_count(sum(compared.counts.values()), 'cell')}: {counts}. A figure has changed when "
        "it is off by more "
        f"than {100 * compared.within:.3g} %; where chance has a part in it, when a test shows that, too (Mann and "
        f"Whitney, at {ALPHA:.0%} over all figures together). What *cannot tell* has too few runs for that, "
        "and no line here."
    )
    lines = [_HEAD, said, ""]
    for folder in dict.fromkeys(_folder(one) for one in cells):
        mine = [one for one in cells if _folder(one) == folder]
        lines += [
            f"## {folder}",
            "",
            table_row(["", "cell", "before → now", "what differs in the bits"]),
            table_row(["---"] * 4),
        ]
        for one in mine:
            texts = (one.decision.status, one.decision.pair.name, _figures(one.decision), _few(list(one.causes), ", "))
            lines.append(table_row([escape_stored(text) for text in texts]))
        lines.append("")
    return "\n".join(lines)


def _folder(one: Changed) -> str:
    return one.decision.pair.cell.scenario.name.partition("/")[0]


def _figures(one: Decision) -> str:
    return _few([figure_text(figure) for figure in one.figures if figure.status == one.status], "; ")


def _few(texts: list[str], between: str) -> str:
    more = len(texts) - _NAMED
    return between.join([*texts[:_NAMED], *([f"{more} more"] if more > 0 else [])])

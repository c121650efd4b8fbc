"""docs/changed.md: the reference's figures that are not what they were before its last campaign, and why."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import altair as alt
import yaml

from harness.errors import InputError
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
from harness.outcome import Interval
from harness.report.gate import figure_text
from harness.report.markdown import table_row
from harness.stats.two_sample import ALPHA
from harness.store.identity import Ledger
from studies import findings
from studies.charts import Axis, Mark, draw_rows

_HEAD = """# What changed

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md), from those of
`results/former/`, and from what we wrote in [`changed.yaml`](data/changed.yaml).
"""
_METHOD = """\
The page lists the cells whose figures changed with the last campaign. This command compared them:

```
harness gate --baseline OLD --store results/reference --keep results/former
```

`OLD` is the reference at revision 56e6aff2 (28 November 2026). Five things changed since its oldest runs:

* The simulator has more properties of links. Links of before pass their packets at the same times.
* The engine starts endpoints in another way, which contains strangers' images.
* Images are of later releases, or do more.
* More cells ran, with more seeds. A wider or narrower interval alone is no change.
* Measuring became more exact.

The last column names what differs in a cell's code and images. *Why* says which of it counts, as far as we know.
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


@dataclass(frozen=True)
class Rewritten:
    """A sentence of a page that says something else than before."""

    page: str
    before: str
    now: str | None
    """None: the page does not say anything of it any more."""


@dataclass(frozen=True)
class Reasons:
    """What a person wrote about a comparison."""

    causes: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Patterns of cells' names (fnmatch), and why these cells changed."""
    sentences: tuple[Rewritten, ...] = ()

    def cause_of(self, cell: Changed) -> str:
        """Why a cell changed; empty if nobody knows."""
        name = cell.decision.pair.name
        return next((cause for patterns, cause in self.causes if any(fnmatchcase(name, item) for item in patterns)), "")


def read_reasons(file: Path, root: Path) -> Reasons:
    """What a file says of a comparison. Today's sentences are looked up on their pages below `root`.

    InputError if a page has no such sentence.
    """
    listed = yaml.safe_load(file.read_text(encoding="utf-8"))
    causes = tuple((tuple(entry["cells"]), str(entry["cause"])) for entry in listed["causes"])
    return Reasons(causes, tuple(_rewritten(listed["sentences"], file.name, root)))


def _rewritten(listed: Mapping[str, Sequence[Mapping[str, str | None]]], name: str, root: Path) -> Iterator[Rewritten]:
    for page, entries in listed.items():
        # A paragraph is one line, as list items and rows of tables are.
        text = re.sub(r"(?<=[^\s|])\n(?![\s*|#>`-]|\d+\. )", " ", (root / page).read_text(encoding="utf-8"))
        for entry in entries:
            place, words = text.find(entry.get("below") or ""), entry["now"]
            now = None if words is None or place < 0 else _first_sentence(words, text[place:].splitlines())
            if words is not None and now is None:
                raise InputError(
                    f"{name}: {page} has no sentence with {words!r}",
                    "give words that stand in one of its sentences",
                )
            yield Rewritten(page, str(entry["before"]), now)


def _first_sentence(words: str, lines: Sequence[str]) -> str | None:
    """The first sentence, or row of a table, that has these words; None if none has them.

    Words with a bar in front are those that a row begins with.
    """
    for line in lines:
        if line.startswith("|"):
            if line.startswith(words) if words.startswith("|") else words in line:
                return "; ".join(cell.strip() for cell in line.strip("| ").split(" | "))
            continue
        for sentence in re.split(r"(?<=[.?!*]) (?=[A-Z0-9`*])", line.lstrip("*# ")):
            if words in sentence:
                return sentence
    return None


def changed_page(
    cells: Sequence[Changed], compared: BaselineComparison, reasons: Reasons = Reasons(), figure: str = ""
) -> str:
    """The page. `compared`: the counts of the whole comparison; `figure`: the line that shows `draw_changes`."""
    summary = (
        f"A figure has changed if it differs by more than {100 * compared.within:.3g} %. If it depends on chance, a "
        f"test has to show the change, too (Mann and Whitney, at {ALPHA:.0%} over all figures together). Cells that "
        "*cannot tell* have too few runs for the test. They have no line here."
    )
    lines = [_HEAD, *findings(_sentences(cells, compared)), *filter(None, [figure]), _METHOD, summary, ""]
    lines += _rewritten_part(reasons.sentences)
    for folder in dict.fromkeys(_folder(cell) for cell in cells):
        mine = [cell for cell in cells if _folder(cell) == folder]
        lines += [
            f"## {folder}",
            "",
            table_row(["", "cell", "before → now", "why", "what differs"]),
            table_row(["---"] * 5),
        ]
        lines += [table_row([escape_stored(text) for text in texts]) for texts in _rows(mine, reasons)]
        lines.append("")
    return "\n".join(lines)


def _rows(cells: Sequence[Changed], reasons: Reasons) -> Iterator[Sequence[str]]:
    """The texts of the rows of cells. Cells of a scenario that are gone for the same reason share a row."""
    gone = Counter(
        (cell.decision.pair.cell.scenario.name, reasons.cause_of(cell) or "–")
        for cell in cells
        if cell.decision.status == "gone"
    )
    for (scenario, cause), count in gone.items():
        yield "gone", scenario, format_count(count, "cell"), cause, ""
    for cell in cells:
        if cell.decision.status != "gone":
            yield (
                cell.decision.status,
                cell.decision.pair.name,
                _figures(cell.decision),
                reasons.cause_of(cell) or "–",
                name_first(cell.causes, _NAMED),
            )


def _rewritten_part(sentences: Sequence[Rewritten]) -> Iterator[str]:
    if not sentences:
        return
    yield "## Sentences of pages"
    yield ""
    yield "These pages say something else than before. A new page, or a new part of one, has no line here."
    yield ""
    yield table_row(["page", "before", "now"])
    yield table_row(["---"] * 3)
    for sentence in sentences:
        now = "no longer said" if sentence.now is None else escape_stored(sentence.now)
        yield table_row([sentence.page.removeprefix("docs/"), escape_stored(sentence.before), now])
    yield ""


#: The figure of the page, a file below docs/figures.
CHANGES, CHANGES_CAPTION = "changed-factors.svg", "By what factor the figures of changed cells differ from before"


def draw_changes(cells: Sequence[Changed]) -> dict[str, Any] | None:
    """Vega-Lite of the largest change of each cell that became better or worse; None without any."""
    marks = []
    for cell in cells:
        decision = cell.decision
        factors = [figure.factor for figure in decision.figures if figure.status == decision.status and figure.factor]
        if decision.status in ("better", "worse") and factors:
            most = max(factors, key=lambda factor: abs(math.log(factor)))
            span = Interval(n=1, median=most, low=most, high=most, coverage=0)
            marks.append(Mark(decision.pair.name, decision.status, span))
    axis = Axis("now, per before", alt.Scale(type="log", nice=False, padding=20), reference=1)
    notes = ["a point is the figure of the cell that changed most"]
    return draw_rows(sorted(marks, key=lambda mark: mark.span.median), axis, "Changed cells", notes)


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

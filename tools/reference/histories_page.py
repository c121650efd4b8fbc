"""docs/histories.md: what every release of the implementations did, and what changed from one to the next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.analysis.interop.registry import case_of
from harness.catalogue import Catalogue
from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_history import ReleaseChange, ScenarioHistory, has_release, stored_histories
from harness.evaluation.staleness import outdated_note
from harness.formatting import format_count
from harness.report.history import change_sentence, history_blocks
from harness.report.markdown import render_blocks
from harness.report.plots.releases import history_figure

#: A change of a figure from this share on is among the findings.
_FINDING_SHARE = 0.02

_HEAD = """# What every release did

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md). Each release
downloads from itself, in virtual time. [Releases](releases.md) shows how you make such a history of your own, and how
you find the release that changed something.

```console
$ harness history quinn satellite/medium satellite/large
```

*Against the one before* says what is otherwise than in the release before. A change is named from 0.5 % of a figure on,
with [the parts of the time](because.md) that became longer or shorter.
"""


def histories_page(catalogue: Catalogue, results: Sequence[CellResult], drawn: Sequence[str]) -> str:
    """The page. `drawn`: files of figures below docs/figures that are there."""
    parts = [_HEAD]
    by_name = stored_histories(results, catalogue.releases)
    findings = [finding for name, histories in by_name.items() for finding in _findings(name, histories)]
    if findings:
        parts.append(
            "## What changed most\n\nEvery change of a figure by 2 % or more, the largest first in each stack.\n"
        )
        parts.append("\n".join(f"* {finding}" for finding in findings) + "\n")
    for name, histories in by_name.items():
        implementation = catalogue.implementations()[name][0]
        count = max(sum(item.result is not None for item in history.results) for history in histories)
        parts.append(f"## {implementation.title or name}: {format_count(count, 'release')}\n")
        if (file := figure_file(name)) in drawn:
            parts.append(f"![Milestones of every release of {implementation.title or name}](figures/{file})\n")
        parts.append(render_blocks(history_blocks(histories)))
    if note := outdated_note([result for result in results if has_release(result)]):
        parts.append(f"{note}\n")
    return "\n".join(parts)


def figure_file(name: str) -> str:
    """The file of an implementation's figure, below docs/figures."""
    return f"history-{name}.svg"


def history_figures(catalogue: Catalogue, results: Sequence[CellResult]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(file below docs/figures, Vega-Lite) of every implementation with a history."""
    for name, histories in stored_histories(results, catalogue.releases).items():
        figure = history_figure(catalogue.implementations()[name][0], histories)
        if figure is not None:
            yield figure_file(name), figure


def _findings(name: str, histories: Sequence[ScenarioHistory]) -> Iterator[str]:
    """The changes of an implementation that are large enough, the largest first, a sentence each."""
    changes = [
        (_largest(change), history.scenario.name, change)
        for history in histories
        if case_of(history.scenario.name) is None
        for change in history.changes.values()
    ]
    for size, scenario, change in sorted(changes, key=lambda item: (-item[0], item[1], item[2].after.name)):
        if size < _FINDING_SHARE:
            return
        release = change.after.release
        note = f" {release.note}" if release.note else ""
        yield f"**{name} {release.version}** ({release.date.isoformat()}), {scenario}: {change_sentence(change)}.{note}"


def _largest(change: ReleaseChange) -> float:
    """The largest relative change of a figure; infinite where runs end otherwise, or never reach a figure any more."""
    if change.endings is not None:
        return math.inf
    shares = (
        math.inf if math.isinf(before) or math.isinf(after) or not before else abs(after - before) / before
        for before, after in change.figures.values()
    )
    return max(shares, default=0.0)

"""docs/histories.md: what every release of the implementations did, and what changed from one to the next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.analysis.interop.registry import case_of
from harness.analysis.metric_registry import find_metric
from harness.catalogue import Catalogue
from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_history import ReleaseChange, ScenarioHistory, has_release, stored_histories
from harness.evaluation.staleness import outdated_note
from harness.formatting import format_count, format_list
from harness.report.history import change_sentence, history_blocks
from harness.report.markdown import render_blocks
from harness.report.numbers import number_text
from harness.report.plots.releases import history_figure
from studies import findings
from tools.reference.study_pages import image_line

#: A change of a figure from this share on is among the findings.
_FINDING_SHARE = 0.02

_HEAD = """# What every release did

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).
"""
_METHOD = """\
Each release downloads from itself, in virtual time. Some grids of test cases name a peer: it is the release that the
repository has today. [Releases](releases.md) shows how you make such a history of your own, and how you find the
release that changed something.

```console
$ harness history quinn satellite/medium satellite/large
```

*Against the one before* says what is otherwise than in the release before. A change is named from 0.5 % of a figure on,
with [the parts of the time](because.md) that became longer or shorter.
"""


def histories_page(catalogue: Catalogue, results: Sequence[CellResult], drawn: Sequence[str]) -> str:
    """The page. `drawn`: files of figures below docs/figures that are there."""
    by_name = stored_histories(results, catalogue.releases)
    titles = {name: catalogue.implementations()[name][0].title or name for name in by_name}
    images = {
        name: image
        for name, title in titles.items()
        if (image := image_line(f"Milestones of every release of {title}", figure_file(name), drawn))
    }
    most = max(images, key=lambda name: _largest_gain(by_name[name]), default="")
    parts = [_HEAD, *findings(_sentences(by_name)), *filter(None, [images.pop(most, "")]), _METHOD]
    changes = [change for name, histories in by_name.items() for change in _changes(name, histories)]
    if changes:
        parts.append(
            "## What changed most\n\nEvery change of a figure by 2 % or more, the largest first in each stack.\n"
        )
        parts.append("\n".join(f"* {change}" for change in changes) + "\n")
    for name, histories in by_name.items():
        count = max(sum(item.result is not None for item in history.results) for history in histories)
        parts.append(f"## {titles[name]}: {format_count(count, 'release')}\n")
        if name in images:
            parts.append(images[name])
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


def _sentences(by_name: Mapping[str, Sequence[ScenarioHistory]]) -> Iterator[str]:
    """How many releases are there, how many of them changed, and the largest change to either side."""
    histories = [history for group in by_name.values() for history in group if case_of(history.scenario.name) is None]
    steps = [(history, change) for history in histories for change in history.changes.values()]
    if not steps:
        return
    names = {item.name for group in by_name.values() for history in group for item in history.results if item.result}
    changed = sum(_largest(change) >= _FINDING_SHARE for _, change in steps)
    yield (
        f"{format_count(len(names), 'release')} of {format_count(len(by_name), 'stack')} have runs. {changed} of "
        f"{format_count(len(steps), 'step')} to the next release change a figure by {_FINDING_SHARE:.0%} or more."
    )
    gains = sorted((gain for step in steps for gain in _gains(*step)), key=lambda gain: gain[0])
    for words, (gain, text) in (("improvement", gains[-1]), ("deterioration", gains[0])) if gains else ():
        if abs(gain) >= math.log(1 + _FINDING_SHARE) and (gain > 0) == (words == "improvement"):
            yield f"The largest {words} is {text}."
    unreached = [
        f"{change.after.name.replace('@', ' ')} ({history.title})"
        for history, change in steps
        if any(math.isinf(after) and math.isfinite(before) for before, after in change.figures.values())
    ]
    if unreached:
        yield f"A milestone is no longer reached since {format_list(unreached)}."


def _largest_gain(histories: Sequence[ScenarioHistory]) -> float:
    """How much a figure became better or worse at most, as the finding of the page has it; 0 without a change."""
    plain = [history for history in histories if case_of(history.scenario.name) is None]
    gains = [gain for history in plain for change in history.changes.values() for gain, _ in _gains(history, change)]
    return max(map(abs, gains), default=0.0)


def _gains(history: ScenarioHistory, change: ReleaseChange) -> Iterator[tuple[float, str]]:
    """Of each figure that is known on both sides the logarithm of how much better it became, and that in words."""
    flows = len(history.scenario.flows)
    for name in history.metrics:
        metric = find_metric(name.metric)
        before, after = change.before.median(name), change.after.median(name)
        if metric is None or metric.better == "neutral" or not before or not after or math.isinf(before + after):
            continue
        gain = math.log(before / after if metric.better == "lower" else after / before)
        figures = f"{name.text(flows)} {number_text(before)} → {number_text(after)}"
        yield gain, f"{change.after.name.replace('@', ' ')} in {history.title}, {figures}"


def _changes(name: str, histories: Sequence[ScenarioHistory]) -> Iterator[str]:
    """The changes of an implementation that are large enough, the largest first, a sentence each."""
    changes = [
        (_largest(change), history.title, change)
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

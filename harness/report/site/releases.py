"""The page of releases: for each implementation its history as tables, a grid of test cases, and a figure. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_history import stored_histories
from harness.report.history import history_blocks
from harness.report.markdown import render_blocks
from harness.report.plots.releases import history_figure
from harness.report.site.study import EmbeddedFigure, embed_figure
from harness.scenario.schema import Implementation, Release


@dataclass(frozen=True)
class ReleaseSection:
    """The history of one implementation."""

    name: str
    title: str
    text: str
    """Markdown."""
    figures: tuple[EmbeddedFigure, ...]
    results: tuple[CellResult, ...]
    """The cells that it rests on."""


def release_sections(
    results: Iterable[CellResult], releases_of: Callable[[str], Sequence[Release]]
) -> list[ReleaseSection]:
    """A section for each implementation whose releases have cells with themselves, or with a peer."""
    sections = []
    for name, histories in stored_histories(results, releases_of).items():
        played = [(history.role, item.result) for history in histories for item in history.results if item.result]
        if not played:
            # The catalogue does not know its releases any more.
            continue
        role, newest = played[-1]
        implementation = _without_release(newest.cell.implementation(role))
        figure = history_figure(implementation, histories)
        shows = "Milestones or headline figures over the days on which releases were published, a panel per scenario."
        embedded = [embed_figure(f"history-{name}", "Over the releases", shows, figure)] if figure is not None else []
        text = render_blocks(history_blocks(histories))
        cells = tuple(result for _, result in played)
        sections.append(ReleaseSection(name, implementation.title, text, tuple(embedded), cells))
    return sections


def _without_release(implementation: Implementation) -> Implementation:
    """An implementation by its own name and title."""
    title = implementation.title.removesuffix(f" {implementation.version}")
    return implementation.model_copy(update={"name": implementation.base_name, "title": title})

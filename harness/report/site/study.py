"""Pages of the studies that have stored runs: the claims of documents, and the results of these runs. Pure."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.evaluation.cell_result import CellResult
from harness.evaluation.staleness import outdated_note
from harness.report.observed import ObservedLevel, observed_by_implementation
from harness.report.plots.registry import Plot, plots
from harness.report.plots.render import render_figure, render_figures
from harness.report.plots.stored import Search, find_subjects
from harness.report.plots.theme import FILL, GRID, INK, SOFT
from harness.report.studies import Study, installed_studies
from harness.store.results import StoreReader


@dataclass(frozen=True)
class StudyPage:
    """The page of one study."""

    name: str
    """Name of the study's folder."""
    title: str
    study: Study
    text: str
    """Markdown, without the title."""
    results: tuple[CellResult, ...]
    """The cells that the study uses."""
    note: str
    levels: tuple[tuple[str, ObservedLevel], ...] = ()
    """(implementation, what was asked of one of its parameters, and observed)."""


def study_pages(results: Sequence[CellResult]) -> list[StudyPage]:
    """The pages of all studies that use any of these cells, in the order of the studies."""
    pages = []
    for name, study in installed_studies().items():
        cells = tuple(result for result in results if study.rests_on(result))
        if not any(result.measurements for result in cells):
            continue
        text = study.text(results)
        heading = re.search(r"^#+ +(.+)$", text, re.MULTILINE)
        title = heading[1] if heading else name
        body = text.replace(heading[0], "", 1) if heading else text
        levels = tuple(observed_by_implementation(cells))
        pages.append(StudyPage(name, title, study, body, cells, outdated_note(cells), levels))
    return pages


# --- Figures on the site: packed Vega-Lite with its data, for the script that all pages with figures share.


#: Plots that come first: they show all of a run in stacked panels.
_FIRST_PLOTS = ("transfer", "queue_window_rtt")

#: Colours of the figures → their replacements on a dark page.
DARK = {INK: "#e8e8ec", SOFT: "#a2a2ad", GRID: "#34343c", FILL: "#55555f", "white": "transparent"}


@dataclass(frozen=True)
class EmbeddedFigure:
    """A figure as a page carries it."""

    name: str
    title: str
    shows: str
    """Its content in one line, for readers who cannot see it."""
    specification: dict[str, Any]
    """Of Vega-Lite."""


def pack(content: object) -> str:
    """Content as text for a script to unpack: JSON, gzip, Base64. The same content always gives the same text."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def embed_figure(name: str, title: str, shows: str, specification: dict[str, Any]) -> EmbeddedFigure:
    """A figure for a page: Vega-Lite without its title."""
    # The page shows the figure's title and the run's name.
    return EmbeddedFigure(name, title, shows, {key: value for key, value in specification.items() if key != "title"})


def _order(plot: Plot) -> int:
    return _FIRST_PLOTS.index(plot.name) if plot.name in _FIRST_PLOTS else len(_FIRST_PLOTS)


def _description(plot: Plot) -> str:
    """The content of a figure, and how to read it."""
    return f"{plot.shows} {plot.note[:1].upper()}{plot.note[1:]}{'.' if plot.note else ''}".strip()


def cell_figures(result: CellResult, store: StoreReader, search: Search) -> Iterator[EmbeddedFigure]:
    """The figures of a cell's first run; none where its series are not stored. Raises ResultError."""
    first = result.runs[0][0]
    if store.series(first.cell.key, first.repetition) is None:
        # The search for its partner would take longer than the rest of its page.
        return
    for subject in find_subjects([result], search):
        drawing = subject.drawing(store)
        charts = sorted(render_figures(drawing.run, drawing.partner), key=lambda chart: _order(chart.plot))
        yield from (
            embed_figure(chart.plot.name, chart.plot.title, _description(chart.plot), chart.specification)
            for chart in charts
        )


def study_figures(
    study: Study, results: Sequence[CellResult], store: StoreReader, search: Search
) -> Iterator[EmbeddedFigure]:
    """The figures of a study whose runs are stored. Raises ResultError."""
    for index, study_figure in enumerate(study.figures):
        matching = [result for result in results if study_figure.is_of(result)]
        for subject in find_subjects(matching, search):
            drawing = subject.drawing(store)
            plot = plots()[study_figure.plot]
            runs = [drawing.run] if drawing.partner is None or plot.alone else [drawing.run, drawing.partner]
            chart = render_figure(plot, *runs) if plot.alone or len(runs) == 2 else None
            if chart is not None:
                yield embed_figure(f"figure-{index}", study_figure.caption, _description(plot), chart.specification)
    for index, drawn in enumerate(study.drawings):
        specification = drawn.draw(results)
        if specification is not None:
            yield embed_figure(f"drawing-{index}", drawn.caption, drawn.caption, specification)

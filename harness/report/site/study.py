"""Pages of the studies whose runs are there: what documents claim, beside what these runs show. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.evaluation.staleness import note
from harness.report.studies import Study, installed_studies


@dataclass(frozen=True)
class StudyPage:
    """The page of one study."""

    name: str
    """Its folder's."""
    title: str
    study: Study
    text: str
    """Markdown, without the title."""
    results: tuple[CellResult, ...]
    """The cells it rests on."""
    note: str


def study_pages(results: Sequence[CellResult]) -> list[StudyPage]:
    """The pages of all studies that rest on any of these cells, in the order of the studies."""
    pages = []
    for name, study in installed_studies().items():
        mine = tuple(result for result in results if study.rests_on(result))
        if not any(result.measurements for result in mine):
            continue
        text = study.text(results)
        found = re.search(r"^#+ +(.+)$", text, re.MULTILINE)
        title = found[1] if found else name
        pages.append(StudyPage(name, title, study, text.replace(found[0], "", 1) if found else text, mine, note(mine)))
    return pages

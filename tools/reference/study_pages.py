"""The pages of this repository's studies: docs/documents.md and others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

import studies as package
from harness.evaluation.cell_result import CellResult
from harness.evaluation.staleness import outdated_note
from harness.report.studies import SHARED_PAGE, Drawing, Figure, Study, package_studies

_HEAD = (
    "# What the documents report, and what this lab measures\n\n"
    "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md). The "
    "figures are made\nfrom the same store (`harness plot`).\n"
)


@cache
def studies() -> dict[str, Study]:
    """The studies of this repository by the names of their folders, as they follow each other on the pages."""
    return package_studies(package)


def drawings() -> list[Drawing]:
    """What studies draw from all their runs."""
    return [drawing for study in studies().values() for drawing in study.drawings]


def figures() -> list[Figure]:
    """The figures of all studies."""
    return [figure for study in studies().values() for figure in study.figures]


def claims(results: Sequence[CellResult]) -> str:
    """The studies' main claims and what the runs say to them, a paragraph each; empty where no runs say anything."""
    texts = [study.claim(results) for study in studies().values() if study.claim is not None]
    return "\n".join(filter(None, texts))


def study_page_names() -> list[str]:
    """Files below docs/ that studies stand on, the shared one first."""
    names = [SHARED_PAGE]
    for study in studies().values():
        names += [study.page, *study.beside]
    return list(dict.fromkeys(names))


def study_page(page: str, results: Sequence[CellResult], there: Collection[str]) -> str:
    """The text of a file below docs/. `there`: the files of figures that have been drawn."""
    if not page.endswith(".md"):
        # Data have no head, and no note: a program reads them.
        (data,) = (study.beside[page](results) for study in studies().values() if page in study.beside)
        return data
    texts = [_HEAD] if page == SHARED_PAGE else []
    for study in studies().values():
        if page != study.page and page not in study.beside:
            continue
        older = outdated_note([result for result in results if study.rests_on(result)])
        if page == study.page:
            files = [(figure.caption, figure.file) for figure in study.figures]
            files += [(drawing.caption, drawing.file) for drawing in study.drawings]
            shown = [f"![{caption}](figures/{file})\n" for caption, file in files if file in there]
            text = study.text(results)
            if package.FIGURE in text:
                text = text.replace(f"{package.FIGURE}\n\n", "\n".join([*shown[:1], ""]) if shown else "")
                shown = shown[1:]
            drawn = "\n".join(shown) + "\n" if shown else ""
            texts.append(f"{text}\n{drawn}{older}\n\n" if older else f"{text}\n{drawn}")
        if page in study.beside:
            text = study.beside[page](results)
            texts.append(f"{text}\n{older}\n" if older else text)
    return "\n".join(texts).rstrip() + "\n"


def study_pages(results: Sequence[CellResult], there: Collection[str]) -> dict[str, str]:
    """File below docs/ → its text. `there`: the files of figures that have been drawn."""
    return {page: study_page(page, results, there) for page in study_page_names()}

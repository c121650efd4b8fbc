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
    own = [study for study in studies().values() if page == study.page or page in study.beside]
    images = [_images(study, there) for study in own]
    texts = []
    if page == SHARED_PAGE:
        sentences = [study.finding(results) for study in own if study.finding is not None]
        opening = "\n".join([_HEAD, *package.findings(sentences), package.FIGURE, "", ""])
        texts.append(_with_figure(opening, next(filter(None, images), [])).rstrip() + "\n")
    for study, shown in zip(own, images, strict=True):
        older = outdated_note([result for result in results if study.rests_on(result)])
        if page == study.page:
            text = _with_figure(study.text(results), shown)
            drawn = "\n".join(shown) + "\n" if shown else ""
            texts.append(f"{text}\n{drawn}{older}\n\n" if older else f"{text}\n{drawn}")
        else:
            text = _with_figure(study.beside[page](results), shown)
            texts.append(f"{text}\n{older}\n" if older else text)
    return "\n".join(texts).rstrip() + "\n"


def _images(study: Study, there: Collection[str]) -> list[str]:
    """The lines of a study's figures that have been drawn."""
    figures: Sequence[Drawing | Figure] = (*study.drawings, *study.figures)
    return [image for figure in figures if (image := image_line(figure.caption, figure.file, there))]


def image_line(caption: str, file: str, there: Collection[str]) -> str:
    """The line that shows a figure on a page; empty where it has not been drawn."""
    return f"![{caption}](figures/{file})\n" if file in there else ""


def _with_figure(text: str, images: list[str]) -> str:
    """A text with the first of these images at the place of its figure, and without that place if there are none.

    The image that is shown is taken from the list.
    """
    if package.FIGURE not in text:
        return text
    return text.replace(f"{package.FIGURE}\n\n", f"{images.pop(0)}\n" if images else "")


def study_pages(results: Sequence[CellResult], there: Collection[str]) -> dict[str, str]:
    """File below docs/ → its text. `there`: the files of figures that have been drawn."""
    return {page: study_page(page, results, there) for page in study_page_names()}

"""The pages of studies, docs/documents.md and others: every folder of this package that has a `STUDY` stands on one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Sequence
from functools import cache

from harness.results import CellResult
from harness.standing import note
from harness.studies import SHARED, Drawing, Figure, Study

_HEAD = (
    "# What the documents report, and what this lab measures\n\n"
    "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md); the "
    "figures are made\nfrom the same store (`harness plot`).\n"
)


@cache
def studies() -> dict[str, Study]:
    """All studies by the names of their folders, as they follow each other on the pages; imports them."""
    package = importlib.import_module("harness.studies")
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg]
    found: dict[str, Study] = {name: importlib.import_module(f"harness.studies.{name}").STUDY for name in names}
    return dict(sorted(found.items(), key=lambda item: (item[1].place, item[0])))


def drawings() -> list[Drawing]:
    """What studies draw from all their runs."""
    return [drawing for study in studies().values() for drawing in study.drawings]


def figures() -> list[Figure]:
    """The figures of all studies."""
    return [figure for study in studies().values() for figure in study.figures]


def claims(results: Sequence[CellResult]) -> str:
    """The studies' main claims and what the runs say to them, a paragraph each; empty where no runs say anything."""
    made = [study.claim(results) for study in studies().values() if study.claim is not None]
    return "\n".join(filter(None, made))


def study_pages(results: Sequence[CellResult], there: Collection[str]) -> dict[str, str]:
    """File below docs/ → its text. `there`: the files of figures that have been drawn."""
    parts: dict[str, list[str]] = {SHARED: [_HEAD]}
    for study in studies().values():
        files = [(one.caption, one.file) for one in study.figures]
        files += [(one.caption, one.file) for one in study.drawings]
        shown = [f"![{caption}](figures/{file})\n" for caption, file in files if file in there]
        drawn = "\n".join(shown) + "\n" if shown else ""
        older = note([result for result in results if study.rests_on(result)])
        below = f"{drawn}{older}\n\n" if older else drawn
        parts.setdefault(study.page, []).append(f"{study.text(results)}\n{below}")
        for page, text in study.beside.items():
            parts.setdefault(page, []).append(f"{text(results)}\n{older}\n" if older else text(results))
    return {page: "\n".join(texts).rstrip() + "\n" for page, texts in parts.items()}

"""The README's numbers come from stored runs, and its commands exist."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from harness.cli import ROOT, _app, cli
from harness.reports.readme import reference_page, with_parameters, with_results
from harness.studies.pages import claims, pages

README = (ROOT / "README.md").read_text()


def test_the_results_are_those_of_the_reference_runs() -> None:
    app = _app(ROOT / "results" / "reference")
    results = app.stored_results(lambda cell: True)
    assert with_results(README, results, claims(results)) == README, "run 'make generate'"
    page = (ROOT / "results" / "reference" / "README.md").read_text()
    assert reference_page(results) == page, "run 'make generate'"
    images = (ROOT / "images" / "PARAMETERS.md").read_text()
    known = [item for item, _ in app.catalogue.implementations().values() if item.speaks_quic]
    assert with_parameters(images, known, results) == images, "run 'make generate'"
    made = pages(results, {file.name for file in (ROOT / "docs" / "figures").glob("*.svg")})
    assert made == {name: (ROOT / "docs" / name).read_text() for name in made}, "run 'make generate'"


def test_every_command_in_the_readme_exists() -> None:
    known = get_command(cli).commands  # type: ignore[attr-defined]
    used = set(re.findall(r"^harness ([a-z]+)", README, flags=re.MULTILINE))
    assert used
    assert used <= set(known)


def test_every_make_target_in_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`make ([a-z]+)`", README)) | {"run", "test"}:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.parametrize(
    "page", ["README.md", "images/README.md", "images/PARAMETERS.md", "docs/documents.md", "docs/picoquic.md"]
)
def test_every_linked_file_exists(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target

"""The README's numbers come from stored runs, and its commands exist."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from harness.cli import cli
from harness.cli.environment import REFERENCE, ROOT, open_app
from harness.pages import pages

README = (ROOT / "README.md").read_text()


def test_what_is_generated_is_in_step() -> None:
    for file, text in pages(open_app(REFERENCE)).items():
        assert file.read_text(encoding="utf-8") == text, f"{file.relative_to(ROOT)}: run 'make generate'"


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

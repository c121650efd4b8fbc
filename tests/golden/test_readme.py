"""Numbers on the pages come from stored runs."""

from __future__ import annotations

from harness.cli.environment import REFERENCE, ROOT, open_app
from harness.pages import pages


def test_what_is_generated_is_in_step() -> None:
    for file, text in pages(open_app(REFERENCE)).items():
        assert file.read_text(encoding="utf-8") == text, f"{file.relative_to(ROOT)}: run 'make generate'"

"""Numbers on the pages come from stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.environment import REFERENCE, open_app
from harness.cli.workspace import ROOT
from tools.reference.pages import page_texts

#: File → what makes its text. All share the stored runs, which the first one reads.
TEXTS = page_texts(open_app(REFERENCE))


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_generated_page_is_in_step(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == TEXTS[file](), "run 'make generate'"

"""`harness figures`, for whoever changes a plot or adds to the reference runs."""

from __future__ import annotations

from harness.cli.consoles import print_text
from harness.cli.environment import REFERENCE, open_app


def figures() -> None:
    """Draw the figures of docs/documents.md from the reference runs."""
    from tools.reference.pages import drawings

    for file, svg in drawings(open_app(REFERENCE)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(svg, encoding="utf-8")
        print_text(str(file))

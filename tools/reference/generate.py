"""`harness generate`, for whoever changes the model or adds to the reference runs."""

from __future__ import annotations

from harness.cli.environment import REFERENCE, open_app


def generate() -> None:
    """Write what is generated into the repository: schemas, compose/, the README's results."""
    from tools.reference.pages import pages

    for file, text in pages(open_app(REFERENCE)).items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

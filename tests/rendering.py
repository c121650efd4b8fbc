"""Documents as tests read them: what a terminal shows of them."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console

from harness.report.document import Block, Document
from harness.report.terminal import render_terminal


def printed(content: Document | Iterable[Block], width: int = 200) -> str:
    """What a terminal of this many columns shows, without colours."""
    document = content if isinstance(content, Document) else Document({}, content)
    out = io.StringIO()
    render_terminal(document, Console(file=out, width=width))
    return out.getvalue()

"""What a site's scripts and pages hold packed, read as its own script reads it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any


def unpack(text: str) -> Any:
    """What was packed: JSON, gzip, Base64."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def script_content(script: Path) -> Any:
    """What a script hands to the page that loads it."""
    return unpack(json.loads(script.read_text().removeprefix("packed(").removesuffix(");\n")))


def cells_of(script: Path) -> dict[str, dict[str, Any]]:
    """Key → page and tables of each cell in a script of a scenario's cells."""
    content = script_content(script)
    rest = [iter(pieces) for pieces in content["pieces"]]
    pages = ["".join(next(rest[kind]) for kind in order) for order in content["orders"]]
    assert not any(list(pieces) for pieces in rest)
    tables = [dict(zip(content["tables"], row, strict=True)) for row in zip(*content["tables"].values(), strict=True)]
    return {key: {"page": page, **own} for key, page, own in zip(content["keys"], pages, tables, strict=True)}


def site_cells(site: Path) -> dict[str, dict[str, Any]]:
    """Key → page and tables of each cell of a site."""
    return {key: entry for script in (site / "cells").glob("*.js") for key, entry in cells_of(script).items()}


def page_with_lists(page: Path) -> str:
    """A page with its packed lists and rows in their place. Its figures stay packed."""

    def shown(script: re.Match[str]) -> str:
        content = unpack(script[1])
        return content if isinstance(content, str) else script[0]

    return re.sub(r'<script type="text/plain"[^>]*>([^<]*)</script>', shown, page.read_text())

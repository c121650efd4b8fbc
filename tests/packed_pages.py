"""What a site's scripts and pages hold packed, read as its own script reads it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from itertools import repeat
from pathlib import Path
from typing import Any


def unpack(text: str) -> Any:
    """What was packed: JSON, gzip, Base64."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def script_content(script: Path) -> Any:
    """What a script hands to the page that loads it."""
    return unpack(json.loads(script.read_text().removeprefix("packed(").removesuffix(");\n")))


#: The columns of a cell's tables.
_COLUMNS = {"because": 6, "link": 4, "figures": 5, "sources": 4}


def cells_of(script: Path) -> dict[str, dict[str, Any]]:
    """Key → page and tables of each cell in a script of a scenario's cells."""
    content = script_content(script)
    pieces = [repeat(kind) if isinstance(kind, str) else iter(kind) for kind in content["pieces"]]
    parts = {
        name: [[next(pieces[kind]) for kind in order] for order in orders] for name, orders in content["orders"].items()
    }
    assert not any(list(kind) for kind in pieces if not isinstance(kind, repeat))
    cells: dict[str, dict[str, Any]] = {}
    for place, key in enumerate(content["keys"]):
        tables = {name: _rows(parts[name][place], width) for name, width in _COLUMNS.items()}
        cells[key] = {"page": "".join(parts["page"][place]).replace("\x01", key), **tables}
    return cells


def _rows(cells: list[str], width: int) -> list[list[str]]:
    assert len(cells) % width == 0
    return [cells[start : start + width] for start in range(0, len(cells), width)]


def site_cells(site: Path) -> dict[str, dict[str, Any]]:
    """Key → page and tables of each cell of a site."""
    return {key: entry for script in (site / "cells").glob("*.js") for key, entry in cells_of(script).items()}


def page_with_lists(page: Path) -> str:
    """A page with its packed lists and rows in their place. Its figures stay packed."""

    def shown(script: re.Match[str]) -> str:
        content = unpack(script[1])
        return content if isinstance(content, str) else script[0]

    return re.sub(r'<script type="text/plain"[^>]*>([^<]*)</script>', shown, page.read_text())

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


def overview_page(site: Path) -> str:
    """The first page of a site with the rows of its table in their place."""
    page = (site / "index.html").read_text()
    (rows,) = re.findall(r'<script type="text/plain" id="rows">([^<]*)</script>', page)
    return page.replace("<tbody></tbody>", f"<tbody>{unpack(rows)}</tbody>")

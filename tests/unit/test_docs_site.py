"""The pages as a site: `mkdocs build --strict` has no complaint, search has an index, nothing is fetched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.examples import ROOT
from tools.docs_site import copy_pages, with_known_links

CONFIGURATION = ROOT / "mkdocs.yml"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a copy of the pages."""
    folder = tmp_path_factory.mktemp("docs")
    assert copy_pages(ROOT, folder / "pages") > 50
    content = yaml.safe_load(CONFIGURATION.read_text()) | {
        "docs_dir": str(folder / "pages"),
        "site_dir": str(folder / "site"),
    }
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(content))
    completed = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", folder / "mkdocs.yml"],
        capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, timeout=500, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    return folder / "site"


def test_every_page_of_the_menu_is_there(site: Path) -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        children = entry.values() if isinstance(entry, dict) else entry
        return [page for child in children for page in pages(child)]  # type: ignore[attr-defined]

    named = pages(yaml.safe_load(CONFIGURATION.read_text())["nav"])
    assert len(named) == len(set(named)) > 50
    for page in named:
        file = site / page.replace("README.md", "index.md").replace(".md", ".html")
        assert "<h1" in file.read_text(encoding="utf-8"), page


def test_search_has_an_index_and_nothing_is_fetched(site: Path) -> None:
    assert "bandwidth-delay" in (site / "search" / "search_index.json").read_text(encoding="utf-8")
    for page in (site / "index.html", site / "docs" / "start.html"):
        loaded = re.findall(
            r"<(?:script|link|img)[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)", page.read_text(encoding="utf-8")
        )
        assert loaded == []


def test_links_to_sources_become_text() -> None:
    def known(path: Path) -> bool:
        return path.name in {"use.md", "a.svg", "web.md"}

    page = Path("docs", "guides", "x.md")
    text = (
        "[use](../use.md#x), [code](../../harness), [out](https://a.example), [here](#y), [![f](../a.svg)](../web.md)"
    )
    assert with_known_links(text, page, known) == text.replace("[code](../../harness)", "code")
    assert with_known_links("[![f](../b.svg)](../web.md)", page, known) == "[f](../web.md)"


def test_the_changelog_has_the_version() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert version is not None
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] in ("Unreleased", version[1]) and version[1] in headings

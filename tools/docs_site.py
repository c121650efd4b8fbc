"""The pages of the repository as MkDocs reads them: `python -m tools.docs_site`, then `mkdocs build --strict`.

    $ make docs
    68 pages: …/.state/docs/site/index.html

MkDocs has one folder of pages. This repository has pages in several, which link to each other and to source files. So
the pages are copied, with the folders that they are in. A link to a file that is no page becomes plain text.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where the copies are, as mkdocs.yml has it.
PAGES = ROOT / ".state" / "docs" / "pages"
#: Files that pages show or link to.
_ASSETS = {".svg", ".png", ".yaml", ".csv"}
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")


def sources(root: Path = ROOT) -> Iterator[Path]:
    """The pages, and the figures and examples below docs/, from the root."""
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        yield Path(name)
    for name in ("images/README.md", "images/PARAMETERS.md", "results/README.md", "results/reference/README.md"):
        yield Path(name)
    for file in sorted((root / "docs").rglob("*")):
        if file.is_file() and (file.suffix == ".md" or file.suffix in _ASSETS):
            yield file.relative_to(root)


def with_known_links(text: str, page: Path, known: Callable[[Path], bool]) -> str:
    """A page whose links to anything but a known file are plain text. `page` and the links' targets: from the root."""

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        file = target.partition("#")[0]
        if "://" in target or target.startswith(("#", "mailto:")) or known(_normal(page.parent / file)):
            # A figure that is a link: the link within.
            inner = _LINK.sub(replaced, match["text"]) if "](" in match["text"] else match["text"]
            return f"{match['image']}[{inner}]({target})"
        return match["text"]

    return _LINK.sub(replaced, text)


def _normal(path: Path) -> Path:
    """A path from the root without its `..`."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts)


def copy_pages(root: Path = ROOT, folder: Path = PAGES) -> int:
    """Copy the pages into a folder, in place of what it has. Returns their number. Raises OSError."""
    shutil.rmtree(folder, ignore_errors=True)
    files = list(sources(root))
    pages = 0
    for file in files:
        copy = folder / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text = (root / file).read_text(encoding="utf-8")
            copy.write_text(with_known_links(text, file, set(files).__contains__), encoding="utf-8")
            pages += 1
        else:
            shutil.copyfile(root / file, copy)
    return pages


def main() -> None:
    """Copy the pages and print how many there are."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"{copy_pages()} pages: {PAGES.parent / 'site' / 'index.html'}")


if __name__ == "__main__":
    main()

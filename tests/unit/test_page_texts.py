"""What pages and comments name is there: files, headings, scenarios, commands, targets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from harness.cli import cli
from tests.examples import ROOT

FOLDERS = ("compose", "docs", "harness", "images", "results", "scenarios", "tests")
SCENARIOS = {file.name for file in (ROOT / "scenarios").iterdir() if file.is_dir()}
#: What people write, with names of other files in it.
TEXTS = {".py", ".md", ".yaml", ".sh", ".c", ".h", ".go", ".rs", ".toml"}


def kept(pattern: str) -> Iterator[Path]:
    """The repository's own files: without what runs left in results/, without caches."""
    yield from ROOT.glob(pattern)
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob(pattern):
            place = file.relative_to(ROOT).parts
            own = place[0] != "results" or len(place) == 2 or place[1] == "reference"
            if own and "__pycache__" not in place and "data" not in place:
                yield file


PAGES = sorted(kept("*.md"))
PAGE_NAMES = {page.name for page in PAGES}


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def blocks(page: Path) -> str:
    """The blocks of code."""
    text = page.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```[a-z]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))


def names(page: Path) -> list[str]:
    """What stands in backticks outside of blocks of code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


def targets(page: Path) -> list[str]:
    """What a page links to."""
    return re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))


def is_there(name: str) -> bool:
    """Whether a name that looks like a path of this repository is one; a module goes without its .py."""
    if re.search(r"[\s<>*…{}=:$]", name):
        return True
    first = name.split("/")[0]
    if "/" not in name or name.startswith("/"):
        return True
    if first == "results" and not name.startswith("results/reference"):
        # Made by runs.
        return True
    if first in FOLDERS:
        return any((ROOT / f"{name.rstrip('/')}{end}").exists() for end in ("", ".py", ".yaml", ".md"))
    if first in SCENARIOS:
        return any((ROOT / "scenarios" / f"{name}{end}").exists() for end in ("", ".yaml"))
    return True


def test_a_name_that_is_not_there_is_found() -> None:
    assert not is_there("harness/nobody")
    assert not is_there("satellite/nowhere")
    assert is_there("harness/stats/intervals") and is_there("satellite/medium") and is_there("images/<name>")
    assert anchors(ROOT / "docs" / "use.md") >= {"use", "what-a-verdict-means"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_and_names_exists(page: Path) -> None:
    for target in targets(page):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        path = page.parent / file if file else page
        assert path.exists(), target
        assert not heading or heading in anchors(path), target
    gone = [name for name in names(page) if not is_there(name)]
    assert not gone, gone


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in targets(ROOT / "README.md")}
    assert {page for page in PAGES if page.parent.name in ("docs", "guides")} <= linked


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition("<!-- verdicts -->")
    # The table in between has a row a pair, as many as were run.
    assert len(before.splitlines()) + len(rest.partition("<!-- /verdicts -->")[2].splitlines()) <= 120


def test_no_text_names_a_page_that_is_not_here() -> None:
    dead_names = []
    for file in kept("*"):
        if file.suffix not in TEXTS or not file.is_file():
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            pages = re.findall(r"(?<![\w/.\"'{-])((?:[\w-]+/)*[\w-]+\.md)\b", re.sub(r"https?://\S+", "", line))
            dead_names += [f"{file.relative_to(ROOT)}: {name}" for name in pages if Path(name).name not in PAGE_NAMES]
            # Sources are cited by who wrote what, not by the numbers somebody filed them under.
            dead_names += [f"{file.relative_to(ROOT)}: {name}" for name in re.findall(r"(?i)\bseed'?s? 00\d\b", line)]
    assert not dead_names, dead_names


def test_what_comments_say_of_other_files_is_so() -> None:
    """Paths from the root, in code and scenarios; the images' own texts are part of their identities."""
    place = re.compile(rf"(?<![\w/.$}}])((?:{'|'.join(FOLDERS)})/[\w./-]*\w)")
    missing = []
    for file in (*kept("*.py"), *(ROOT / "scenarios").rglob("*.yaml"), ROOT / "Makefile", ROOT / "pyproject.toml"):
        if file != Path(__file__) and "images" not in file.relative_to(ROOT).parts:
            missing += [
                f"{file.relative_to(ROOT)}: {name}"
                for name in place.findall(file.read_text(encoding="utf-8"))
                if not is_there(name)
            ]
    assert not missing, missing


def test_every_command_on_the_pages_exists() -> None:
    known = get_command(cli).commands  # type: ignore[attr-defined]
    used = {word for page in PAGES for word in re.findall(r"^harness ([a-z]+)", blocks(page), flags=re.MULTILINE)}
    assert len(used) > 10
    assert used <= set(known)


def test_scripts_run_commands_and_options_that_exist() -> None:
    """The Makefile, workflows, and scripts of setup: what none of the fast tests runs."""
    root = get_command(cli)
    scripts = [ROOT / "Makefile", *(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "harness/setup").glob("*")]
    runs = []
    for script in scripts:
        text = script.read_text(encoding="utf-8").replace("\\\n", " ")
        runs += re.findall(r"(?:\$\(HARNESS\)|\.venv/bin/harness|\"\$harness\") ([a-z][^\n;]*)", text)
    assert len(runs) > 10
    for words in (line.split() for line in runs):
        command = root
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
        assert command is not root, words
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        used = {option for word in words for option in re.findall(r"^(?:\$\{\w+:\+)?(--[a-z-]+)", word)}
        assert used <= options, (command.name, used - options)


def test_every_make_target_on_the_pages_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    used = {word for page in PAGES for word in re.findall(r"`make ([a-z]+)`", page.read_text("utf-8"))}
    for target in used | {"run", "test"}:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target

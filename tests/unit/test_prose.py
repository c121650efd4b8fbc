"""Pages are plain English: short sentences, the subject first, no private words. Measured on running text and lists."""

from __future__ import annotations

import re

import pytest

from tests.examples import ROOT
from tests.prose import banned, measure, sentences

PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [
        *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "images").glob("*.md"), *(ROOT / "results").glob("*.md")
    ]
)  # fmt: skip


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def _problems(page: str) -> list[str]:
    text = _text(page)
    measures = measure(text)
    return [
        *([f"median {measures.median} words"] if measures.median > 18 else []),
        *([f"{measures.long:.0%} above 35 words"] if measures.long > 0.08 else []),
        *([f"{measures.late:.0%} open with Of, What, Where or Who"] if measures.late > 0.06 else []),
        *(f"'{word}'" for word in banned(text)),
    ]


def test_sentences_are_found() -> None:
    page = "# Title\n\nOne `x` two. Where it is, it stays!\n\n| a table | of words |\n\n* An item here\n  goes on. 3 more words.\n"
    assert sentences(page) == ["One Code two.", "Where it is, it stays!", "An item here goes on.", "3 more words."]
    assert sentences("```\nno sentence at all.\n```\n") == []
    measures = measure(page)
    assert (measures.sentences, measures.median, measures.longest, measures.late) == (4, 4, 5, 0.25)
    assert banned("It befell us on the ground.") == ["befell", "the ground"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_plain_english(page: str) -> None:
    assert _problems(page) == []


def test_no_sentence_of_the_readme_is_long() -> None:
    # Between markers stand generated tables and lists of names.
    text = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", _text("README.md"), flags=re.DOTALL)
    assert [sentence for sentence in sentences(text) if len(sentence.split()) > 25] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/guides/") or page == "docs/start.md"])
def test_a_task_begins_with_a_command_and_its_output(page: str) -> None:
    lines = [line for line in _text(page).splitlines() if line.strip()]
    assert lines[0].startswith("# ")
    assert lines[1] == "```console" and lines[2].startswith("$ ")
    assert not lines[3].startswith("```"), "no output"

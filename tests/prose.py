"""Sentences of a Markdown page, and their measures."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

#: Words of the project alone, which no reader can guess, and what to write instead.
BANNED = {
    r"befalls?|befell|bereft": "happens, happened",
    r"untold": "by default",
    r"parted": "differ",
    r"the ground": "the machine, the infrastructure",
    r"of today's bits|other bits": "of today's code, images or versions",
    r"whereof|thereof|wherein|therein": "of which, of it",
}
#: First words of sentences whose subject comes late.
LATE_SUBJECT = ("Of", "What", "Where", "Who", "Whose", "Whoever", "Whatever")


@dataclass(frozen=True)
class Measures:
    """Measures of the sentences of one page."""

    sentences: int
    median: float
    """Words in a sentence."""
    longest: int
    long: float
    """Share of sentences above 35 words."""
    late: float
    """Share of sentences that open with a word of `LATE_SUBJECT`."""


def sentences(markdown: str) -> list[str]:
    """The sentences of running text and of lists: without code, tables, headings, quotations and HTML."""
    text = re.sub(r"^( *)```.*?^\1```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    lines = []
    for line in text.splitlines():
        if re.match(r"\s*(\||#|>|!\[|\[!\[|<)", line):
            lines.append("")
        elif item := re.match(r"\s*(?:[*+-]|\d+\.)\s+(.*)", line):
            lines += ["", item[1]]
        else:
            lines.append(line.strip())
    parts = []
    for paragraph in "\n".join(lines).split("\n\n"):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
        plain = re.sub(r"`[^`]*`", "Code", plain).replace("*", "").replace("_", " ")
        # An abbreviation or a number has a full stop that ends nothing.
        parts += [part for part in re.split(r"(?<=[.?!:])\s+(?=[A-Z0-9“\"(])", plain) if len(part.split()) > 2]
    return parts


def measure(markdown: str) -> Measures:
    """The measures of a page. Without a sentence all are 0."""
    page_sentences = sentences(markdown)
    if not page_sentences:
        return Measures(0, 0, 0, 0, 0)
    counts = [len(sentence.split()) for sentence in page_sentences]
    late = sum(sentence.lstrip('(“"').split()[0].rstrip(",") in LATE_SUBJECT for sentence in page_sentences)
    return Measures(
        len(page_sentences),
        statistics.median(counts),
        max(counts),
        sum(count > 35 for count in counts) / len(counts),
        late / len(page_sentences),
    )


def banned(markdown: str) -> list[str]:
    """The banned words of a page."""
    text = " ".join(sentences(markdown))
    return [match[0] for pattern in BANNED for match in re.finditer(rf"\b(?:{pattern})\b", text, flags=re.IGNORECASE)]

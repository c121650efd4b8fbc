"""Studies: what one paper, or somebody's own tests, claim, beside what stored runs show.

A study is one folder here: `claims.py` has the source's figures as data, `page.py` a function from stored results to
Markdown, and the folder's `__init__.py` names both in a `STUDY`. `harness.report.studies` finds it; nothing else is
touched. A study builds on `harness` and on no other study; the checklist alone reads them all. What several of them
ask stands here, so that all pages give one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from harness.evaluation.objective_claim import OnlyClaim, Pair
from harness.outcome import Interval
from harness.report.numbers import span_text

#: A line of a page: its first figure takes this place. Readers of Markdown do not show it where nothing is drawn.
FIGURE: Final = "[figure]: #"

#: The pairs of N. Kuhn's slides (Updates on QUIC Over In-sequence Paths with Different Characteristics) that run here:
#: the one that is said to meet the objectives, and the others. The slides' h2o server is not run.
MEETING_PAIR: Pair = ("picoquic", "picoquic")
_OTHER_PAIRS: tuple[Pair, ...] = (("curl", "picoquic"),)
#: Path of the slides → the claim that only picoquic with picoquic meets its objectives.
ONLY_PICOQUIC = {
    "medium": OnlyClaim(("satellite/medium", "in-sequence/quic-medium"), MEETING_PAIR, _OTHER_PAIRS),
    "large-lossy": OnlyClaim(("satellite/large-lossy", "in-sequence/quic-large-lossy"), MEETING_PAIR, _OTHER_PAIRS),
}


def list_items(sentences: Iterable[str]) -> list[str]:
    """The lines of a list, an item for each sentence that is not empty, and an empty line; nothing without items."""
    items = [f"* {sentence}" for sentence in sentences if sentence]
    return [*items, ""] if items else []


def findings(sentences: Iterable[str]) -> list[str]:
    """The lines that a page of results opens with: what its runs show, an item each."""
    return list_items(sentences) or ["No runs are stored.", ""]


def extremes_text(
    spans: Mapping[str, Interval], pattern: str = "{} ({})", text: Callable[[Interval], str] = span_text
) -> str:
    """The least and the largest of medians, each with its name: '2 (a) to 3 (b)'; one where all are alike."""
    ends = (choose(spans, key=lambda name: spans[name].median) for choose in (min, max))
    return " to ".join(dict.fromkeys(pattern.format(text(spans[name]), name) for name in ends))


def share_text(span: Interval) -> str:
    """A share in per cent, with its interval where the ends are displayed differently: '5% [4%, 6%]'."""
    median, low, high = (f"{share:.0%}" for share in (span.median, span.low, span.high))
    return median if span.n == 1 or low == high else f"{median} [{low}, {high}]"


def per(span: Interval, base: float) -> Interval:
    """An interval in units of a number above 0."""
    ends = {name: getattr(span, name) / base for name in ("median", "low", "high")}
    return span.model_copy(update=ends)

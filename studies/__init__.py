"""Studies: what one paper, or somebody's own tests, claim, beside what stored runs show.

A study is one folder here: `claims.py` has the source's figures as data, `page.py` a function from stored results to
Markdown, and the folder's `__init__.py` names both in a `STUDY`. `harness.report.studies` finds it; nothing else is
touched. A study builds on `harness` and on no other study; the checklist alone reads them all. What several of them
ask stands here, so that all pages give one answer.
"""

from __future__ import annotations

from harness.evaluation.objective_claim import OnlyClaim, Pair

#: The pairs of N. Kuhn's slides (Updates on QUIC Over In-sequence Paths with Different Characteristics) that run here:
#: the one that is said to meet the objectives, and the others. The slides' h2o server is not run.
MEETING_PAIR: Pair = ("picoquic", "picoquic")
_OTHER_PAIRS: tuple[Pair, ...] = (("curl", "picoquic"),)
#: Path of the slides → the claim that only picoquic with picoquic meets its objectives.
ONLY_PICOQUIC = {
    "medium": OnlyClaim(("satellite/medium", "in-sequence/quic-medium"), MEETING_PAIR, _OTHER_PAIRS),
    "large-lossy": OnlyClaim(("satellite/large-lossy", "in-sequence/quic-large-lossy"), MEETING_PAIR, _OTHER_PAIRS),
}

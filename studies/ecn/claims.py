"""What RFC 9000 asks of a sender that uses ECN, and the scenarios that show what stacks do."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "RFC 9000 §13.4 (ECN in QUIC and its validation), RFC 9002 §7.1 (what a mark says)"
STATED = (
    "A sender that marks its packets has to check that its peer counts the marks back.",
    "It has to stop if the counts do not fit (§13.4.2). A packet that was marked on the way is a sign of congestion.",
)
FOLDER = "ecn-paths"


@dataclass(frozen=True)
class Case:
    """One kind of path."""

    scenario: str
    title: str
    """Above a column."""
    words: str
    """What the path does, for the page."""


MARKED = Case(f"{FOLDER}/marked", "undisturbed", "a queue marks instead of dropping, and nobody changes ECN")
UNMARKED = Case(f"{FOLDER}/unmarked", "ECN off", "the same queue drops, whatever the ECN field says")
BLEACHED = Case(f"{FOLDER}/bleached", "cleared", "a node clears the field, so that the counts do not rise")
REMARKED = Case(f"{FOLDER}/remarked", "ECT(1) to ECT(0)", "a node makes ECT(0) of ECT(1), which then is miscounted")
ALL_MARKED = Case(f"{FOLDER}/all-marked", "all CE", "a node marks every packet, which fits the counts; 3 MB")
DROPPED = Case(f"{FOLDER}/dropped", "dropped", "a node drops every packet that is ECN-capable")
CASES = (MARKED, UNMARKED, BLEACHED, REMARKED, ALL_MARKED, DROPPED)
#: The paths on which what a sender does with its marks is looked at, in the order of columns.
MARKINGS = (MARKED, BLEACHED, REMARKED, ALL_MARKED, DROPPED)

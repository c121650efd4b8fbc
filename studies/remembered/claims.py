"""What is expected of a second connection, and where Careful Resume forbids the jump or has to take it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SOURCE = "RFC 9959, Convergence of Congestion Control from Retained State (Careful Resume)"

#: What Careful Resume does in a second connection, by its phases.
Course = Literal["jumps", "jumps and retreats", "does not jump"]

#: Scenarios in which nothing changes between the connections, and what they are called.
ALIKE = {
    "remembered/same-10-10mb": "10/2 Mbit/s, 10 MB",
    "remembered/same-50-10mb": "50/10 Mbit/s, 10 MB",
    "remembered/same-50-100mb": "50/10 Mbit/s, 100 MB",
    "remembered/congested-10mb": "50/0.5 Mbit/s, 10 MB",
    "remembered/same-250-10mb": "250/3 Mbit/s, 10 MB",
    "remembered/same-250-100mb": "250/3 Mbit/s, 100 MB",
    "remembered/lossy-2mb": "250/3 Mbit/s, 1 % loss, 2 MB",
}
#: That of the figure.
SHOWN = "remembered/same-50-10mb"


@dataclass(frozen=True)
class Change:
    """A scenario in which something changes between the connections."""

    scenario: str
    title: str
    expected: Course
    why: str
    """By the RFC."""


CHANGED = (
    Change(
        "remembered/rate-falls",
        "50, then 10 Mbit/s",
        "jumps and retreats",
        "the round trip is the same, and nothing tells before the jump's own losses do",
    ),
    Change(
        "remembered/rtt-falls",
        "650, then 320 ms",
        "does not jump",
        "a round trip of no more than half the saved one is another path's (rtt_not_validated)",
    ),
    Change(
        "remembered/address-changes",
        "another address of the client",
        "does not jump",
        "the saved parameters are of another remote endpoint",
    ),
    Change(
        "remembered/capacity-taken",
        "another flow has the capacity",
        "jumps and retreats",
        "the queue is the other flow's, and what the jump adds to it is lost",
    ),
)
#: Where the other flow's loss is measured, and its number.
TAKEN, OTHER = "remembered/capacity-taken", 1

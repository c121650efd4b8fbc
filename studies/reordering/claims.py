"""What the RFCs say about packets that overtake others, and the scenarios that show what stacks do."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "RFC 9002 §6.1 (the packet threshold and the time threshold) and RFC 4737 (reordering)"
STATED = (
    "A sender should not take a packet for lost before three later packets are acknowledged (RFC 9002 §6.1.1). It may "
    "raise that threshold where the network reorders more."
)
#: How long the scenarios let a download last.
LIMIT = "300 s"
#: The same path without what reorders packets.
IN_ORDER = "reordering/in-order"


@dataclass(frozen=True)
class Case:
    """One kind of reordering."""

    title: str
    scenario: str
    words: str
    """What the path does, for the page."""


NEIGHBOURS = Case("neighbours", "reordering/neighbours", "every second packet changes places with the one before it")
FAR_AHEAD = Case("1 % far ahead", "reordering/far-ahead", "one packet of a hundred leaves 10 ms early")
JITTER = Case("±5 ms", "reordering/free-jitter", "each packet has a delay of its own, within ±5 ms")
CASES = (NEIGHBOURS, FAR_AHEAD, JITTER)

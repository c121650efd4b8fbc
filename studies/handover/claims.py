"""What Kim and Koh report of their rule, and the cases that are tried here."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "S.-Y. Kim, S.-J. Koh, Adaptive Control of Congestion Window in QUIC"
RULE = "cwnd_new = max((RTT_old − RTT_new) / RTT_old · cwnd_old, cwnd_init)"
#: Share of the window that their rule kept, and how many times the throughput of the first 100 ms was ("nearly
#: doubled"), on their paths; both are means of ten runs, without an interval.
KEPT, TIMES = 0.86, 2.0
#: Bytes of the initial window: 32 packets, as in Chromium.
INITIAL = 32 * 1200
#: Whose server has the rule, and whose has it anew, on the first's cases.
FIRST, SECOND = "quinn", "s2n-quic"
#: A share so far from theirs is another, and from so much on a gain is nearly theirs.
NEAR, NEARLY = 0.05, 1.8

#: Value of migration_cwnd → what it is.
RULES = {
    "reset": "starts again (RFC 9000 §9.4; the document's cwnd-initial)",
    "adaptive": "the document's rule (its cwnd-migration)",
    "keep": "keeps all of it",
}


@dataclass(frozen=True)
class Case:
    """One scenario of the study."""

    scenario: str
    title: str
    expected: str
    """What the document says of it, or what follows from its rule."""


DOCUMENT = Case("handover/5g-campus", "5G to campus, the document's case", "86 % kept, nearly twice the throughput")
OTHERS = (
    Case("handover/5g-campus-shallow", "5G to campus, with a queue of one BDP there", "not tried"),
    Case("handover/campus-5g", "campus to 5G", "not tried; the rule falls back to the initial window"),
    Case("handover/slower", "the same round trip, a tenth of the rate", "not tried; the rule starts again"),
    SATELLITE := Case("handover/geo-5g", "satellite to 5G", "not tried; the rule keeps nearly all"),
    Case("handover/5g-geo", "5G to satellite", "not tried; the rule starts again"),
)
#: Those that the second implementation is tried on: where the rule keeps a share.
AGAIN = (DOCUMENT, SATELLITE)

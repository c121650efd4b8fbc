"""Whose a failure is: what looks like a bug of an implementation, and what is our endpoints' doing.

Data, one entry a finding, with what it rests on; pages and tables join it to the entries of a matrix. What is not here
has not been looked into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.interop.matrix import Entry, Pair
from harness.parameters import Role

Whose = Literal["implementation", "endpoint"]


@dataclass(frozen=True)
class Blame:
    """One finding: which failures it explains, and whose they are."""

    role: Role
    implementation: str
    """Who is to blame: the stack, or our endpoint over it."""
    reason: str
    """The check that fails, or the reason code of a run that broke off (timed_out_client …)."""
    whose: Whose
    why: str
    """What goes wrong, and what that is known from, in a sentence."""
    cases: tuple[str, ...] = ()
    """Of which test cases; all without."""
    says: str = ""
    """What the failure's sentence has in it, where the reason does not tell it from others."""

    def explains(self, pair: Pair, case: str, entry: Entry) -> bool:
        """Whether an entry of a matrix is of this kind."""
        return (
            pair[0 if self.role == "client" else 1] == self.implementation
            and self.reason == entry.reason
            and (not self.cases or case in self.cases)
            and self.says in entry.sentence
        )


KNOWN: tuple[Blame, ...] = (
    Blame(
        "server", "quic-go", "amplification", "implementation",
        "It asks whether the limit is reached before it sends a datagram, and not whether this one would pass it: the "
        "last one goes beyond three times what came (RFC 9000 §8.1). The runner allows four times.",
    ),
    Blame(
        "server", "quinn", "amplification", "implementation",
        "A datagram is sent that goes beyond three times what came (RFC 9000 §8.1). The runner allows four times.",
    ),
    Blame(
        "server", "s2n-quic", "amplification", "implementation",
        "Datagrams are sent that go beyond three times what came (RFC 9000 §8.1). The runner allows four times.",
    ),
    Blame(
        "client", "quinn", "early_data", "endpoint",
        "All requests are early data, and what is more than was asked in 1-RTT packets is padding: five probes of the "
        "path's MTU (RFC 9000 §14.3), which our client leaves on. The runner counts them, too.",
        says="1-RTT packets",
    ),
    Blame(
        "client", "picoquic", "rebound", "implementation",
        "A PATH_CHALLENGE of the server's stays unanswered (RFC 9000 §8.2.2) where the address changes again.",
        cases=("rebind-addr",),
    ),
)  # fmt: skip


def blamed(pair: Pair, case: str, entry: Entry) -> Blame | None:
    """The finding that an entry is of; None of one that nobody has looked into."""
    return next((one for one in KNOWN if one.explains(pair, case, entry)), None)

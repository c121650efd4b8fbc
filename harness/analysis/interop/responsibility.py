"""Who is responsible for a failure: findings that look like a bug of an implementation, or that our endpoints cause.

Data, one entry per finding, with its evidence; pages and tables join it to the entries of a matrix. Failures without an
entry have not been investigated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.analysis.interop.matrix import Pair, TestcaseResult
from harness.scenario.parameters import Role

Responsibility = Literal["implementation", "endpoint"]


@dataclass(frozen=True)
class Blame:
    """One finding: which failures it explains, and who is responsible."""

    role: Role
    implementation: str
    """The responsible stack, or the stack under our endpoint."""
    reason: str
    """The check that fails, or the reason code of a run that broke off (timed_out_client …); if empty, any reason in
    the test cases that are named.
    """
    whose: Responsibility
    why: str
    """What goes wrong, and the evidence for it, in a sentence."""
    cases: tuple[str, ...] = ()
    """The affected test cases; if empty, all."""
    says: str = ""
    """A part of the failure's sentence, if the reason alone does not identify it."""
    peers: tuple[str, ...] = ()
    """The implementations at the other end; if empty, all."""

    def explains(self, pair: Pair, case: str, entry: TestcaseResult) -> bool:
        """Whether the finding explains an entry of a matrix."""
        return (
            pair[0 if self.role == "client" else 1] == self.implementation
            and (self.reason == entry.reason if self.reason else entry.word != "unsupported" or entry.relabelled)
            and (not self.cases or case in self.cases)
            and self.says in entry.sentence
            and (not self.peers or pair[1 if self.role == "client" else 0] in self.peers)
        )


#: A NAT gives the client another port, or address, in the middle of a transfer.
_REBOUND = ("rebind-port", "rebind-addr")

#: Clients that were told of a preferred address, and went on where they were.
_STAYING = ("go-x-net", "msquic", "quic-go", "quiche", "quinn", "s2n-quic", "tquic")

BLAMES: tuple[Blame, ...] = (
    *(
        Blame(
            "client",
            name,
            "migrated",
            "implementation",
            "It does not go to the server's preferred address, which a client should do (RFC 9000 §9.6.1): its packets "
            "use a single path to the end.",
            says="a single path",
        )
        for name in _STAYING
    ),
    Blame(
        "client",
        "s2n-quic",
        "",
        "endpoint",
        "The case's chain has nine certificates. In these runs our client left s2n-tls's limit of a chain's depth as "
        'it is, and ended with "The maximum certificate chain depth has been exceeded". It takes the chain since then.',
        cases=("amplificationlimit",),
    ),
    Blame(
        "server",
        "quic-go",
        "amplification",
        "implementation",
        "It asks whether the limit is reached before it sends a datagram, and not whether this one would pass it: the "
        "last one goes beyond three times what came (RFC 9000 §8.1). The runner allows four times.",
    ),
    Blame(
        "server",
        "quinn",
        "amplification",
        "implementation",
        "A datagram is sent that goes beyond three times what came (RFC 9000 §8.1). The runner allows four times.",
    ),
    Blame(
        "server",
        "s2n-quic",
        "amplification",
        "implementation",
        "Datagrams are sent that go beyond three times what came (RFC 9000 §8.1). The runner allows four times.",
    ),
    Blame(
        "client",
        "quinn",
        "early_data",
        "endpoint",
        "All requests are early data, and what is more than was asked in 1-RTT packets is padding: five probes of the "
        "path's MTU (RFC 9000 §14.3), which our client leaves on. The runner counts them, too.",
        says="1-RTT packets",
    ),
    Blame(
        "client",
        "picoquic",
        "rebound",
        "implementation",
        "A PATH_CHALLENGE of the server's stays unanswered (RFC 9000 §8.2.2) where the address changes again.",
        cases=("rebind-addr",),
    ),
    Blame(
        "server",
        "quiche",
        "",
        "implementation",
        "What is in flight when the client's address changes is not taken for lost. An ACK that names packets of the "
        "new path alone ends before the old path's loss detection (on_ack_received), and probe timeouts repeat its two "
        "oldest packets. With that mended in the crate (0.30.0; its issue 2452), four clients passed.",
        cases=_REBOUND,
    ),
    Blame(
        "server",
        "haproxy",
        "",
        "implementation",
        "It announces disable_active_migration and drops what comes from another address, as RFC 9000 §9 lets it, also "
        "where a NAT changed that: path validation is still to be written (3.0; its issue 3329).",
        cases=_REBOUND,
    ),
    Blame(
        "server",
        "go-x-net",
        "",
        "implementation",
        "The package announces disable_active_migration and never sends to another address of the client's, as "
        "RFC 9000 §9 lets it, also where a NAT changed that.",
        cases=_REBOUND,
    ),
    Blame(
        "client",
        "tquic",
        "",
        "implementation",
        "The end of the stream came in a frame whose bytes were there already: its first copy had no FIN. The client "
        "acknowledges the frame, but does not tell our endpoint that the stream has ended.",
        cases=("rebind-port",),
        says="did not end",
    ),
    Blame(
        "server",
        "msquic",
        "",
        "implementation",
        "It acknowledges the first half of a ClientHello from the connection ID that the client chose, and goes on "
        "from another one of its own. A client keeps to the first ID (RFC 9000 §7.2): quic-go drops all that follows, "
        "and quiche and go-x-net close with TRANSPORT_PARAMETER_ERROR. Where handshakes fail at random, the one that "
        "ends the run is always of this kind. Half a ClientHello is forgotten after 10 s: in the case A go-x-net "
        "repeats the other half too late, after 10.8 s.",
        cases=("amplificationlimit", "handshakeloss", "handshakecorruption"),
        peers=("go-x-net", "quic-go", "quiche"),
    ),
    Blame(
        "server",
        "msquic",
        "",
        "implementation",
        "It sends one PATH_CHALLENGE to a new address of the client's. If that is lost in the full queue, it asks the "
        "old address alone again, keeps to three times what comes, and falls silent (picoquic, quiche). It follows "
        "two moves of a client whose challenges arrive. From the third on it sends to the address before, until it "
        "forgets the connection and answers with a stateless reset (quic-go, s2n-quic).",
        cases=_REBOUND,
    ),
    Blame(
        "server",
        "nginx",
        "",
        "implementation",
        "It sends nothing to another address of a client without connection IDs, and probes the old address until the "
        "client gives up. A client of msquic's has none.",
        cases=_REBOUND,
        says="a single ",
    ),
    Blame(
        "server",
        "nginx",
        "",
        "implementation",
        "It sends two PATH_CHALLENGEs to a new address at the same instant, and the full queue drops both. One and "
        "three seconds later it asks the old address alone again. It keeps to three times what comes from an address "
        "that is not validated. If the address changes again with nothing in flight from the client, neither end "
        "sends any more.",
        cases=_REBOUND,
    ),
    Blame(
        "server",
        "tquic",
        "",
        "implementation",
        "It does not follow a client whose address changes without a probe: in the crate's source (1.6.0) that is "
        "still to be done.",
        cases=_REBOUND,
    ),
)


def find_blame(pair: Pair, case: str, entry: TestcaseResult) -> Blame | None:
    """The finding that explains an entry; None if nobody has investigated it."""
    return next((blame for blame in BLAMES if blame.explains(pair, case, entry)), None)

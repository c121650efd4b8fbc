"""Who is responsible for a failure: findings that look like a bug of an implementation, or that our endpoints cause.

Data, one entry per finding, with its evidence; pages and tables join it to the entries of a matrix. Failures without an
entry have not been investigated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.analysis.interop.matrix import Pair, TestcaseResult
from harness.scenario.parameters import ROLES, Role

#: `case`: nobody does anything wrong, and the test case cannot ask what it asks.
Responsibility = Literal["implementation", "endpoint", "case"]


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
_STAYING = (
    "dquic",
    "go-x-net",
    "kwik",
    "msquic",
    "noq",
    "qh3",
    "quic-go",
    "quiche",
    "quinn",
    "s2n-quic",
    "tquic",
)

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
    *(
        Blame(
            "client",
            name,
            "",
            "case",
            "Its ClientHello takes two datagrams, and the case drops the second. The server acknowledges the first. "
            "So the client's next Initial has a connection ID of the server's choice, which validates the address (RFC "
            "9000 §8.1), before the server can send its certificate.",
            cases=("amplificationlimit",),
            says="was not exercised",
        )
        for name in ("go-x-net", "qh3", "quic-go", "quiche")
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
    *(
        Blame(
            "server",
            name,
            "amplification",
            "implementation",
            "A datagram is sent that goes beyond three times what came (RFC 9000 §8.1). The runner allows four times.",
        )
        for name in ("noq", "quinn")
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
        "quinn",
        "",
        "implementation",
        "It sends one PATH_CHALLENGE to a new address, which the full queue drops. Three seconds later it goes back to "
        "the old address (RFC 9000 §9.3.2), from where the NAT lets nothing through. It does not repeat the challenge "
        "(§8.2.1), and a client that only receives has nothing in flight.",
        cases=_REBOUND,
        says="a PATH_CHALLENGE that was lost on its way",
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
    *(
        Blame(
            "server",
            "dquic",
            reason,
            "implementation",
            "A short header whose spin bit is set (RFC 9000 §17.4) is a forwarded datagram to the crate, which uses "
            "that bit for an envelope of its own (be_datagram_type of qbase 0.6.4), and is dropped. noq's and quinn's "
            "clients set it from their first 1-RTT packet on, picoquic's from its second: the server takes none.",
            peers=("noq", "picoquic", "quinn"),
        )
        for reason in ("timed_out_client", "key_update")
    ),
    Blame(
        "server",
        "dquic",
        "",
        "implementation",
        "It takes a new address of the client's for a second path, and goes on sending over the old one (RFC 9000 §9.3 "
        "asks to send to the new address from then on), from where the NAT lets nothing through. In the end it gives "
        "all paths up.",
        cases=_REBOUND,
    ),
    Blame(
        "server",
        "kwik",
        "",
        "implementation",
        "It announces disable_active_migration and drops what comes from another address (ClientAddressFilter of "
        "0.10.8), as RFC 9000 §9 lets it, also where a NAT changed that.",
        cases=_REBOUND,
    ),
    Blame(
        "client",
        "kwik",
        "",
        "implementation",
        "It gives the server no connection ID but its first, where RFC 9000 §5.1.1 asks for enough unused ones. These "
        "servers send nothing to another address of such a client, neither a PATH_CHALLENGE nor data, and repeat "
        "what they had sent to the old one.",
        cases=_REBOUND,
        peers=("picoquic", "quic-go"),
    ),
    Blame(
        "server",
        "qh3",
        "",
        "implementation",
        "It goes on sending to an address that the client had before, along with the new one (RFC 9000 §9.3). What "
        "comes on the new one lies behind a hole of the stream that is never filled, a packet per round trip. The NAT "
        "changes with nothing on its way, and a client that only receives has nothing to send.",
        cases=("rebind-addr",),
        peers=("dquic",),
    ),
    Blame(
        "client",
        "picoquic",
        "timed_out_client",
        "implementation",
        "It acknowledges the server's first packet of version 2, which has the ServerHello, but its qlog has no frame "
        "of it, and no keys come of it. A packet is not acknowledged before its frames are processed (RFC 9000 "
        "§13.1): kwik has nothing to repeat.",
        cases=("v2",),
        peers=("kwik",),
    ),
    Blame(
        "client",
        "dquic",
        "",
        "implementation",
        "It acknowledges some 26 packets at once, 35 ms after the first of them, where it announces 25 ms (RFC 9000 "
        "§13.2.1), so that the server sends in bursts with pauses between. The NAT changes in such a pause: nothing "
        "comes to the client any more, and it has nothing to send that would show the server its new address.",
        cases=("rebind-port",),
        peers=("qh3",),
    ),
    *(
        Blame(
            "server",
            "qh3",
            reason,
            "implementation",
            "It sends its ServerHello in datagrams of less than 1200 bytes (RFC 9000 §14.1), which picoquic's client "
            "drops. That client fills its datagrams up behind the packet, and qh3 counts the packets alone as what "
            "came: three times 297 bytes are 891 (§8.1 counts datagrams).",
            cases=cases,
            peers=("picoquic",),
        )
        for reason, cases in (
            ("timed_out_client", ()),
            ("", ("handshakeloss", "handshakecorruption")),
        )
    ),
    Blame(
        "client",
        "dquic",
        "",
        "implementation",
        "It drops the server's first datagram, which has 891 bytes: qh3 counts 297 of the client's first 1200 bytes, "
        "and sends three times as much. The case drops the client's next six datagrams, after which dquic gives its "
        "only path up, 8.6 s after the first.",
        cases=("amplificationlimit",),
        peers=("qh3",),
    ),
    *(
        Blame(
            role,
            "dquic",
            "",
            "implementation",
            "It ends the connection over the reserved bits of a packet that was damaged on its way. It looks at them "
            "once header protection is off, and not after the packet is authenticated, as RFC 9000 §17.3.1 asks "
            "(remove_protection_of_short_packet of qbase 0.6.4).",
            cases=("handshakecorruption", "transfercorruption"),
            says=says,
        )
        for role in ROLES
        # As qlogs call the error: its own, most others', quic-go's.
        for says in ("ProtocolViolation", "PROTOCOL_VIOLATION", "protocol_violation")
    ),
    Blame(
        "client",
        "noq",
        "early_data",
        "implementation",
        "It paces early data by the initial round-trip time of 333 ms: of its window of ten packets one may leave in "
        "27 ms, and bursts are at most 10 ms' worth (MAX_BURST_INTERVAL of noq-proto 1.4.0). The handshake ends at "
        "32 ms, so that nearly all requests, and two probes of the path's MTU, leave in 1-RTT packets.",
        says="1-RTT packets",
    ),
    Blame(
        "client",
        "qh3",
        "",
        "implementation",
        "The library takes any number of requests before the handshake. When the server's parameters come, it opens a "
        'stream for each and raises "Bidirectional stream limit 100 exceeded" out of the call that takes datagrams, '
        "in place of waiting for MAX_STREAMS (RFC 9000 §4.6). It gets no further.",
        cases=("multiplexing",),
    ),
    Blame(
        "server",
        "kwik",
        "timed_out_client",
        "endpoint",
        "Our server reads a request's line and no further. To kwik a stream is done once its end was read: it grants "
        "no other, and the client waits for MAX_STREAMS after its first 100.",
        cases=("multiplexing",),
    ),
    Blame(
        "server",
        "quic-go",
        "timed_out_client",
        "endpoint",
        "Our server reads a request's line and no further. kwik's client sends the end of a stream in a packet of its "
        "own. Where that comes after the line was read, the stream never ends to quic-go, and counts against the limit "
        "of 100: after 154 files there is none left.",
        cases=("multiplexing",),
        peers=("kwik",),
    ),
    Blame(
        "server",
        "qh3",
        "",
        "endpoint",
        "Our server takes the end of a stream that comes after the line, as kwik's client sends it, for a second "
        "request. It names no file, and the stream is reset in the middle of the first one's answer.",
        cases=("transfer", "chacha20", "multiplexing", "blackhole", "keyupdate", "transferloss", "transfercorruption"),
        peers=("kwik",),
    ),
    Blame(
        "server",
        "qh3",
        "crashed_client",
        "implementation",
        "Its packets go to the connection ID that the client made up for it, and not to the client's own (RFC 9000 "
        "§7.2), if that is empty as Chromium's is. Chromium drops them all.",
        peers=("chromium",),
    ),
    Blame(
        "server",
        "kwik",
        "",
        "implementation",
        "It acknowledges no Initial packet until it has a whole ClientHello (RFC 9000 §13.2.1), and forgets a client "
        "whose next packet has less than 700 bytes of it (ServerConnectionCandidate of 0.10.8). qh3's client has two "
        "packets of it: if the second is lost, it repeats the first and sends a PING, for which it is forgotten.",
        cases=("amplificationlimit", "handshakeloss", "handshakecorruption"),
        peers=("qh3",),
    ),
    Blame(
        "server",
        "kwik",
        "",
        "implementation",
        "It ends the connection with H3_FRAME_UNEXPECTED over frames of reserved types before a request's HEADERS. "
        "quiche's client sends them, and they say nothing (RFC 9114 §7.2.8; flupke 0.9.4).",
        cases=("http3",),
        peers=("quiche",),
    ),
    Blame(
        "client",
        "quiche",
        "",
        "implementation",
        "noq's server acknowledges later packets than the one with the client's NEW_CONNECTION_ID frames, and retires "
        "some of these IDs in the same packet. quiche wants to repeat those frames, no longer has the IDs, and ends "
        "the connection with INTERNAL_ERROR (get_new_connection_id_frame_for of 0.30.0).",
        cases=("handshakeloss", "handshakecorruption"),
        says="INTERNAL_ERROR",
        peers=("noq",),
    ),
    Blame(
        "server",
        "qh3",
        "",
        "implementation",
        "It ends a connection if the first Initial packet that comes has no CRYPTO frame (RFC 9000 §17.2.2 permits a "
        "PING alone). qh3's client sends such a PING beside the half of its ClientHello that it repeats.",
        cases=("handshakeloss", "handshakecorruption"),
        says="packet contains no CRYPTO frame",
    ),
    Blame(
        "server",
        "kwik",
        "",
        "implementation",
        "It remembers the source connection ID of a client's first Initial packet before it has authenticated it. "
        "Here that was damaged: for half a minute what the client repeats is dropped, since it has another ID "
        "(ClientInitialScidFilter of 0.10.8), and what came first after that was damaged, or half a ClientHello.",
        cases=("handshakecorruption",),
        peers=("noq", "quiche"),
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

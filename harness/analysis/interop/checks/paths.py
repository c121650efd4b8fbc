"""Where datagrams come from and go to: amplification, ECN, IP versions, addresses that change."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.interop.evidence import Evidence
from harness.analysis.interop.registry import Failed, Found, Passed, Unknown, check
from harness.capture.capture import CE, NOT_ECT
from harness.capture.datagrams import Address, Datagram
from harness.capture.quic.dissector import Packet, split
from harness.capture.quic.frames import ACK_ECN
from harness.capture.quic.invariants import Form
from harness.scenario.parameters import ROLES, Role, other

#: A connection ID that nobody guesses (RFC 9000 §8.1): bytes.
_ENTROPY = 8


@check(
    "amplification",
    takes="a count",
    title="Until the client's address is validated the server never sends more than so many times what it received.",
    source="RFC 9000 §8.1",
    needs_keys=False,
)
def amplification(evidence: Evidence, asked: int) -> Found:
    """At the server's side, datagram by datagram.

    The address is validated by a Handshake packet, by the token of a Retry, or by a connection ID of at least 64 bits
    that the server chose.
    """
    chosen: set[bytes] = set()
    tokens: set[bytes] = set()
    received = sent = 0
    worst: tuple[float, int, int] = (0.0, 0, 0)
    for datagram, packet in _at_server(evidence):
        if packet is None:
            if _validates(datagram, chosen, tokens):
                ratio, least, most = worst
                return Passed(f"at most {ratio:.2f} times what had come ({most} of {least} B), asked {asked}")
            received += datagram.size
            continue
        if packet.header.source_id and len(packet.header.source_id) >= _ENTROPY:
            chosen.add(packet.header.source_id)
        if packet.form is Form.RETRY:
            tokens.add(packet.header.token)
        if packet.header.data == datagram.payload[: len(packet.header.data)]:
            # The first packet of its datagram stands for it.
            sent += datagram.size
            if sent > asked * received:
                return Failed(f"{sent} B sent, and {received} B had come: more than {asked} times as much", packet)
            worst = max(worst, (sent / max(received, 1), received, sent))
    return Failed("the client's address was never validated")


def _at_server(evidence: Evidence) -> Iterator[tuple[Datagram, Packet | None]]:
    """What came to the server, and what it sent, in order of time; a packet for what it sent."""
    came: list[tuple[int, Datagram, Packet | None]] = [(one.t_ns, one, None) for one in evidence.arrived["client"]]
    left = [(one.t_ns, one.datagram, one) for one in evidence.sent if one.sender == "server"]
    for _, datagram, packet in sorted([*came, *left], key=lambda item: item[0]):
        yield datagram, packet


def _validates(datagram: Datagram, chosen: set[bytes], tokens: set[bytes]) -> bool:
    return any(
        header.form in (Form.HANDSHAKE, Form.SHORT)
        or (header.form is Form.INITIAL and (header.destination_id in chosen or header.token in tokens - {b""}))
        for header in split(datagram.payload)
    )


@check(
    "ecn",
    takes="true",
    title="Both endpoints mark their datagrams as ECN-capable, none with CE, and both count the other's marks back.",
    source="RFC 9000 §13.4",
)
def ecn(evidence: Evidence, asked: bool) -> Found:
    """Validation may end marking (§13.4.2.2): some marked datagrams are enough, as for the interop runner."""
    for role in ROLES:
        datagrams = {packet.datagram.number: packet for packet in evidence.sent if packet.sender == role}
        marked = [one for one in datagrams.values() if one.datagram.ecn != NOT_ECT]
        if not marked:
            return Failed(f"the {role} marked no datagram", next(iter(datagrams.values()), None))
        wrong = next((one for one in marked if one.datagram.ecn == CE), None)
        if wrong is not None:
            return Failed(f"a datagram of the {role} left with CE", wrong)
    for role in ROLES:
        frames = [one.frames for one in evidence.of(role, Form.INITIAL, Form.HANDSHAKE, Form.SHORT)]
        if not any(one is not None and ACK_ECN in one.types for one in frames):
            if not any(one is not None for one in frames):
                return Unknown(f"no packet of the {role} could be decrypted")
            return Failed(f"no ACK of the {role} counts the {other(role)}'s marks")
    return Passed("both marked their datagrams, and counted the other's marks")


@check(
    "ip",
    takes="a word",
    words=("4", "6"),
    title="All datagrams are of this IP version.",
    source="RFC 9000 §5",
    needs_keys=False,
)
def ip(evidence: Evidence, asked: str) -> Found:
    """Of both senders."""
    wrong = next((one for one in evidence.sent if one.datagram.ip != int(asked)), None)
    return Passed(f"all over IPv{asked}") if wrong is None else Failed(f"over IPv{wrong.datagram.ip}", wrong)


@check(
    "rebound",
    takes="a word",
    words=("port", "address"),
    title="The server sees another port, or address, of the client, challenges each new path with its first packet "
    "there, and is answered.",
    source="RFC 9000 §9.3, §8.2",
)
def rebound(evidence: Evidence, asked: str) -> Found:
    """By what the server sends to: paths are those it uses (§9)."""
    paths = _paths(evidence, "server")
    if asked == "address" and len({client[0] for client, _ in paths}) < 2:
        return Failed("the server sent to a single address of the client")
    return _validated(evidence, paths, "server")


@check(
    "migrated",
    takes="true",
    title="The client goes on at an address of the server that it was told, with another connection ID, and the path "
    "is validated.",
    source="RFC 9000 §9.5, §9.6",
)
def migrated(evidence: Evidence, asked: bool) -> Found:
    """By what the client sends from and to."""
    paths = _paths(evidence, "client")
    found = _validated(evidence, paths, "client")
    if not isinstance(found, Passed):
        return found
    before = next(packet for packet in evidence.of("client", Form.SHORT))
    for packet in list(paths.values())[1:]:
        if packet.header.destination_id == before.header.destination_id:
            return Failed("the client's first packet on the new path has the old connection ID", packet)
    return Passed(f"{len(paths)} paths, each with a connection ID of its own")


def _paths(evidence: Evidence, sender: Role) -> dict[tuple[Address, Address], Packet]:
    """(client's end, server's end) of each path that a sender uses with 1-RTT packets → its first packet there."""
    found: dict[tuple[Address, Address], Packet] = {}
    for packet in evidence.of(sender, Form.INITIAL, Form.HANDSHAKE, Form.SHORT):
        ends = (packet.datagram.source, packet.datagram.destination)
        found.setdefault(ends if sender == "client" else ends[::-1], packet)
    return found


def _validated(evidence: Evidence, paths: dict[tuple[Address, Address], Packet], sender: Role) -> Found:
    """Whether each further path begins with a PATH_CHALLENGE of `sender`, and all of these are answered."""
    if len(paths) < 2:
        return Failed(f"the {sender} used a single path")
    challenges: dict[bytes, Packet] = {}
    for packet in list(paths.values())[1:]:
        frames = packet.frames
        if frames is None:
            return Unknown(f"the {sender}'s first packet on a new path could not be decrypted")
        if not frames.challenges:
            return Failed(f"the {sender}'s first packet on a new path has no PATH_CHALLENGE", packet)
        challenges |= dict.fromkeys(frames.challenges, packet)
    answers = {
        one for packet in evidence.of(other(sender), Form.SHORT) if packet.frames for one in packet.frames.responses
    }
    for challenge, packet in challenges.items():
        if challenge not in answers:
            said = "that was lost on its way" if evidence.lost(packet) else "that nobody answered"
            return Failed(f"a PATH_CHALLENGE {said}", packet)
    return Passed(f"{len(paths)} paths, {len(challenges)} challenges answered")

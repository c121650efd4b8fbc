"""How connections begin: how many, with which version, and whether the server asks for proof of address first."""

from __future__ import annotations

from harness.analysis.interop.evidence import Evidence
from harness.analysis.interop.registry import Failed, Found, Passed, Unknown, check
from harness.capture.quic.dissector import CLIENT_HELLO, Packet
from harness.capture.quic.invariants import VERSION_2, Form
from harness.formatting import counted

_VERSION_1 = 1


def _named(version: int) -> str:
    return {_VERSION_1: "1", VERSION_2: "2"}.get(version, f"{version:#010x}")


@check(
    "handshakes",
    takes="a count",
    title="So many handshakes: the server's Initial packets with CRYPTO data have so many source connection IDs.",
    source="RFC 9000 §7.2",
    needs_keys=False,
)
def handshakes(evidence: Evidence, asked: int) -> Found:
    """A server keeps the ID of its first Initial packet for a connection's whole handshake.

    One that refuses, or closes what it never answered, sends an Initial packet, too, but without CRYPTO data.
    """
    seen: dict[bytes, Packet] = {}
    for packet in evidence.of("server", Form.INITIAL):
        if packet.frames is not None and packet.frames.crypto:
            seen.setdefault(packet.header.source_id, packet)
    text = f"{counted(len(seen), 'handshake')}, asked {asked}"
    if len(seen) > asked:
        return Failed(text, list(seen.values())[asked])
    return Passed(text) if len(seen) == asked else Failed(text)


@check(
    "version",
    takes="a word",
    words=("1", "2"),
    title="The version of every Initial and Handshake packet of the server; with 2 the client begins with version 1, "
    "and all Handshake packets are of version 2.",
    source="RFC 9000 §15, RFC 9368 §2.3, RFC 9369 §4",
    needs_keys=False,
)
def version(evidence: Evidence, asked: str) -> Found:
    """With version 2 the server may acknowledge in version 1 before it has chosen (RFC 9369 §4.1)."""
    wanted = _VERSION_1 if asked == "1" else VERSION_2
    initials = list(evidence.of("server", Form.INITIAL))
    if not initials:
        return Failed("the server sent no Initial packet")
    first = next(evidence.of("client", Form.INITIAL), None)
    if asked == "2" and first is not None and first.header.version != _VERSION_1:
        return Failed(f"the client began with version {_named(first.header.version)}, not with 1", first)
    if asked == "2" and not any(packet.header.version == wanted for packet in initials):
        return Failed("no Initial packet of the server has version 2", initials[0])
    strict = initials if asked == "1" else []
    for packet in (*strict, *evidence.of("server", Form.HANDSHAKE), *evidence.of("client", Form.HANDSHAKE)):
        if packet.header.version != wanted:
            name = packet.form.name.replace("_", "-").capitalize()
            return Failed(f"{name} packet of the {packet.sender} with version {_named(packet.header.version)}", packet)
    return Passed(f"version {asked}")


@check(
    "client_hellos",
    takes="a count",
    title="The client sent its ClientHello at least so often.",
    source="RFC 9002 §6.2.4",
    needs_keys=False,
)
def client_hellos(evidence: Evidence, asked: int) -> Found:
    """Counted are Initial packets that begin the client's CRYPTO stream."""
    count = sum(_begins_hello(packet) for packet in evidence.of("client", Form.INITIAL))
    text = f"{counted(count, 'ClientHello')}, asked at least {asked}"
    return Passed(text) if count >= asked else Failed(text)


def _begins_hello(packet: Packet) -> bool:
    frames = packet.frames
    if frames is None:
        return False
    return any(offset == 0 and data[:1] == bytes([CLIENT_HELLO]) for offset, data in frames.crypto)


@check(
    "retry",
    takes="a word",
    words=("used", "never"),
    title="used: the server sends a Retry, and the client comes back with its token and goes on with its packet "
    "numbers. never: the server sends none.",
    source="RFC 9000 §8.1.2, §17.2.5",
    needs_keys=False,
)
def retry(evidence: Evidence, asked: str) -> Found:
    """§17.2.5.3: a client does not start its packet numbers anew."""
    sent = list(evidence.of("server", Form.RETRY))
    if asked == "never":
        return Failed("the server sent a Retry", sent[0]) if sent else Passed("no Retry")
    if not sent:
        return Failed("the server sent no Retry")
    tokens = {packet.header.token for packet in sent}
    if b"" in tokens:
        return Failed("a Retry without a token", next(one for one in sent if not one.header.token))
    highest = -1
    for packet in evidence.of("client", Form.INITIAL):
        if not packet.header.token:
            highest = max(highest, -1 if packet.number is None else packet.number)
            continue
        if packet.number is not None and packet.number <= highest:
            return Failed(f"packet number {packet.number} again after the Retry, after {highest}", packet)
        if packet.header.token in tokens:
            return Passed(f"the client came back with the token of {len(packet.header.token)} B")
        return Failed("an Initial packet with a token that no Retry had", packet)
    return Failed("no Initial packet has a Retry's token")


@check(
    "version_negotiation",
    takes="true",
    title="The server answers an unknown version with Version Negotiation, to the connection IDs that it was sent.",
    source="RFC 9000 §6.1, §17.2.1",
    needs_keys=False,
)
def version_negotiation(evidence: Evidence, asked: bool) -> Found:
    """Its source connection ID is the client's destination connection ID."""
    first = next((one for one in evidence.sent if one.sender == "client"), None)
    if first is None:
        return Unknown("the client sent nothing")
    answers = list(evidence.of("server", Form.VERSION_NEGOTIATION))
    if not answers:
        return Failed("the server sent no Version Negotiation")
    for packet in answers:
        if packet.header.source_id != first.header.destination_id:
            return Failed("Version Negotiation for another connection ID", packet)
    return Passed("Version Negotiation was sent")

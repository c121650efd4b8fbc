"""What protects packets: cipher suites, sessions that are resumed, early data, key updates."""

from __future__ import annotations

from harness.analysis.interop.evidence import Evidence
from harness.analysis.interop.registry import Failed, Found, Passed, Unknown, check
from harness.capture.quic.dissector import MAX_STREAMS_BIDI, Packet
from harness.capture.quic.invariants import Form, integer
from harness.scenario.parameters import ROLES, Role

_CHACHA20 = 0x1303


@check(
    "cipher",
    takes="a word",
    words=("chacha20",),
    title="The client offers TLS_CHACHA20_POLY1305_SHA256 and nothing else, and the server takes it.",
    source="RFC 9001 §5.3, RFC 8446 §B.4",
    needs_keys=False,
)
def cipher(evidence: Evidence, asked: str) -> Found:
    """From ClientHello and ServerHello, which Initial keys open."""
    for connection in evidence.connections:
        offered = connection.hellos.get("client")
        if offered is None:
            return Unknown("a ClientHello could not be read")
        if set(offered.suites) != {_CHACHA20}:
            text = ", ".join(f"{suite:#06x}" for suite in offered.suites)
            return Failed(f"the client offers {text}", connection.first)
        if connection.suite != _CHACHA20:
            return Failed("the server did not take ChaCha20", connection.first)
    return Passed("only ChaCha20-Poly1305 was offered") if evidence.connections else Failed("there is no connection")


@check(
    "resumed",
    takes="true",
    title="The second connection resumes the session of the first: the server sends its certificate in the first "
    "handshake, and none in the second.",
    source="RFC 8446 §2.2, RFC 9001 §4.5",
)
def resumed(evidence: Evidence, asked: bool) -> Found:
    """A server that resumes accepts the pre_shared_key offered (RFC 8446 §4.2.11)."""
    if len(evidence.connections) != 2:
        return Failed(f"{len(evidence.connections)} connections, and one is to resume the other")
    first, second = evidence.connections
    if "server" not in second.hellos or "server" not in first.hellos:
        return Unknown("a ServerHello could not be read")
    if not first.certificate:
        return Failed("the server sent no certificate in the first handshake", first.first)
    if second.certificate:
        return Failed("the server sent its certificate again in the second handshake", second.first)
    if not second.hellos["server"].psk:
        return Failed("the server did not accept a session ticket", second.first)
    return Passed("the second handshake has no certificate, and its ticket was accepted")


@check(
    "early_data",
    takes="a count",
    title="The client sends early data, which the server accepts, and at most so many bytes in 1-RTT packets.",
    source="RFC 9001 §4.6, RFC 8446 §4.2.10",
)
def early_data(evidence: Evidence, asked: int) -> Found:
    """Bytes are those of packets' payloads, over all connections, as the interop runner counts them."""
    early = list(evidence.of("client", Form.ZERO_RTT))
    if not early:
        return Failed("the client sent no 0-RTT packet")
    resumed_one = evidence.connections[-1]
    if not resumed_one.parameters:
        return Unknown("the server's EncryptedExtensions could not be read")
    if not resumed_one.early_data:
        return Failed("the server did not accept the early data", early[0])
    unread = sum(packet.plain is None for packet in early)
    sent = sum(len(packet.plain or packet.header.data) for packet in early)
    late = 0
    for packet in evidence.of("client", Form.SHORT):
        late += len(packet.plain or packet.header.data)
        if late > asked:
            total = sum(len(one.plain or one.header.data) for one in evidence.of("client", Form.SHORT))
            return Failed(f"{total} B in 1-RTT packets of the client, asked at most {asked}; {sent} B early", packet)
    note = f" ({unread} packets not decrypted)" if unread else ""
    return Passed(f"{sent} B of early data{note}, {late} B in 1-RTT packets, asked at most {asked}")


@check(
    "key_update",
    takes="true",
    title="Both endpoints send packets of the second key phase.",
    source="RFC 9001 §6",
)
def key_update(evidence: Evidence, asked: bool) -> Found:
    """An endpoint answers an update with its own (§6.2)."""
    counts = {role: [0, 0] for role in ROLES}
    first: dict[Role, Packet] = {}
    for role in ROLES:
        for packet in evidence.of(role, Form.SHORT):
            if packet.number is not None:
                counts[role][min(packet.phase, 1)] += 1
                if packet.phase:
                    first.setdefault(role, packet)
    text = ", ".join(f"{role} {old} packets before and {new} after" for role, (old, new) in counts.items())
    if not any(sum(both) for both in counts.values()):
        return Unknown("no 1-RTT packet could be decrypted")
    without = [role for role in ROLES if role not in first]
    if len(without) == 2:
        return Failed(f"nobody updated keys: {text}")
    if without:
        return Failed(f"the {without[0]} never updated its keys: {text}", next(iter(first.values())))
    return Passed(text)


@check(
    "stream_limit",
    takes="a count",
    title="The server's initial_max_streams_bidi is at most so much.",
    source="RFC 9000 §18.2",
)
def stream_limit(evidence: Evidence, asked: int) -> Found:
    """From the transport parameters in the server's EncryptedExtensions."""
    if not evidence.connections:
        return Failed("there is no connection")
    parameters = evidence.connections[0].parameters
    if not parameters:
        return Unknown("the server's transport parameters could not be read")
    limit = integer(parameters.get(MAX_STREAMS_BIDI, b"\0"), 0)[0]
    text = f"initial_max_streams_bidi {limit}, asked at most {asked}"
    return Passed(text) if limit <= asked else Failed(text, evidence.connections[0].first)


@check(
    "server_crypto",
    takes="a count",
    title="The server sends at least so many bytes of CRYPTO data in Handshake packets: the certificates it was given.",
    source="RFC 9000 §19.6",
)
def server_crypto(evidence: Evidence, asked: int) -> Found:
    """By the offsets that it comes to."""
    ends = [
        stream.end
        for connection in evidence.connections
        for (sender, form), stream in connection.streams.items()
        if sender == "server" and form is Form.HANDSHAKE
    ]
    if not ends:
        return Unknown("no Handshake packet of the server could be decrypted")
    text = f"{max(ends)} B of CRYPTO data, asked at least {asked}"
    return Passed(text) if max(ends) >= asked else Failed(text)

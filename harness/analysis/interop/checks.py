"""The checks of the interop runner's test cases, by the part of the protocol that they examine."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.interop.evidence import Evidence
from harness.analysis.interop.registry import CheckResult, Failed, NotExercised, Passed, Undetermined, check
from harness.capture.capture import CE, NOT_ECT
from harness.capture.datagrams import Address, Datagram
from harness.capture.quic.dissector import CLIENT_HELLO, MAX_STREAMS_BIDI, Packet, split_packets
from harness.capture.quic.frames import ACK_ECN
from harness.capture.quic.invariants import VERSION_2, Form, read_varint
from harness.formatting import format_count
from harness.scenario.parameters import ROLES, Role, peer_role
from harness.scenario.schema import NEGOTIATED_PROTOCOL

# --- The downloaded files.


@check(
    "files",
    takes="true",
    title="The client has every file that it asked for, byte for byte, and nothing else.",
    source="the interop runner's contract",
    exercised_by="a download",
    needs_keys=False,
)
def files(evidence: Evidence, expected: bool) -> CheckResult:
    """Uses the engine's comparison with the served files."""
    for transfer in evidence.transfers:
        if not transfer.intact:
            detail = evidence.detail or "not as it was served"
            return Failed(f"{transfer.received} of {transfer.size} B: {detail}")
    if not evidence.transfers:
        return Failed("there was no transfer")
    return Passed(f"{sum(transfer.size for transfer in evidence.transfers)} B, whole")


@check(
    "application_protocol",
    takes="true",
    title="Both ends of a WebTransport session name the client's first application protocol that the server has, too.",
    source="the interop runner's contract, draft-ietf-webtrans-http3-14 §3.3",
    exercised_by="a WebTransport session",
    needs_keys=False,
)
def application_protocol(evidence: Evidence, expected: bool) -> CheckResult:
    """From what the endpoints wrote down, as in the interop runner."""
    for role in ROLES:
        name = evidence.negotiated.get(role)
        if name is None:
            return Failed(f"the {role} wrote no application protocol down")
        if name != NEGOTIATED_PROTOCOL:
            return Failed(f"the {role} has '{name}', and not {NEGOTIATED_PROTOCOL}")
    return Passed(f"both have {NEGOTIATED_PROTOCOL}")


# --- Connection establishment: the number of handshakes, the version, and Retry.


_VERSION_1 = 1


def _version_name(version: int) -> str:
    return {_VERSION_1: "1", VERSION_2: "2"}.get(version, f"{version:#010x}")


@check(
    "handshakes",
    takes="a count",
    title="So many handshakes: the server's Initial packets with CRYPTO data have so many source connection IDs.",
    source="RFC 9000 §7.2",
    exercised_by="an Initial packet of the server",
    upstream="It counts the source connection IDs of all the server's Initial packets. Here those without CRYPTO data "
    "do not count: a server that refuses a connection sends one, too.",
    needs_keys=False,
)
def handshakes(evidence: Evidence, expected: int) -> CheckResult:
    """A server uses the ID of its first Initial packet for a connection's whole handshake.

    A server that refuses a connection, or closes one it never answered, also sends an Initial packet, but without
    CRYPTO data.
    """
    handshake_packets: dict[bytes, Packet] = {}
    for packet in evidence.packets_of("server", Form.INITIAL):
        if packet.frames is not None and packet.frames.crypto:
            handshake_packets.setdefault(packet.header.source_id, packet)
    text = f"{format_count(len(handshake_packets), 'handshake')}, asked {expected}"
    if len(handshake_packets) > expected:
        return Failed(text, list(handshake_packets.values())[expected])
    return Passed(text) if len(handshake_packets) == expected else Failed(text)


@check(
    "version",
    takes="a word",
    words=("1", "2"),
    title="The version of every Initial and Handshake packet of the server; with 2 the client begins with version 1, "
    "and all Handshake packets are of version 2.",
    source="RFC 9000 §15, RFC 9368 §2.3, RFC 9369 §4",
    exercised_by="an Initial packet of the server",
    upstream="It looks at the server's Initial packets. Here Handshake packets of both endpoints count, too: they "
    "carry the negotiated version (RFC 9369 §4).",
    needs_keys=False,
)
def version(evidence: Evidence, name: str) -> CheckResult:
    """With version 2 the server may acknowledge in version 1 before it has chosen (RFC 9369 §4.1)."""
    required = _VERSION_1 if name == "1" else VERSION_2
    initials = list(evidence.packets_of("server", Form.INITIAL))
    if not initials:
        return Failed("the server sent no Initial packet")
    first = next(evidence.packets_of("client", Form.INITIAL), None)
    if name == "2" and first is not None and first.header.version != _VERSION_1:
        return Failed(f"the client began with version {_version_name(first.header.version)}, not with 1", first)
    if name == "2" and not any(packet.header.version == required for packet in initials):
        return Failed("no Initial packet of the server has version 2", initials[0])
    strict = initials if name == "1" else []
    for packet in (
        *strict,
        *evidence.packets_of("server", Form.HANDSHAKE),
        *evidence.packets_of("client", Form.HANDSHAKE),
    ):
        if packet.header.version != required:
            packet_type = packet.form.name.replace("_", "-").capitalize()
            return Failed(
                f"{packet_type} packet of the {packet.sender} with version {_version_name(packet.header.version)}",
                packet,
            )
    return Passed(f"version {name}")


@check(
    "client_hellos",
    takes="a count",
    title="The client sent its ClientHello at least so often.",
    source="RFC 9002 §6.2.4",
    exercised_by="an Initial packet of the client",
    needs_keys=False,
)
def client_hellos(evidence: Evidence, minimum: int) -> CheckResult:
    """Counts Initial packets that begin the client's CRYPTO stream."""
    count = sum(_begins_hello(packet) for packet in evidence.packets_of("client", Form.INITIAL))
    text = f"{format_count(count, 'ClientHello')}, asked at least {minimum}"
    return Passed(text) if count >= minimum else Failed(text)


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
    exercised_by="a Retry, where one is wanted",
    upstream="It wants a token in an Initial packet. Here it must be the Retry's: a token from elsewhere spares the "
    "server nothing (RFC 9000 §8.1.2).",
    needs_keys=False,
)
def retry(evidence: Evidence, policy: str) -> CheckResult:
    """§17.2.5.3: a client does not restart its packet numbers. Another ClientHello, as the runner, it lets pass."""
    sent = list(evidence.packets_of("server", Form.RETRY))
    if policy == "never":
        return Failed("the server sent a Retry", sent[0]) if sent else Passed("no Retry")
    if not sent:
        return Failed("the server sent no Retry")
    tokens = {packet.header.token for packet in sent}
    if b"" in tokens:
        return Failed("a Retry without a token", next(packet for packet in sent if not packet.header.token))
    highest = -1
    before: bytes | None = None
    for packet in evidence.packets_of("client", Form.INITIAL):
        if not packet.header.token:
            highest = max(highest, -1 if packet.number is None else packet.number)
            before = packet.hello_random or before
            continue
        if packet.number is not None and packet.number <= highest:
            return Failed(f"packet number {packet.number} again after the Retry, after {highest}", packet)
        if packet.header.token in tokens:
            text = f"the client came back with the token of {len(packet.header.token)} B"
            differs = None not in (before, packet.hello_random) and packet.hello_random != before
            return Passed(f"{text}, and another ClientHello, which RFC 9000 §17.2.5.3 forbids" if differs else text)
        return Failed("an Initial packet with a token that no Retry had", packet)
    return Failed("no Initial packet has a Retry's token")


@check(
    "version_negotiation",
    takes="true",
    title="The server answers an unknown version with Version Negotiation, to the connection IDs that it was sent.",
    source="RFC 9000 §6.1, §17.2.1",
    exercised_by="a packet of a version that the server does not have",
    upstream="The case is disabled there (its issue 20).",
    needs_keys=False,
)
def version_negotiation(evidence: Evidence, expected: bool) -> CheckResult:
    """Its source connection ID is the client's destination connection ID."""
    first = next((packet for packet in evidence.sent if packet.sender == "client"), None)
    if first is None:
        return Undetermined("the client sent nothing")
    answers = list(evidence.packets_of("server", Form.VERSION_NEGOTIATION))
    if not answers:
        return Failed("the server sent no Version Negotiation")
    for packet in answers:
        if packet.header.source_id != first.header.destination_id:
            return Failed("Version Negotiation for another connection ID", packet)
    return Passed("Version Negotiation was sent")


# --- Packet protection: cipher suites, session resumption, early data, key updates.


_CHACHA20 = 0x1303


@check(
    "cipher",
    takes="a word",
    words=("chacha20",),
    title="The client offers TLS_CHACHA20_POLY1305_SHA256 and nothing else, and the server takes it.",
    source="RFC 9001 §5.3, RFC 8446 §B.4",
    exercised_by="a ClientHello",
    upstream="It looks at what the client offers. Here the server must take it, too.",
    needs_keys=False,
)
def cipher(evidence: Evidence, suite_name: str) -> CheckResult:
    """From ClientHello and ServerHello, which Initial keys open."""
    for connection in evidence.connections:
        offered = connection.hellos.get("client")
        if offered is None:
            return Undetermined("a ClientHello could not be read")
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
    exercised_by="two connections",
    upstream="It looks for certificates in both handshakes. Here the server must accept the ticket, too (RFC 8446 "
    "§4.2.11).",
)
def resumed(evidence: Evidence, expected: bool) -> CheckResult:
    """A server that resumes accepts the pre_shared_key offered (RFC 8446 §4.2.11)."""
    if len(evidence.connections) != 2:
        return Failed(f"{len(evidence.connections)} connections, and one is to resume the other")
    first, second = evidence.connections
    if "server" not in second.hellos or "server" not in first.hellos:
        return Undetermined("a ServerHello could not be read")
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
    exercised_by="a 0-RTT packet",
    upstream="It counts packets' protected payloads, with their tags. Here plaintext counts: the limit is one of data.",
)
def early_data(evidence: Evidence, limit: int) -> CheckResult:
    """Counts the bytes of packets' payloads, over all connections, as the interop runner does."""
    early = list(evidence.packets_of("client", Form.ZERO_RTT))
    if not early:
        return Failed("the client sent no 0-RTT packet")
    resumed_connection = evidence.connections[-1]
    if not resumed_connection.parameters:
        return Undetermined("the server's EncryptedExtensions could not be read")
    if not resumed_connection.early_data:
        return Failed("the server did not accept the early data", early[0])
    unread = sum(packet.plaintext is None for packet in early)
    sent = sum(len(packet.plaintext or packet.header.data) for packet in early)
    late = 0
    for packet in evidence.packets_of("client", Form.SHORT):
        late += len(packet.plaintext or packet.header.data)
        if late > limit:
            total = sum(
                len(packet.plaintext or packet.header.data) for packet in evidence.packets_of("client", Form.SHORT)
            )
            return Failed(f"{total} B in 1-RTT packets of the client, asked at most {limit}; {sent} B early", packet)
    note = f" ({unread} packets not decrypted)" if unread else ""
    return Passed(f"{sent} B of early data{note}, {late} B in 1-RTT packets, asked at most {limit}")


@check(
    "early_data_again",
    takes="true",
    title="A Retry answers early data, and the client sends early data behind its token; its packet numbers go on.",
    source="RFC 9000 §17.2.5.3",
    exercised_by="a Retry that answers early data",
    upstream="It has no such case.",
)
def early_data_again(evidence: Evidence, expected: bool) -> CheckResult:
    """A client may send 0-RTT packets after a Retry, and must not begin with their numbers again."""
    early, retries = ([packet.form for packet in evidence.sent].count(form) for form in (Form.ZERO_RTT, Form.RETRY))
    if not early:
        return Failed("the client sent no 0-RTT packet")
    before = list[Packet]()
    answered = False
    for packet in evidence.sent:
        if packet.form is Form.RETRY:
            answered = bool(before)
        elif packet.form is Form.ZERO_RTT and not answered:
            before.append(packet)
        elif packet.form is Form.ZERO_RTT:
            highest = max((earlier.number for earlier in before if earlier.number is not None), default=-1)
            if packet.number is not None and packet.number <= highest:
                return Failed(f"packet number {packet.number} again after the Retry, after {highest}", packet)
            return Passed(f"early data before and behind the Retry, {format_count(early, 'packet')} in all")
    if not answered and evidence.connections and evidence.connections[-1].first.header.token:
        return NotExercised("the client came back with a token (NEW_TOKEN), which spares it the Retry")
    if not answered:
        return Failed(f"none of {format_count(retries, 'Retry packet')} answered early data")
    return Failed("the client sent no early data behind the Retry", before[-1])


@check(
    "early_data_rejected",
    takes="true",
    title="The client sends early data, which the server does not accept, and asks again in 1-RTT packets.",
    source="RFC 9001 §4.6.2, RFC 8446 §4.2.10",
    exercised_by="a 0-RTT packet to a server that rejects early data",
    upstream="It has no such case.",
)
def early_data_rejected(evidence: Evidence, expected: bool) -> CheckResult:
    """A client must reset the state of all streams, and may ask for the same on them again.

    Some endpoints do not write down the secret of early data that are rejected. So 0-RTT packets are assigned to
    connections by the ID that the client chose for the server.
    """
    early = list(evidence.packets_of("client", Form.ZERO_RTT))
    destinations = {packet.header.destination_id for packet in early}
    tried = [connection for connection in evidence.connections if not destinations.isdisjoint(connection.original_ids)]
    if not tried:
        return NotExercised("the client sent no 0-RTT packet that the server could reject")
    for connection in tried:
        if not connection.parameters:
            return Undetermined("the server's EncryptedExtensions could not be read")
        if connection.early_data:
            return Failed("the server accepted the early data", early[0])
    numbers = {connection.number for connection in tried}
    again = sum(
        packet.connection in numbers and packet.frames is not None and bool(packet.frames.streams)
        for packet in evidence.packets_of("client", Form.SHORT)
    )
    if not again:
        return Failed("the client did not ask again in 1-RTT packets", early[-1])
    return Passed(f"{format_count(len(early), '0-RTT packet')} not accepted, {again} of 1-RTT with STREAM frames")


@check(
    "key_update",
    takes="true",
    title="Both endpoints send packets of the second key phase.",
    source="RFC 9001 §6",
    exercised_by="an update of the keys",
)
def key_update(evidence: Evidence, expected: bool) -> CheckResult:
    """An endpoint answers an update with its own (§6.2)."""
    counts = {role: [0, 0] for role in ROLES}
    first: dict[Role, Packet] = {}
    for role in ROLES:
        for packet in evidence.packets_of(role, Form.SHORT):
            if packet.number is not None:
                counts[role][min(packet.phase, 1)] += 1
                if packet.phase:
                    first.setdefault(role, packet)
    text = ", ".join(f"{role} {old} packets before and {new} after" for role, (old, new) in counts.items())
    if not any(sum(both) for both in counts.values()):
        return Undetermined("no 1-RTT packet could be decrypted")
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
    exercised_by="transport parameters of the server",
)
def stream_limit(evidence: Evidence, maximum: int) -> CheckResult:
    """From the transport parameters in the server's EncryptedExtensions."""
    if not evidence.connections:
        return Failed("there is no connection")
    parameters = evidence.connections[0].parameters
    if not parameters:
        return Undetermined("the server's transport parameters could not be read")
    limit = read_varint(parameters.get(MAX_STREAMS_BIDI, b"\0"), 0)[0]
    text = f"initial_max_streams_bidi {limit}, asked at most {maximum}"
    return Passed(text) if limit <= maximum else Failed(text, evidence.connections[0].first)


@check(
    "server_crypto",
    takes="a count",
    title="The server sends at least so many bytes of CRYPTO data in Handshake packets: the certificates it was given.",
    source="RFC 9000 §19.6",
    exercised_by="a Handshake packet of the server",
)
def server_crypto(evidence: Evidence, minimum: int) -> CheckResult:
    """Uses the highest offset of the CRYPTO stream."""
    ends = [
        stream.end
        for connection in evidence.connections
        for (sender, form), stream in connection.streams.items()
        if sender == "server" and form is Form.HANDSHAKE
    ]
    if not ends:
        return Undetermined("no Handshake packet of the server could be decrypted")
    text = f"{max(ends)} B of CRYPTO data, asked at least {minimum}"
    return Passed(text) if max(ends) >= minimum else Failed(text)


# --- Addresses and IP headers of datagrams: amplification, ECN, IP versions, address changes.


#: The smallest datagram that an endpoint must be able to send (RFC 9000 §14): a server with less room than this before
#: the limit may be stopped by it.
_DATAGRAM = 1200
#: Length of a connection ID that cannot be guessed (RFC 9000 §8.1): bytes.
_UNGUESSABLE_LENGTH = 8


@check(
    "amplification",
    takes="a count",
    title="Until the client's address is validated the server never sends more than so many times what it received.",
    source="RFC 9000 §8.1",
    exercised_by="a server that sends all but the last datagram of what it may, before the address is validated",
    upstream="It allows four times what came. Here it is three times, as RFC 9000 §8.1 has it. There a server passes "
    "that was never near the limit.",
    needs_keys=False,
)
def amplification(evidence: Evidence, factor: int) -> CheckResult:
    """At the server's side, datagram by datagram.

    The address is validated by a Handshake packet, by the token of a Retry, or by a connection ID of at least 64 bits
    that the server chose. A server that had room for a whole datagram all the time was not stopped by the limit.
    """
    server_ids: set[bytes] = set()
    tokens: set[bytes] = set()
    received = sent = 0
    worst: tuple[float, int, int] = (0.0, 0, 0)
    nearest: int | None = None
    for datagram, packet in _datagrams_at_server(evidence):
        if packet is None:
            if _validates(datagram, server_ids, tokens):
                ratio, bytes_received, bytes_sent = worst
                text = f"at most {ratio:.2f} times what had come ({bytes_sent} of {bytes_received} B), asked {factor}"
                if nearest is None or nearest >= _DATAGRAM:
                    return NotExercised(f"{text}: the server stopped before the limit made it stop")
                return Passed(text)
            received += datagram.size
            continue
        if packet.header.source_id and len(packet.header.source_id) >= _UNGUESSABLE_LENGTH:
            server_ids.add(packet.header.source_id)
        if packet.form is Form.RETRY:
            tokens.add(packet.header.token)
        if packet.header.data == datagram.payload[: len(packet.header.data)]:
            # Count a datagram once, at its first packet.
            sent += datagram.size
            if sent > factor * received:
                return Failed(f"{sent} B sent, and {received} B had come: more than {factor} times as much", packet)
            worst = max(worst, (sent / max(received, 1), received, sent))
            room = factor * received - sent
            nearest = room if nearest is None else min(nearest, room)
    return Failed("the client's address was never validated")


def _datagrams_at_server(evidence: Evidence) -> Iterator[tuple[Datagram, Packet | None]]:
    """The datagrams that the server received and sent, in order of time; a sent one comes with its packet."""
    arrivals: list[tuple[int, Datagram, Packet | None]] = [
        (datagram.t_ns, datagram, None) for datagram in evidence.arrived["client"]
    ]
    departures = [(packet.t_ns, packet.datagram, packet) for packet in evidence.sent if packet.sender == "server"]
    for _, datagram, packet in sorted([*arrivals, *departures], key=lambda item: item[0]):
        yield datagram, packet


def _validates(datagram: Datagram, server_ids: set[bytes], tokens: set[bytes]) -> bool:
    return any(
        header.form in (Form.HANDSHAKE, Form.SHORT)
        or (header.form is Form.INITIAL and (header.destination_id in server_ids or header.token in tokens - {b""}))
        for header in split_packets(datagram.payload)
    )


@check(
    "ecn",
    takes="true",
    title="Both endpoints mark their datagrams as ECN-capable, none with CE, and both count the other's marks back.",
    source="RFC 9000 §13.4",
    exercised_by="a datagram of each endpoint",
)
def ecn(evidence: Evidence, expected: bool) -> CheckResult:
    """Validation may end marking (§13.4.2.2): some marked datagrams are enough, as for the interop runner."""
    for role in ROLES:
        datagrams = {packet.datagram.number: packet for packet in evidence.sent if packet.sender == role}
        marked = [packet for packet in datagrams.values() if packet.datagram.ecn != NOT_ECT]
        if not marked:
            return Failed(f"the {role} marked no datagram", next(iter(datagrams.values()), None))
        congested = next((packet for packet in marked if packet.datagram.ecn == CE), None)
        if congested is not None:
            return Failed(f"a datagram of the {role} left with CE", congested)
    for role in ROLES:
        frames = [packet.frames for packet in evidence.packets_of(role, Form.INITIAL, Form.HANDSHAKE, Form.SHORT)]
        if not any(packet_frames is not None and ACK_ECN in packet_frames.types for packet_frames in frames):
            if not any(packet_frames is not None for packet_frames in frames):
                return Undetermined(f"no packet of the {role} could be decrypted")
            return Failed(f"no ACK of the {role} counts the {peer_role(role)}'s marks")
    return Passed("both marked their datagrams, and counted the other's marks")


@check(
    "congestion_counted",
    takes="true",
    title="Who is sent datagrams that a queue marked CE counts them back, and no more than came.",
    source="RFC 9000 §13.4.1, §19.3.2",
    exercised_by="a datagram that arrives with CE",
    upstream="It has no such case.",
)
def congestion_counted(evidence: Evidence, expected: bool) -> CheckResult:
    """A receiver counts QUIC packets, per packet number space. The last marks may come behind its last ACK."""
    texts = []
    for receiver in ROLES:
        sender = peer_role(receiver)
        marked = [datagram for datagram in evidence.arrived[sender] if datagram.ecn == CE]
        if not marked:
            continue
        came = sum(len(list(split_packets(datagram.payload))) for datagram in marked)
        highest: dict[Form, tuple[int, Packet]] = {}
        for packet in evidence.packets_of(receiver, Form.INITIAL, Form.HANDSHAKE, Form.SHORT):
            counts = packet.frames.ecn_counts if packet.frames is not None else None
            if counts is not None and counts[2] > highest.get(packet.form, (0, packet))[0]:
                highest[packet.form] = counts[2], packet
        counted = sum(count for count, _ in highest.values())
        text = f"the {receiver} counted {counted} of {format_count(came, 'packet')} that came with CE"
        if not counted:
            return Failed(text)
        if counted > came:
            return Failed(text, max(highest.values(), key=lambda item: item[0])[1])
        texts.append(text)
    return Passed("; ".join(texts)) if texts else NotExercised("no datagram arrived with CE")


@check(
    "ip",
    takes="a word",
    words=("4", "6"),
    title="All datagrams are of this IP version.",
    source="RFC 9000 §5",
    exercised_by="a datagram",
    needs_keys=False,
)
def ip(evidence: Evidence, ip_version: str) -> CheckResult:
    """Checks both senders."""
    mismatch = next((packet for packet in evidence.sent if packet.datagram.ip != int(ip_version)), None)
    return (
        Passed(f"all over IPv{ip_version}") if mismatch is None else Failed(f"over IPv{mismatch.datagram.ip}", mismatch)
    )


@check(
    "rebound",
    takes="a word",
    words=("port", "address"),
    title="The server sees another port, or address, of the client, challenges each new path with its first packet "
    "there, and is answered.",
    source="RFC 9000 §9.3, §8.2",
    exercised_by="a 1-RTT packet of the server to another address of the client",
    upstream="It has the same rule, which is stricter than RFC 9000 §9.3: a PATH_CHALLENGE may come later than the "
    "first packet, and be repeated where it was lost. A failure says whether the RFC's rule holds.",
)
def rebound(evidence: Evidence, changed: str) -> CheckResult:
    """By the addresses that the server sends to: a path counts once the server uses it (§9)."""
    paths = _used_paths(evidence, "server")
    if changed == "address" and len({client[0] for client, _ in paths}) < 2:
        return Failed("the server sent to a single address of the client")
    judged = _judge_validation(evidence, paths, "server")
    if isinstance(judged, Failed) and len(paths) > 1:
        return Failed(f"{judged.sentence}; {_validation_text(evidence, paths)}", judged.packet)
    return judged


def _validation_text(evidence: Evidence, paths: dict[tuple[Address, Address], Packet]) -> str:
    """Whether RFC 9000 §9.3 alone holds: the server validates each path that it goes on with, sooner or later."""
    if any(not transfer.intact for transfer in evidence.transfers):
        return "the download is not whole either"
    answers = _responses(evidence, "client")
    challenges: dict[tuple[Address, Address], set[bytes]] = {ends: set() for ends in paths}
    for packet in evidence.packets_of("server", Form.SHORT):
        if packet.frames:
            challenges[packet.datagram.destination, packet.datagram.source] |= set(packet.frames.challenges)
    open_paths = sum(not challenges[ends] & answers for ends in list(paths)[1:])
    if open_paths:
        return f"{format_count(open_paths, 'path')} of {len(paths) - 1} never validated, which RFC 9000 §9.3 asks for"
    whole = "the download is whole, and " if evidence.transfers else ""
    return f"RFC 9000 §9.3 holds: {whole}every path was validated in the end"


@check(
    "migrated",
    takes="true",
    title="The client goes on at an address of the server that it was told, with another connection ID, and the path "
    "is validated.",
    source="RFC 9000 §9.5, §9.6",
    exercised_by="a 1-RTT packet of the client on another path",
    upstream="It wants a PATH_CHALLENGE of the server and the client's answer. Here the client, which begins the "
    "migration, validates the path (RFC 9000 §9.5), and uses a fresh connection ID.",
)
def migrated(evidence: Evidence, expected: bool) -> CheckResult:
    """By the addresses that the client sends from and to."""
    paths = _used_paths(evidence, "client")
    validation = _judge_validation(evidence, paths, "client")
    if not isinstance(validation, Passed):
        return validation
    before = next(packet for packet in evidence.packets_of("client", Form.SHORT))
    for packet in list(paths.values())[1:]:
        if packet.header.destination_id == before.header.destination_id:
            return Failed("the client's first packet on the new path has the old connection ID", packet)
    return Passed(f"{len(paths)} paths, each with a connection ID of its own")


def _used_paths(evidence: Evidence, sender: Role) -> dict[tuple[Address, Address], Packet]:
    """(client's address, server's address) of each path that a sender uses with 1-RTT packets → its first
    packet there.
    """
    paths: dict[tuple[Address, Address], Packet] = {}
    for packet in evidence.packets_of(sender, Form.INITIAL, Form.HANDSHAKE, Form.SHORT):
        ends = (packet.datagram.source, packet.datagram.destination)
        paths.setdefault(ends if sender == "client" else ends[::-1], packet)
    return paths


def _responses(evidence: Evidence, sender: Role) -> set[bytes]:
    """The data of all PATH_RESPONSE frames of a sender."""
    return {
        response
        for packet in evidence.packets_of(sender, Form.SHORT)
        if packet.frames
        for response in packet.frames.responses
    }


def _judge_validation(evidence: Evidence, paths: dict[tuple[Address, Address], Packet], sender: Role) -> CheckResult:
    """Whether each path but the first begins with a PATH_CHALLENGE of `sender`, and all challenges are answered."""
    if len(paths) < 2:
        return Failed(f"the {sender} used a single path")
    challenges: dict[bytes, Packet] = {}
    for packet in list(paths.values())[1:]:
        frames = packet.frames
        if frames is None:
            return Undetermined(f"the {sender}'s first packet on a new path could not be decrypted")
        if not frames.challenges:
            return Failed(f"the {sender}'s first packet on a new path has no PATH_CHALLENGE", packet)
        challenges |= dict.fromkeys(frames.challenges, packet)
    answers = _responses(evidence, peer_role(sender))
    for challenge, packet in challenges.items():
        if challenge not in answers:
            outcome = "that was lost on its way" if evidence.lost(packet) else "that nobody answered"
            return Failed(f"a PATH_CHALLENGE {outcome}", packet)
    return Passed(f"{len(paths)} paths, {len(challenges)} challenges answered")

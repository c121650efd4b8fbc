"""QUIC on the wire: every packet of captures with whole frames, decrypted and verified (RFC 9001 §5).

Unlike `harness.capture.quic.protection`, which reads the heads of many packets, this takes long headers too and
verifies tags: AEADs and hashes are those of the `cryptography` library.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from harness.capture.datagrams import Address, Datagram
from harness.capture.quic.frames import FrameError, Frames, read_frames
from harness.capture.quic.invariants import VERSION_2, Form, read_varint
from harness.capture.quic.protection import (
    SAMPLE,
    TAG,
    Aead,
    Keys,
    candidate_aeads,
    decode_number,
    derive_keys,
    expand_label,
    next_secret,
)
from harness.scenario.parameters import ROLES, Role, peer_role

# --- The packets of a datagram, and their unencrypted fields (RFC 9000 §17, §12.2; RFC 9369 §3.2).


LONG, _FIXED = 0x80, 0x40
_TYPES_1 = (Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE, Form.RETRY)
_TYPES_2 = (Form.RETRY, Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE)
#: Bytes of a Retry packet's integrity tag (RFC 9001 §5.8).
_INTEGRITY = 16


@dataclass(frozen=True, slots=True)
class Header:
    """One packet of a datagram, with the fields that can be read without keys."""

    form: Form
    data: bytes
    """The whole packet."""
    number_at: int
    """Where its packet number starts; of a short header 1: its connection ID has no length there."""
    version: int = 0
    destination_id: bytes = b""
    source_id: bytes = b""
    token: bytes = b""
    """Of an Initial, or of a Retry."""


def split_packets(payload: bytes) -> Iterator[Header]:
    """The packets of a datagram, up to the first bytes that are no packet."""
    position = 0
    while position < len(payload):
        packet = _parse_packet(payload[position:])
        if packet is None:
            return
        yield packet
        position += len(packet.data)


def _parse_packet(data: bytes) -> Header | None:
    if not data[0] & LONG:
        # A sender may leave the QUIC bit out (RFC 9287); zeros behind the last packet are padding.
        return Header(Form.SHORT, data, 1) if data[0] & _FIXED or data.strip(b"\0") else None
    try:
        version = int.from_bytes(data[1:5], "big")
        at = 6 + data[5]
        destination, source = data[6:at], data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
        if version == 0:
            return Header(Form.VERSION_NEGOTIATION, data, at, 0, destination, source)
        form = (_TYPES_2 if version == VERSION_2 else _TYPES_1)[(data[0] >> 4) & 3]
        if form is Form.RETRY:
            token = data[at : len(data) - _INTEGRITY]
            return Header(form, data, at, version, destination, source, token)
        token = b""
        if form is Form.INITIAL:
            size, at = read_varint(data, at)
            token, at = data[at : at + size], at + size
        length, at = read_varint(data, at)
    except IndexError:
        return None
    return Header(form, data[: at + length], at, version, destination, source, token)


# --- Keys of packets, and packets opened with them (RFC 9001 §5, RFC 9369 §3.3).


#: RFC 9001 §5.2 and RFC 9369 §3.3.1.
_SALT_1 = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
_SALT_2 = bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9")
#: Cipher suites of TLS 1.3 (RFC 8446 §B.4).
SUITES = {
    0x1301: Aead.AES_128_GCM,
    0x1302: Aead.AES_256_GCM,
    0x1303: Aead.CHACHA20_POLY1305,
    0x1304: Aead.AES_128_CCM,
}
_LENGTH, _PHASE = 0x03, 0x04


class _Decryptor(Protocol):
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...


@dataclass(frozen=True)
class DecryptedPacket:
    """A packet whose protection was removed."""

    number: int
    phase_bit: bool
    """Of a short header (RFC 9000 §17.3.1)."""
    plaintext: bytes


@dataclass
class Key:
    """The key of one sender's packets in one packet number space, and one key phase."""

    secret: bytes
    aead: Aead
    version: int
    header_key: bytes = b""
    """Key of header protection where it is not the secret's own: of later key phases (RFC 9001 §6.1)."""
    _ecb: CipherContext | None = field(default=None, repr=False)

    @cached_property
    def _keys(self) -> Keys:
        return derive_keys(self.secret, self.aead, self.version)

    @cached_property
    def _cipher(self) -> _Decryptor:
        if self.aead is Aead.CHACHA20_POLY1305:
            return ChaCha20Poly1305(self._keys.key)
        return AESCCM(self._keys.key) if self.aead is Aead.AES_128_CCM else AESGCM(self._keys.key)

    @property
    def _header(self) -> bytes:
        return self.header_key or self._keys.header

    def next(self) -> Key:
        """The key of the next phase."""
        return Key(next_secret(self.secret, self.version), self.aead, self.version, self._header)

    def _mask(self, sample: bytes) -> bytes:
        if self.aead is Aead.CHACHA20_POLY1305:
            return Cipher(algorithms.ChaCha20(self._header, sample), mode=None).encryptor().update(bytes(5))
        if self._ecb is None:
            self._ecb = Cipher(algorithms.AES(self._header), modes.ECB()).encryptor()
        return self._ecb.update(sample)

    def unmask(self, header: Header, at: int, largest: int) -> tuple[int, int, bytes] | None:
        """First byte, packet number and the header as it was authenticated; None for a packet that is too short.

        `at`: where the packet number starts; `largest`: the largest number before (RFC 9000 §A.3), -1 for none.
        """
        data = header.data
        if len(data) < at + 4 + SAMPLE:
            return None
        mask = self._mask(data[at + 4 : at + 4 + SAMPLE])
        first = data[0] ^ (mask[0] & (0x0F if data[0] & LONG else 0x1F))
        size = (first & _LENGTH) + 1
        number_bytes = bytes(a ^ b for a, b in zip(data[at : at + size], mask[1:], strict=False))
        number = decode_number(largest, int.from_bytes(number_bytes, "big"), 8 * size)
        return first, number, bytes([first]) + data[1:at] + number_bytes

    def open(self, header: Header, first: int, number: int, head: bytes) -> DecryptedPacket | None:
        """The packet with its payload; None where its tag does not verify."""
        iv = self._keys.iv
        nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(len(iv), "big")
        body = header.data[len(head) :]
        if len(body) < TAG or number < 0:
            return None
        try:
            plain = self._cipher.decrypt(nonce, body, head)
        except InvalidTag:
            return None
        return DecryptedPacket(number, bool(first & _PHASE), plain)


def initial_keys(original_id: bytes, version: int) -> dict[Role, Key]:
    """The keys of Initial packets, from the connection ID that the client chose for the server (RFC 9001 §5.2)."""
    salt = _SALT_2 if version == VERSION_2 else _SALT_1
    secret = hmac.new(salt, original_id, "sha256").digest()
    return {
        "client": Key(expand_label(secret, "client in", 32), Aead.AES_128_GCM, version),
        "server": Key(expand_label(secret, "server in", 32), Aead.AES_128_GCM, version),
    }


# --- One packet as it was sent.


@dataclass(frozen=True)
class Packet:
    """One packet, with its payload where there are keys for it."""

    datagram: Datagram
    sender: Role
    header: Header
    connection: int | None = None
    """Number of its connection, from 0; None where unknown."""
    number: int | None = None
    """Packet number; None where it was not decrypted."""
    phase: int = 0
    """Key updates before it (RFC 9001 §6)."""
    plaintext: bytes | None = None
    """Its frames; None where it was not decrypted."""

    @property
    def form(self) -> Form:
        """Which kind of packet it is."""
        return self.header.form

    @property
    def t_ns(self) -> int:
        """When its datagram was captured."""
        return self.datagram.t_ns

    @cached_property
    def frames(self) -> Frames | None:
        """Its frames; None where it was not decrypted, or holds none that are known."""
        if self.plaintext is None:
            return None
        try:
            return read_frames(self.plaintext, len(self.plaintext))
        except FrameError:
            return None

    @property
    def hello_random(self) -> bytes | None:
        """The random of the ClientHello that begins in it; None where none does, or less than its random is in it."""
        crypto = [] if self.frames is None else self.frames.crypto
        start = next((data for offset, data in crypto if offset == 0 and data[:1] == bytes([CLIENT_HELLO])), b"")
        return start[6:38] if len(start) >= 38 else None


# --- The TLS messages in CRYPTO frames, as far as QUIC's checks need them (RFC 8446 §4, RFC 9000 §18).


CLIENT_HELLO, SERVER_HELLO, ENCRYPTED_EXTENSIONS, CERTIFICATE = 1, 2, 8, 11
#: Extensions: pre_shared_key, early_data (RFC 8446 §4.2), quic_transport_parameters (RFC 9001 §8.2).
_PSK, _EARLY_DATA, _PARAMETERS = 41, 42, 57
#: Transport parameters (RFC 9000 §18.2).
MAX_STREAMS_BIDI, PREFERRED_ADDRESS = 0x08, 0x0D


@dataclass
class CryptoStream:
    """The CRYPTO frames of one sender and packet number space, reassembled in order."""

    _pieces: dict[int, bytes] = field(default_factory=dict)
    _whole: bytearray = field(default_factory=bytearray)
    end: int = 0
    """Offset behind the farthest byte."""

    def add(self, offset: int, data: bytes) -> None:
        """Add the data of one frame."""
        self.end = max(self.end, offset + len(data))
        if len(data) > len(self._pieces.get(offset, b"")):
            self._pieces[offset] = data
        while (start := next((at for at in sorted(self._pieces) if at <= len(self._whole)), None)) is not None:
            piece = self._pieces.pop(start)
            self._whole += piece[max(0, len(self._whole) - start) :]

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """(type, body) of each handshake message that is whole."""
        at = 0
        while at + 4 <= len(self._whole):
            size = int.from_bytes(self._whole[at + 1 : at + 4], "big")
            if at + 4 + size > len(self._whole):
                return
            yield self._whole[at], bytes(self._whole[at + 4 : at + 4 + size])
            at += 4 + size

    def client_random(self) -> bytes | None:
        """The random of a ClientHello, which need not be complete."""
        random = bytes(self._whole[6:38])
        return random if len(random) == 32 and self._whole[0] == CLIENT_HELLO else None


@dataclass(frozen=True)
class Hello:
    """A ClientHello, or a ServerHello with its only suite."""

    suites: tuple[int, ...]
    psk: bool
    """It offers a session to be resumed, or accepts it."""


def parse_client_hello(body: bytes) -> Hello:
    """Parse a ClientHello. Raises IndexError where it is truncated."""
    at = 34 + 1 + body[34]
    size = int.from_bytes(body[at : at + 2], "big")
    suites = tuple(int.from_bytes(body[i : i + 2], "big") for i in range(at + 2, at + 2 + size, 2))
    at += 2 + size
    at += 1 + body[at]
    return Hello(suites, _PSK in dict(_parse_extensions(body[at:])))


def parse_server_hello(body: bytes) -> Hello:
    """Parse a ServerHello. Raises IndexError where it is truncated."""
    at = 34 + 1 + body[34]
    return Hello((int.from_bytes(body[at : at + 2], "big"),), _PSK in dict(_parse_extensions(body[at + 3 :])))


def accepts_early_data(body: bytes) -> bool:
    """Whether EncryptedExtensions accept early data (RFC 8446 §4.2.10)."""
    return _EARLY_DATA in dict(_parse_extensions(body))


def parse_transport_parameters(body: bytes) -> dict[int, bytes]:
    """The transport parameters in EncryptedExtensions, by identifier; empty where they cannot be read."""
    data = dict(_parse_extensions(body)).get(_PARAMETERS, b"")
    parameters: dict[int, bytes] = {}
    at = 0
    try:
        while at < len(data):
            name, at = read_varint(data, at)
            size, at = read_varint(data, at)
            parameters[name] = data[at : at + size]
            at += size
    except IndexError:
        return {}
    return parameters


def preferred_address_id(value: bytes) -> bytes:
    """The connection ID of a preferred_address (RFC 9000 §18.2): after two addresses with ports."""
    at = 4 + 2 + 16 + 2
    return value[at + 1 : at + 1 + value[at]] if len(value) > at else b""


def _parse_extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    end = 2 + int.from_bytes(data[:2], "big")
    at = 2
    while at + 4 <= end:
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        yield int.from_bytes(data[at : at + 2], "big"), data[at + 4 : at + 4 + size]
        at += 4 + size


# --- From datagrams, in the order in which they were sent, to the decrypted packets of each connection.


#: Encrypted packets with a long header → the label of their secret, without its sender.
_LABELS = {Form.HANDSHAKE: "HANDSHAKE_TRAFFIC_SECRET", Form.ZERO_RTT: "EARLY_TRAFFIC_SECRET"}
#: Packet number spaces (RFC 9000 §12.3): 0-RTT and 1-RTT packets share one.
_SPACE = {Form.INITIAL: 0, Form.HANDSHAKE: 1, Form.ZERO_RTT: 2, Form.SHORT: 2}
#: How many of the latest connections are tried when nothing shows to which one a packet belongs.
_MAX_CANDIDATES = 4


@dataclass
class DissectedConnection:
    """One connection, and the results of its handshake."""

    number: int
    first: Packet
    """The client's first Initial packet."""
    version: int
    """Of the client's first packet; then of the server's."""
    original_ids: list[bytes]
    """The IDs that Initial keys derive from: the client's choice, and the Retry's (RFC 9001 §5.2)."""
    hellos: dict[Role, Hello] = field(default_factory=dict)
    client_random: bytes | None = None
    certificate: bool = False
    """The server sent a Certificate message."""
    early_data: bool = False
    """The server accepted early data."""
    parameters: dict[int, bytes] = field(default_factory=dict)
    """The server's transport parameters."""
    streams: dict[tuple[Role, Form], CryptoStream] = field(default_factory=dict)
    """CRYPTO data by sender and kind of packet."""
    server_ids: set[bytes] = field(default_factory=set)
    """Source connection IDs of the server's Initial packets."""
    _initial: dict[tuple[bytes, int], dict[Role, Key]] = field(default_factory=dict)
    _keys: dict[tuple[Role, Form], Key] = field(default_factory=dict)
    _phases: dict[Role, list[Key]] = field(default_factory=dict)
    _largest: dict[tuple[Role, int], int] = field(default_factory=dict)
    current: dict[Role, int] = field(default_factory=dict)
    """Key updates of each sender so far."""

    def initial(self, version: int) -> Iterator[dict[Role, Key]]:
        """The keys that Initial packets of a version may have, the latest first."""
        for original in reversed(self.original_ids):
            if (original, version) not in self._initial:
                self._initial[original, version] = initial_keys(original, version)
            yield self._initial[original, version]

    def largest(self, sender: Role, form: Form) -> int:
        """The largest packet number in a packet number space so far, -1 for none."""
        return self._largest.get((sender, _SPACE[form]), -1)

    def record_number(self, sender: Role, form: Form, number: int) -> None:
        """Record a packet number."""
        self._largest[sender, _SPACE[form]] = max(number, self.largest(sender, form))

    @property
    def suite(self) -> int | None:
        """The cipher suite that the server chose."""
        hello = self.hellos.get("server")
        return hello.suites[0] if hello is not None else None


class PacketOpener:
    """Opens packets. Datagrams must come in order of time."""

    def __init__(self, secrets: Mapping[tuple[bytes, str], bytes]) -> None:
        """`secrets`: (client's random, label) → secret, of key logs."""
        self._secrets = secrets
        self.connections: list[DissectedConnection] = []
        self._by_id: dict[tuple[Role, bytes], DissectedConnection] = {}
        self._lengths: dict[Role, list[int]] = {role: [] for role in ROLES}
        self._by_address: dict[Address, DissectedConnection] = {}

    def open(self, datagram: Datagram, sender: Role) -> Iterator[Packet]:
        """The packets of a datagram."""
        client = datagram.source if sender == "client" else datagram.destination
        for header in split_packets(datagram.payload):
            if header.form is Form.SHORT:
                yield self._short(Packet(datagram, sender, header), client)
            elif header.form in (Form.RETRY, Form.VERSION_NEGOTIATION):
                yield self._unprotected(Packet(datagram, sender, header), client)
            else:
                yield self._long(Packet(datagram, sender, header), client)

    # --- the connection of a packet

    def _register(self, role: Role, connection_id: bytes, connection: DissectedConnection) -> None:
        """Assign packets to `role` with this destination ID to the connection."""
        self._by_id[role, connection_id] = connection
        if len(connection_id) not in self._lengths[role]:
            self._lengths[role] = sorted([*self._lengths[role], len(connection_id)], reverse=True)

    def _candidates(
        self, packet: Packet, client: Address, destination_id: bytes | None
    ) -> Iterator[DissectedConnection]:
        """Connections that a packet may belong to, the likeliest first. `destination_id`: where the packet has one."""
        receiver = peer_role(packet.sender)
        yielded: list[DissectedConnection] = []
        ids = [destination_id] if destination_id is not None else self._ids(packet.header.data, receiver)
        for connection_id in ids:
            connection = self._by_id.get((receiver, connection_id)) if connection_id else None
            if connection is not None and connection not in yielded:
                yielded.append(connection)
                yield connection
        for connection in (self._by_address.get(client), *reversed(self.connections[-_MAX_CANDIDATES:])):
            if connection is not None and connection not in yielded:
                yielded.append(connection)
                yield connection

    def _ids(self, data: bytes, receiver: Role) -> list[bytes]:
        return [data[1 : 1 + size] for size in self._lengths[receiver]]

    # --- kinds of packets

    def _unprotected(self, packet: Packet, client: Address) -> Packet:
        connection = self._by_address.get(client)
        if connection is None:
            return packet
        if packet.form is Form.RETRY and packet.sender == "server":
            connection.original_ids.append(packet.header.source_id)
            self._register("server", packet.header.source_id, connection)
        return _decrypted_packet(packet, connection, None, 0)

    def _long(self, packet: Packet, client: Address) -> Packet:
        sender, header = packet.sender, packet.header
        for connection in self._candidates(packet, client, header.destination_id):
            for key in self._long_keys(connection, sender, header):
                if (decrypted := _try_key(key, connection, sender, header)) is not None:
                    return self._take(packet, connection, decrypted, client)
        if header.form is not Form.INITIAL or sender != "client":
            return packet
        number = len(self.connections)
        new_connection = DissectedConnection(number, packet, header.version, [header.destination_id])
        for keys in new_connection.initial(header.version):
            if (decrypted := _try_key(keys["client"], new_connection, sender, header)) is not None:
                self.connections.append(new_connection)
                self._register("server", header.destination_id, new_connection)
                return self._take(packet, new_connection, decrypted, client)
        return packet

    def _long_keys(self, connection: DissectedConnection, sender: Role, header: Header) -> Iterator[Key]:
        if header.form is Form.INITIAL:
            yield from (keys[sender] for keys in connection.initial(header.version))
            return
        label = f"{sender.upper()}_{_LABELS[header.form]}"
        if header.form is Form.ZERO_RTT:
            label = f"CLIENT_{_LABELS[header.form]}"
        yield from self._secret_keys(connection, sender, header.form, label, header.version)

    def _secret_keys(
        self, connection: DissectedConnection, sender: Role, form: Form, label: str, version: int
    ) -> Iterator[Key]:
        if (sender, form) in connection._keys:
            yield connection._keys[sender, form]
            return
        secret = self._secrets.get((connection.client_random or b"", label))
        if secret is None:
            return
        chosen = SUITES.get(connection.suite or 0)
        for aead in (chosen,) if chosen is not None else candidate_aeads(secret):
            yield Key(secret, aead, version)

    def _take(
        self, packet: Packet, connection: DissectedConnection, decrypted: DecryptedPacket, client: Address
    ) -> Packet:
        """Record the state that an opened packet with a long header shows."""
        sender, header = packet.sender, packet.header
        connection.record_number(sender, header.form, decrypted.number)
        self._register(sender, header.source_id, connection)
        self._by_address[client] = connection
        if sender == "server":
            connection.version = header.version
            if header.form is Form.INITIAL:
                connection.server_ids.add(header.source_id)
        opened_packet = _decrypted_packet(packet, connection, decrypted, 0)
        self._read_crypto(opened_packet, connection)
        return opened_packet

    def _short(self, packet: Packet, client: Address) -> Packet:
        sender, header = packet.sender, packet.header
        for connection in self._candidates(packet, client, None):
            phases = connection._phases.get(sender)
            if phases is None:
                label = f"{sender.upper()}_TRAFFIC_SECRET_0"
                keys = self._secret_keys(connection, sender, Form.SHORT, label, connection.version)
                phases = list(keys)[:1]
                if not phases:
                    continue
                connection._phases[sender] = phases
            for size in dict.fromkeys(
                [len(connection_id) for connection_id in self._own_ids(header, connection, sender)]
            ):
                if (opened_packet := self._in_phase(packet, connection, phases, 1 + size)) is not None:
                    self._by_address[client] = connection
                    return opened_packet
        return packet

    def _own_ids(self, header: Header, connection: DissectedConnection, sender: Role) -> list[bytes]:
        """The destination IDs that a short header may have, those of the connection first."""
        ids = self._ids(header.data, peer_role(sender))
        return sorted(
            ids, key=lambda connection_id: self._by_id.get((peer_role(sender), connection_id)) is not connection
        )

    def _in_phase(self, packet: Packet, connection: DissectedConnection, phases: list[Key], at: int) -> Packet | None:
        sender, header = packet.sender, packet.header
        current_phase = connection.current.get(sender, 0)
        unmasked = phases[current_phase].unmask(header, at, connection.largest(sender, Form.SHORT))
        if unmasked is None:
            return None
        first, number, head = unmasked
        phase_bit = bool(first & 0x04)
        # The next phase, or the one before, for a late packet.
        order = [current_phase] if phase_bit == bool(current_phase & 1) else [current_phase + 1, current_phase - 1]
        for phase in order:
            if phase < 0:
                continue
            if phase == len(phases):
                phases.append(phases[-1].next())
            decrypted = phases[phase].open(header, first, number, head)
            if decrypted is not None:
                connection.current[sender] = max(current_phase, phase)
                connection.record_number(sender, Form.SHORT, number)
                destination = header.data[1:at]
                full_header = Header(Form.SHORT, header.data, at, connection.version, destination)
                opened_packet = _decrypted_packet(
                    Packet(packet.datagram, sender, full_header), connection, decrypted, phase
                )
                for connection_id in opened_packet.frames.new_ids if opened_packet.frames is not None else ():
                    self._register(sender, connection_id, connection)
                return opened_packet
        return None

    # --- TLS

    def _read_crypto(self, packet: Packet, connection: DissectedConnection) -> None:
        frames = packet.frames
        if frames is None or not frames.crypto:
            return
        if packet.sender == "client" and packet.form is Form.INITIAL:
            self._begin_again(packet, connection)
        stream = connection.streams.setdefault((packet.sender, packet.form), CryptoStream())
        for offset, data in frames.crypto:
            stream.add(offset, data)
        if packet.sender == "client" and packet.form is Form.INITIAL and connection.client_random is None:
            connection.client_random = stream.client_random()
        for kind, body in stream.messages():
            self._message(connection, kind, body)

    def _begin_again(self, packet: Packet, connection: DissectedConnection) -> None:
        """Forget the ClientHello before a Retry where the client sends another one behind it, and so has other secrets.

        RFC 9000 §17.2.5.3 wants the same ClientHello; not all clients keep to it.
        """
        random = packet.hello_random
        retried = len(connection.original_ids) > 1
        if retried and random is not None and connection.client_random not in (None, random):
            connection.client_random = None
            connection.streams.pop(("client", Form.INITIAL), None)
            connection.hellos.pop("client", None)
            connection._keys.clear()

    def _message(self, connection: DissectedConnection, kind: int, body: bytes) -> None:
        try:
            if kind == CLIENT_HELLO:
                connection.hellos.setdefault("client", parse_client_hello(body))
            elif kind == SERVER_HELLO:
                connection.hellos["server"] = parse_server_hello(body)
            elif kind == ENCRYPTED_EXTENSIONS and not connection.parameters:
                connection.early_data = accepts_early_data(body)
                connection.parameters = parse_transport_parameters(body)
                if preferred := preferred_address_id(connection.parameters.get(PREFERRED_ADDRESS, b"")):
                    self._register("server", preferred, connection)
            elif kind == CERTIFICATE:
                connection.certificate = True
        except IndexError:
            return


def _try_key(key: Key, connection: DissectedConnection, sender: Role, header: Header) -> DecryptedPacket | None:
    unmasked = key.unmask(header, header.number_at, connection.largest(sender, header.form))
    if unmasked is None:
        return None
    decrypted = key.open(header, *unmasked)
    if decrypted is not None and header.form is not Form.INITIAL:
        connection._keys[sender, header.form] = key
    return decrypted


def _decrypted_packet(
    packet: Packet, connection: DissectedConnection, decrypted: DecryptedPacket | None, phase: int
) -> Packet:
    if decrypted is None:
        return Packet(packet.datagram, packet.sender, packet.header, connection.number)
    return Packet(
        packet.datagram, packet.sender, packet.header, connection.number, decrypted.number, phase, decrypted.plaintext
    )

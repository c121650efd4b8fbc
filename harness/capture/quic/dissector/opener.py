"""From datagrams in the order in which they were sent to decrypted packets, connection by connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.capture.datagrams import Address, Datagram
from harness.capture.quic.dissector import tls
from harness.capture.quic.dissector.header import Header, split
from harness.capture.quic.dissector.keys import SUITES, Key, Opened, initial_keys
from harness.capture.quic.dissector.packet import Packet
from harness.capture.quic.dissector.tls import CryptoStream, Hello
from harness.capture.quic.invariants import Form
from harness.capture.quic.protection import candidates
from harness.scenario.parameters import ROLES, Role, other

#: Packets with a long header that keys open → the label of their secret, without its sender.
_LABELS = {Form.HANDSHAKE: "HANDSHAKE_TRAFFIC_SECRET", Form.ZERO_RTT: "EARLY_TRAFFIC_SECRET"}
#: Packet number spaces (RFC 9000 §12.3): 0-RTT and 1-RTT packets share one.
_SPACE = {Form.INITIAL: 0, Form.HANDSHAKE: 1, Form.ZERO_RTT: 2, Form.SHORT: 2}
#: The latest connections with a client that are tried when nothing says whose a packet is.
_TRIED = 4


@dataclass
class Connection:
    """One connection, and what its handshake said."""

    number: int
    first: Packet
    """The client's first Initial packet."""
    version: int
    """Of the client's first packet; then of the server's."""
    original_ids: list[bytes]
    """That Initial keys come from: the client's choice, and the Retry's (RFC 9001 §5.2)."""
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
        """The largest packet number of a space so far."""
        return self._largest.get((sender, _SPACE[form]), -1)

    def note(self, sender: Role, form: Form, number: int) -> None:
        """A packet number was seen."""
        self._largest[sender, _SPACE[form]] = max(number, self.largest(sender, form))

    @property
    def suite(self) -> int | None:
        """The cipher suite that the server chose."""
        hello = self.hellos.get("server")
        return hello.suites[0] if hello is not None else None


class Opener:
    """Opens packets; datagrams are given in order of time."""

    def __init__(self, secrets: Mapping[tuple[bytes, str], bytes]) -> None:
        """`secrets`: (client's random, label) → secret, of key logs."""
        self._secrets = secrets
        self.connections: list[Connection] = []
        self._by_id: dict[tuple[Role, bytes], Connection] = {}
        self._lengths: dict[Role, list[int]] = {role: [] for role in ROLES}
        self._by_address: dict[Address, Connection] = {}

    def open(self, datagram: Datagram, sender: Role) -> Iterator[Packet]:
        """The packets of a datagram."""
        client = datagram.source if sender == "client" else datagram.destination
        for header in split(datagram.payload):
            if header.form is Form.SHORT:
                yield self._short(Packet(datagram, sender, header), client)
            elif header.form in (Form.RETRY, Form.VERSION_NEGOTIATION):
                yield self._unprotected(Packet(datagram, sender, header), client)
            else:
                yield self._long(Packet(datagram, sender, header), client)

    # --- whose it is

    def _register(self, role: Role, connection_id: bytes, connection: Connection) -> None:
        """Packets to `role` with this destination ID are of the connection."""
        self._by_id[role, connection_id] = connection
        if len(connection_id) not in self._lengths[role]:
            self._lengths[role] = sorted([*self._lengths[role], len(connection_id)], reverse=True)

    def _candidates(self, packet: Packet, client: Address, known: bytes | None) -> Iterator[Connection]:
        """Connections that a packet may be of, the likeliest first. `known`: its destination ID, where written."""
        receiver = other(packet.sender)
        tried: list[Connection] = []
        ids = [known] if known is not None else self._ids(packet.header.data, receiver)
        for one in ids:
            found = self._by_id.get((receiver, one)) if one else None
            if found is not None and found not in tried:
                tried.append(found)
                yield found
        for found in (self._by_address.get(client), *reversed(self.connections[-_TRIED:])):
            if found is not None and found not in tried:
                tried.append(found)
                yield found

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
        return _of(packet, connection, None, 0)

    def _long(self, packet: Packet, client: Address) -> Packet:
        sender, header = packet.sender, packet.header
        for connection in self._candidates(packet, client, header.destination_id):
            for key in self._long_keys(connection, sender, header):
                if (opened := _try(key, connection, sender, header)) is not None:
                    return self._take(packet, connection, opened, client)
        if header.form is not Form.INITIAL or sender != "client":
            return packet
        number = len(self.connections)
        fresh = Connection(number, packet, header.version, [header.destination_id])
        for keys in fresh.initial(header.version):
            if (opened := _try(keys["client"], fresh, sender, header)) is not None:
                self.connections.append(fresh)
                self._register("server", header.destination_id, fresh)
                return self._take(packet, fresh, opened, client)
        return packet

    def _long_keys(self, connection: Connection, sender: Role, header: Header) -> Iterator[Key]:
        if header.form is Form.INITIAL:
            yield from (keys[sender] for keys in connection.initial(header.version))
            return
        label = f"{sender.upper()}_{_LABELS[header.form]}"
        if header.form is Form.ZERO_RTT:
            label = f"CLIENT_{_LABELS[header.form]}"
        yield from self._secret_keys(connection, sender, header.form, label, header.version)

    def _secret_keys(
        self, connection: Connection, sender: Role, form: Form, label: str, version: int
    ) -> Iterator[Key]:  # fmt: skip
        if (sender, form) in connection._keys:
            yield connection._keys[sender, form]
            return
        secret = self._secrets.get((connection.client_random or b"", label))
        if secret is None:
            return
        chosen = SUITES.get(connection.suite or 0)
        for aead in (chosen,) if chosen is not None else candidates(secret):
            yield Key(secret, aead, version)

    def _take(self, packet: Packet, connection: Connection, opened: Opened, client: Address) -> Packet:
        """A packet with a long header was opened: remember what it tells."""
        sender, header = packet.sender, packet.header
        connection.note(sender, header.form, opened.number)
        self._register(sender, header.source_id, connection)
        self._by_address[client] = connection
        if sender == "server":
            connection.version = header.version
            if header.form is Form.INITIAL:
                connection.server_ids.add(header.source_id)
        made = _of(packet, connection, opened, 0)
        self._read_crypto(made, connection)
        return made

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
            for size in dict.fromkeys([len(one) for one in self._own_ids(header, connection, sender)]):
                if (found := self._in_phase(packet, connection, phases, 1 + size)) is not None:
                    self._by_address[client] = connection
                    return found
        return packet

    def _own_ids(self, header: Header, connection: Connection, sender: Role) -> list[bytes]:
        """Destination IDs that a short header may have: those of the connection first."""
        ids = self._ids(header.data, other(sender))
        return sorted(ids, key=lambda one: self._by_id.get((other(sender), one)) is not connection)

    def _in_phase(self, packet: Packet, connection: Connection, phases: list[Key], at: int) -> Packet | None:
        sender, header = packet.sender, packet.header
        now = connection.current.get(sender, 0)
        read = phases[now].unmasked(header, at, connection.largest(sender, Form.SHORT))
        if read is None:
            return None
        first, number, head = read
        bit = bool(first & 0x04)
        # The next phase, or, of a packet that comes late, the one before.
        order = [now] if bit == bool(now & 1) else [now + 1, now - 1]
        for phase in order:
            if phase < 0:
                continue
            if phase == len(phases):
                phases.append(phases[-1].next())
            opened = phases[phase].open(header, first, number, head)
            if opened is not None:
                connection.current[sender] = max(now, phase)
                connection.note(sender, Form.SHORT, number)
                destination = header.data[1:at]
                known = Header(Form.SHORT, header.data, at, connection.version, destination)
                made = _of(Packet(packet.datagram, sender, known), connection, opened, phase)
                for new in made.frames.new_ids if made.frames is not None else ():
                    self._register(sender, new, connection)
                return made
        return None

    # --- TLS

    def _read_crypto(self, packet: Packet, connection: Connection) -> None:
        frames = packet.frames
        if frames is None or not frames.crypto:
            return
        stream = connection.streams.setdefault((packet.sender, packet.form), CryptoStream())
        for offset, data in frames.crypto:
            stream.add(offset, data)
        if packet.sender == "client" and packet.form is Form.INITIAL and connection.client_random is None:
            connection.client_random = stream.client_random()
        for kind, body in stream.messages():
            self._message(connection, kind, body)

    def _message(self, connection: Connection, kind: int, body: bytes) -> None:
        try:
            if kind == tls.CLIENT_HELLO:
                connection.hellos.setdefault("client", tls.client_hello(body))
            elif kind == tls.SERVER_HELLO:
                connection.hellos["server"] = tls.server_hello(body)
            elif kind == tls.ENCRYPTED_EXTENSIONS and not connection.parameters:
                connection.early_data = tls.accepts_early_data(body)
                connection.parameters = tls.transport_parameters(body)
                if own := tls.preferred_id(connection.parameters.get(tls.PREFERRED_ADDRESS, b"")):
                    self._register("server", own, connection)
            elif kind == tls.CERTIFICATE:
                connection.certificate = True
        except IndexError:
            return


def _try(key: Key, connection: Connection, sender: Role, header: Header) -> Opened | None:
    read = key.unmasked(header, header.number_at, connection.largest(sender, header.form))
    if read is None:
        return None
    opened = key.open(header, *read)
    if opened is not None and header.form is not Form.INITIAL:
        connection._keys[sender, header.form] = key
    return opened


def _of(packet: Packet, connection: Connection, opened: Opened | None, phase: int) -> Packet:
    if opened is None:
        return Packet(packet.datagram, packet.sender, packet.header, connection.number)
    return Packet(
        packet.datagram, packet.sender, packet.header, connection.number, opened.number, phase, opened.plain
    )  # fmt: skip

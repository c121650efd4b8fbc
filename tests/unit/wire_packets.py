"""Conversations of QUIC as they are on the wire, packet by packet: written after RFC 9000, 9001, 9369 and 8446, not after
harness.capture.quic.dissector, so that the two check each other."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from harness.analysis.interop.evidence import Evidence
from harness.capture.datagrams import Address, Datagram
from harness.capture.quic.dissector import PacketOpener
from harness.outcome import Run
from harness.scenario.parameters import ROLES
from tests.unit.captures import make_run
from tests.unit.packet_protection import integer

Role = Literal["client", "server"]
V1, V2 = 1, 0x6B3343CF
AES_128, CHACHA = 0x1301, 0x1303
CLIENT: Address = ("193.167.0.100", 50_000)
SERVER: Address = ("193.167.100.100", 443)
_SALTS = {V1: "38762cf7f55934b34d179ae6a4c80cadccbb7f0a", V2: "0dede3def700a6db819381be6e269dcbf9bd2ed9"}
_TYPES = {
    V1: {"initial": 0, "0rtt": 1, "handshake": 2, "retry": 3},
    V2: {"initial": 1, "0rtt": 2, "handshake": 3, "retry": 0},
}
_WORDS = {"handshake": "HANDSHAKE_TRAFFIC_SECRET", "0rtt": "EARLY_TRAFFIC_SECRET", "short": "TRAFFIC_SECRET_0"}


def _expand(secret: bytes, label: str, size: int) -> bytes:
    name = b"tls13 " + label.encode()
    return HKDFExpand(hashes.SHA256(), size, bytes([0, size, len(name)]) + name + b"\0").derive(secret)


def _protect(secret: bytes, version: int, suite: int, header: bytes, number: int, payload: bytes, phases: int) -> bytes:
    """`header` ends where the packet number begins, of which four bytes are written."""
    word = "quicv2 " if version == V2 else "quic "
    protecting = _expand(secret, word + "hp", 32 if suite == CHACHA else 16)
    for _ in range(phases):
        secret = _expand(secret, word + "ku", 32)
    key = _expand(secret, word + "key", 32 if suite == CHACHA else 16)
    nonce = int.from_bytes(_expand(secret, word + "iv", 12), "big") ^ number
    whole = header + number.to_bytes(4, "big")
    cipher = ChaCha20Poly1305(key) if suite == CHACHA else AESGCM(key)
    body = cipher.encrypt(nonce.to_bytes(12, "big"), payload, whole)
    if suite == CHACHA:
        mask = Cipher(algorithms.ChaCha20(protecting, body[:16]), mode=None).encryptor().update(bytes(5))
    else:
        mask = Cipher(algorithms.AES(protecting), modes.ECB()).encryptor().update(body[:16])
    first = whole[0] ^ (mask[0] & (0x0F if whole[0] & 0x80 else 0x1F))
    covered = bytes(a ^ b for a, b in zip(whole[-4:], mask[1:5], strict=True))
    return bytes([first]) + whole[1:-4] + covered + body


# --- TLS


def _message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def _extensions(extensions: dict[int, bytes]) -> bytes:
    data = b"".join(
        kind.to_bytes(2, "big") + len(value).to_bytes(2, "big") + value for kind, value in extensions.items()
    )
    return len(data).to_bytes(2, "big") + data


def client_hello(random: bytes, suites: Sequence[int] = (AES_128, 0x1302, CHACHA), psk: bool = False) -> bytes:
    listed = b"".join(suite.to_bytes(2, "big") for suite in suites)
    body = b"\x03\x03" + random + b"\0" + len(listed).to_bytes(2, "big") + listed + b"\x01\0"
    return _message(1, body + _extensions({43: b"\x02\x03\x04"} | ({41: bytes(8)} if psk else {})))


def server_hello(suite: int = AES_128, psk: bool = False) -> bytes:
    body = b"\x03\x03" + bytes(32) + b"\0" + suite.to_bytes(2, "big") + b"\0"
    return _message(2, body + _extensions({43: b"\x03\x04"} | ({41: b"\0\0"} if psk else {})))


def encrypted_extensions(streams: int = 100, early: bool = False) -> bytes:
    value = integer(streams)
    parameters = integer(8) + integer(len(value)) + value
    return _message(8, _extensions({57: parameters} | ({42: b""} if early else {})))


def certificate(size: int = 700) -> bytes:
    return _message(11, bytes(size))


# --- frames

PING, ACK = b"\x01", b"\x02\x00\x00\x00\x00"
ACK_ECN = b"\x03\x00\x00\x00\x00\x01\x00\x00"


def crypto(data: bytes, offset: int = 0) -> bytes:
    return b"\x06" + integer(offset) + integer(len(data)) + data


def challenge(data: bytes) -> bytes:
    return b"\x1a" + data


def response(data: bytes) -> bytes:
    return b"\x1b" + data


@dataclass
class Conversation:
    """One connection; the calls make packets and datagrams in the order in which they are sent."""

    number: int = 0
    suite: int = AES_128
    logs_secrets: bool = True
    """Whether an endpoint writes its secrets down."""
    logs_early: bool = True
    """Whether that of early data is among them."""
    client_id: bytes = b"client-0"
    server_id: bytes = b"server-0"
    chosen_id: bytes = b"original"
    """What the client addresses the server by, until it knows better."""
    numbers: dict[tuple[Role, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = bytes([self.number + 1]) * 32
        mark = str(self.number).encode()
        self.client_id, self.server_id = self.client_id[:-1] + mark, self.server_id[:-1] + mark
        self.chosen_id = self.chosen_id[:-1] + mark
        self.known = self.chosen_id
        self.original = self.chosen_id

    def secret(self, sender: Role, kind: str) -> bytes:
        return hmac.new(self.random, f"{sender} {kind}".encode(), "sha256").digest()

    @property
    def secrets(self) -> dict[tuple[bytes, str], bytes]:
        labels = {
            (sender, kind): f"{'CLIENT' if kind == '0rtt' else sender.upper()}_{word}"
            for kind, word in _WORDS.items()
            for sender in ("client", "server")
        }
        return {
            (self.random, label): self.secret(sender, kind)  # type: ignore[arg-type]
            for (sender, kind), label in labels.items()
            if (kind != "0rtt" or (sender == "client" and self.logs_early)) and self.logs_secrets
        }

    def _next(self, sender: Role, kind: str) -> int:
        space = "short" if kind == "0rtt" else kind
        self.numbers[sender, space] = self.numbers.get((sender, space), -1) + 1
        return self.numbers[sender, space]

    def long(self, sender: Role, kind: str, frames: bytes, token: bytes = b"", version: int = V1) -> bytes:
        """An Initial, 0-RTT or Handshake packet."""
        number = self._next(sender, kind)
        payload = frames.ljust(24, b"\0")
        first = 0xC3 | _TYPES[version][kind] << 4
        ends = (self.known, self.client_id) if sender == "client" else (self.client_id, self.server_id)
        header = (
            bytes([first])
            + version.to_bytes(4, "big")
            + b"".join(bytes([len(connection_id)]) + connection_id for connection_id in ends)
        )
        if kind == "initial":
            header += integer(len(token)) + token
            salted = hmac.new(bytes.fromhex(_SALTS[version]), self.original, "sha256").digest()
            secret = _expand(salted, f"{sender} in", 32)
        else:
            secret = self.secret(sender, kind)
        header += (0x4000 | len(payload) + 4 + 16).to_bytes(2, "big")
        suite = AES_128 if kind == "initial" else self.suite
        return _protect(secret, version, suite, header, number, payload, 0)

    def short(self, sender: Role, frames: bytes, phases: int = 0, server_id: bytes | None = None) -> bytes:
        number = self._next(sender, "short")
        to = (server_id or self.server_id) if sender == "client" else self.client_id
        header = bytes([0x43 | (phases & 1) << 2]) + to
        return _protect(self.secret(sender, "short"), V1, self.suite, header, number, frames.ljust(24, b"\0"), phases)

    def retry(self, token: bytes, retry_id: bytes = b"retry-id") -> bytes:
        """A Retry, whose ID the client then addresses the server by and starts over with."""
        header = bytes([0xF0]) + V1.to_bytes(4, "big")
        header += bytes([len(self.client_id)]) + self.client_id + bytes([len(retry_id)]) + retry_id
        self.known = self.original = retry_id
        return header + token + bytes(16)


def version_negotiation(to: bytes, of: bytes) -> bytes:
    return b"\x80\0\0\0\0" + bytes([len(to)]) + to + bytes([len(of)]) + of + V1.to_bytes(4, "big")


@dataclass
class Trace:
    """Datagrams in the order in which they are sent, a millisecond after each other."""

    datagrams: list[tuple[Role, Datagram]] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    """By their place in `datagrams`: those that never come to the other side."""

    def send(
        self, sender: Role, *packets: bytes, ecn: int = 2, client: Address = CLIENT, server: Address = SERVER,
        size: int = 0, ip: int = 4, lost: bool = False,
    ) -> None:  # fmt: skip
        payload = b"".join(packets).ljust(size, b"\0")
        ends = (client, server) if sender == "client" else (server, client)
        number = len(self.datagrams) + 1
        if lost:
            self.lost.add(len(self.datagrams))
        datagram = Datagram(number, number * 1_000_000, *ends, ip, ecn, payload, len(payload))
        self.datagrams.append((sender, datagram))

    def evidence(self, *conversations: Conversation, run: Run | None = None) -> Evidence:
        opener = PacketOpener(
            {name: secret for conversation in conversations for name, secret in conversation.secrets.items()}
        )
        sent = [packet for sender, datagram in self.datagrams for packet in opener.open(datagram, sender)]
        there = [item for place, item in enumerate(self.datagrams) if place not in self.lost]
        arrived = {role: tuple(datagram for sender, datagram in there if sender == role) for role in ROLES}
        keyed = any(conversation.logs_secrets for conversation in conversations)
        judged = run or make_run()
        detail = judged.outcome.detail or ""
        return Evidence(tuple(sent), arrived, tuple(opener.connections), keyed, True, judged.transfers, detail)


def shake_hands(
    trace: Trace, conversation: Conversation, *, suites: Sequence[int] = (AES_128, 0x1302, CHACHA), version: int = V1,
    certificate_size: int = 700, resumes: bool = False, early: bool = False, streams: int = 100, token: bytes = b"",
    again: int = 1, handshake_version: int | None = None, accepts: bool = True,
) -> None:  # fmt: skip
    """A whole handshake; the server's answer fits into what it may send."""
    hello = client_hello(conversation.random, suites, resumes)
    for _ in range(again):
        trace.send("client", conversation.long("client", "initial", crypto(hello), token), size=1200)
    if early:
        trace.send("client", conversation.long("client", "0rtt", b"\x0a\x00\x20" + bytes(32)))
    answer = conversation.long(
        "server", "initial", crypto(server_hello(conversation.suite, resumes)) + ACK, version=version
    )
    handshake_bytes = encrypted_extensions(streams, early and accepts) + (
        b"" if resumes else certificate(certificate_size)
    )
    parts = [handshake_bytes[at : at + 1000] for at in range(0, len(handshake_bytes), 1000)]
    chosen = handshake_version or version
    packets = [
        conversation.long("server", "handshake", crypto(part, at * 1000), version=chosen)
        for at, part in enumerate(parts)
    ]
    conversation.known = conversation.server_id
    trace.send("server", answer, packets[0])
    trace.send("client", conversation.long("client", "initial", ACK_ECN, token, version=version))
    for packet in packets[1:]:
        trace.send("server", packet)
    trace.send(
        "client", conversation.long("client", "handshake", ACK_ECN, version=chosen), conversation.short("client", PING)
    )
    trace.send("server", conversation.short("server", ACK_ECN + b"\x1e"))

"""Keys of packets, and packets opened with them (RFC 9001 §5, RFC 9369 §3.3)."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from harness.capture.quic.dissector.header import LONG, Header
from harness.capture.quic.invariants import VERSION_2
from harness.capture.quic.one_rtt import decode_number
from harness.capture.quic.protection import SAMPLE, TAG, Aead, Keys, derive, expand_label, next_secret
from harness.scenario.parameters import Role

#: RFC 9001 §5.2 and RFC 9369 §3.3.1.
_SALT_1 = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
_SALT_2 = bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9")
#: Cipher suites of TLS 1.3 (RFC 8446 §B.4).
SUITES = {
    0x1301: Aead.AES_128_GCM, 0x1302: Aead.AES_256_GCM, 0x1303: Aead.CHACHA20_POLY1305, 0x1304: Aead.AES_128_CCM,
}  # fmt: skip
_LENGTH, _PHASE = 0x03, 0x04


class _Opens(Protocol):
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...


@dataclass(frozen=True)
class Opened:
    """A packet without its protection."""

    number: int
    phase_bit: bool
    """Of a short header (RFC 9000 §17.3.1)."""
    plain: bytes


@dataclass
class Key:
    """What opens the packets of one sender in one packet number space, and one key phase."""

    secret: bytes
    aead: Aead
    version: int
    header_key: bytes = b""
    """Key of header protection where it is not the secret's own: of later key phases (RFC 9001 §6.1)."""
    _ecb: CipherContext | None = field(default=None, repr=False)

    @cached_property
    def _keys(self) -> Keys:
        return derive(self.secret, self.aead, self.version)

    @cached_property
    def _cipher(self) -> _Opens:
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

    def unmasked(self, header: Header, at: int, largest: int) -> tuple[int, int, bytes] | None:
        """First byte, packet number and the header as it was authenticated; None of a packet that is too short.

        `at`: where the packet number starts; `largest`: the largest number before (RFC 9000 §A.3), -1 for none.
        """
        data = header.data
        if len(data) < at + 4 + SAMPLE:
            return None
        mask = self._mask(data[at + 4 : at + 4 + SAMPLE])
        first = data[0] ^ (mask[0] & (0x0F if data[0] & LONG else 0x1F))
        size = (first & _LENGTH) + 1
        written = bytes(a ^ b for a, b in zip(data[at : at + size], mask[1:], strict=False))
        number = decode_number(largest, int.from_bytes(written, "big"), 8 * size)
        return first, number, bytes([first]) + data[1:at] + written

    def open(self, header: Header, first: int, number: int, head: bytes) -> Opened | None:
        """The packet's payload; None where its tag does not fit."""
        iv = self._keys.iv
        nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(len(iv), "big")
        body = header.data[len(head) :]
        if len(body) < TAG or number < 0:
            return None
        try:
            plain = self._cipher.decrypt(nonce, body, head)
        except InvalidTag:
            return None
        return Opened(number, bool(first & _PHASE), plain)


def initial_keys(original_id: bytes, version: int) -> dict[Role, Key]:
    """The keys of Initial packets, from the connection ID that the client chose for the server (RFC 9001 §5.2)."""
    salt = _SALT_2 if version == VERSION_2 else _SALT_1
    secret = hmac.new(salt, original_id, "sha256").digest()
    return {
        "client": Key(expand_label(secret, "client in", 32), Aead.AES_128_GCM, version),
        "server": Key(expand_label(secret, "server in", 32), Aead.AES_128_GCM, version),
    }

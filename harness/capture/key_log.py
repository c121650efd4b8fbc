"""TLS secrets that an endpoint logged (draft-ietf-tls-keylogfile)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.capture.files import read_whole_lines

Sender = Literal["client", "server"]
_LABELS: dict[str, Sender] = {"CLIENT_TRAFFIC_SECRET_0": "client", "SERVER_TRAFFIC_SECRET_0": "server"}
#: Bytes of a client's random, and of a secret: the output of SHA-256 and of SHA-384 (RFC 8446 §4.1.2, §7.1).
_RANDOM, _SECRETS = 32, (32, 48)


@dataclass(frozen=True)
class Secret:
    """The first application traffic secret of one direction of a connection (RFC 8446 §7.1)."""

    client_random: bytes
    """It identifies the connection."""
    sender: Sender
    secret: bytes


def read_key_log(path: Path) -> list[Secret]:
    """The application traffic secrets in a key log, in its order, each once. Raises OSError.

    Other secrets, comments and damaged lines are left out.
    """
    lines = read_whole_lines(path).decode("ascii", "replace").splitlines()
    return list(dict.fromkeys(_secrets(lines)))


def read_secrets(path: Path) -> dict[tuple[bytes, str], bytes]:
    """All secrets of a key log, as `parse_secrets`. Raises OSError."""
    return parse_secrets(read_whole_lines(path).decode("ascii", "replace"))


def parse_secrets(text: str) -> dict[tuple[bytes, str], bytes]:
    """All secrets of a key log's lines: (client's random, label) → secret, the first of several alike.

    Labels are those of draft-ietf-tls-keylogfile: CLIENT_HANDSHAKE_TRAFFIC_SECRET and the like.
    """
    secrets: dict[tuple[bytes, str], bytes] = {}
    for line in text.splitlines():
        words = line.split()
        try:
            random, secret = bytes.fromhex(words[1]), bytes.fromhex(words[2])
        except (ValueError, IndexError):
            continue
        if len(random) == _RANDOM and len(secret) in _SECRETS:
            secrets.setdefault((random, words[0]), secret)
    return secrets


def _secrets(lines: Iterable[str]) -> Iterable[Secret]:
    for line in lines:
        words = line.split()
        if len(words) != 3 or words[0] not in _LABELS:
            continue
        try:
            random, secret = bytes.fromhex(words[1]), bytes.fromhex(words[2])
        except ValueError:
            continue
        if len(random) == _RANDOM and len(secret) in _SECRETS:
            yield Secret(random, _LABELS[words[0]], secret)

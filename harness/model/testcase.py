"""What endpoints are asked to do, in the words of the interop runner's contract."""

from __future__ import annotations

from typing import Final, Literal

from harness.parameters import Role

TestcaseName = Literal[
    "handshake", "transfer", "chacha20", "keyupdate", "retry", "resumption", "zerortt", "http3", "multiconnect",
    "v2", "ecn", "connectionmigration", "versionnegotiation",
]  # fmt: skip
#: What only one role is told; the other one is asked for `transfer`.
ONE_SIDED: Final[dict[str, Role]] = {"keyupdate": "client", "connectionmigration": "server"}

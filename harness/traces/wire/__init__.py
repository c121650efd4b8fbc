"""QUIC as it was on the wire: every packet of whole frames, decrypted and checked (RFC 9001 §5).

Unlike `harness.traces.one_rtt`, which reads the heads of many packets, this takes long headers too and verifies tags:
AEADs and hashes are those of the `cryptography` library.
"""

from harness.traces.wire.header import Header, split
from harness.traces.wire.opener import Connection, Opener
from harness.traces.wire.packet import Packet

__all__ = ["Connection", "Header", "Opener", "Packet", "split"]

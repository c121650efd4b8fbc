"""QUIC as it was on the wire: every packet of whole frames, decrypted and checked (RFC 9001 §5).

Unlike `harness.capture.quic.one_rtt`, which reads the heads of many packets, this takes long headers too and verifies
tags: AEADs and hashes are those of the `cryptography` library.
"""

from harness.capture.quic.dissector.header import Header, split
from harness.capture.quic.dissector.opener import Connection, Opener
from harness.capture.quic.dissector.packet import Packet

__all__ = ["Connection", "Header", "Opener", "Packet", "split"]

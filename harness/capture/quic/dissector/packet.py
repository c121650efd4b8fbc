"""One packet as it was sent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.capture.datagrams import Datagram
from harness.capture.quic.dissector.header import Header
from harness.capture.quic.frames import FrameError, Frames, read_frames
from harness.capture.quic.invariants import Form
from harness.scenario.parameters import Role


@dataclass(frozen=True)
class Packet:
    """One packet, with its payload where there are keys for it."""

    datagram: Datagram
    sender: Role
    header: Header
    connection: int | None = None
    """Number of its connection, from 0; None where nobody knows."""
    number: int | None = None
    """Packet number; None where it was not decrypted."""
    phase: int = 0
    """Key updates before it (RFC 9001 §6)."""
    plain: bytes | None = None
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
        if self.plain is None:
            return None
        try:
            return read_frames(self.plain, len(self.plain))
        except FrameError:
            return None

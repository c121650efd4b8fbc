"""When the first bytes of a response's body had arrived over TLS and TCP, from the segments at the client's side.

Nothing is decrypted. Beside the body the server's stream has its handshake, the headers of TLS records (RFC 8446 §5.2)
and of HTTP/2 frames (RFC 9113 §4.1), and header fields; in all they are what the stream has beyond the file. Wherever
they stand, the first n bytes of the body cannot be there before n bytes of the stream, and are there with as many more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.analysis.byte_stream import InOrder, in_order
from harness.analysis.missing import Unknown
from harness.capture.artefacts import Artefacts, Window
from harness.capture.streams import Bounds

#: A stream that has more beside the file than this part of it, and so many bytes, is not the file's alone: records of
#: 1400 B cost 1.6 %, HTTP/2's smallest usual frames less, a handshake some thousand bytes.
_SHARE, _BYTES = 0.05, 16_384


@dataclass(frozen=True)
class TlsArrival:
    """A stream that holds the body of one transfer's response."""

    stream: InOrder
    beside: int | None
    """Bytes of the stream that are not of the body, in all; None where its end was not seen."""

    def reached(self, size: int) -> Bounds:
        """When the first `size` bytes of the body were there."""
        latest = None if self.beside is None else self._when(size + self.beside)
        return Bounds(self._when(size), latest)

    def _when(self, size: int) -> int | None:
        at = int(np.searchsorted(self.stream.come, size))
        return int(self.stream.t_ns[at]) if at < len(self.stream.come) else None


def tls_arrival(view: Artefacts, window: Window) -> TlsArrival | Unknown:
    """The body of a transfer's response over TLS and TCP, or why its arrival is not known."""
    transfer = window.transfer
    if view.left is None:
        return Unknown("there is no capture at the client's side")
    if view.capture_drops:
        return Unknown(f"the captures missed {view.capture_drops} packets")
    received = view.left.between(window.start_ns, window.end_ns, transfer.flow, to_client=True)
    if len(np.unique(received.destination_port)) > 1:
        return Unknown("it took several TCP connections")
    stream = in_order(received)
    if stream is None:
        return Unknown("the first segment of the connection was not captured")
    if not transfer.intact or not len(stream.come):
        return TlsArrival(stream, None)
    beside = int(stream.come[-1]) - transfer.size
    if not 0 <= beside <= _SHARE * transfer.size + _BYTES:
        return Unknown(f"the connection brought {int(stream.come[-1])} B without a gap, the file has {transfer.size} B")
    return TlsArrival(stream, beside)

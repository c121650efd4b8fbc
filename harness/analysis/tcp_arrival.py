"""When the first bytes of a TCP flow had arrived without a gap, from the segments at its receiver's side.

Time zero is the client's first segment of the connection that has the data: what the generator arranges on another one
before is not what TCP takes. The connection's own handshake counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.analysis.byte_stream import in_order
from harness.analysis.delivery import Reached
from harness.analysis.missing import Unknown
from harness.analysis.shared_flow import SharedFlow
from harness.analysis.timeseries.lifetimes import client_port, data_port

Ints = npt.NDArray[np.int64]
#: iperf3's client says first on each connection of whose test it is, in so many bytes (COOKIE_SIZE, iperf.h).
COOKIE = 37


@dataclass(frozen=True)
class Segments:
    """The data of one TCP flow, as it came."""

    flow: SharedFlow

    def reached(self, size: int) -> Reached | Unknown:
        """When the first `size` bytes had come, or why that is not known."""
        if isinstance(self._arrival, Unknown):
            return self._arrival
        t_ns, come = self._arrival
        at = int(np.searchsorted(come, self._before + size))
        if at == len(come):
            return Unknown(f"less than {size} B came without a gap")
        zero_ns = self.flow.lifetime.zero_ns + self.flow.lifetime.start_ns
        return Reached((int(t_ns[at]) - zero_ns) / 1e9, 0, self.flow.at_receiver)

    def has(self, size: int) -> bool:
        """Whether so much is known to have come, or nobody knows how much has."""
        return isinstance(self._arrival, Unknown) or bool((self._arrival[1] >= self._before + size).any())

    @property
    def _before(self) -> int:
        """Bytes of the stream before the first of the data."""
        return COOKIE if self.flow.facts.sender == "client" else 0

    @property
    def whole(self) -> bool:
        """Whether its client came to its end, which it does once all has come."""
        return self.flow.complete

    @cached_property
    def _arrival(self) -> tuple[Ints, Ints] | Unknown:
        """Times of arrival, and the bytes without a gap after each; both of shape (n,)."""
        if self.flow.view.capture_drops:
            return Unknown(f"the captures missed {self.flow.view.capture_drops} packets")
        down = self.flow.facts.sender == "server"
        received = self.flow.lifetime.received
        received = received.where(client_port(received, down) == data_port(received, down))
        found = in_order(received)
        if found is None:
            return Unknown("the first segment of the connection was not captured")
        return found.t_ns, found.come

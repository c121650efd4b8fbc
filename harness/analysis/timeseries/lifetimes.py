"""When each flow ran, and the time zero of all series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.timeseries.grid import BIN_NS
from harness.capture.artefacts import Artefacts
from harness.capture.capture import Capture
from harness.topology.lab_file import FlowAddresses

_NEVER = 2**62


@dataclass(frozen=True)
class Lifetime:
    """A flow from its first packet to its stop, or to the end of its data.

    All times in ns since time zero but `zero_ns`.
    """

    flow: int
    zero_ns: int
    """Time zero since the epoch."""
    start_ns: int
    """Its client's first packet; for TCP that ends with its size the first packet of the data connection."""
    end_ns: int
    """Its stop, or its last arrival if it has none; at most the exit of its client, if that died."""
    last_ns: int
    """When the last payload arrived at the receiver's side."""
    sent: Capture
    """Its packets in the direction of its data, as they entered the simulator."""
    received: Capture
    """The same as they left it."""
    return_packets: Capture
    """The receiver's packets, as they entered the simulator."""

    @property
    def seconds(self) -> float:
        """Its duration, s."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def bins(self) -> tuple[int, int]:
        """First and last bin that lie wholly within it; the last may precede the first."""
        return -(-self.start_ns // BIN_NS), self.end_ns // BIN_NS - 1


def zero_of(view: Artefacts) -> int | None:
    """Time zero, ns since the epoch: the smallest, over the flows, of the client's first packet less the start."""
    if view.lab is None or view.left is None:
        return None
    left, zeros = view.left, []
    for flow in view.lab.flows:
        first = np.flatnonzero((left.flow == flow.flow) & ~left.to_client)
        if len(first):
            zeros.append(int(left.t_ns[first[0]]) - round(flow.start * 1e9))
    return min(zeros, default=None)


def lifetimes_of(view: Artefacts, zero_ns: int) -> dict[int, Lifetime]:
    """Flow → its lifetime, for flows whose payload arrived."""
    if view.lab is None or view.left is None or view.right is None:
        return {}
    lifetimes = {}
    for flow in view.lab.flows:
        ends = [transfer.ended_ns for transfer in view.run.transfers if transfer.flow == flow.flow]
        lifetime = _lifetime(flow, view.left, view.right, zero_ns, max(ends, default=_NEVER) - zero_ns)
        if lifetime is not None:
            lifetimes[flow.flow] = lifetime
    return lifetimes


def _lifetime(flow: FlowAddresses, left: Capture, right: Capture, zero_ns: int, end_ns: int) -> Lifetime | None:
    at_client = left.select(left.flow == flow.flow)
    at_server = right.select(right.flow == flow.flow)
    down = flow.sender == "server"
    sent, received = (at_server, at_client) if down else (at_client, at_server)
    answers = received.select(received.to_client != down)
    sent, received = sent.select(sent.to_client == down), received.select(received.to_client == down)
    if flow.kind == "tcp" and flow.stop is None:
        # The generator's control connection begins some round trips earlier, and reports the end after it.
        port = data_port(received, down)
        first = np.flatnonzero(~at_client.to_client & (at_client.source_port == port))
        arrived = np.flatnonzero((received.payload > 0) & (client_port(received, down) == port))
    else:
        first = np.flatnonzero(~at_client.to_client)
        arrived = np.flatnonzero(received.payload > 0)
    if not len(first) or not len(arrived):
        return None
    last_ns = int(received.t_ns[arrived[-1]]) - zero_ns
    stop_ns = last_ns if flow.stop is None else round(flow.stop * 1e9)
    start_ns = int(at_client.t_ns[first[0]]) - zero_ns
    return Lifetime(flow.flow, zero_ns, start_ns, max(start_ns, min(stop_ns, end_ns)), last_ns, sent, received, answers)


def client_port(received: Capture, down: bool) -> npt.NDArray[np.int64]:
    """The client's port of packets that go to it (`down`) or come from it, shape (n,)."""
    return received.destination_port if down else received.source_port


def data_port(received: Capture, down: bool) -> int:
    """The client's port of the connection that carries most of the payload; 0 if nothing arrived."""
    ports, port_index = np.unique(client_port(received, down), return_inverse=True)
    return int(ports[np.bincount(port_index, weights=received.payload).argmax()]) if len(ports) else 0

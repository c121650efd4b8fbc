"""TCP on segments in series: which connections the proxies split, and how soon data are acknowledged in each
segment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.run_view import RunView
from harness.analysis.timeseries.lifetimes import client_port
from harness.capture.capture import ACK, SYN, Capture
from harness.topology.lab_file import FlowAddresses, LabFacts

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Leg:
    """A TCP flow as seen at the senders' end of one segment."""

    segment: str
    ack_delay_ns: int
    """The shortest time from the arrival of a segment of data at this end to the return of its acknowledgement
    there.
    """
    near_ns: int
    """The minimum of that time if the next proxy, or the receiver, acknowledges: round trips up to it."""
    far_ns: int
    """The minimum of that time if only the receiver acknowledges."""

    @property
    def is_split(self) -> bool | None:
        """Whether a proxy acknowledges; None if the two cases look alike."""
        beyond = self.far_ns - self.near_ns
        return None if beyond < _TIME_TOLERANCE else self.ack_delay_ns < self.near_ns + beyond // 2


#: Times must differ by this much to be told apart, ns.
_TIME_TOLERANCE = 2_000_000
#: Sequence numbers wrap around (RFC 9293 §3.4).
_SEQUENCE_SPACE = 1 << 32


def split_flows(view: RunView) -> tuple[FlowAddresses, ...]:
    """The TCP flows of a run on segments in series; none for other runs."""
    return tuple(flow for flow in view.lab.flows if flow.over_tcp) if view.in_sequence and view.lab else ()


def is_split(view: RunView) -> bool:
    """Whether a run's TCP has proxies between its endpoints, which then share no connection."""
    return view.in_sequence and view.lab is not None and bool(view.lab.proxies)


def at_server_rtt_ns(view: RunView) -> int:
    """The shortest round trip from the servers to what acknowledges their TCP: the clients, or the nearest proxy."""
    if view.lab is None:
        return 0
    if not is_split(view):
        return view.lab.links.rtt_ns
    return _round_trips(view.lab, len(view.lab.paths) - 1, down=True)[0]


def legs_of(view: RunView, flow: FlowAddresses) -> tuple[Leg, ...]:
    """The legs of a flow: one for each segment in which its data were acknowledged, from the clients' end."""
    return view.cached(_legs_by_flow)[flow.flow]


def _legs_by_flow(view: RunView) -> dict[int, tuple[Leg, ...]]:
    return {flow.flow: _legs(view, flow) for flow in split_flows(view)}


def _legs(view: RunView, flow: FlowAddresses) -> tuple[Leg, ...]:
    assert view.lab is not None
    down = flow.sender == "server"
    flow_legs = []
    for place, path in enumerate(view.lab.paths):
        segment = view.of_path(path.path)
        side = segment.right if down else segment.left
        delay_ns = None if side is None else ack_delay_ns(side.select(side.flow == flow.flow), down)
        if delay_ns is not None:
            flow_legs.append(Leg(path.path, delay_ns, *_round_trips(view.lab, place, down)))
    return tuple(flow_legs)


def _round_trips(lab: LabFacts, place: int, down: bool) -> tuple[int, int]:
    """The shortest round trips from the data's entry to a segment, ns: to the next proxy or the receiver, and to the
    latter.
    """
    rtts = [path.links.rtt_ns for path in lab.paths]
    # The segments after which data reach a proxy.
    last = {proxy.right if down else proxy.left for proxy in lab.proxies}
    onwards = range(place, -1, -1) if down else range(place, len(rtts))
    near = next((number for number, at in enumerate(onwards) if lab.paths[at].simulator in last), len(onwards) - 1)
    return sum(rtts[at] for at in onwards[: near + 1]), sum(rtts[at] for at in onwards)


def ack_delay_ns(side: Capture, down: bool) -> int | None:
    """The shortest time from a segment of data to the acknowledgement of exactly that segment; None if there is none.

    `side`: one flow's packets at the interface where its data, which go `down` to the client or up, enter.
    """
    data = side.select((side.to_client == down) & (side.payload > 0))
    acks = side.select((side.to_client != down) & (side.flags & ACK > 0))
    numbers = _port_base(data, down) + (data.sequence + data.payload) % _SEQUENCE_SPACE
    ends, first, count = np.unique(numbers, return_index=True, return_counts=True)
    # Of several equal segments nobody knows which one was acknowledged (RFC 6298 §3).
    unique_ends, sent_ns = ends[count == 1], data.t_ns[first[count == 1]]
    acknowledged = _port_base(acks, not down) + acks.acknowledgement
    at = np.searchsorted(unique_ends, acknowledged)
    is_match = at < len(unique_ends)
    is_match[is_match] = unique_ends[at[is_match]] == acknowledged[is_match]
    delays = acks.t_ns[is_match] - sent_ns[at[is_match]]
    delays = delays[delays > 0]
    return int(delays.min()) if len(delays) else None


def opened_connections(side: Capture, flow: int) -> dict[int, int]:
    """Client's port → initial sequence number, for each connection that a flow's client opened, at one interface."""
    rows = (side.flow == flow) & ~side.to_client & (side.flags & (SYN | ACK) == SYN)
    return dict(zip(side.source_port[rows].tolist(), side.sequence[rows].tolist(), strict=True))


def _port_base(packets: Capture, down: bool) -> Ints:
    """The client's port of each packet of one direction, in the bits above the sequence number."""
    ports: Ints = client_port(packets, down).astype(np.int64) << 32
    return ports

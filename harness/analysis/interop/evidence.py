"""The evidence for checks: a run's packets as they were sent, and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address

from harness.capture import artefacts as source_files
from harness.capture.artefacts import Artefacts
from harness.capture.datagrams import Datagram, read_datagrams
from harness.capture.key_log import read_secrets
from harness.capture.quic.dissector import DissectedConnection, Packet, PacketOpener
from harness.capture.quic.invariants import Form
from harness.outcome import Run
from harness.scenario.parameters import ROLES, Role

#: Side of a capture → the endpoint at that side, whose packets are captured there first.
_NEAR_ENDPOINT: dict[str, Role] = {"left": "client", "right": "server"}


@dataclass(frozen=True)
class Evidence:
    """One run's packets in order of time, each as captured at its sender's side of the path."""

    sent: tuple[Packet, ...]
    arrived: Mapping[Role, tuple[Datagram, ...]]
    """Sender → its datagrams that arrived at the other side of the path, as captured there."""
    connections: tuple[DissectedConnection, ...]
    has_keys: bool
    """Whether an endpoint wrote its secrets."""
    has_whole_frames: bool
    """Whether frames were captured in full."""
    run: Run

    def packets_of(self, sender: Role, *forms: Form) -> Iterator[Packet]:
        """The packets of a sender that have one of these forms."""
        return (packet for packet in self.sent if packet.sender == sender and packet.form in forms)

    @cached_property
    def zero_ns(self) -> int:
        """The time of the client's first datagram."""
        return self.sent[0].t_ns if self.sent else 0

    def lost(self, packet: Packet) -> bool:
        """Whether the datagram of a packet never arrived at the other side."""
        return all(datagram.payload != packet.datagram.payload for datagram in self.arrived[packet.sender])

    def seconds(self, t_ns: int) -> float:
        """A time on the run's clock, s."""
        return (t_ns - self.zero_ns) / 1e9


def read_evidence(artefacts: Artefacts, *, keys: bool = True) -> Evidence:
    """Read a run's captures, and decrypt them; without `keys` only Initial packets. Raises OSError, ValueError."""
    if artefacts.lab is None:
        raise ValueError("lab.json is missing")
    flows = [flow for flow in artefacts.lab.flows if flow.kind == "quic"]
    clients, servers = (
        {str(ip_address(address)) for end in ends for address in end.addresses}
        for ends in ([flow.client for flow in flows], [flow.server for flow in flows])
    )
    ends: dict[Role, set[str]] = {"client": clients, "server": servers}
    near: list[tuple[Datagram, Role]] = []
    arrived: dict[Role, list[Datagram]] = {role: [] for role in ROLES}
    for side, role in _NEAR_ENDPOINT.items():
        for datagram in _read_capture(artefacts, side):
            sender = next((role for role in ROLES if datagram.source[0] in ends[role]), None)
            if sender is None or datagram.destination[0] not in clients | servers:
                continue
            if sender == role:
                near.append((datagram, sender))
            else:
                arrived[sender].append(datagram)
    near.sort(key=lambda item: item[0].t_ns)
    secrets = _secrets(artefacts)
    opener = PacketOpener(secrets if keys else {})
    packets = tuple(packet for datagram, sender in near for packet in opener.open(datagram, sender))
    whole = all(len(datagram.payload) == datagram.size for datagram, _ in near)
    received = {role: tuple(datagrams) for role, datagrams in arrived.items()}
    sent = without_teardown(packets, artefacts.run)
    return Evidence(sent, received, tuple(opener.connections), bool(secrets), whole, artefacts.run)


def without_teardown(packets: tuple[Packet, ...], run: Run) -> tuple[Packet, ...]:
    """The packets before the time-out, if a run timed out: what endpoints send when they are stopped is no fault."""
    if run.outcome.status != "timed_out" or not packets:
        return packets
    end_ns = packets[0].t_ns + run.cell.scenario.timeout.value
    return tuple(packet for packet in packets if packet.t_ns < end_ns)


def _read_capture(artefacts: Artefacts, side: str) -> Sequence[Datagram]:
    path = artefacts.path(source_files.CAPTURE[side])
    if path is None:
        raise ValueError(f"the {side} capture is missing")
    return read_datagrams(path)


def _secrets(artefacts: Artefacts) -> dict[tuple[bytes, str], bytes]:
    secrets: dict[tuple[bytes, str], bytes] = {}
    for flow in range(len(artefacts.flows)):
        for role in ROLES:
            path = artefacts.path(f"{source_files.endpoint_path(flow, role)}/{source_files.KEYS}")
            if path is not None:
                secrets = read_secrets(path) | secrets
    return secrets

"""The evidence for checks: a run's packets as they were sent, and its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from ipaddress import ip_address

from harness.capture import artefacts as source_files
from harness.capture.artefacts import Artefacts
from harness.capture.datagrams import Datagram, read_datagrams
from harness.capture.key_log import read_secrets
from harness.capture.quic.dissector import DissectedConnection, Packet, PacketOpener
from harness.capture.quic.invariants import Form
from harness.outcome import Transfer
from harness.scenario.parameters import ROLES, Role

#: The file of an endpoint's logs that says which application protocol a WebTransport session has.
NEGOTIATED = "negotiated_protocol.txt"
#: Side of a capture → the endpoint at that side, whose packets are captured there first.
NEAR_ENDPOINT: dict[str, Role] = {"left": "client", "right": "server"}


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
    transfers: tuple[Transfer, ...] = ()
    """The downloads, as the engine saw them."""
    detail: str = ""
    """What the engine says of the run's end."""
    negotiated: Mapping[Role, str] = field(default_factory=dict)
    """Role → the application protocol of its WebTransport session, as far as it wrote one down."""

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
    sides = {side: _read_capture(artefacts, side) for side in NEAR_ENDPOINT}

    def sender_of(address: str) -> Role | None:
        return "client" if address in clients else "server" if address in servers else None

    run = artefacts.run
    evidence = make_evidence(sides, sender_of, _secrets(artefacts), keys=keys)
    timeout_ns = run.cell.scenario.timeout.value if run.outcome.status == "timed_out" else None
    return replace(
        evidence,
        sent=before_timeout(evidence.sent, timeout_ns),
        transfers=run.transfers,
        detail=run.outcome.detail or "",
        negotiated={
            role: path.read_text(errors="replace").strip()
            for role in ROLES
            if (path := artefacts.path(f"{source_files.endpoint_path(0, role)}/{NEGOTIATED}")) is not None
        },
    )


def make_evidence(
    sides: Mapping[str, Iterable[Datagram]],
    sender_of: Callable[[str], Role | None],
    secrets: Mapping[tuple[bytes, str], bytes],
    *,
    keys: bool = True,
) -> Evidence:
    """The evidence of datagrams captured at both sides of the path.

    `sides`: 'left' and 'right' → the datagrams in order of time. `sender_of`: the endpoint that has an IP address; None
    for any other host. `secrets`: (client's random, label) → secret.
    """
    near: list[tuple[Datagram, Role]] = []
    arrived: dict[Role, list[Datagram]] = {role: [] for role in ROLES}
    for side, role in NEAR_ENDPOINT.items():
        for datagram in sides[side]:
            sender = sender_of(datagram.source[0])
            if sender is None or sender_of(datagram.destination[0]) is None:
                continue
            if sender == role:
                near.append((datagram, sender))
            else:
                arrived[sender].append(datagram)
    near.sort(key=lambda item: item[0].t_ns)
    opener = PacketOpener(dict(secrets) if keys else {})
    packets = tuple(packet for datagram, sender in near for packet in opener.open(datagram, sender))
    whole = all(len(datagram.payload) == datagram.size for datagram, _ in near)
    received = {role: tuple(datagrams) for role, datagrams in arrived.items()}
    return Evidence(packets, received, tuple(opener.connections), bool(secrets), whole)


def before_timeout(packets: tuple[Packet, ...], timeout_ns: int | None) -> tuple[Packet, ...]:
    """The packets before the time-out of a run that timed out: what endpoints send when they are stopped is no fault.

    `timeout_ns`: from the first packet on; None for a run that ended by itself.
    """
    if timeout_ns is None or not packets:
        return packets
    end_ns = packets[0].t_ns + timeout_ns
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

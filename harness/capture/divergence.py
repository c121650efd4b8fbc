"""Where two runs of one cell part: what they ran on, what their endpoints drew, their packets, their system calls."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.capture import pcap
from harness.capture.files import capture_file, find, read_bytes
from harness.capture.lab_file import LabFacts, read_lab
from harness.capture.quic import invariants
from harness.capture.syscalls import CallDivergence
from harness.outcome import RandomBytes, Run

SIDES = ("left", "right")
_ETHERTYPES = {0x0806: "ARP", 0x0800: "IPv4", 0x86DD: "IPv6"}
#: Behind an Ethernet header: (source address, its length, transport header, protocol), by ethertype.
_IP_AT = {0x0800: (26, 4, 34, 23), 0x86DD: (22, 16, 54, 20)}
_TCP, _UDP = 6, 17


@dataclass(frozen=True)
class Packet:
    """One frame of a capture."""

    t_ns: int
    """Since the lab's clock started, as times of system calls are; in real time since the first run's first frame."""
    source: str
    """Name of an endpoint, or an address."""
    destination: str
    kind: str
    """'QUIC Initial', 'UDP', 'TCP', 'ARP' …"""
    length: int
    """Bytes on the wire, Ethernet header included."""


@dataclass(frozen=True)
class PacketDivergence:
    """The first packet in which two captures of one side differ."""

    side: str
    number: int
    """Its place in the captures, from 1."""
    counts: tuple[int, int]
    """Packets of each capture."""
    packets: tuple[Packet | None, Packet | None]
    """In each run; None where a capture has ended."""
    differs: tuple[str, ...]
    """What does: time, length, content; nothing where a capture has ended."""


@dataclass(frozen=True)
class RandomDivergence:
    """An endpoint that was given other random bytes."""

    endpoint: str
    drawn: tuple[RandomBytes | None, RandomBytes | None]


@dataclass(frozen=True)
class Divergence:
    """Everything in which two runs differ."""

    facts: tuple[tuple[str, str, str], ...] = ()
    """What they ran on and what came of it, where that differs: (what, in the first, in the second)."""
    packets: tuple[PacketDivergence, ...] = ()
    """The sides whose captures differ, the one that does first first."""
    unseen: tuple[str, ...] = ()
    """Sides whose captures differ by their digests, and are not there to be looked at."""
    random: tuple[RandomDivergence, ...] = ()
    calls: CallDivergence | None = None

    @property
    def identical(self) -> bool:
        """Whether the runs are the same to the last byte, as far as they are known."""
        return not (self.packets or self.unseen or self.random or self.calls)


def compare_runs(
    one: Run, other: Run, folders: tuple[Path, Path], start_ns: int | None, calls: CallDivergence | None = None
) -> Divergence:
    """Where two stored runs part. Raises OSError; ValueError where a file is damaged or nothing can be compared.

    `start_ns`: when the labs' clocks started, ns since the epoch; None where they are the hosts'.
    """
    found, unseen = [], []
    for side in dict.fromkeys([*SIDES, *one.captures, *other.captures]):
        digests = [run.captures.get(side) for run in (one, other)]
        if None not in digests and digests[0] == digests[1]:
            continue
        files = [find(capture_file(folder, side)) for folder in folders]
        if files[0] is None or files[1] is None:
            if None in digests:
                raise ValueError(f"there is neither a {side} capture of both runs nor its digest")
            unseen.append(side)
            continue
        difference = first_other_packet(side, (files[0], files[1]), start_ns, _names(folders[0]), _quic(folders[0]))
        if difference is not None:
            found.append(difference)
    found.sort(key=lambda item: min(packet.t_ns for packet in item.packets if packet is not None))
    return Divergence(_facts(one, other), tuple(found), tuple(unseen), _random(one, other), calls)


def _facts(one: Run, other: Run) -> tuple[tuple[str, str, str], ...]:
    def facts(run: Run) -> dict[str, str]:
        return {
            "cell": run.cell.key,
            "repetition": str(run.repetition),
            "engine": run.cell.engine,
            "cpu": run.cpu or "",
            "the host's cpu": str(run.host.get("cpu", "")),
            "lab kernel": run.lab_kernel,
            "kernel": run.sim_kernel,
            **{f"image of {name}": identity for name, identity in sorted(run.image_ids.items())},
            "outcome": " ".join(word for word in (run.outcome.status, run.outcome.detail) if word),
        }

    sides = facts(one), facts(other)
    names = dict.fromkeys([*sides[0], *sides[1]])
    both = [(name, sides[0].get(name, ""), sides[1].get(name, "")) for name in names]
    return tuple(item for item in both if item[1] != item[2])


def _random(one: Run, other: Run) -> tuple[RandomDivergence, ...]:
    pairs = {name: (one.random.get(name), other.random.get(name)) for name in sorted({*one.random, *other.random})}
    return tuple(RandomDivergence(name, pair) for name, pair in pairs.items() if pair[0] != pair[1])


def _lab(folder: Path) -> LabFacts | None:
    file = find(folder / "lab.json")
    return None if file is None else read_lab(file)


def _names(folder: Path) -> dict[str, str]:
    """Address → name of the endpoint."""
    lab = _lab(folder)
    if lab is None:
        return {}
    return {
        str(ipaddress.ip_address(address)): f"{role}{flow.flow}"
        for flow in lab.flows
        for role, side in (("client", flow.client), ("server", flow.server))
        for address in side.addresses
    }


def _quic(folder: Path) -> frozenset[str]:
    """Names of the endpoints that speak QUIC."""
    lab = _lab(folder)
    flows = [] if lab is None else [flow.flow for flow in lab.flows if flow.kind == "quic"]
    return frozenset(f"{role}{flow}" for flow in flows for role in ("client", "server"))


def first_other_packet(
    side: str, files: tuple[Path, Path], start_ns: int | None, names: Mapping[str, str], quic_hosts: frozenset[str]
) -> PacketDivergence | None:
    """Where two captures of one side part; None where all their packets are equal. Raises OSError, ValueError.

    `start_ns`: what times are told from; `names`: address → name of an endpoint; `quic_hosts`: names of those whose
    datagrams are QUIC's.
    """
    one, other = (pcap.parse(read_bytes(file)) for file in files)
    counts = len(one.t_ns), len(other.t_ns)
    shared = min(counts)
    columns = {
        "time": one.t_ns[:shared] != other.t_ns[:shared],
        "length": one.length[:shared] != other.length[:shared],
        "content": (one.heads[:shared] != other.heads[:shared]).any(axis=1)
        | (one.captured[:shared] != other.captured[:shared]),
    }
    different = np.flatnonzero(np.logical_or.reduce(list(columns.values())))
    if not len(different) and counts[0] == counts[1]:
        return None
    at = int(different[0]) if len(different) else shared
    first = int(one.t_ns[0]) if counts[0] else int(other.t_ns[0])
    zero = first if start_ns is None else start_ns
    packets = [
        _packet(records, at, zero, names, quic_hosts) if at < len(records.t_ns) else None for records in (one, other)
    ]
    differs = tuple(name for name, column in columns.items() if at < shared and column[at])
    return PacketDivergence(side, at + 1, counts, (packets[0], packets[1]), differs)


def _packet(records: pcap.Records, at: int, zero: int, names: Mapping[str, str], quic_hosts: frozenset[str]) -> Packet:
    head = records.heads[at].tobytes()
    ethertype = int.from_bytes(head[12:14], "big")
    kind = _ETHERTYPES.get(ethertype, f"ethertype {ethertype:#06x}")
    source, destination = head[6:12].hex(":"), head[:6].hex(":")
    if ethertype in _IP_AT:
        address_at, size, transport_at, protocol_at = _IP_AT[ethertype]
        addresses = [str(ipaddress.ip_address(head[start : start + size])) for start in (address_at, address_at + size)]
        source, destination = (names.get(address, address) for address in addresses)
        kind = {_TCP: "TCP", _UDP: "UDP"}.get(head[protocol_at], kind)
        if kind == "UDP" and source in quic_hosts:
            payload = records.heads[at : at + 1, transport_at + 8 :]
            kind = f"QUIC {_form(payload)}"
    return Packet(int(records.t_ns[at]) - zero, source, destination, kind, int(records.length[at]))


def _form(payload: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> str:
    form = invariants.Form(int(invariants.forms(payload)[0]))
    return {invariants.Form.SHORT: "1-RTT", invariants.Form.ZERO_RTT: "0-RTT"}.get(
        form, form.name.replace("_", " ").title()
    )

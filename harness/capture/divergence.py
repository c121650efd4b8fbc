"""The first differences of two runs of one cell: environment, random bytes, packets, system calls."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.capture import pcap
from harness.capture.files import capture_path, find_file, read_bytes, read_lab
from harness.capture.quic import invariants
from harness.capture.syscalls import CallDivergence
from harness.outcome import RandomBytes, Run
from harness.topology.lab_file import LabFacts

SIDES = ("left", "right")
_ETHERTYPES = {0x0806: "ARP", 0x0800: "IPv4", 0x86DD: "IPv6"}
#: Behind an Ethernet header: (source address, its length, transport header, protocol), by ethertype.
_IP_AT = {0x0800: (26, 4, 34, 23), 0x86DD: (22, 16, 54, 20)}
_TCP, _UDP = 6, 17


@dataclass(frozen=True)
class CapturedFrame:
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
    """Its position in the captures, from 1."""
    counts: tuple[int, int]
    """Packets of each capture."""
    packets: tuple[CapturedFrame | None, CapturedFrame | None]
    """In each run; None where a capture has ended."""
    differs: tuple[str, ...]
    """The fields that differ: time, length, content; none where a capture has ended."""


@dataclass(frozen=True)
class RandomDivergence:
    """An endpoint that got different random bytes in the two runs."""

    endpoint: str
    drawn: tuple[RandomBytes | None, RandomBytes | None]


@dataclass(frozen=True)
class Divergence:
    """All differences of two runs."""

    facts: tuple[tuple[str, str, str], ...] = ()
    """Differences in environment and outcome: (name, value in the first run, value in the second)."""
    packets: tuple[PacketDivergence, ...] = ()
    """The sides whose captures differ, in order of the first difference."""
    unseen: tuple[str, ...] = ()
    """Sides whose captures differ by their digests, but are not available."""
    random: tuple[RandomDivergence, ...] = ()
    calls: CallDivergence | None = None

    @property
    def identical(self) -> bool:
        """Whether the runs are the same to the last byte, as far as they are known."""
        return not (self.packets or self.unseen or self.random or self.calls)


def compare_runs(
    first: Run, second: Run, folders: tuple[Path, Path], start_ns: int | None, calls: CallDivergence | None = None
) -> Divergence:
    """The differences of two stored runs. Raises OSError; ValueError for a damaged file, or nothing to compare.

    `start_ns`: when the labs' clocks started, ns since the epoch; None where they are the hosts'.
    """
    differences, unseen = [], []
    for side in dict.fromkeys([*SIDES, *first.captures, *second.captures]):
        digests = [run.captures.get(side) for run in (first, second)]
        if None not in digests and digests[0] == digests[1]:
            continue
        files = [find_file(capture_path(folder, side)) for folder in folders]
        if files[0] is None or files[1] is None:
            if None in digests:
                raise ValueError(f"there is neither a {side} capture of both runs nor its digest")
            unseen.append(side)
            continue
        difference = first_differing_packet(
            side, (files[0], files[1]), start_ns, _endpoint_names(folders[0]), _quic_hosts(folders[0])
        )
        if difference is not None:
            differences.append(difference)
    differences.sort(key=lambda item: min(packet.t_ns for packet in item.packets if packet is not None))
    return Divergence(
        _compare_facts(first, second), tuple(differences), tuple(unseen), _compare_random(first, second), calls
    )


def _compare_facts(first: Run, second: Run) -> tuple[tuple[str, str, str], ...]:
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

    sides = facts(first), facts(second)
    names = dict.fromkeys([*sides[0], *sides[1]])
    rows = [(name, sides[0].get(name, ""), sides[1].get(name, "")) for name in names]
    return tuple(item for item in rows if item[1] != item[2])


def _compare_random(first: Run, second: Run) -> tuple[RandomDivergence, ...]:
    pairs = {
        name: (first.random.get(name), second.random.get(name)) for name in sorted({*first.random, *second.random})
    }
    return tuple(RandomDivergence(name, pair) for name, pair in pairs.items() if pair[0] != pair[1])


def _lab(folder: Path) -> LabFacts | None:
    file = find_file(folder / "lab.json")
    return None if file is None else read_lab(file)


def _endpoint_names(folder: Path) -> dict[str, str]:
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


def _quic_hosts(folder: Path) -> frozenset[str]:
    """Names of the endpoints that speak QUIC."""
    lab = _lab(folder)
    flows = [] if lab is None else [flow.flow for flow in lab.flows if flow.kind == "quic"]
    return frozenset(f"{role}{flow}" for flow in flows for role in ("client", "server"))


def first_differing_packet(
    side: str, files: tuple[Path, Path], start_ns: int | None, names: Mapping[str, str], quic_hosts: frozenset[str]
) -> PacketDivergence | None:
    """The first difference of two captures of one side; None where all packets are equal. Raises OSError, ValueError.

    `start_ns`: the origin of the times in the result; `names`: address → name of an endpoint; `quic_hosts`: names of
    the endpoints whose datagrams are QUIC's.
    """
    first, second = (pcap.parse(read_bytes(file)) for file in files)
    counts = len(first.t_ns), len(second.t_ns)
    shared = min(counts)
    columns = {
        "time": first.t_ns[:shared] != second.t_ns[:shared],
        "length": first.length[:shared] != second.length[:shared],
        "content": (first.heads[:shared] != second.heads[:shared]).any(axis=1)
        | (first.captured[:shared] != second.captured[:shared]),
    }
    different = np.flatnonzero(np.logical_or.reduce(list(columns.values())))
    if not len(different) and counts[0] == counts[1]:
        return None
    at = int(different[0]) if len(different) else shared
    first_ns = int(first.t_ns[0]) if counts[0] else int(second.t_ns[0])
    zero = first_ns if start_ns is None else start_ns
    packets = [
        _packet(records, at, zero, names, quic_hosts) if at < len(records.t_ns) else None for records in (first, second)
    ]
    differs = tuple(name for name, column in columns.items() if at < shared and column[at])
    return PacketDivergence(side, at + 1, counts, (packets[0], packets[1]), differs)


def _packet(
    records: pcap.Records, at: int, zero: int, names: Mapping[str, str], quic_hosts: frozenset[str]
) -> CapturedFrame:
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
            kind = f"QUIC {_form_name(payload)}"
    return CapturedFrame(int(records.t_ns[at]) - zero, source, destination, kind, int(records.length[at]))


def _form_name(payload: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> str:
    form = invariants.Form(int(invariants.packet_forms(payload)[0]))
    return {invariants.Form.SHORT: "1-RTT", invariants.Form.ZERO_RTT: "0-RTT"}.get(
        form, form.name.replace("_", " ").title()
    )


# --- A trail: a capture in a few hundred bytes, enough to find the packet at which another run differs from it.
#
# Captures are too large to keep for every run. A digest shows whether two captures are equal, not where they differ.
# A trail is a chain of digests over the records, each of which depends on all before it. It keeps a byte per packet at
# first, where most differences show, and then a byte per `STRIDE` packets. Where two trails differ, so do the packets.
# With two chances in 256 a byte agrees by chance, and the difference is found one step late.


#: The first packets, with a byte each, and the packets per byte after these.
DENSE_PACKETS, STRIDE = 256, 256


@dataclass(frozen=True)
class TrailDifference:
    """Where a capture differs from another one, of which only the trail is kept."""

    first: int
    """Number of the first packet that may be the first differing one, from 1."""
    last: int
    """Number of the last packet that may be the first differing one."""


def trail(records: pcap.Records) -> str:
    """The trail of a capture's records: the number of packets, then its bytes as hexadecimal digits."""
    return trail_of_parts([records])


def trail_of_parts(parts: Iterable[pcap.Records]) -> str:
    """As `trail`, for a capture in parts."""
    chain, chain_bytes, count = hashlib.blake2b(digest_size=16), bytearray(), 0
    fields, heads = np.zeros((0, 3), np.int64), np.zeros((0, pcap.HEAD), np.uint8)

    def add(size: int) -> None:
        nonlocal fields, heads, count
        chain.update(fields[:size].tobytes())
        chain.update(heads[:size].tobytes())
        chain_bytes.extend(chain.digest()[:1])
        fields, heads, count = fields[size:], heads[size:], count + size

    for part in parts:
        fields = np.concatenate([fields, np.stack([part.t_ns, part.captured, part.length], axis=1)])
        heads = np.concatenate([heads, part.heads])
        while len(fields) >= (step := 1 if count < DENSE_PACKETS else STRIDE):
            add(step)
    if len(fields):
        add(len(fields))
    return f"{count}:{chain_bytes.hex()}"


def compare_trails(first: str, second: str) -> TrailDifference | None:
    """Where two trails differ; None where they do not. Raises ValueError where one is not a trail."""
    (first_count, first_bytes), (second_count, second_bytes) = _parse_trail(first), _parse_trail(second)
    if (first_count, first_bytes) == (second_count, second_bytes):
        return None
    for number, (first_step, second_step) in enumerate(zip(_steps(first_count), _steps(second_count), strict=False)):
        if first_step != second_step:
            # The shorter trail ends within a step of the longer one: that step cannot be compared.
            return TrailDifference(first_step[0] + 1, min(first_count, second_count) + 1)
        if first_bytes[number] != second_bytes[number]:
            return TrailDifference(first_step[0] + 1, first_step[1])
    shared = min(first_count, second_count)
    return TrailDifference(shared + 1, shared + 1)


def _steps(count: int) -> list[tuple[int, int]]:
    """The packets each byte of a trail adds: from, to."""
    dense = [(number, number + 1) for number in range(min(count, DENSE_PACKETS))]
    return dense + [(start, min(start + STRIDE, count)) for start in range(DENSE_PACKETS, count, STRIDE)]


def _parse_trail(text: str) -> tuple[int, bytes]:
    count, colon, digits = text.partition(":")
    if not colon:
        raise ValueError(f"'{text[:20]}' is no trail")
    parsed = int(count), bytes.fromhex(digits)
    if len(parsed[1]) != len(_steps(parsed[0])):
        raise ValueError(f"a trail of {parsed[0]} packets has {len(parsed[1])} bytes")
    return parsed

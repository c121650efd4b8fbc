"""A capture as columns: the UDP datagrams and TCP segments of the flows at one interface of the simulator."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from harness.capture import pcap
from harness.capture.files import open_file
from harness.capture.memmap import concatenate, take_rows
from harness.capture.quic import invariants
from harness.topology.lab_file import Endpoint, FlowAddresses

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]
Windows = npt.NDArray[np.uint16]
Shifts = npt.NDArray[np.int8]

#: IP protocol numbers, that of IPv6's fragment header (RFC 8200 §4.5), and EtherTypes.
TCP, UDP, _FRAGMENT = 6, 17, 44
_IPV4, _IPV6 = 0x0800, 0x86DD
#: Codepoints of ECN (RFC 3168 §5): not capable of it; marked.
NOT_ECT, ECT_1, ECT_0, CE = 0b00, 0b01, 0b10, 0b11
#: Of a segment's flags (RFC 9293 §3.1).
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
#: DF, and MF and the upper bits of the offset, in the byte of an IPv4 header with its flags (RFC 791 §3.1).
_DONT_FRAGMENT, _MORE_FRAGMENTS, _UPPER_OFFSET = 0x40, 0x20, 0x1F
#: Window scale of a segment that has no such option, and the largest that counts (RFC 7323 §2.3).
NO_SHIFT, MAX_SHIFT = -1, 14
#: Offset of the header of UDP or TCP behind an Ethernet header and an IPv4 header without options, or an IPv6 header.
_TRANSPORT_AT = {4: 34, 6: 54}
#: Bytes of a TCP header without options, and bytes of options that help to identify a segment.
_TCP_HEADER, _TCP_OPTIONS = 20, 40
#: Kinds of TCP's options (RFC 9293 §3.2, RFC 7323 §2.2).
_END_OF_OPTIONS, _NO_OPERATION, _WINDOW_SCALE = 0, 1, 3
#: Where the source address starts, and the length of an address.
_ADDRESS_AT = {4: (26, 4), 6: (22, 16)}
#: Payload bytes visible of an IPv4 datagram.
_VISIBLE = pcap.HEAD - 42
#: Parts of a capture, of some sixty thousand packets each, that are in memory before they are joined.
_PARTS_IN_MEMORY = 16


@dataclass(frozen=True)
class Capture:
    """n packets between the flows' endpoints, in order of time; arrays have shape (n,) unless said.

    UDP datagrams of flows over QUIC or UDP, TCP segments of flows over TCP, with TLS or without.
    """

    t_ns: Ints
    to_client: Flags
    """Direction: server to client, else client to server."""
    flow: Ints
    client_address: Ints
    """Which of the addresses of its flow's client (`topology.lab_file.Endpoint`) it came from, or goes to."""
    ip: Ints
    """IP version."""
    protocol: Bytes
    """IP protocol: `TCP` or `UDP`."""
    traffic_class: Bytes
    """The IP header's byte of DSCP and ECN (RFC 2474 §3, RFC 3168 §5): Type of Service in IPv4."""
    may_fragment: Flags
    """An IPv4 packet without DF: a router may cut it into fragments (RFC 791 §2.3)."""
    continues: Flags
    """A fragment that does not begin its datagram: no payload and no ports, which the first fragment has."""
    source_port: Ints
    destination_port: Ints
    length: Ints
    """Bytes of the frame on the wire, Ethernet header included, as tc counts them."""
    payload: Ints
    """Bytes of payload of UDP or TCP."""
    sequence: Ints
    """Sequence number of a segment (RFC 9293 §3.4), 0 for a datagram."""
    acknowledgement: Ints
    """Acknowledgement number of a segment, 0 for a datagram."""
    flags: Bytes
    """Control bits of a segment (`SYN`, `ACK` …), 0 for a datagram."""
    window: Windows
    """Window field of a segment, not scaled (RFC 9293 §3.1), 0 for a datagram."""
    shift: Shifts
    """Window scale option of a segment (RFC 7323 §2.2), which only a SYN has; `NO_SHIFT` without."""
    form: Bytes
    """`quic.Form` of the datagram's first packet; NONE outside flows over QUIC."""
    one_rtt: Flags
    """A 1-RTT packet is visible: first in the datagram, or behind a Handshake packet."""
    after_initial: Flags
    """Something follows the datagram's Initial packet."""
    key: Keys
    """Equal at both interfaces for one packet; differs between packets, retransmitted ones too."""
    visible: Bytes
    """First bytes of the UDP payload, zero beyond what was captured and for segments, shape (n, 54)."""
    captured: Ints
    """How many of these were captured, 0 for segments."""
    truncated: bool = False
    """The file ends inside a record."""

    def __len__(self) -> int:
        return len(self.t_ns)

    def select(self, chosen: npt.NDArray[np.generic]) -> Capture:
        """The packets chosen by a mask or by indices."""
        if chosen.dtype == np.bool_:
            # Every column would search the whole mask, also for the few packets of one of many flows.
            chosen = np.flatnonzero(chosen)
        return _Selection.of(self, chosen)

    def between(self, start_ns: int, end_ns: int, flow: int, to_client: bool) -> Capture:
        """The packets of one flow and direction with start ≤ t < end."""
        inside = (self.t_ns >= start_ns) & (self.t_ns < end_ns)
        return self.select(inside & (self.flow == flow) & (self.to_client == to_client))

    def to_dataframe(self) -> pl.DataFrame:
        """The capture as a polars frame, one row per packet."""
        names = [f.name for f in fields(self) if f.name not in ("truncated", "visible", "captured")]
        return pl.DataFrame({name: getattr(self, name) for name in names})

    def first_destination(self) -> bytes:
        """Destination connection ID of the first Initial packet (RFC 9000 §17.2); empty where there is none.

        Of a client's datagrams that is the original one, by which a server's qlog names the connection.
        """
        rows = np.flatnonzero(self.form == invariants.Form.INITIAL)
        if not len(rows):
            return b""
        head: bytes = self.visible[rows[0]].tobytes()
        return head[6 : 6 + head[5]]


#: The fields of a capture that have a row per packet.
_COLUMNS = tuple(f.name for f in fields(Capture) if f.name != "truncated")


class _Selection(Capture):
    """Chosen packets of a capture. A column is taken when it is first read: most readers need three of all."""

    _source: Capture
    _chosen: npt.NDArray[np.generic]

    @classmethod
    def of(cls, source: Capture, chosen: npt.NDArray[np.generic]) -> _Selection:
        """The packets of `source` with these indices."""
        selection = cls.__new__(cls)
        # The class is frozen. A column that is not set is asked for below.
        vars(selection).update(truncated=source.truncated, _source=source, _chosen=chosen)
        return selection

    def __len__(self) -> int:
        return len(self._chosen)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _COLUMNS:
                raise AttributeError(name)
            column = vars(self)[name] = take_rows(getattr(self._source, name), self._chosen)
            return column


def merge_captures(captures: Sequence[Capture]) -> Capture:
    """Captures of one side of several paths, in order of time."""
    order = np.argsort(np.concatenate([capture.t_ns for capture in captures]), kind="stable")
    columns = {
        f.name: np.concatenate([getattr(capture, f.name) for capture in captures])[order]
        for f in fields(captures[0])
        if f.name != "truncated"
    }
    return Capture(**columns, truncated=any(capture.truncated for capture in captures))


def read_capture(path: Path, flows: Sequence[FlowAddresses]) -> Capture:
    """Read a pcap, compressed or not. Raises OSError; ValueError where it is no Ethernet pcap.

    A fragment that does not begin a datagram (RFC 791 §2.3, RFC 8200 §4.5) is a packet of its flow without payload: the
    first one has the header of the whole. IPv4 headers with options, other IPv6 extension headers and VLAN tags do not
    occur between the endpoints and are left out.
    """
    with open_file(path) as file:
        parts: list[Capture] = []
        for records in pcap.read_parts(file):
            parts.append(_packets(records, flows))
            if len(parts) == _PARTS_IN_MEMORY:
                parts = [_concatenate_parts(parts)]
    capture = _concatenate_parts(parts)
    in_order = not len(capture) or bool((np.diff(capture.t_ns) >= 0).all())
    return capture if in_order else capture.select(np.argsort(capture.t_ns, kind="stable"))


def _concatenate_parts(parts: Sequence[Capture]) -> Capture:
    """The parts of one capture, concatenated."""
    columns = {name: concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return Capture(**columns, truncated=parts[-1].truncated)


def _packets(records: pcap.Records, flows: Sequence[FlowAddresses]) -> Capture:
    """The packets of flows among some frames, in the order of these."""
    all_heads, offset, identification = _defragmented(records.heads)
    ip, protocol = _transport(all_heads)
    flow, to_client, client_address = _flows(all_heads, ip, protocol, flows)
    chosen = np.flatnonzero((flow >= 0) & ((offset == 0) | (protocol == UDP)))
    heads, ip, protocol = all_heads[chosen], ip[chosen], protocol[chosen]
    flow, to_client, client_address = flow[chosen], to_client[chosen], client_address[chosen]
    continues = offset[chosen] > 0
    udp, visible = _udp(heads, ip, protocol)
    udp[continues], visible[continues] = (0, 0, 8), 0
    segments = _segments(heads, ip, protocol)
    payload = np.where(protocol == TCP, segments.payload, udp[:, 2] - 8)
    over_quic = np.isin(flow, [item.flow for item in flows if item.kind == "quic"])
    form = np.where(over_quic, invariants.packet_forms(visible), invariants.Form.NONE).astype(np.uint8)
    captured = _captured_payload(np.minimum(records.captured[chosen], pcap.HEAD), ip, protocol, payload)
    one_rtt, after_initial = _find_coalesced(visible, form, payload, captured)
    stable = _stable_header(udp, flow, to_client, flows)
    if continues.any():
        stable = stable.copy()
        of_packet = identification[chosen][continues]
        stable[continues] = np.stack([of_packet >> 16, of_packet & 0xFFFF, offset[chosen][continues]], axis=1)
    key = _keys(flow, to_client, ip, stable, visible, segments)
    return Capture(
        t_ns=records.t_ns[chosen],
        to_client=to_client,
        flow=flow,
        client_address=client_address,
        ip=ip,
        protocol=protocol,
        traffic_class=_traffic_class(heads, ip),
        may_fragment=(ip == 4) & (heads[:, 20] & _DONT_FRAGMENT == 0),
        continues=continues,
        source_port=udp[:, 0],
        destination_port=udp[:, 1],
        length=records.length[chosen],
        payload=payload,
        sequence=segments.sequence,
        acknowledgement=segments.acknowledgement,
        flags=segments.flags,
        window=segments.window,
        shift=segments.shift,
        form=form,
        one_rtt=one_rtt,
        after_initial=after_initial,
        key=key,
        visible=visible,
        captured=captured,
        truncated=records.truncated,
    )


def ecn(traffic_class: Bytes) -> Bytes:
    """The ECN codepoint in bytes of DSCP and ECN (RFC 3168 §5)."""
    return traffic_class & np.uint8(0b11)


def _defragmented(heads: Bytes) -> tuple[Bytes, Ints, Ints]:
    """Heads without the fragment headers of IPv6; offset (in units of 8 B) and identification of each packet, 0 for one
    that is no fragment.
    """
    offset, identification = np.zeros(len(heads), np.int64), np.zeros(len(heads), np.int64)
    ethertype = np.ascontiguousarray(heads[:, 12:14]).view(">u2")[:, 0]
    four = np.flatnonzero(
        (ethertype == _IPV4) & ((heads[:, 20] & (_MORE_FRAGMENTS | _UPPER_OFFSET) != 0) | (heads[:, 21] != 0))
    )
    six = np.flatnonzero((ethertype == _IPV6) & (heads[:, 20] == _FRAGMENT))
    if len(four):
        offset[four] = _field(heads[four], 20, 2) & 0x1FFF
        identification[four] = _field(heads[four], 18, 2)
    if len(six):
        heads, at = heads.copy(), _TRANSPORT_AT[6]
        offset[six] = _field(heads[six], at + 2, 2) >> 3
        identification[six] = _field(heads[six], at + 4, 4)
        heads[six, 20] = heads[six, at]
        heads[six, at:] = np.pad(heads[six, at + 8 :], ((0, 0), (0, 8)))
    return heads, offset, identification


def _transport(heads: Bytes) -> tuple[Ints, Bytes]:
    """IP version and protocol of each frame; version 0 for one that is neither UDP nor TCP."""
    ethertype = np.ascontiguousarray(heads[:, 12:14]).view(">u2")[:, 0]
    four = (ethertype == _IPV4) & (heads[:, 14] == 0x45) & np.isin(heads[:, 23], (TCP, UDP))
    six = (ethertype == _IPV6) & (heads[:, 14] >> 4 == 6) & np.isin(heads[:, 20], (TCP, UDP))
    return np.where(four, 4, np.where(six, 6, 0)), np.where(six, heads[:, 20], heads[:, 23])


def _traffic_class(heads: Bytes, ip: Ints) -> Bytes:
    """Second byte of an IPv4 header; of an IPv6 header the eight bits behind the version."""
    return np.where(ip == 6, heads[:, 14] << 4 | heads[:, 15] >> 4, heads[:, 15])


def _flows(heads: Bytes, ip: Ints, protocol: Bytes, flows: Sequence[FlowAddresses]) -> tuple[Ints, Flags, Ints]:
    """The flow of each frame (-1: none, also for another transport than the flow's), whether it goes to the client,
    and which of the client's addresses it has.
    """
    flow = np.full(len(heads), -1, np.int64)
    client_address = np.zeros(len(heads), np.int64)
    to_client = np.zeros(len(heads), np.bool_)
    for version in (4, 6):
        rows = np.flatnonzero(ip == version)
        at, size = _ADDRESS_AT[version]
        source, destination = heads[rows, at : at + size], heads[rows, at + size : at + 2 * size]
        for flow_addresses in flows:
            client, server = (
                _pack_addresses(side.addresses, version) for side in (flow_addresses.client, flow_addresses.server)
            )
            of_transport = protocol[rows] == (TCP if flow_addresses.over_tcp else UDP)
            down = of_transport & _is_any_address(source, server) & _is_any_address(destination, client)
            up = of_transport & _is_any_address(source, client) & _is_any_address(destination, server)
            flow[rows[up | down]] = flow_addresses.flow
            to_client[rows[down]] = True
            for address in client:
                has_address = up | down
                if len(client) > 1:
                    has_address = (down & _is_any_address(destination, [address])) | (
                        up & _is_any_address(source, [address])
                    )
                client_address[rows[has_address]] = _address_index(flow_addresses.client, address)
    return flow, to_client, client_address


def _address_index(client: Endpoint, packed: bytes) -> int:
    return next(client.place(text) for text in client.addresses if ipaddress.ip_address(text).packed == packed)


def _stable_header(udp: Ints, flow: Ints, to_client: Flags, flows: Sequence[FlowAddresses]) -> Ints:
    """Ports and length, without the client's port where a path rewrites it."""
    rewritten = np.isin(flow, [item.flow for item in flows if item.is_rebound])
    if not rewritten.any():
        return udp
    stable = udp.copy()
    stable[rewritten & ~to_client, 0] = 0
    stable[rewritten & to_client, 1] = 0
    return stable


def _pack_addresses(addresses: Sequence[str], version: int) -> list[bytes]:
    parsed = [ipaddress.ip_address(address.partition("/")[0]) for address in addresses]
    return [address.packed for address in parsed if address.version == version]


def _is_any_address(column: Bytes, addresses: list[bytes]) -> Flags:
    """Whether each row of shape (n, size) is one of the addresses."""
    words = np.ascontiguousarray(column).view("u4")
    matches = np.zeros(len(column), np.bool_)
    for address in addresses:
        equal = np.ones(len(column), np.bool_)
        for index, word in enumerate(np.frombuffer(address, "u4")):
            equal &= words[:, index] == word
        matches |= equal
    return matches


def _udp(heads: Bytes, ip: Ints, protocol: Bytes) -> tuple[Ints, Bytes]:
    """Ports (of TCP too) and length, shape (n, 3), and the visible payload, zero-padded, shape (n, _VISIBLE)."""
    header = np.zeros((len(heads), 6), np.uint8)
    visible = np.zeros((len(heads), _VISIBLE), np.uint8)
    for version, at in _TRANSPORT_AT.items():
        rows = np.flatnonzero(ip == version)
        header[rows] = heads[rows, at : at + 6]
        rows = rows[protocol[rows] == UDP]
        visible[rows, : pcap.HEAD - at - 8] = heads[rows, at + 8 :]
    return header.view(">u2").astype(np.int64), visible


@dataclass(frozen=True)
class _Segments:
    """The TCP side of n packets; zero where one is a datagram."""

    payload: Ints
    sequence: Ints
    acknowledgement: Ints
    flags: Bytes
    window: Windows
    shift: Shifts
    rows: Ints
    """Which of the packets are segments, shape (m,)."""
    identity: Bytes
    """The fields that identify a segment and that routing leaves unchanged, shape (m, 60)."""


def _segments(heads: Bytes, ip: Ints, protocol: Bytes) -> _Segments:
    """Header fields of TCP (RFC 9293 §3.1); the payload's length is that of the IP packet less both headers."""
    numbers = np.zeros((3, len(heads)), np.int64)
    flags = np.zeros(len(heads), np.uint8)
    window, shift = np.zeros(len(heads), np.uint16), np.full(len(heads), NO_SHIFT, np.int8)
    segment = protocol == TCP
    rows = np.flatnonzero(segment)
    identity = np.zeros((len(heads), 20 + _TCP_OPTIONS), np.uint8)
    for version, at in _TRANSPORT_AT.items():
        of_version = rows[ip[rows] == version]
        header = heads[of_version, at : at + _TCP_HEADER + _TCP_OPTIONS]
        total = _field(heads[of_version], 16 if version == 4 else 18, 2) - (20 if version == 4 else 0)
        numbers[0, of_version] = np.maximum(total - (header[:, 12] >> 4).astype(np.int64) * 4, 0)
        numbers[1, of_version], numbers[2, of_version] = _field(header, 4, 4), _field(header, 8, 4)
        flags[of_version] = header[:, 13]
        window[of_version] = _field(header, 14, 2)
        opening = header[:, 13] & SYN != 0
        shift[of_version[opening]] = [_window_scale(row.tobytes()) for row in header[opening]]
        # Ports, numbers, flags and window; the checksum may be finished only on the way. Then the options, of which
        # a timestamp (RFC 7323 §3) differs in a retransmission, as the identification of IPv4 does.
        identity[of_version, :16] = header[:, :16]
        identity[of_version, 16:18] = heads[of_version, 16:18] if version == 4 else heads[of_version, 18:20]
        identity[of_version, 18:20] = heads[of_version, 18:20] if version == 4 else 0
        options = header[:, _TCP_HEADER:]
        identity[of_version, 20 : 20 + options.shape[1]] = options
    return _Segments(numbers[0], numbers[1], numbers[2], flags, window, shift, rows, identity[rows])


def _window_scale(header: bytes) -> int:
    """The window scale option of one header (RFC 7323 §2.2), as far as it was captured; `NO_SHIFT` where none is."""
    at, end = _TCP_HEADER, min((header[12] >> 4) * 4, len(header))
    while at < end and header[at] != _END_OF_OPTIONS:
        if header[at] == _NO_OPERATION:
            at += 1
            continue
        length = header[at + 1] if at + 1 < end else 0
        if length < 2 or at + length > end:
            break
        if header[at] == _WINDOW_SCALE and length == 3:
            return min(header[at + 2], MAX_SHIFT)
        at += length
    return NO_SHIFT


def _field(bytes_: Bytes, at: int, size: int) -> Ints:
    """A number in network byte order, of each row."""
    value = np.zeros(len(bytes_), np.int64)
    for index in range(at, at + size):
        value = value << 8 | bytes_[:, index]
    return value


def _keys(
    flow: Ints, to_client: Flags, ip: Ints, udp: Ints, visible: Bytes, segments: _Segments
) -> npt.NDArray[np.uint64]:
    """64-bit hash of the fields that routing leaves unchanged.

    The checksum is left out: with transmit offload it is finished only on the way. The payload's head of a QUIC
    datagram is header-protected and encrypted (RFC 9001 §5.4), so it differs even between retransmissions.
    """
    columns = np.zeros((len(flow), 64), np.uint8)
    columns[:, 0] = flow & 0xFF
    columns[:, 1] = to_client + 2 * (ip == 6)
    columns[:, 2:8] = udp.astype(">u2").view(np.uint8).reshape(-1, 6)
    columns[:, 8 : 8 + visible.shape[1]] = visible
    columns[segments.rows, 1] += 4
    columns[segments.rows, 4:] = segments.identity
    key = np.full(len(flow), 0x9E3779B97F4A7C15, np.uint64)
    for word in columns.view(np.uint64).T:
        key ^= word
        key *= np.uint64(0xD6E8FEB86659FD93)
        key ^= key >> np.uint64(32)
    return key


def _captured_payload(captured: Ints, ip: Ints, protocol: Bytes, payload: Ints) -> Ints:
    """Bytes captured of each datagram's payload; Ethernet pads short frames, which is no payload."""
    header = np.where(ip == 6, _TRANSPORT_AT[6], _TRANSPORT_AT[4]) + 8
    return np.where(protocol == UDP, np.clip(captured - header, 0, np.maximum(payload, 0)), 0)


def _find_coalesced(visible: Bytes, form: Bytes, payload: Ints, captured: Ints) -> tuple[Flags, Flags]:
    """Which datagrams show a 1-RTT packet, and which have something behind their Initial packet."""
    one_rtt = form == invariants.Form.SHORT
    after_initial = np.zeros(len(form), np.bool_)
    for row in np.flatnonzero((form == invariants.Form.INITIAL) | (form == invariants.Form.HANDSHAKE)):
        last_packet = invariants.last_visible_packet(visible[row, : captured[row]].tobytes(), int(payload[row]))
        if last_packet is not None and last_packet[1]:
            one_rtt[row] = last_packet[0] is invariants.Form.HANDSHAKE
            after_initial[row] = last_packet[0] is invariants.Form.INITIAL
    return one_rtt, after_initial

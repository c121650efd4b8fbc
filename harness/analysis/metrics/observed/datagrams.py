"""What the datagrams of a whole connection show: acknowledgements, sizes, 0-RTT, ECN."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from harness.analysis.connection import TOGETHER, Connection
from harness.capture import qlog
from harness.capture.qlog_parameters import HEAD
from harness.capture.quic.invariants import Form
from harness.outcome import Observation
from harness.scenario.parameters import ROLES, Role

#: The bulk of a download: between these parts of its bytes.
_BULK = (0.2, 0.8)
#: At most so many parts of the bulk, of at least so many datagrams each, so that one recovery decides nothing.
_PARTS, _PART = 20, 200
#: Fewer datagrams in bulk say nothing of a ratio.
_FEW = 50
#: Datagrams differ by less than this for other reasons than the path MTU, bytes.
_ALIKE = 16
#: 1-RTT datagrams after which a stack that probes for larger ones would have.
_MANY = {"client": 100, "server": 1000}
#: Largest UDP payload that an MTU of 1500 carries, by IP version.
_LARGEST = {4: 1472, 6: 1452}
#: The ECN field (RFC 3168 §5).
_ECT_1, _ECT_0 = 1, 2
_SIDE: dict[Role, str] = {"client": "left", "server": "right"}
#: Names of the packet type in use (quic-events, and what stacks write).
_ZERO_RTT_PACKET = re.compile(rb'"packet_type"\s*:\s*"(?:0RTT|0-RTT|zerortt|ZeroRtt)"')


def ack_ratio(connection: Connection) -> Iterator[Observation]:
    """ack_ratio of the client: 1-RTT datagrams that reached it per datagram it sent, in bulk, median over its parts.

    The client's datagrams are acknowledgements nearly all; those that only raise flow control lower the ratio. One
    that finds several datagrams in its socket may answer them with one acknowledgement whatever its ratio: what it was
    set to shows where few arrive together.
    """
    received, sent = connection.received("client"), connection.sent("client")
    if received is None or sent is None:
        return
    data = received.where(received.form == Form.SHORT)
    volume = np.cumsum(data.payload)
    if not len(data):
        return
    first, last = (int(np.searchsorted(volume, part * volume[-1])) for part in _BULK)
    if last - first < _FEW:
        return
    parts = max(1, min(_PARTS, (last - first) // _PART))
    edges = np.linspace(first, last, parts + 1).astype(np.int64)
    answers = np.diff(np.searchsorted(sent.t_ns, data.t_ns[edges]))
    heard = answers > 0
    if not heard.any():
        return
    median = f", median of {parts} parts" if parts > 1 else ""
    together = float((np.diff(data.t_ns[first:last]) < TOGETHER).mean())
    yield Observation(
        role="client", parameter="ack_ratio", value=float(np.median(np.diff(edges)[heard] / answers[heard])), unit="1",
        source=f"left capture: {last - first:,} datagrams received for {int(answers.sum()):,} sent while "
        f"{_BULK[0]:.0%} to {_BULK[1]:.0%} of the bytes came{median}; {together:.0%} of them came "
        f"within {TOGETHER / 1e3:.0f} µs of the one before",
    )  # fmt: skip


def largest_payload(connection: Connection) -> Iterator[Observation]:
    """max_udp_payload (bytes): the largest UDP payload sent, probes of the path MTU included."""
    for role in ROLES:
        sent = connection.sent(role)
        if sent is None or not len(sent):
            continue
        largest = int(sent.payload.max())
        protected = sent.payload[sent.one_rtt]
        most = int(protected.max()) if len(protected) else 0
        sizes, counts = np.unique(sent.payload, return_counts=True)
        usual = int(sizes[(sizes * counts).argmax()])
        yield Observation(
            role=role, parameter="max_udp_payload", value=largest, unit="bytes",
            source=f"{_SIDE[role]} capture: largest of {len(sent):,} datagrams; {most:,} B with 1-RTT packets, most "
            f"bytes in datagrams of {usual:,} B",
        )  # fmt: skip


def path_mtu_discovery(connection: Connection) -> Iterator[Observation]:
    """path_mtu_discovery: on where 1-RTT datagrams are larger than what the endpoint starts with, else off.

    The server starts with the full datagrams of its first round trip of data; the client, which has no bulk, with
    the largest of its handshake. Nothing is said where larger ones could not pass, or too few were sent.
    """
    for role in ROLES:
        sent, start = connection.sent(role), _start(connection, role)
        if sent is None or start is None:
            continue
        protected = sent.where(sent.form == Form.SHORT)
        larger = np.flatnonzero(protected.payload > start + _ALIKE)
        if len(larger):
            row = int(larger[0])
            first, most = int(protected.payload[row]), int(protected.payload.max())
            value, found = "on", f"{first:,} B in 1-RTT datagram {row + 1:,}, {most:,} B at most, after {start:,} B"
        elif len(protected) >= _MANY[role] and start + _ALIKE < _LARGEST[int(protected.ip[0])]:
            value, found = "off", f"none of {len(protected):,} 1-RTT datagrams larger than {start:,} B"
        else:
            continue
        yield Observation(
            role=role, parameter="path_mtu_discovery", value=value, unit="on, off",
            source=f"{_SIDE[role]} capture: {found}",
        )  # fmt: skip


def _start(connection: Connection, role: Role) -> int | None:
    if role == "server":
        return None if connection.flight is None else connection.flight.size
    sent = connection.sent("client")
    handshake = None if sent is None else sent.payload[sent.form != Form.SHORT]
    return int(handshake.max()) if handshake is not None and len(handshake) else None


def ecn(connection: Connection) -> Iterator[Observation]:
    """ecn: share of the datagrams that an endpoint sent as ECN-capable, ECT(0) or ECT(1) (RFC 9000 §13.4).

    A stack that marks stops after a few datagrams when its peer does not count marks (RFC 9000 §13.4.2).
    """
    for role in ROLES:
        sent = connection.sent(role)
        if sent is None or not len(sent):
            continue
        field = sent.traffic_class & 3
        capable = np.flatnonzero((field == _ECT_0) | (field == _ECT_1))
        counts = f"ECT(0) on {int((field == _ECT_0).sum()):,}, ECT(1) on {int((field == _ECT_1).sum()):,}"
        last = f"; the last is number {capable[-1] + 1:,}" if len(capable) else ""
        yield Observation(
            role=role, parameter="ecn", value=len(capable) / len(sent), unit="share of datagrams",
            source=f"{_SIDE[role]} capture, IP header: {counts} of {len(sent):,} datagrams{last}",
        )  # fmt: skip


def zero_rtt(connection: Connection) -> Iterator[Observation]:
    """Datagrams of the client with 0-RTT packets: in the second connection, or the first where there is no second.

    One behind an Initial packet in the same datagram counts, unless the first connection, which had no ticket, has
    something behind its Initial packets too: then it is padding.
    """
    windows = connection.view.windows
    again = [window for window in windows if window.transfer.flow == connection.window.transfer.flow][1:2]
    chosen = Connection(connection.view, again[0]) if again else connection
    sent = chosen.sent("client")
    if sent is None or not len(sent):
        return
    plain = int((sent.form == Form.ZERO_RTT).sum())
    behind = chosen.behind_initial() if again and not connection.behind_initial() else 0
    which = "second" if again else "only"
    yield Observation(
        role="client", parameter="zero_rtt", value=plain + behind, unit="datagrams",
        source=f"left capture, {which} connection: {plain:,} begin with a 0-RTT packet, {behind:,} have one behind an "
        "Initial packet",
    )  # fmt: skip
    # A token (RFC 9000 §17.2.2) pushes what follows an Initial packet out of the captured bytes; the client knows.
    trace = chosen.trace("client")
    if trace is not None:
        count = len(_ZERO_RTT_PACKET.findall(qlog.read_head(trace, HEAD)))
        yield Observation(
            role="client", parameter="zero_rtt", value=count, unit="packets",
            source=f"{which} connection: 0-RTT packets in its own qlog",
        )  # fmt: skip

"""The endpoints' settings as a whole QUIC connection shows them: datagrams, windows, recovery, resumption."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from harness.analysis.arrival import peak_in_flight
from harness.analysis.connection import BURST_GAP, FULL_PAYLOAD, ROUND_SHARE, Flight, TransferConnection
from harness.analysis.metrics.observed.declared import received_credit
from harness.analysis.run_view import RunView
from harness.analysis.tcp_split import at_server_rtt_ns, is_split
from harness.capture import qlog
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import Capture
from harness.capture.qlog import read_recovery
from harness.capture.qlog_events import read_phases
from harness.capture.qlog_parameters import HEAD, read_reduction
from harness.capture.quic.invariants import Form
from harness.outcome import Observation
from harness.scenario.parameters import ROLES, Role

#: The bulk of a download: between these shares of its bytes.
_BULK = (0.2, 0.8)
#: The most parts of the bulk, and the fewest datagrams of each, so that no single recovery decides the result.
_PARTS, _PART = 20, 200
#: Fewer datagrams in bulk do not show a ratio.
_LEAST_DATAGRAMS = 50
#: Smaller size differences of datagrams have other causes than the path MTU, bytes.
_SIZE_TOLERANCE = 16
#: A stack that probes for larger datagrams has done so after this many 1-RTT datagrams.
_PROBING_DATAGRAMS = {"receiver": 100, "sender": 1000}
#: Largest UDP payload that an MTU of 1500 carries, by IP version.
_LARGEST = {4: 1472, 6: 1452}
#: The ECN field (RFC 3168 §5).
_ECT_1, _ECT_0 = 1, 2
_SIDE: dict[Role, str] = {"client": "left", "server": "right"}
#: Names of the 0-RTT packet type (quic-events, and names that stacks write).
_ZERO_RTT_PACKET = re.compile(rb'"packet_type"\s*:\s*"(?:0RTT|0-RTT|zerortt|ZeroRtt)"')


def ack_ratio(connection: TransferConnection) -> Iterator[Observation]:
    """ack_ratio of the receiver: 1-RTT datagrams received per datagram sent, in bulk, median over its parts.

    Nearly all of its datagrams are acknowledgements; those that only raise flow control lower the ratio. A receiver
    that finds several datagrams in its socket may answer them with one acknowledgement, whatever its ratio. Its setting
    shows when few datagrams arrive together.
    """
    role = connection.window.receiver
    received, sent = connection.received(role), connection.sent(role)
    if received is None or sent is None:
        return
    data = received.select(received.form == Form.SHORT)
    volume = np.cumsum(data.payload)
    if not len(data):
        return
    first, last = (int(np.searchsorted(volume, part * volume[-1])) for part in _BULK)
    if last - first < _LEAST_DATAGRAMS:
        return
    parts = max(1, min(_PARTS, (last - first) // _PART))
    edges = np.linspace(first, last, parts + 1).astype(np.int64)
    answers = np.diff(np.searchsorted(sent.t_ns, data.t_ns[edges]))
    has_answers = answers > 0
    if not has_answers.any():
        return
    median = f", median of {parts} parts" if parts > 1 else ""
    together = float((np.diff(data.t_ns[first:last]) < BURST_GAP).mean())
    yield Observation(
        role=role,
        parameter="ack_ratio",
        value=float(np.median(np.diff(edges)[has_answers] / answers[has_answers])),
        unit="1",
        source=f"{_SIDE[role]} capture: {last - first:,} datagrams received for {int(answers.sum()):,} sent while "
        f"{_BULK[0]:.0%} to {_BULK[1]:.0%} of the bytes came{median}; {together:.0%} of them came "
        f"within {BURST_GAP / 1e3:.0f} µs of the one before",
    )


def largest_payload(connection: TransferConnection) -> Iterator[Observation]:
    """max_udp_payload (bytes): the largest UDP payload sent, probes of the path MTU included."""
    for role in ROLES:
        sent = connection.sent(role)
        if sent is None or not len(sent):
            continue
        largest = int(sent.payload.max())
        protected = sent.payload[sent.one_rtt]
        largest_protected = int(protected.max()) if len(protected) else 0
        sizes, counts = np.unique(sent.payload, return_counts=True)
        usual = int(sizes[(sizes * counts).argmax()])
        yield Observation(
            role=role,
            parameter="max_udp_payload",
            value=largest,
            unit="bytes",
            source=f"{_SIDE[role]} capture: largest of {len(sent):,} datagrams; {largest_protected:,} B with 1-RTT "
            f"packets, most bytes in datagrams of {usual:,} B",
        )


def path_mtu_discovery(connection: TransferConnection) -> Iterator[Observation]:
    """path_mtu_discovery: on if 1-RTT datagrams are larger than the endpoint's initial size, else off.

    The sender's initial size is that of the full datagrams of its first round trip of data. The receiver, which has no
    bulk, starts with the largest of its handshake. No observation if larger ones could not pass, or too few were sent.
    """
    for role in ROLES:
        sent, start = connection.sent(role), _initial_size(connection, role)
        if sent is None or start is None:
            continue
        protected = sent.select(sent.form == Form.SHORT)
        larger = np.flatnonzero(protected.payload > start + _SIZE_TOLERANCE)
        if len(larger):
            row = int(larger[0])
            first, largest = int(protected.payload[row]), int(protected.payload.max())
            value, evidence = (
                "on",
                f"{first:,} B in 1-RTT datagram {row + 1:,}, {largest:,} B at most, after {start:,} B",
            )
        elif (
            len(protected) >= _PROBING_DATAGRAMS["sender" if role == connection.window.sender else "receiver"]
            and start + _SIZE_TOLERANCE < _LARGEST[int(protected.ip[0])]
        ):
            value, evidence = "off", f"none of {len(protected):,} 1-RTT datagrams larger than {start:,} B"
        else:
            continue
        yield Observation(
            role=role,
            parameter="path_mtu_discovery",
            value=value,
            unit="on, off",
            source=f"{_SIDE[role]} capture: {evidence}",
        )


def _initial_size(connection: TransferConnection, role: Role) -> int | None:
    if role == connection.window.sender:
        return None if connection.flight is None else connection.flight.size
    sent = connection.sent(role)
    handshake = None if sent is None else sent.payload[sent.form != Form.SHORT]
    return int(handshake.max()) if handshake is not None and len(handshake) else None


def ecn(connection: TransferConnection) -> Iterator[Observation]:
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
            role=role,
            parameter="ecn",
            value=len(capable) / len(sent),
            unit="share of datagrams",
            source=f"{_SIDE[role]} capture, IP header: {counts} of {len(sent):,} datagrams{last}",
        )


def zero_rtt(connection: TransferConnection) -> Iterator[Observation]:
    """Datagrams of the client with 0-RTT packets: in the second connection, or the first if there is no second.

    A 0-RTT packet behind an Initial packet in the same datagram counts. It does not count if the first connection,
    which had no ticket, has something behind its Initial packets too: then it is padding.
    """
    windows = connection.view.windows
    repeats = [window for window in windows if window.transfer.flow == connection.window.transfer.flow][1:2]
    examined = TransferConnection(connection.view, repeats[0]) if repeats else connection
    sent = examined.sent("client")
    if sent is None or not len(sent):
        return
    plain = int((sent.form == Form.ZERO_RTT).sum())
    behind = examined.behind_initial() if repeats and not connection.behind_initial() else 0
    ordinal = "second" if repeats else "only"
    yield Observation(
        role="client",
        parameter="zero_rtt",
        value=plain + behind,
        unit="datagrams",
        source=f"left capture, {ordinal} connection: {plain:,} begin with a 0-RTT packet, {behind:,} have one behind "
        "an Initial packet",
    )
    # A token (RFC 9000 §17.2.2) pushes the bytes after an Initial packet out of the captured part; the client knows.
    trace = examined.trace("client")
    if trace is not None:
        count = len(_ZERO_RTT_PACKET.findall(qlog.read_head(trace, HEAD)))
        yield Observation(
            role="client",
            parameter="zero_rtt",
            value=count,
            unit="packets",
            source=f"{ordinal} connection: 0-RTT packets in its own qlog",
        )


# --- The sender's first round trip of data: its initial window, and whether it paces.


#: From this share of a limit on, the limit may have ended a flight.
_NEAR = 0.9


def initial_window(connection: TransferConnection) -> Iterator[Observation]:
    """initial_cwnd of the sender (packets): UDP payload of its first round trip of data, in its full datagrams.

    It may be too large by the credit for the handshake's packets, which a stack may have added to the window by then,
    and by path MTU probes. It is too small if something other than the window ended the flight.
    """
    flight = connection.flight
    if flight is None:
        return
    volume = int(flight.sent.payload.sum())
    role = connection.window.sender
    source = (
        f"{_SIDE[role]} capture: {volume:,} B in {len(flight.sent):,} datagrams, full ones of {flight.size:,} B, in "
        f"the first round trip of data; up to {flight.bytes_before:,} B of it may be credit for the handshake"
    )
    limits = _limits(connection, flight, volume)
    if limits:
        source += f"; at least, for {' and '.join(limits)}"
    yield Observation(role=role, parameter="initial_cwnd", value=volume / flight.size, unit="packets", source=source)


def _limits(connection: TransferConnection, flight: Flight, volume: int) -> list[str]:
    """Other limits that may have ended the flight."""
    limits = []
    if flight.bytes_after < volume:
        limits.append("little more was asked for")
    credit = received_credit(connection)
    if credit is not None and volume >= _NEAR * credit:
        limits.append(f"the {connection.window.receiver}'s flow control allowed {credit:,.0f} B")
    if connection.view.lab is not None and connection.rtt_ns is not None:
        links = connection.view.lab.links
        link = links.to_client if connection.window.sender == "server" else links.to_server
        bdp = link.rate_bps * connection.rtt_ns / 8e9
        if volume >= _NEAR * bdp:
            limits.append(f"the path carries {bdp:,.0f} B in a round trip")
    return limits


def pacing(connection: TransferConnection) -> Iterator[Observation]:
    """Pacing of the sender: its longest burst in the first round trip of data, and in the second.

    A pacer still lets through a burst of an initial window (RFC 9002 §7.7), often ten packets. A pacer whose allowance
    grows with idle time lets through all of the first flight. Only a larger window, or the next round, shows the
    difference.
    """
    flight = connection.flight
    if flight is None:
        return
    for name, sent in (("first", flight.sent), ("second", flight.next_round)):
        if not len(sent):
            continue
        longest = longest_burst(sent)
        spread_ms = (sent.t_ns[-1] - sent.t_ns[0]) / 1e6
        role = connection.window.sender
        yield Observation(
            role=role,
            parameter="pacing",
            value=longest,
            unit="datagrams in the longest burst",
            source=f"{_SIDE[role]} capture: of {len(sent):,} in the {name} round trip of data, {longest:,} within "
            f"{BURST_GAP / 1e3:.0f} µs of each other; all within {spread_ms:.1f} ms",
        )


def longest_burst(sent: Capture) -> int:
    """The most datagrams in a row that each left within `TOGETHER` of the one before."""
    if not len(sent):
        return 0
    starts = np.flatnonzero(np.concatenate(([True], np.diff(sent.t_ns) >= BURST_GAP)))
    return int(np.diff(np.append(starts, len(sent))).max())


# --- The sender's congestion window at the first loss.


def congestion_reaction(connection: TransferConnection) -> Iterator[Observation]:
    """congestion_reaction of the sender: its congestion window after the first reduction after a loss, divided by that
    before.

    0.5 is Reno's (RFC 9002 §7.3.2), 0.7 CUBIC's (RFC 9438 §4.6); a Reno may take 0.7 too (quic-go's). A CUBIC that
    reduces from the bytes in flight (ngtcp2's) gives a lower value if it had not filled its window. No observation if
    all datagrams passed.
    """
    role = connection.window.sender
    trace = connection.trace(role)
    if trace is None or not _has_losses(connection):
        return
    reduction = read_reduction(trace)
    if reduction is None:
        return
    cause = (
        "after a packet it names lost" if reduction.names_losses else "its first reduction (it names no lost packets)"
    )
    in_flight = "" if reduction.in_flight is None else f" ({reduction.in_flight:,} B in flight)"
    yield Observation(
        role=role,
        parameter="congestion_reaction",
        value=reduction.after / reduction.before,
        unit="1",
        source=f"{connection.name(role)}'s qlog: congestion window from {reduction.before:,} B{in_flight} to "
        f"{reduction.after:,} B, {cause}",
    )


def _has_losses(connection: TransferConnection) -> bool:
    """Whether the path lost a datagram towards the receiver; True if the captures do not show it."""
    window, view = connection.window, connection.view
    passage = view.to_client if window.sender == "server" else view.to_server
    if passage is None:
        return True
    entered = passage.entered
    own = (entered.flow == window.transfer.flow) & (entered.t_ns >= window.start_ns) & (entered.t_ns < window.end_ns)
    # Packets in flight at the end of the capture are not lost.
    own &= entered.t_ns < passage.end_ns - 2_000_000_000
    return bool((own & ~passage.arrived).any())


# --- The first probe timeout, on the wire (RFC 9002 §6.2).


#: A pause longer than this ends a flight of the handshake, ns: stacks compute for less, and wait for longer.
PAUSE = 20_000_000
_HANDSHAKE: dict[Role, tuple[Form, ...]] = {"client": (Form.INITIAL,), "server": (Form.INITIAL, Form.HANDSHAKE)}


def first_probe_timeout(connection: TransferConnection) -> Iterator[Observation]:
    """first_pto (s): from the end of an endpoint's first flight to its next datagram of the handshake.

    Only if nothing from the peer had arrived in between, so that the timer caused it. It is a multiple of the initial
    RTT: 3 by RFC 9002 §6.2.2 (smoothed_rtt + 4 · rttvar), 2 in some stacks (quic-go, aioquic). The multiple cannot be
    seen, so no initial RTT is derived from it: two runs with two initial RTTs give the multiple.
    """
    for role in ROLES:
        sent, received = connection.sent(role), connection.received(role)
        if sent is None or received is None:
            continue
        times = sent.t_ns[np.isin(sent.form, _HANDSHAKE[role])]
        pauses = np.flatnonzero(np.diff(times) > PAUSE)
        if not len(pauses):
            continue
        last, probe = int(times[pauses[0]]), int(times[pauses[0] + 1])
        if ((received.t_ns > last) & (received.t_ns <= probe)).any():
            continue
        seconds = (probe - last) / 1e9
        side = "left" if role == "client" else "right"
        yield Observation(
            role=role,
            parameter="first_pto",
            value=seconds,
            unit="s",
            source=f"{side} capture: {seconds:.3f} s of silence between the first flight and the next datagram of the "
            f"handshake; initial RTT {seconds / 3 * 1e3:.1f} ms if that is 3 × (RFC 9002 §6.2.2), "
            f"{seconds / 2 * 1e3:.1f} ms if 2 ×",
        )


# --- The start of a second connection compared with the first: what the sender remembers of the path.


#: Compared round trips of data: with early data the first may be over before the RTT is known to match.
_ROUNDS = 2
#: So many full datagrams in the handshake's own round trip are data, not path MTU probes.
_DATA = 3
#: The BDP frame by its name (draft-kuhn-quic-bdpframe-extension; picoquic's qlog).
_BDP_FRAME = re.compile(rb'"frame_type"\s*:\s*"bdp[a-z_]*"', re.IGNORECASE)


def bdp_seed(connection: TransferConnection) -> Iterator[Observation]:
    """bdp_seed of the sender: UDP payload of the second connection's first two round trips of data, divided by the
    first's.

    About 1 if nothing is remembered. No observation if the flow has one connection, or a capture is missing.
    """
    repeat = second_connection(connection)
    if repeat is None:
        return
    first, resumed = early_volume(connection), early_volume(repeat)
    if not first or resumed is None:
        return
    role = connection.window.sender
    yield Observation(
        role=role,
        parameter="bdp_seed",
        value=resumed / first,
        unit="times the first connection's",
        source=f"{_SIDE[role]} capture: {resumed:,} B in the first {_ROUNDS} round trips of data of the second "
        f"connection, {first:,} B in those of the first",
    )


def bdp_frames(connection: TransferConnection) -> Iterator[Observation]:
    """bdp_frames of each endpoint: BDP frames named in the part that is read of its qlogs of both connections."""
    repeat = second_connection(connection)
    if repeat is None:
        return
    for role in ROLES:
        traces = [trace for attempt in (connection, repeat) if (trace := attempt.trace(role)) is not None]
        if traces:
            count = sum(len(_BDP_FRAME.findall(qlog.read_head(trace, HEAD))) for trace in traces)
            yield Observation(
                role=role,
                parameter="bdp_frames",
                value=count,
                unit="frames",
                source=f"qlog of {connection.name(role)} as a {role}, {len(traces)} of two connections",
            )


def careful_resume(connection: TransferConnection) -> Iterator[Observation]:
    """careful_resume of the sender: the phases of RFC 9959 that its qlog of the second connection names, in order.

    Words separated by commas; no observation if there is no second connection, or its qlog names none.
    """
    repeat = second_connection(connection)
    role = connection.window.sender
    trace = None if repeat is None else repeat.trace(role)
    if trace is None:
        return
    changes = read_phases(trace)
    if changes:
        listing = "; ".join(
            f"{change.phase} after {change.at_ms:.0f} ms" + (f" ({change.trigger})" if change.trigger else "")
            for change in changes
        )
        yield Observation(
            role=role,
            parameter="careful_resume",
            value=", ".join(change.phase for change in changes),
            unit="",
            source=f"{connection.name(role)}'s qlog of the second connection: {listing}",
        )


def second_connection(connection: TransferConnection) -> TransferConnection | None:
    """The next connection of the same flow; None if there is none."""
    flow = connection.window.transfer.flow
    windows = [window for window in connection.view.windows if window.transfer.flow == flow]
    return TransferConnection(connection.view, windows[1]) if len(windows) > 1 else None


def early_volume(connection: TransferConnection) -> int | None:
    """UDP payload, bytes, that the sender sent in its first round trips of data; None if it sent none.

    They begin in the handshake's round trip if the response to early data does (RFC 9001 §4.6).
    """
    sent = connection.sent(connection.window.sender)
    if sent is None or not len(sent) or not connection.rtt_ns:
        return None
    early = (
        (sent.form == Form.SHORT)
        & (sent.payload >= FULL_PAYLOAD)
        & (sent.t_ns < sent.t_ns[0] + ROUND_SHARE * connection.rtt_ns)
    )
    if early.sum() >= _DATA:
        start = int(sent.t_ns[early][0])
    elif connection.flight is not None:
        start = int(connection.flight.sent.t_ns[0])
    else:
        return None
    inside = (sent.t_ns >= start) & (sent.t_ns < start + _ROUNDS * ROUND_SHARE * connection.rtt_ns)
    return int(sent.payload[inside].sum())


# --- TCP windows of HTTPS from its segments: its endpoints do not report what their kernels know.


#: Which buffer each endpoint has in a download.
_BUFFERS: dict[Role, str] = {"server": "tcp_wmem_max", "client": "tcp_rmem_max"}


def first_flight(view: RunView, window: TransferWindow) -> Iterator[Observation]:
    """Yield initial_cwnd: the server's packets in the first round trip of its response.

    The response begins once the client's answer to the server's handshake has arrived, with the request. The handshake
    did not fill the window, and leaves that of Reno and CUBIC unchanged (RFC 2861; tcp_is_cwnd_limited,
    include/net/tcp.h). BBR's has grown by what was acknowledged.
    """
    connection = TransferConnection(view, window)
    sent, received, rtt_ns = connection.sent("server"), connection.received("server"), at_server_rtt_ns(view)
    if sent is None or received is None or not rtt_ns:
        return
    data = sent.t_ns[sent.payload > 0]
    answers = received.t_ns[(received.payload > 0) & (len(data) > 0 and received.t_ns > data[0])]
    if not len(answers):
        return
    response = data[data >= answers[0]]
    if len(response):
        count = int(np.sum(response < response[0] + ROUND_SHARE * rtt_ns))
        yield Observation(
            role="server",
            parameter="initial_cwnd",
            value=count,
            unit="packets",
            source="right capture, segments of the response in its first round trip",
        )


def most_in_flight(view: RunView, window: TransferWindow) -> Iterator[Observation]:
    """Yield tcp_wmem_max and tcp_rmem_max: the most bytes in flight, which the buffers of both endpoints allowed.

    If a proxy splits the connection, the client's buffer does not limit what the server sends.
    """
    connection = TransferConnection(view, window)
    sent, received = connection.sent("server"), connection.received("server")
    if sent is None or received is None or not len(sent):
        return
    peak = float(peak_in_flight(sent, received))
    ends: tuple[Role, ...] = ("server",) if is_split(view) else ROLES
    for role in ends:
        yield Observation(
            role=role, parameter=_BUFFERS[role], value=peak, unit="bytes", source="right capture, most in flight"
        )


# --- The server's congestion window after its client's address changed.


#: A window below this share of the former one has been reset. A loss leaves more of it (CUBIC 0.7, Reno a half). Every
#: rule except keeping it starts again, as the new round trip is not known yet.
_RESET_SHARE = 0.45
#: Round trips of the old path after the move in which a reset is looked for: the client may validate the new path
#: first.
_SEARCH_ROUNDS = 3
#: Time until a reset window has its final value, as a share of a round trip of the old path.
_SETTLED = 0.75


def migration_cwnd(connection: TransferConnection) -> Iterator[Observation]:
    """migration_cwnd of the server: its congestion window just after the client's first move, divided by that just
    before.

    Near 0 if it starts again, 1 if it stays. No observation if nobody moves, or the qlog has no windows.
    """
    moves = [move for move in connection.window.flow.moves if move.to is not None]
    trace, rtt_ns = connection.trace("server"), connection.rtt_ns
    if not moves or trace is None or not rtt_ns:
        return
    rtt_ms = rtt_ns / 1e6
    # The trace begins when the client's first datagram has arrived, half a round trip after the lab's zero.
    at_ms = moves[0].acts.seconds * 1e3 - rtt_ms / 2
    windows = read_recovery(trace, rtt_ms).select("t_ms", "congestion_window").drop_nulls()
    old = windows.filter(pl.col("t_ms") < at_ms)
    if old.is_empty():
        return
    before = old["congestion_window"][-1]
    later = windows.filter(pl.col("t_ms").is_between(at_ms, at_ms + _SEARCH_ROUNDS * rtt_ms))
    low = (later["congestion_window"] < _RESET_SHARE * before).arg_true()
    after, note = before, "never set back"
    if not low.is_empty():
        # From that event on: another event of the same time may have come before.
        since = later[low[0] :]
        settling = since.filter(pl.col("t_ms") <= since["t_ms"][0] + _SETTLED * rtt_ms)
        after, note = settling["congestion_window"].max(), f"set back to {since['congestion_window'][0]:,.0f} B first"
    yield Observation(
        role="server",
        parameter="migration_cwnd",
        value=after / before,
        unit="of the window before",
        source=f"{connection.name('server')}'s qlog: {before:,.0f} B before the move, {after:,.0f} B after it, {note}",
    )

"""Parameters in a qlog trace: transport parameters, recovery settings, the first reaction to loss.

Events parameters_set and metrics_updated of draft-ietf-quic-qlog-quic-events, in its spellings from 0.1 on. They
are at the beginning of a trace, so only that is read. The trace is searched until the reaction to loss is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.capture import qlog
from harness.capture.files import open_file

#: Bytes of a trace that are searched for the results of its handshake: many times the bytes before its end.
HEAD = 1 << 20
#: Bytes read at a time, and of an event, at most.
_CHUNK, _LONGEST = 1 << 23, 1 << 26
#: Bytes after a first reduction of the window in which a stack that names its losses would have named one.
_SILENCE = 1 << 24
#: A change of the congestion window that is a reduction, not a rounding.
_REDUCTION = 0.98

_WINDOW = re.compile(rb'"c(?:ongestion_window|wnd)"\s*:\s*"?([0-9]+)')
_IN_FLIGHT = re.compile(rb'"bytes_in_flight"\s*:\s*"?([0-9]+)')
_LOSSES = (b'packet_lost"', b'PACKET_LOST"')  # picoquic writes it in capitals
#: How traces name the algorithm, where they do.
_ALGORITHM = ("congestion_control", "congestion_control_algorithm", "congestion_controller", "cc_algorithm")


@dataclass(frozen=True)
class TransportParameters:
    """Transport parameters of one endpoint (RFC 9000 §18.2); None for one that the event does not have."""

    max_ack_delay_ms: float | None = None
    ack_delay_exponent: float | None = None
    min_ack_delay_us: float | None = None
    """draft-ietf-quic-ack-frequency §3."""
    max_udp_payload_size: float | None = None
    max_idle_timeout_ms: float | None = None
    initial_max_data: float | None = None
    initial_max_stream_data_bidi_local: float | None = None
    initial_max_stream_data_bidi_remote: float | None = None
    initial_max_stream_data_uni: float | None = None


@dataclass(frozen=True)
class FirstValue:
    """The first value of a figure of metrics_updated."""

    t_ms: float
    """Since the trace's first event."""
    value: float


@dataclass(frozen=True)
class LoggedSettings:
    """The parameters of an endpoint and of its peer in one trace; None for what it does not report."""

    summary: qlog.Summary
    """Of the part that was read: which connection it is of, and when it starts."""
    local: TransportParameters | None
    """The endpoint's own, as it says that it sent them."""
    remote: TransportParameters | None
    """The peer's, as received."""
    initial_rtt_ms: float | None
    initial_congestion_window: float | None
    """Bytes."""
    max_datagram_size: float | None
    congestion_control: str | None
    first_smoothed_rtt_ms: FirstValue | None
    first_congestion_window: FirstValue | None


@dataclass(frozen=True)
class Reduction:
    """The first reduction of the congestion window that follows a loss."""

    before: int
    """Bytes, in the last event before it."""
    after: int
    in_flight: int | None
    """Bytes in flight, where the trace told before."""
    names_losses: bool
    """Whether the trace named a lost packet before; else it is the trace's first reduction, whatever its cause."""


def read_settings(path: Path, rtt_ms: float | None = None) -> LoggedSettings:
    """The parameters in a trace. An endpoint's first event counts: later ones may be of a later connection.

    If the path's RTT is given, measured RTTs below a hundredth of it show that the trace writes seconds, as quinn's
    does. Raises OSError.
    """
    head = qlog.read_head(path, HEAD)
    own: dict[str, dict[str, Any]] = {}
    recovery: dict[str, Any] = {}
    for event in qlog.events(head, b'parameters_set"'):
        if "recovery" in event.name:
            recovery = {**event.data, **recovery}
        elif not event.name.startswith(("http", "h3")):
            owner = str(event.data.get("owner") or event.data.get("initiator")).lower()
            own[owner] = {**event.data, **own.get(owner, {})}
    smoothed, window, unit_ms = _first_metrics(head, rtt_ms)
    initial_rtt = parse_number(recovery.get("initial_rtt"))
    return LoggedSettings(
        summary=qlog.summarise_data(path.name, head),
        local=_transport(own.get("local")),
        remote=_transport(own.get("remote")),
        initial_rtt_ms=None if initial_rtt is None else initial_rtt * unit_ms,
        initial_congestion_window=parse_number(recovery.get("initial_congestion_window")),
        max_datagram_size=parse_number(recovery.get("max_datagram_size")),
        congestion_control=next((str(recovery[key]) for key in _ALGORITHM if recovery.get(key)), None),
        first_smoothed_rtt_ms=None if smoothed is None else FirstValue(smoothed.t_ms, smoothed.value * unit_ms),
        first_congestion_window=window,
    )


def parse_number(value: Any) -> float | None:
    """A figure of an event: a number, or a string with one (I-JSON above 2^53, RFC 7493 §2.2)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _transport(data: Mapping[str, Any] | None) -> TransportParameters | None:
    if data is None:
        return None
    return TransportParameters(
        max_ack_delay_ms=parse_number(data.get("max_ack_delay")),
        ack_delay_exponent=parse_number(data.get("ack_delay_exponent")),
        min_ack_delay_us=parse_number(data.get("min_ack_delay")),
        # picoquic's names are those of an early draft.
        max_udp_payload_size=parse_number(data.get("max_udp_payload_size", data.get("max_packet_size"))),
        max_idle_timeout_ms=parse_number(data.get("max_idle_timeout", data.get("idle_timeout"))),
        initial_max_data=parse_number(data.get("initial_max_data")),
        initial_max_stream_data_bidi_local=parse_number(data.get("initial_max_stream_data_bidi_local")),
        initial_max_stream_data_bidi_remote=parse_number(data.get("initial_max_stream_data_bidi_remote")),
        initial_max_stream_data_uni=parse_number(data.get("initial_max_stream_data_uni")),
    )


def _first_metrics(head: bytes, rtt_ms: float | None) -> tuple[FirstValue | None, FirstValue | None, float]:
    """First smoothed RTT and congestion window of metrics_updated, and the unit of RTTs, ms."""
    if qlog.counts_from_previous(head):
        return None, None, 1.0
    unit, start = qlog.time_unit(head), qlog.first_time(head) or 0.0
    smoothed: FirstValue | None = None
    window: FirstValue | None = None
    for event in qlog.events(head, b'metrics_updated"'):
        t_ms = (event.time - start) * unit
        size = parse_number(event.data.get("congestion_window", event.data.get("cwnd")))
        if window is None and size is not None:
            window = FirstValue(t_ms, size)
        rtt = parse_number(event.data.get("smoothed_rtt"))
        if rtt is None:
            continue
        smoothed = smoothed or FirstValue(t_ms, rtt)
        if rtt_ms is not None and t_ms >= 1.5 * rtt_ms:
            return smoothed, window, 1000.0 if rtt * unit < rtt_ms / 100 else unit
    return smoothed, window, unit


def read_reduction(path: Path) -> Reduction | None:
    """The first reduction of the congestion window after a packet_lost event.

    In a trace that names no losses (quiche's): its first reduction after the window had grown. An earlier one is not
    due to loss, but to smaller datagrams. None where the window never shrinks. Reads no further than needed. Raises
    OSError.
    """
    previous: int | None = None
    lowest: int | None = None
    unexplained: Reduction | None = None
    scanned = 0
    lost = False
    for part in _parts(path):
        first_loss = 0 if lost else _first_loss(part)
        for match in _WINDOW.finditer(part):
            window = int(match[1])
            after_loss = first_loss is not None and match.start() > first_loss
            if previous is not None and window < _REDUCTION * previous:
                if after_loss:
                    return Reduction(previous, window, _in_flight(part, match.start()), True)
                if lowest is not None and previous > lowest:
                    unexplained = unexplained or Reduction(previous, window, _in_flight(part, match.start()), False)
            previous = window
            lowest = window if lowest is None else min(lowest, window)
        lost = lost or first_loss is not None
        scanned += len(part) if unexplained is not None else 0
        if unexplained is not None and not lost and scanned > _SILENCE:
            break
    return None if lost else unexplained


def _first_loss(part: bytes) -> int | None:
    positions = [position for position in (part.find(word) for word in _LOSSES) if position >= 0]
    return min(positions) if positions else None


def _in_flight(part: bytes, position: int) -> int | None:
    """The last figure before a position."""
    match = _IN_FLIGHT.match(part, max(0, part.rfind(b'"bytes_in_flight"', 0, position)))
    return None if match is None else int(match[1])


def _parts(path: Path) -> Iterator[bytes]:
    """The trace in parts that end behind an object."""
    with open_file(path) as file:
        remainder = b""
        while chunk := file.read(_CHUNK):
            chunk = remainder + chunk
            end = chunk.rfind(b"}") + 1
            yield chunk[:end]
            # A piece of so many bytes without an end is no event, and keeping it would fill the memory.
            remainder = chunk[end:] if len(chunk) - end <= _LONGEST else b""

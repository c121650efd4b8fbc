"""Parameters that endpoints declare: transport parameters, and recovery settings in their qlogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from harness.analysis.connection import FULL_PAYLOAD, TransferConnection
from harness.capture.qlog_parameters import FirstValue, LoggedSettings, TransportParameters
from harness.outcome import Observation
from harness.scenario.parameters import ROLES, Role, peer_role

#: No RTT sample can have been taken before this share of the path's RTT has passed.
_UNSAMPLED = 0.9
#: Number of first datagrams that are searched for a sender's sizes: its first flights, path MTU probes included.
_EARLY = 200

_Reader = Callable[[TransportParameters], float | None]


def _divide(value: float | None, number: float) -> float | None:
    return None if value is None else value / number


def _stream_window(role: Role) -> _Reader:
    """Credit for the streams that the client opens: these carry the data (RFC 9000 §18.2)."""
    if role == "client":
        return lambda parameters: parameters.initial_max_stream_data_bidi_local
    return lambda parameters: parameters.initial_max_stream_data_bidi_remote


def _readers(role: Role) -> dict[str, tuple[str, _Reader]]:
    """Parameter → its unit and its reader."""
    return {
        "max_ack_delay": ("s", lambda parameters: _divide(parameters.max_ack_delay_ms, 1e3)),
        "idle_timeout": ("s", lambda parameters: _divide(parameters.max_idle_timeout_ms or None, 1e3)),
        "ack_delay_exponent": ("1", lambda parameters: parameters.ack_delay_exponent),
        "min_ack_delay": ("s", lambda parameters: _divide(parameters.min_ack_delay_us, 1e6)),
        "connection_window": ("bytes", lambda parameters: parameters.initial_max_data),
        "stream_window": ("bytes", _stream_window(role)),
    }


def transport_parameters(connection: TransferConnection) -> Iterator[Observation]:
    """The parameters that each endpoint declared, as its peer received them; or its own account if the peer's trace
    lacks it.
    """
    for role in ROLES:
        peer, endpoint = connection.settings(peer_role(role)), connection.settings(role)
        for name, (unit, read) in _readers(role).items():
            value = None if peer is None or peer.remote is None else read(peer.remote)
            source = f"transport parameter as received, {connection.name(peer_role(role))}'s qlog"
            if value is None and endpoint is not None and endpoint.local is not None:
                value = read(endpoint.local)
                source = f"transport parameter as sent, {connection.name(role)}'s own qlog; the peer's does not have it"
            if value is not None:
                yield Observation(role=role, parameter=name, value=value, unit=unit, source=source)


def received_credit(connection: TransferConnection) -> float | None:
    """Bytes that the receiver's initial flow control lets the sender send, if a qlog reports it."""
    receiver = connection.window.receiver
    credit = {item.parameter: item.value for item in transport_parameters(connection) if item.role == receiver}
    windows = [credit[name] for name in ("connection_window", "stream_window") if name in credit]
    return min(float(value) for value in windows) if windows else None


def recovery_settings(connection: TransferConnection) -> Iterator[Observation]:
    """initial_rtt, initial_cwnd and congestion_control by the endpoint's own account.

    initial_cwnd_bytes instead of initial_cwnd if the size of the datagrams that it counts is unknown.
    """
    for role in ROLES:
        settings = connection.settings(role)
        if settings is None:
            continue
        qlog = f"{connection.name(role)}'s qlog"
        if settings.initial_rtt_ms is not None:
            yield Observation(
                role=role,
                parameter="initial_rtt",
                value=settings.initial_rtt_ms / 1e3,
                unit="s",
                source=f"recovery's initial_rtt, {qlog}",
            )
        elif (rtt_ms := _value_before_sample(connection, settings.first_smoothed_rtt_ms)) is not None:
            yield Observation(
                role=role,
                parameter="initial_rtt",
                value=rtt_ms / 1e3,
                unit="s",
                source=f"smoothed RTT before there can be a sample, {qlog}",
            )
        yield from _initial_window(connection, role, settings)
        if settings.congestion_control is not None:
            yield Observation(
                role=role, parameter="congestion_control", value=settings.congestion_control, unit="a name", source=qlog
            )


def _value_before_sample(connection: TransferConnection, early: FirstValue | None) -> float | None:
    """A figure's first value, if it was written before the first RTT sample or acknowledgement."""
    if early is None or connection.rtt_ns is None or early.t_ms >= _UNSAMPLED * connection.rtt_ns / 1e6:
        return None
    return early.value


def _initial_window(connection: TransferConnection, role: Role, settings: LoggedSettings) -> Iterator[Observation]:
    window = settings.initial_congestion_window
    quantity = "initial_congestion_window"
    if window is None:
        window = _value_before_sample(connection, settings.first_congestion_window)
        quantity = "first congestion_window"
    if window is None:
        return
    size, size_source = settings.max_datagram_size, "max_datagram_size"
    if not size:
        size, size_source = _datagram_size(connection, role, window), "in its capture"
    source = f"{quantity}, {connection.name(role)}'s qlog: {window:,.0f} B"
    if size:
        source += f" in datagrams of {size:,.0f} B ({size_source})"
        yield Observation(role=role, parameter="initial_cwnd", value=window / size, unit="packets", source=source)
    else:
        source += ", no multiple of a size of datagrams in its capture"
        yield Observation(role=role, parameter="initial_cwnd_bytes", value=window, unit="bytes", source=source)


def _datagram_size(connection: TransferConnection, role: Role, window: float) -> int | None:
    """The datagram size that an initial window counts in (RFC 9002 §7.2): one of its early sizes that divides it.

    None if none does. A receiver may send no datagram of its full size; a sender may have reduced its size since, to
    what its peer accepts (quiche's).
    """
    if role == connection.window.sender and connection.flight is not None and window % connection.flight.size == 0:
        return connection.flight.size
    sent = connection.sent(role)
    if sent is None:
        return None
    early = sent.select(np.arange(min(_EARLY, len(sent))))
    sizes, counts = np.unique(early.payload[early.payload >= FULL_PAYLOAD], return_counts=True)
    dividing = np.flatnonzero(window % sizes == 0)
    return int(sizes[dividing[(sizes * counts)[dividing].argmax()]]) if len(dividing) else None

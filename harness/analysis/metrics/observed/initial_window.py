"""What the server's first round trip of data shows: its initial window, and whether it paces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.analysis.connection import TOGETHER, Connection, Flight
from harness.analysis.metrics.observed.declared import received_credit
from harness.capture.capture import Capture
from harness.outcome import Observation

#: From this part of a limit on, the limit may be what ended a flight.
_NEAR = 0.9


def initial_window(connection: Connection) -> Iterator[Observation]:
    """initial_cwnd of the server (packets): UDP payload of its first round trip of data, in its full datagrams.

    Upwards it is off by the credit for the handshake's packets, which a stack may have added to the window by then,
    and by probes of the path MTU; downwards where something else than the window ended the flight.
    """
    flight = connection.flight
    if flight is None:
        return
    volume = int(flight.sent.payload.sum())
    source = (
        f"right capture: {volume:,} B in {len(flight.sent):,} datagrams, full ones of {flight.size:,} B, in the first "
        f"round trip of data; up to {flight.before:,} B of it may be credit for the handshake"
    )
    limits = _limits(connection, flight, volume)
    if limits:
        source += f"; at least, for {' and '.join(limits)}"
    yield Observation(
        role="server", parameter="initial_cwnd", value=volume / flight.size, unit="packets", source=source
    )


def _limits(connection: Connection, flight: Flight, volume: int) -> list[str]:
    """What else may have ended the flight."""
    limits = []
    if flight.after < volume:
        limits.append("little more was asked for")
    credit = received_credit(connection)
    if credit is not None and volume >= _NEAR * credit:
        limits.append(f"the client's flow control allowed {credit:,.0f} B")
    if connection.view.lab is not None and connection.rtt_ns is not None:
        carried = connection.view.lab.links.to_client.rate_bps * connection.rtt_ns / 8e9
        if volume >= _NEAR * carried:
            limits.append(f"the path carries {carried:,.0f} B in a round trip")
    return limits


def pacing(connection: Connection) -> Iterator[Observation]:
    """Pacing of the server: its longest burst in the first round trip of data, and in the second.

    A pacer lets through a burst of an initial window all the same (RFC 9002 §7.7), often ten packets, and one whose
    allowance grows with idle time all of the first flight: only a larger window, or the next round, shows the
    difference.
    """
    flight = connection.flight
    if flight is None:
        return
    for name, sent in (("first", flight.sent), ("second", flight.following)):
        if not len(sent):
            continue
        longest = longest_burst(sent)
        spread_ms = (sent.t_ns[-1] - sent.t_ns[0]) / 1e6
        yield Observation(
            role="server", parameter="pacing", value=longest, unit="datagrams in the longest burst",
            source=f"right capture: of {len(sent):,} in the {name} round trip of data, {longest:,} within "
            f"{TOGETHER / 1e3:.0f} µs of each other; all within {spread_ms:.1f} ms",
        )  # fmt: skip


def longest_burst(sent: Capture) -> int:
    """Most datagrams of which each left within `TOGETHER` of the one before."""
    if not len(sent):
        return 0
    starts = np.flatnonzero(np.concatenate(([True], np.diff(sent.t_ns) >= TOGETHER)))
    return int(np.diff(np.append(starts, len(sent))).max())

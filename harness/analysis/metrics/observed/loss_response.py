"""How the server's congestion window answers the first loss."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.connection import Connection
from harness.capture.qlog_parameters import read_reduction
from harness.outcome import Observation


def congestion_reaction(connection: Connection) -> Iterator[Observation]:
    """congestion_reaction of the server: its congestion window after, per before, the first reduction after a loss.

    0.5 is Reno's (RFC 9002 §7.3.2), 0.7 CUBIC's (RFC 9438 §4.6); a Reno may take 0.7 too (quic-go's). A CUBIC that
    reduces from the bytes in flight (ngtcp2's) comes out lower where it had not filled its window. Nothing where all
    datagrams passed.
    """
    trace = connection.trace("server")
    if trace is None or not _lost(connection):
        return
    found = read_reduction(trace)
    if found is None:
        return
    cause = "after a packet it names lost" if found.names_losses else "its first reduction (it names no lost packets)"
    in_flight = "" if found.in_flight is None else f" ({found.in_flight:,} B in flight)"
    yield Observation(
        role="server", parameter="congestion_reaction", value=found.after / found.before, unit="1",
        source=f"{connection.name('server')}'s qlog: congestion window from {found.before:,} B{in_flight} to "
        f"{found.after:,} B, {cause}",
    )  # fmt: skip


def _lost(connection: Connection) -> bool:
    """Whether the path lost a datagram towards the client; True where the captures do not tell."""
    passage = connection.view.to_client
    if passage is None:
        return True
    window, entered = connection.window, passage.entered
    mine = (entered.flow == window.transfer.flow) & (entered.t_ns >= window.start_ns) & (entered.t_ns < window.end_ns)
    # What is under way at the end of the capture is not lost.
    mine &= entered.t_ns < passage.end_ns - 2_000_000_000
    return bool((mine & ~passage.arrived).any())

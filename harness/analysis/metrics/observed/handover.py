"""What the server's congestion window is after its client's address changed."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from harness.analysis.connection import Connection
from harness.capture.qlog import read_recovery
from harness.outcome import Observation

#: Below this share of the window before, it has been set back: a loss leaves more of it (CUBIC 0.7, Reno a half), and
#: every rule but to keep it begins anew, as the new round trip is not known yet.
_SET_BACK = 0.45
#: Round trips of the old path after the move in which that is looked for: the client may validate the new path first.
_PATIENCE = 3
#: Of a round trip of the old path: how long a window that was set back may take until it is known what it becomes.
_SETTLED = 0.75


def migration_cwnd(connection: Connection) -> Iterator[Observation]:
    """migration_cwnd of the server: its congestion window just after the client's first move, per that just before.

    Near 0 where it starts again, 1 where it stays. Nothing where nobody moves, or the qlog has no windows.
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
    later = windows.filter(pl.col("t_ms").is_between(at_ms, at_ms + _PATIENCE * rtt_ms))
    low = (later["congestion_window"] < _SET_BACK * before).arg_true()
    after, how = before, "never set back"
    if not low.is_empty():
        # From that event on: another one of the same time may have come before.
        since = later[low[0] :]
        settling = since.filter(pl.col("t_ms") <= since["t_ms"][0] + _SETTLED * rtt_ms)
        after, how = settling["congestion_window"].max(), f"set back to {since['congestion_window'][0]:,.0f} B first"
    yield Observation(
        role="server", parameter="migration_cwnd", value=after / before, unit="of the window before",
        source=f"{connection.name('server')}'s qlog: {before:,.0f} B before the move, {after:,.0f} B after it, {how}",
    )  # fmt: skip

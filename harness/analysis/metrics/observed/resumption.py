"""How a second connection starts, against the first: what the server remembers of the path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.analysis.connection import FULL, ROUND, Connection
from harness.capture import qlog
from harness.capture.qlog_events import read_phases
from harness.capture.qlog_parameters import HEAD
from harness.capture.quic.invariants import Form
from harness.outcome import Observation
from harness.scenario.parameters import ROLES

#: Round trips of data that are compared: with early data the first may be over before the RTT is known to fit.
_ROUNDS = 2
#: So many full datagrams in the handshake's own round trip are data, not probes of the path MTU.
_DATA = 3
#: The frame by its name (draft-kuhn-quic-bdpframe-extension; picoquic's qlog).
_BDP_FRAME = re.compile(rb'"frame_type"\s*:\s*"bdp[a-z_]*"', re.IGNORECASE)


def bdp_seed(connection: Connection) -> Iterator[Observation]:
    """bdp_seed of the server: UDP payload of the second connection's first two round trips of data, per the first's.

    About 1 where nothing is remembered. Nothing where the flow has one connection, or a capture is missing.
    """
    again = second(connection)
    if again is None:
        return
    first, resumed = early_volume(connection), early_volume(again)
    if not first or resumed is None:
        return
    yield Observation(
        role="server", parameter="bdp_seed", value=resumed / first, unit="times the first connection's",
        source=f"right capture: {resumed:,} B in the first {_ROUNDS} round trips of data of the second connection, "
        f"{first:,} B in those of the first",
    )  # fmt: skip


def bdp_frames(connection: Connection) -> Iterator[Observation]:
    """bdp_frames of each endpoint: BDP frames that its qlogs of both connections name, in the part that is read."""
    again = second(connection)
    if again is None:
        return
    for role in ROLES:
        traces = [trace for one in (connection, again) if (trace := one.trace(role)) is not None]
        if traces:
            count = sum(len(_BDP_FRAME.findall(qlog.read_head(trace, HEAD))) for trace in traces)
            yield Observation(
                role=role, parameter="bdp_frames", value=count, unit="frames",
                source=f"qlog of {connection.name(role)} as a {role}, {len(traces)} of two connections",
            )  # fmt: skip


def careful_resume(connection: Connection) -> Iterator[Observation]:
    """careful_resume of the server: the phases of RFC 9959 that its qlog of the second connection names, in order.

    Words with commas between; nothing where there is no second connection, or its qlog names none.
    """
    again = second(connection)
    trace = None if again is None else again.trace("server")
    if trace is None:
        return
    changes = read_phases(trace)
    if changes:
        told = "; ".join(
            f"{one.new} after {one.at_ms:.0f} ms" + (f" ({one.trigger})" if one.trigger else "") for one in changes
        )
        yield Observation(
            role="server", parameter="careful_resume", value=", ".join(one.new for one in changes), unit="",
            source=f"{connection.name('server')}'s qlog of the second connection: {told}",
        )  # fmt: skip


def second(connection: Connection) -> Connection | None:
    """The next connection of the same flow; None where there is none."""
    flow = connection.window.transfer.flow
    windows = [window for window in connection.view.windows if window.transfer.flow == flow]
    return Connection(connection.view, windows[1]) if len(windows) > 1 else None


def early_volume(connection: Connection) -> int | None:
    """UDP payload, bytes, that the server sent in its first round trips of data; None where it sent none.

    They begin in the handshake's round trip where the answer to early data does (RFC 9001 §4.6).
    """
    sent = connection.sent("server")
    if sent is None or not len(sent) or not connection.rtt_ns:
        return None
    early = (sent.form == Form.SHORT) & (sent.payload >= FULL) & (sent.t_ns < sent.t_ns[0] + ROUND * connection.rtt_ns)
    if early.sum() >= _DATA:
        start = int(sent.t_ns[early][0])
    elif connection.flight is not None:
        start = int(connection.flight.sent.t_ns[0])
    else:
        return None
    inside = (sent.t_ns >= start) & (sent.t_ns < start + _ROUNDS * ROUND * connection.rtt_ns)
    return int(sent.payload[inside].sum())

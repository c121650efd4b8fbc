"""The first probe timeout, on the wire (RFC 9002 §6.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.analysis.connection import Connection
from harness.capture.quic.invariants import Form
from harness.outcome import Observation
from harness.scenario.parameters import ROLES, Role

#: A flight of the handshake ends with a pause longer than this, ns: stacks compute for less, and wait for longer.
PAUSE = 20_000_000
_HANDSHAKE: dict[Role, tuple[Form, ...]] = {"client": (Form.INITIAL,), "server": (Form.INITIAL, Form.HANDSHAKE)}


def first_probe_timeout(connection: Connection) -> Iterator[Observation]:
    """first_pto (s): from the end of an endpoint's first flight to its next datagram of the handshake.

    Only where nothing from the peer had come in between, so that it is the timer's doing. It is a multiple of the
    initial RTT: 3 by RFC 9002 §6.2.2 (smoothed_rtt + 4 · rttvar), 2 in some stacks (quic-go, aioquic). Which one
    cannot be seen, so that no initial RTT is drawn from it: two runs with two initial RTTs give the multiple.
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
            role=role, parameter="first_pto", value=seconds, unit="s",
            source=f"{side} capture: {seconds:.3f} s of silence between the first flight and the next datagram of the "
            f"handshake; initial RTT {seconds / 3 * 1e3:.1f} ms if that is 3 × (RFC 9002 §6.2.2), "
            f"{seconds / 2 * 1e3:.1f} ms if 2 ×",
        )  # fmt: skip

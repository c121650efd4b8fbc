"""What the segments of HTTPS show of its kernels' windows: no end of it tells what its kernel knows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.analysis.byte_stream import in_flight
from harness.analysis.connection import ROUND, Connection
from harness.analysis.run_view import RunView
from harness.analysis.tcp_split import at_server_rtt_ns, is_split
from harness.capture.artefacts import Window
from harness.outcome import Observation
from harness.scenario.parameters import ROLES, Role

#: Who has which buffer in a download.
_BUFFERS: dict[Role, str] = {"server": "tcp_wmem_max", "client": "tcp_rmem_max"}


def first_flight(view: RunView, window: Window) -> Iterator[Observation]:
    """Yield initial_cwnd: what the server sent in the first round trip of its response.

    That begins once the client's answer to the server's handshake is there, with the request. The handshake did not
    fill the window, and leaves that of Reno and CUBIC as it was (RFC 2861; tcp_is_cwnd_limited, include/net/tcp.h).
    BBR's has grown by what was acknowledged.
    """
    connection = Connection(view, window)
    sent, received, rtt_ns = connection.sent("server"), connection.received("server"), at_server_rtt_ns(view)
    if sent is None or received is None or not rtt_ns:
        return
    data = sent.t_ns[sent.payload > 0]
    answers = received.t_ns[(received.payload > 0) & (len(data) > 0 and received.t_ns > data[0])]
    if not len(answers):
        return
    response = data[data >= answers[0]]
    if len(response):
        count = int(np.sum(response < response[0] + ROUND * rtt_ns))
        yield Observation(
            role="server", parameter="initial_cwnd", value=count, unit="packets",
            source="right capture, segments of the response in its first round trip",
        )  # fmt: skip


def most_in_flight(view: RunView, window: Window) -> Iterator[Observation]:
    """Yield tcp_wmem_max and tcp_rmem_max: most bytes in flight, which the buffers of both ends allowed.

    Behind a proxy that splits the connection the client's allow nothing of what the server sends.
    """
    connection = Connection(view, window)
    sent, received = connection.sent("server"), connection.received("server")
    if sent is None or received is None or not len(sent):
        return
    most = float(in_flight(sent, received))
    ends: tuple[Role, ...] = ("server",) if is_split(view) else ROLES
    for role in ends:
        yield Observation(
            role=role, parameter=_BUFFERS[role], value=most, unit="bytes", source="right capture, most in flight"
        )  # fmt: skip

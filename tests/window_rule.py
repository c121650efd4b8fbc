"""The rule of the congestion window after a move, from the captures alone, beside what the server's qlog says it did."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from harness.analysis.handover import ClientMove
from harness.analysis.run_view import Unavailable

#: Packets of the initial window, of this size.
INITIAL = 32 * 1200


def round_trips(moved: ClientMove) -> Iterator[tuple[int, int]]:
    """When a packet left the server, and the time until the first acknowledgement of which it is the largest, ns.

    Of those acknowledgements that come to the server, and of packets whose number could be read at the client's side.
    """
    to_client, to_server = moved.to_client, moved.to_server
    assert to_client is not None and to_server is not None
    left = dict(zip(to_client.entered.key.tolist(), to_client.entered.t_ns.tolist(), strict=True))
    came = dict(zip(to_server.entered.key.tolist(), to_server.out_ns.tolist(), strict=True))
    (down,), (up,) = (moved.view.decrypted_packets(moved.window, sender) for sender in ("server", "client"))
    sent = dict(zip(down.packets.number.tolist(), (left[key] for key in down.key.tolist()), strict=True))
    measurements = [
        (came[key], frames.acknowledged)
        for key, frames in zip(up.key.tolist(), up.frames, strict=True)
        if frames.acknowledged is not None and came[key] >= 0
    ]
    largest = -1
    for when, number in sorted(measurements):
        if number > largest and number in sent:
            yield sent[number], when - sent[number]
        largest = max(largest, number)


def obeys(moved: ClientMove) -> None:
    """Asserts that the window is the rule's of the captured round trips, within a packet."""
    switched = moved.switched_ns
    assert switched is not None and not isinstance(moved.state, Unavailable)
    measured = list(round_trips(moved))
    # What was acknowledged by the new path, and what was sent there, is none of the old path's.
    assert moved.arrived_ns is not None
    old = min(rtt for left, rtt in measured if left + rtt < moved.arrived_ns)
    new = next(rtt for left, rtt in measured if left >= switched)
    windows = moved.state.figure("congestion_window")
    anew = np.flatnonzero((windows.t_ns > moved.arrived_ns) & (windows.value == INITIAL))
    assert len(anew)
    last = float(windows.value[anew[0] - 1])
    rule = max((old - new) / old * last, INITIAL)
    answer = moved.window_answer
    assert (answer.reaction, answer.before) == ("kept a share", last)
    assert answer.after == pytest.approx(rule, abs=moved.state.packet_size)
    # It is a share that neither keeping nor starting again gives.
    assert INITIAL + moved.state.packet_size < rule < last - moved.state.packet_size

"""TCP's bytes as segments carry them: what of the stream each holds, what had come without a gap, what went again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.capture.capture import ACK, SYN, Capture
from harness.capture.streams import contiguous

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: Sequence numbers go round (RFC 9293 §3.4).
_ROUND = 1 << 32


@dataclass(frozen=True)
class InOrder:
    """What had come of a connection's stream, in one direction."""

    t_ns: Ints
    """When segments with data came, shape (n,)."""
    come: Ints
    """Bytes without a gap after each, shape (n,)."""


def offsets(numbers: Ints, initial: int) -> Ints:
    """Where in the stream n sequence or acknowledgement numbers stand, shape (n,); `initial`: the SYN's number.

    Neighbours are less than half a round apart, since a window is (RFC 7323 §2.2).
    """
    relative = (numbers - initial - 1) % _ROUND
    steps = (np.diff(relative, prepend=0) + _ROUND // 2) % _ROUND - _ROUND // 2
    found: Ints = np.cumsum(steps)
    return found


def in_order(received: Capture) -> InOrder | None:
    """What came of one connection in one direction; None where its first segment was not captured."""
    opening = np.flatnonzero(received.flags & SYN)
    if not len(opening):
        return None
    offset = offsets(received.sequence, int(received.sequence[opening[0]]))
    with_data = received.payload > 0
    begins = offset[with_data]
    return InOrder(received.t_ns[with_data], contiguous(begins, begins + received.payload[with_data]))


def sent_again(sent: Capture, client_ports: Ints) -> Flags:
    """Which of n segments hold bytes that went before, shape (n,); of segments in one direction, as they left.

    `client_ports`: the client's port of each, by which connections are told apart.
    """
    again = np.zeros(len(sent), np.bool_)
    for port in np.unique(client_ports):
        rows = np.flatnonzero(client_ports == port)
        one = sent.where(rows)
        begins = offsets(one.sequence, int(one.sequence[0]))
        ends = np.maximum.accumulate(begins + one.payload)
        before = np.concatenate((begins[:1], ends[:-1]))
        again[rows] = (one.payload > 0) & (begins < before)
    return again


def in_flight(sent: Capture, acknowledging: Capture) -> int:
    """Most bytes of one connection that had left and were not acknowledged yet, as its sender's side saw both."""
    if not len(sent):
        return 0
    initial = int(sent.sequence[0])
    out = np.maximum.accumulate(offsets(sent.sequence, initial) + sent.payload)
    acks = acknowledging.where(acknowledging.flags & ACK != 0)
    known = np.maximum.accumulate(np.concatenate(([0], offsets(acks.acknowledgement, initial))))
    return int((out - known[np.searchsorted(acks.t_ns, sent.t_ns, side="right")]).max())

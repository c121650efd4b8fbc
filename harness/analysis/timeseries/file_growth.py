"""How much of its file a client had over time."""

from __future__ import annotations

import numpy as np

from harness.analysis.timeseries.grid import Ints, Points, grid_ns, held, seconds
from harness.analysis.timeseries.lifetimes import Lifetime
from harness.capture.artefacts import Artefacts, Window
from harness.capture.counters import Growth, growth_of

#: A file larger than this multiple of the payload that had come over the wire was sized in advance.
AHEAD = 1.1
#: So long after a sample what had been on the wire may be in the file, ns: the two are written by different clocks.
_AFTERWARDS = 20_000_000


def file_series(view: Artefacts, lifetime: Lifetime) -> dict[str, Points]:
    """The series `received` of one flow's transfers, one after the other; nothing where no file tells."""
    parts = [
        points
        for window in view.windows
        if window.transfer.flow == lifetime.flow and (points := _received(view, window, lifetime)) is not None
    ]
    if not parts:
        return {}
    return {
        "received": Points(np.concatenate([part.t for part in parts]), np.concatenate([part.value for part in parts]))
    }


def _received(view: Artefacts, window: Window, lifetime: Lifetime) -> Points | None:
    """Of one transfer, from nothing at its first datagram to its last sample."""
    if view.growth is None or window.zero_ns is None or not window.has_file:
        return None
    growth = growth_of(view.growth, lifetime.flow, window.transfer.index)
    if not len(growth.t_ns) or not growth.size.any():
        return None
    # A capture with gaps accuses nobody.
    if view.capture_drops == 0 and _in_advance(growth, lifetime, window):
        return None
    zero_ns, last_ns = window.zero_ns - lifetime.zero_ns, int(growth.t_ns[-1]) - lifetime.zero_ns
    # Of samples before the first datagram nothing is told: the file was empty.
    t_ns = np.concatenate([[zero_ns], np.maximum(growth.t_ns - lifetime.zero_ns, zero_ns)])
    size = np.concatenate([[0], growth.size]).astype(np.float64)
    moments = grid_ns(zero_ns, last_ns)
    moments = np.unique(np.concatenate([[zero_ns], moments, [last_ns]]))
    points = held(t_ns, size, moments)
    return Points(seconds(moments), np.where(moments == zero_ns, 0.0, points.value))


def _in_advance(growth: Growth, lifetime: Lifetime, window: Window) -> bool:
    """Whether the file ever was larger than all payload that had come."""
    came = lifetime.received
    inside: Ints = np.flatnonzero((came.t_ns >= window.start_ns) & (came.t_ns < window.end_ns))
    total = np.concatenate([[0], np.cumsum(came.payload[inside])])
    had = total[np.searchsorted(came.t_ns[inside], growth.t_ns + _AFTERWARDS, side="right")]
    return bool((growth.size > AHEAD * had).any())

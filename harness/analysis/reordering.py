"""Packets that came behind others which had left later: RFC 4737, by the order in which packets left and came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Reordering:
    """The n packets of one transfer and direction that came, in order of arrival; arrays of shape (n,)."""

    reordered: Flags
    """Whether one that left later had come before (§3.3: s < NextExp)."""
    extent: Ints
    """How many packets stand between it and the first that left later and came before, itself counted (§4.2.2); 0 of a
    packet in order."""
    late_ns: Ints
    """How much later than that one it came, ns (§4.3); 0 of a packet in order."""

    @property
    def ratio(self) -> float:
        """Reordered packets by packets that came (§4.1); 0 where none came."""
        return float(self.reordered.mean()) if len(self.reordered) else 0.0


def reordering(came_ns: Ints) -> Reordering:
    """Of m packets in the order in which they left, by when each came; -1 of one that never did. Shape (m,).

    Data that are sent again leave anew, in another packet.
    """
    came = np.flatnonzero(came_ns >= 0)
    came = came[np.argsort(came_ns[came], kind="stable")]
    t_ns = came_ns[came]
    furthest = np.maximum.accumulate(came)
    reordered = came < furthest
    # The first that left later and came before: the furthest only grows, so it is found by halving.
    place = np.arange(len(came))
    first = np.where(reordered, np.searchsorted(furthest, came, side="right"), place)
    return Reordering(reordered, place - first, t_ns - t_ns[first])

"""Each packet at both interfaces: when it entered the simulator and when it left it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.traces.capture import Capture, Ints

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Passage:
    """One direction: the n packets that entered, in order of time."""

    entered: Capture
    out_ns: Ints
    """When each left, shape (n,); -1 where it never did."""
    appeared: int
    """Datagrams that left without having been seen entering: the ingress capture missed them."""
    end_ns: int
    """Until when leaving packets were captured; one that was due later may have been under way."""
    access_ns: Ints | None = None
    """What `out_ns` was reduced by, shape (n,): the delay of each packet's flow on top of the link's."""

    @property
    def arrived(self) -> npt.NDArray[np.bool_]:
        """Which packets left, shape (n,)."""
        return self.out_ns >= 0

    def less(self, access_ns: Ints) -> Passage:
        """The same as if no packet had been delayed by more than the link: `access_ns` is taken off, shape (n,)."""
        if not access_ns.any():
            return self
        return replace(self, out_ns=np.where(self.arrived, self.out_ns - access_ns, -1), access_ns=access_ns)


def match(ingress: Capture, egress: Capture, to_client: bool, at_least_ns: int = 0) -> Passage:
    """Match one direction of two captures.

    Datagrams that look alike are matched in order, the k-th with the k-th, while as many left as entered; else
    each departure goes with the latest entry at least `at_least_ns` (the asked delay) before it, because the
    earlier one is the likelier to have been lost.
    """
    entered = ingress.where(ingress.to_client == to_client)
    left = egress.where(egress.to_client == to_client)
    out_ns = np.full(len(entered), -1, np.int64)
    found, at = _lookup(_numbered(entered.key), _numbered(left.key))
    out_ns[found] = left.t_ns[at]
    matched = len(found) + _rematch(entered, left, out_ns, at_least_ns)
    end_ns = int(egress.t_ns[-1]) if len(egress) else 0
    return Passage(entered, out_ns, len(left) - matched, end_ns)


def _numbered(keys: Keys) -> Keys:
    """Keys made unique by their rank among equal ones."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    rank = np.empty(len(keys), np.uint64)
    rank[order] = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    return keys + rank * np.uint64(0x9E3779B97F4A7C15)


def _lookup(needles: Keys, haystack: Keys) -> tuple[Ints, Ints]:
    """Indices of the needles that occur in the haystack, and where they do."""
    if not len(haystack) or not len(needles):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(haystack)
    position = np.minimum(np.searchsorted(haystack[order], needles), len(haystack) - 1)
    at = order[position]
    found = np.flatnonzero(haystack[at] == needles)
    return found, at[found]


def _rematch(entered: Capture, left: Capture, out_ns: Ints, at_least_ns: int) -> int:
    """Match anew, in place, the look-alikes of which some were lost; the change in the number of matches."""
    keys, count = np.unique(entered.key, return_counts=True)
    several = keys[count > 1]
    change = 0
    for key in several:
        rows = np.flatnonzero(entered.key == key)
        times = left.t_ns[left.key == key]
        if len(rows) == len(times):
            continue
        change -= int((out_ns[rows] >= 0).sum())
        out_ns[rows] = -1
        free = rows.tolist()
        for time in times[::-1]:
            before = [row for row in free if entered.t_ns[row] <= time - at_least_ns]
            if before:
                out_ns[before[-1]] = time
                free.remove(before[-1])
                change += 1
    return change

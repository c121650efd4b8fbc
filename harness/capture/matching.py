"""Each packet at both interfaces: when it entered the simulator and when it left it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.capture.capture import CE, Bytes, Capture, Ints, Keys, ecn


@dataclass(frozen=True)
class MatchedPackets:
    """One direction: the n packets that entered, in order of time."""

    entered: Capture
    out_ns: Ints
    """Departure time of each, shape (n,); -1 where it never left."""
    missed_at_ingress: int
    """Datagrams that left without having been seen entering: the ingress capture missed them."""
    end_ns: int
    """Time up to which departures were captured; a packet due later may have been in flight."""
    access_ns: Ints | None = None
    """The time subtracted from `out_ns`, shape (n,): the access delay of each packet's flow."""
    out_class: Bytes | None = None
    """Byte of DSCP and ECN of each departure, shape (n,), 0 where a packet never left; None where not evaluated."""
    copies: int = 0
    """Datagrams that left once more than they entered."""

    @property
    def arrived(self) -> npt.NDArray[np.bool_]:
        """Which packets left, shape (n,)."""
        return self.out_ns >= 0

    @property
    def marked(self) -> npt.NDArray[np.bool_]:
        """Which packets left with Congestion Experienced and had entered without (RFC 3168 §5), shape (n,)."""
        if self.out_class is None:
            return np.zeros(len(self.out_ns), np.bool_)
        new = (ecn(self.out_class) == CE) & (ecn(self.entered.traffic_class) != CE)
        return np.asarray(new & self.arrived, np.bool_)

    def without_access_delay(self, access_ns: Ints) -> MatchedPackets:
        """The packets as if only the link had delayed them: `access_ns`, shape (n,), is subtracted from `out_ns`."""
        if not access_ns.any():
            return self
        return replace(self, out_ns=np.where(self.arrived, self.out_ns - access_ns, -1), access_ns=access_ns)

    def select(self, chosen: npt.NDArray[np.bool_]) -> MatchedPackets:
        """The packets chosen by a mask of shape (n,)."""
        access_ns = None if self.access_ns is None else self.access_ns[chosen]
        out_class = None if self.out_class is None else self.out_class[chosen]
        entered, out_ns = self.entered.select(chosen), self.out_ns[chosen]
        return replace(self, entered=entered, out_ns=out_ns, access_ns=access_ns, out_class=out_class)


def match(ingress: Capture, egress: Capture, to_client: bool, at_least_ns: int = 0) -> MatchedPackets:
    """Match one direction of two captures.

    Datagrams with equal keys are matched in order, the k-th with the k-th, if as many left as entered. Otherwise
    each departure is matched with the latest entry at least `at_least_ns` (the configured delay) before it,
    because the earlier one is more likely to have been lost.
    """
    entered = ingress.select(ingress.to_client == to_client)
    departed = egress.select(egress.to_client == to_client)
    exits = np.full(len(entered), -1, np.int64)
    entered_rows, left_rows = _lookup(_number_keys(entered.key), _number_keys(departed.key))
    exits[entered_rows] = left_rows
    _rematch(entered, departed, exits, at_least_ns)
    end_ns = int(egress.t_ns[-1]) if len(egress) else 0
    # An extra row at index -1 stands for packets that never left.
    out_ns, out_class = np.append(departed.t_ns, -1)[exits], np.append(departed.traffic_class, np.uint8(0))[exits]
    unmatched = np.ones(len(departed), np.bool_)
    unmatched[exits[exits >= 0]] = False
    # The simulator itself fragments a packet that is larger than the path's MTU; the first fragment is the packet.
    unmatched &= ~departed.continues
    copies = int(np.isin(departed.key[unmatched], entered.key).sum())
    return MatchedPackets(entered, out_ns, int(unmatched.sum()) - copies, end_ns, out_class=out_class, copies=copies)


def _number_keys(keys: Keys) -> Keys:
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
    matches = np.flatnonzero(haystack[at] == needles)
    return matches, at[matches]


def _rematch(entered: Capture, departed: Capture, exits: Ints, at_least_ns: int) -> None:
    """Rematch, in place, packets with equal keys of which some were lost.

    `exits`: the index of each entered packet among the departed ones, shape (n,); -1 for none.
    """
    keys, count = np.unique(entered.key, return_counts=True)
    duplicates = keys[count > 1]
    for key in duplicates:
        rows = np.flatnonzero(entered.key == key)
        candidates = np.flatnonzero(departed.key == key)
        if len(rows) == len(candidates):
            continue
        exits[rows] = -1
        unmatched = rows.tolist()
        for exit_ in candidates[::-1]:
            earlier = [row for row in unmatched if entered.t_ns[row] <= departed.t_ns[exit_] - at_least_ns]
            if earlier:
                exits[earlier[-1]] = exit_
                unmatched.remove(earlier[-1])

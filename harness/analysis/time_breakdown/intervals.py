"""Spans of time: arrays of shape (n, 2) of ns, in order, that do not touch each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NONE: Ints = np.zeros((0, 2), np.int64)


def distinct(*moments: Ints) -> Ints:
    """All of these moments, each once, in order; they are in order for the most part, and np.unique would hash them."""
    ordered = np.sort(np.concatenate(moments), kind="stable")
    found: Ints = ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
    return found


def merged(spans: Ints | Sequence[tuple[int, int]], gap_ns: int = 0) -> Ints:
    """Any spans, in order and without overlaps; those at most `gap_ns` apart are one, empty ones are none."""
    given = np.asarray(spans, np.int64).reshape(-1, 2)
    given = given[given[:, 1] > given[:, 0]]
    if not len(given):
        return NONE
    given = given[np.argsort(given[:, 0], kind="stable")]
    until = np.maximum.accumulate(given[:, 1])
    first = np.concatenate([[True], given[1:, 0] > until[:-1] + gap_ns])
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(given)) - 1
    return np.stack([given[starts, 0], until[ends]], axis=1)


def inside(moments: Ints, spans: Ints) -> Flags:
    """Which of n moments lie in one of the spans (from ≤ t < to), shape (n,)."""
    if not len(spans):
        return np.zeros(len(moments), np.bool_)
    at = np.searchsorted(spans[:, 0], moments, side="right") - 1
    found: Flags = (at >= 0) & (moments < spans[np.maximum(at, 0), 1])
    return found


def both(one: Ints, other: Ints) -> Ints:
    """What lies in both."""
    edges = _edges(one, other)
    return flagged(edges, inside(edges[:-1], one) & inside(edges[:-1], other))


def without(one: Ints, other: Ints) -> Ints:
    """What lies in the first alone."""
    edges = _edges(one, other)
    return flagged(edges, inside(edges[:-1], one) & ~inside(edges[:-1], other))


def total(spans: Ints) -> int:
    """How long they last, ns."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def flagged(edges: Ints, flags: Flags) -> Ints:
    """The n pieces between n + 1 edges in order that are flagged."""
    return merged(np.stack([edges[:-1], edges[1:]], axis=1)[flags])


def pieces(start_ns: int, end_ns: int, spans: Sequence[Ints]) -> Ints:
    """Edges, in order, of the pieces into which spans cut the time from start to end; a piece is in a span or not."""
    cuts = np.concatenate([np.array([start_ns, end_ns], np.int64), *(one.ravel() for one in spans)])
    return distinct(np.clip(cuts, start_ns, end_ns))


def _edges(*spans: Ints) -> Ints:
    edges = distinct(*(one.ravel() for one in spans))
    return edges if len(edges) else np.zeros(1, np.int64)

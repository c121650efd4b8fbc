"""Bins and grids of time. Bin k covers k·width ≤ t < (k+1)·width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Width of a bin of rates and counts, s. CCPerf's width is not published: its Poisson flows vary by 0.12, which would
#: fit 0.1 s with datagrams of 1448 B, or 0.05 s with 512 B. Everything else in its table suggests 512 B. In bins as
#: short as 0.05 s a flow of 1 Mbit/s has four packets, and the utilities of single bins are noise.
BIN = 0.1
#: Distance between points of a quantity that has a value at every moment, s.
GRID = 0.02
BIN_NS, GRID_NS = 100_000_000, 20_000_000


class Points(NamedTuple):
    """A series: two arrays of shape (n,), in order of time."""

    t: Floats
    """s since time zero."""
    value: Floats


NO_POINTS = Points(np.zeros(0), np.zeros(0))


def bin_of(t_ns: Ints) -> Ints:
    """Number of the bin that contains each moment (ns since time zero)."""
    return np.asarray(t_ns // BIN_NS, np.int64)


def bin_sums(t_ns: Ints, amounts: npt.ArrayLike, first: int, last: int) -> Floats:
    """Sum of the amounts in each of the bins first … last; amounts outside these bins are ignored."""
    bins = bin_of(t_ns)
    inside = (bins >= first) & (bins <= last)
    weights = np.broadcast_to(np.asarray(amounts, np.float64), bins.shape)
    counts = np.bincount(bins[inside] - first, weights=weights[inside], minlength=max(0, last - first + 1))
    return counts.astype(np.float64)


def bin_maxima(t_ns: Ints, amounts: Ints, first: int, last: int) -> Points:
    """The largest amount in each of the bins first … last that has any."""
    bins = bin_of(t_ns)
    inside = (bins >= first) & (bins <= last)
    largest = np.full(max(0, last - first + 1), -1, np.int64)
    np.maximum.at(largest, bins[inside] - first, amounts[inside])
    return Points(bin_starts(first, last)[largest >= 0], largest[largest >= 0].astype(np.float64))


def bin_starts(first: int, last: int) -> Floats:
    """Start times of the bins first … last, s."""
    return np.arange(first, last + 1) / round(1 / BIN)


def bin_rates(t_ns: Ints, size: npt.ArrayLike, first: int, last: int) -> Points:
    """Mbit/s per bin of packets of `size` bytes."""
    return Points(bin_starts(first, last), bin_sums(t_ns, size, first, last) * 8 / BIN / 1e6)


def grid_ns(start_ns: int, end_ns: int) -> Ints:
    """The points of the grid from start to end, ns since time zero."""
    return np.arange(-(-start_ns // GRID_NS), end_ns // GRID_NS + 1, dtype=np.int64) * GRID_NS


def to_seconds(t_ns: Ints) -> Floats:
    """From ns to s."""
    return t_ns / 1e9


def last_values(t_ns: Ints, value: Floats, at_ns: Ints) -> Points:
    """The last value known at each of the moments; moments before the first value are left out.

    `t_ns` is in order, and values that are not finite count as unknown.
    """
    finite = np.isfinite(value)
    t_ns, value = t_ns[finite], value[finite]
    last = np.searchsorted(t_ns, at_ns, side="right") - 1
    has_value = last >= 0
    return Points(to_seconds(at_ns[has_value]), value[last[has_value]])

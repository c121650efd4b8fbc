from __future__ import annotations

import numpy as np
import pytest

from harness.capture.divergence import DENSE_PACKETS, STRIDE, TrailDifference, compare_trails, trail
from harness.capture.pcap import HEAD, Records


def _records(count: int, changed: int | None = None) -> Records:
    """So many frames, all different; of the one with that number a byte is changed."""
    heads = np.zeros((count, HEAD), np.uint8)
    heads[:, 0] = np.arange(count) % 251
    if changed is not None:
        heads[changed - 1, 40] ^= 1
    lengths = np.full(count, 1514)
    return Records(np.arange(count) * 1000, heads, np.minimum(lengths, HEAD), lengths, False)


def test_equal_captures_do_not_part() -> None:
    assert compare_trails(trail(_records(1000)), trail(_records(1000))) is None
    assert compare_trails(trail(_records(0)), trail(_records(0))) is None


@pytest.mark.parametrize("number", [1, 2, 77, DENSE_PACKETS])
def test_an_early_difference_is_named_to_the_packet(number: int) -> None:
    at = compare_trails(trail(_records(1000)), trail(_records(1000, number)))
    assert at == TrailDifference(number, number)


@pytest.mark.parametrize(
    "number", [DENSE_PACKETS + 1, DENSE_PACKETS + 2 * STRIDE, DENSE_PACKETS + 2 * STRIDE + 1, 1000]
)
def test_a_later_one_to_the_stride(number: int) -> None:
    at = compare_trails(trail(_records(1000)), trail(_records(1000, number)))
    assert at is not None
    assert at.first <= number <= at.last
    assert at.last - at.first < STRIDE


@pytest.mark.parametrize(("count", "other_count"), [(10, 12), (300, 1000), (1000, 512), (0, 3)])
def test_where_one_has_ended(count: int, other_count: int) -> None:
    at = compare_trails(trail(_records(count)), trail(_records(other_count)))
    assert at is not None
    assert at.first <= min(count, other_count) + 1 <= at.last


def test_a_trail_is_small() -> None:
    assert len(trail(_records(100_000))) < 1500


@pytest.mark.parametrize("text", ["", "abc", "3:ff", "x:00"])
def test_what_is_no_trail(text: str) -> None:
    with pytest.raises(ValueError, match=r"trail|invalid literal"):
        compare_trails(text, trail(_records(3)))

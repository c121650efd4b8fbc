from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.units import Duration, Percentage, Quantity, QueueSize, Rate, Size


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Rate, "50 Mbit/s", 50_000_000),
        (Rate, "0.5Mbps", 500_000),
        (Rate, "1.5 Gbit/s", 1_500_000_000),
        (Duration, "325 ms", 325_000_000),
        (Duration, "1.5 s", 1_500_000_000),
        (Duration, "2 min", 120_000_000_000),
        (Size, "100 MB", 100_000_000),
        (Size, "10 MiB", 10_485_760),
        (Size, "1_000 B", 1000),
        (Percentage, "1 %", 10_000_000),
        (Percentage, "0.01%", 100_000),
    ],
)
def test_parse(kind: type[Quantity], text: str, value: int) -> None:
    assert kind.parse(text).value == value


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Rate, "50", "no unit"),
        (Rate, "50 MB", "not a unit of a rate"),
        (Rate, "fast", "not a rate"),
        (Duration, "-1 s", "cannot be negative"),
        (Duration, "325", "no unit"),
        (Size, "1 Mb", "not a unit of a size"),
        (Percentage, "101 %", "more than the whole"),
        (Percentage, "0.01", "no unit"),
    ],
)
def test_a_wrong_unit_names_the_right_ones(kind: type[Quantity], text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kind.parse(text)


@pytest.mark.parametrize("kind", [Rate, Duration, Size])
@given(value=st.integers(min_value=0, max_value=10**15))
def test_what_is_printed_reads_back(kind: type[Quantity], value: int) -> None:
    assert kind.parse(str(kind(value))) == kind(value)


@given(value=st.integers(min_value=0, max_value=10**9))
def test_a_percentage_reads_back(value: int) -> None:
    assert Percentage.parse(str(Percentage(value))).value == pytest.approx(value, abs=1)


def test_units_people_expect_are_printed() -> None:
    assert [str(x) for x in (Rate(50_000_000), Duration(325_000_000), Size(100_000_000), Percentage(10_000_000))] == [
        "50 Mbit/s", "325 ms", "100 MB", "1 %",
    ]  # fmt: skip
    assert [Size.parse(text).label() for text in ("100 MB", "10 MiB", "1500 kB", "7 B")] == [
        "100MB",
        "10MiB",
        "1500kB",
        "7B",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("50 kB", 50_000), ("25 packets", 25 * 1514), ("1 packet", 1514), ("100 ms", 625_000), ("1 BDP", 4_062_500), ("0.5 BDP", 2_031_250)],
)  # fmt: skip
def test_queue_sizes_in_bytes(text: str, expected: int) -> None:
    size = QueueSize.parse(text)
    assert size.bytes_at(Rate.parse("50 Mbit/s"), Duration.parse("650 ms"), 1514) == expected
    assert QueueSize.parse(str(size)) == size


@pytest.mark.parametrize("text", ["0 packets", "0 B", "1.5 packets", "many", "1 Mbit/s"])
def test_impossible_queues(text: str) -> None:
    with pytest.raises(ValueError, match="queue"):
        QueueSize.parse(text)


def test_arithmetic() -> None:
    assert Rate.parse("10 Mbit/s").bytes_in(Duration.parse("1 s")) == 1_250_000
    assert Rate.parse("8 Mbit/s").time_for(1_000_000) == 1.0
    assert Duration.parse("1 s") + Duration.parse("1 ms") == Duration(1_001_000_000)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.path import burst_bytes, compile_path, ideal_time, queue_bytes, slow_start_time
from harness.path.program import red_burst, red_log_weight
from harness.units import Duration, Size
from tests.examples import link, path

MEGABYTES = [Size.parse(f"{n} MB") for n in (2, 10, 100)]

#: draft-kuhn-quic-4-sat paths: rates, and seconds for 2, 10 and 100 MB (satellite.md §1.3; IW 12,000 B).
REFERENCE = [
    ("50 Mbit/s", [5.9, 7.8, 22.2], [1.6, 2.9, 17.3]),
    ("250 Mbit/s", [5.9, 7.3, 10.9], [1.4, 1.6, 4.5]),
    ("10 Mbit/s", [6.2, 12.6, 84.6], [2.9, 9.3, 81.3]),
]


@pytest.mark.parametrize(("rate", "slow", "ideal"), REFERENCE)
def test_reference_times(rate: str, slow: list[float], ideal: list[float]) -> None:
    one = path(forward=link(rate))
    assert [slow_start_time(one, size) for size in MEGABYTES] == pytest.approx(slow, abs=0.06)
    assert [ideal_time(one, size) for size in MEGABYTES] == pytest.approx(ideal, abs=0.06)


def test_the_ideal_follows_a_change_of_rate() -> None:
    steady, falling = path(), path(changes=[{"at": "5 s", "forward": {"rate": "10 Mbit/s"}}])
    assert ideal_time(falling, MEGABYTES[0]) == ideal_time(steady, MEGABYTES[0])
    # Data enter from 0.975 s on: 4.025 s at 50 Mbit/s carry 25.2 MB; the other 74.8 MB take 59.9 s at 10.
    assert ideal_time(falling, MEGABYTES[2]) == pytest.approx(5 + 59.875 + 0.325, abs=0.001)


@given(size=st.integers(1, 10**9), more=st.integers(1, 10**8))
def test_more_bytes_take_longer_and_never_less_than_ideal(size: int, more: int) -> None:
    one = path()
    assert slow_start_time(one, Size(size)) <= slow_start_time(one, Size(size + more))
    assert ideal_time(one, Size(size)) <= slow_start_time(one, Size(size)) + 1e-9


@pytest.mark.parametrize(
    ("rate", "expected"), [("250 Mbit/s", 20_312_500), ("50 Mbit/s", 4_062_500), ("0.5 Mbit/s", 40_625)]
)
def test_one_bdp_of_buffer(rate: str, expected: int) -> None:
    assert queue_bytes(link(rate), Duration.parse("650 ms")) == expected


def test_the_token_bucket_holds_at_least_two_frames() -> None:
    assert burst_bytes(link("0.5 Mbit/s")) == 2 * 1514
    assert burst_bytes(link("250 Mbit/s")) == 125_000
    assert burst_bytes(link(burst="10 kB")) == 10_000


def test_red_weights_are_those_of_iproute2() -> None:
    # links.md §2.5: min 15000, max 40000: bursts that give Wlog 9, by avpkt.
    for average, first, last in ((1000, 91, 125), (1280, 79, 108), (1400, 75, 103), (1500, 72, 99)):
        fitting = [burst for burst in range(20, 200) if red_log_weight(15_000, burst, average) == 9]
        assert (fitting[0], fitting[-1]) == (first, last)
        assert red_log_weight(15_000, red_burst(0.002, 15_000, average), average) == 9


def test_what_does_not_change_needs_no_command() -> None:
    program = compile_path(path(changes=[{"at": "5 s", "forward": {"rate": "50 Mbit/s"}}]))
    assert program.changes == ()


def test_the_seed_reaches_every_loss_and_nothing_else() -> None:
    lossless, lossy = compile_path(path(), seed=7), compile_path(path(forward=link(loss="1 %")), seed=7)
    assert not any("seed" in command for command in lossless.setup)
    assert [command[command.index("seed") + 1] for command in lossy.setup if "seed" in command] == ["7"]


def test_an_upload_compiles_to_the_same_links_the_other_way_round() -> None:
    down, up = compile_path(path()), compile_path(path(terminal="server"))
    assert down.links["to_client"].rate_bps == up.links["to_server"].rate_bps == 50_000_000
    assert up.links["to_client"].rate_bps == 10_000_000

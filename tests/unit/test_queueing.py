"""Queueing theory against plain simulations, published figures and itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.netem import compile_path
from tests.examples import path
from tools.bench.fidelity import tail_drop
from tools.bench.gauge import Arrivals, Trial, memory_mib, plan_document
from tools.bench.queueing_theory import Inputs, Sizes, lindley, mean_wait, poisson_arrivals, wait_estimate
from tools.bench.tcp_models import mathis, padhye

RATE = 10_000_000
MIXED = Sizes((78, 590, 1514), (0.5, 0.25, 0.25))


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(64, 1514)), min_size=1, max_size=50))
def test_lindleys_recursion_is_a_serial_link_with_an_endless_queue(packets: list[tuple[int, int]]) -> None:
    arrivals = np.cumsum([gap for gap, _ in packets])
    sizes = np.array([size for _, size in packets])
    left, plain = 0.0, []
    for now, size in zip(arrivals.tolist(), sizes.tolist(), strict=True):
        left = max(now, left) + size * 8e9 / RATE
        plain.append(left)
    assert lindley(arrivals.astype(float), sizes * 8e9 / RATE) == pytest.approx(plain)
    assert tail_drop(arrivals, sizes, RATE, None, 10**9) == pytest.approx(plain)


def test_the_packet_in_service_is_outside_the_queue() -> None:
    together, sizes = np.zeros(4), np.full(4, 1250)
    # One is sent, two fit into 2,500 bytes, and the fourth does not.
    assert tail_drop(together, sizes, RATE, None, 2500)[:3].tolist() == [1e6, 2e6, 3e6]
    assert np.isnan(tail_drop(together, sizes, RATE, None, 2500)[3])
    # When the first has been sent, the next leaves the queue at that moment and makes room.
    again = np.array([0, 0, 0, 1e6])
    assert tail_drop(again, sizes, RATE, None, 2500).tolist() == [1e6, 2e6, 3e6, 4e6]


def test_mean_waits_of_the_textbooks() -> None:
    # Kleinrock, Queueing Systems I, §5.6: M/D/1 waits half as long as M/M/1, which waits ρ/(1-ρ) service times.
    assert mean_wait(1 / 0.8, 1, 2) == pytest.approx(4)
    assert mean_wait(1 / 0.8, 1, 1) == pytest.approx(2)
    # 1000 bytes at load 0.52 and 0.83 of 10 Mbit/s, ms.
    assert mean_wait(0.8 / 0.52, 0.8, 0.64) == pytest.approx(0.433, abs=1e-3)
    assert mean_wait(0.8 / 0.83, 0.8, 0.64) == pytest.approx(1.953, abs=1e-3)
    with pytest.raises(ValueError, match="no mean wait"):
        mean_wait(1, 1, 1)


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_the_estimate_of_the_wait_agrees_with_theory_and_knows_its_error(load: float) -> None:
    service = MIXED.moment(1, RATE)
    inputs = Inputs(service / load, service, MIXED.moment(2, RATE))

    def draw(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        arrivals = poisson_arrivals(inputs.mean_gap, 8000, generator)
        return arrivals.astype(float), MIXED.draw(8000, generator) * 8e9 / RATE

    estimate = wait_estimate(inputs, draw)
    generator = np.random.default_rng(7)
    estimates, plain = [], []
    for _ in range(60):
        arrivals, services = draw(generator)
        waits = lindley(arrivals, services) - services - arrivals
        estimates.append(estimate(waits[:-1], services[:-1], np.diff(arrivals), inputs))
        plain.append(waits.mean())
    assert np.mean(estimates) == pytest.approx(inputs.mean_wait, abs=4 * estimate.sd / math.sqrt(60))
    assert np.std(estimates, ddof=1) == pytest.approx(estimate.sd, rel=0.4)
    assert np.std(estimates) < 0.5 * np.std(plain)


def test_waits_that_are_a_bucket_too_short_are_seen_by_the_estimate() -> None:
    service = 0.8e6
    inputs = Inputs(service / 0.8, service, service**2)

    def draw(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return poisson_arrivals(inputs.mean_gap, 8000, generator).astype(float), np.full(8000, service)

    estimate = wait_estimate(inputs, draw)
    arrivals, services = draw(np.random.default_rng(3))
    waits = lindley(arrivals, services) - services - arrivals
    estimates = [
        estimate(np.maximum(0, waits - less)[:-1], services[:-1], np.diff(arrivals), inputs) for less in (0, service)
    ]
    assert estimates[0] == pytest.approx(inputs.mean_wait, abs=4 * estimate.sd)
    assert estimates[1] < inputs.mean_wait - 10 * estimate.sd


def test_sizes_have_their_shares() -> None:
    drawn = MIXED.draw(40_000, np.random.default_rng(1))
    assert [np.mean(drawn == size) for size in MIXED.frame_bytes] == pytest.approx(MIXED.shares, abs=0.01)
    assert MIXED.moment(2, RATE) == pytest.approx(np.mean((drawn * 8e9 / RATE) ** 2), rel=0.02)
    with pytest.raises(ValueError, match="1 in all"):
        Sizes((100,), (0.5,))


def test_streams_of_arbitrary_times_reach_the_gauge() -> None:
    times, sizes = np.array([0, 5, 5, 1000]), np.array([100, 200, 100, 1514])
    trial = Trial(compile_path(path(), "serial"), Arrivals(times, sizes, "to_server"))
    (plan,) = plan_document([trial])["trials"]
    assert (plan["departures_ns"], plan["frame_bytes"]) == ([0, 5, 5, 1000], [100, 200, 100, 1514])
    assert plan["sender"] == "client0" and "trains" not in plan
    assert memory_mib([trial]) < 200
    for wrong in ((times[::-1], sizes), (times - 1, sizes), (times, sizes - 99), (times, sizes[:2])):
        with pytest.raises(ValueError, match=r"packets leave in order|one each per packet"):
            Arrivals(*wrong)


def test_formulas_of_reno() -> None:
    # Mathis et al.: C = sqrt(3/2) for an ACK per segment, and sqrt(3/4) for delayed ones.
    assert mathis(1000, 0.1, 0.01) == pytest.approx(8e4 * math.sqrt(1.5) / 0.1)
    assert mathis(1000, 0.1, 0.01, 2) == pytest.approx(8e4 * math.sqrt(0.75) / 0.1)
    # By hand for p = 0.01, b = 1: W = 1 + sqrt(265), a timeout in 3/W of the losses.
    window = 1 + math.sqrt(8 * 0.99 / 0.03 + 1)
    sent = 99 + window + 3 / window / 0.99
    took = 0.1 * (window / 2 + 1) + 3 / window * 0.3 * 1.010204 / 0.99
    assert padhye(1000, 0.1, 0.3, 0.01) == pytest.approx(8000 * sent / took, rel=1e-4)
    # Without timeouts and for small losses they agree.
    assert padhye(1000, 0.1, 0.0, 1e-6) == pytest.approx(mathis(1000, 0.1, 1e-6), rel=0.01)

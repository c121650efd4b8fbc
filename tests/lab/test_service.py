"""Service processes, access delays and the MTU of a path, on the lab kernel in virtual time.

What is expected follows from the definition of a Poisson process and, for RED, from the algorithm of
net/sched/sch_red.c. Seeds are fixed, so that a result is the same every time; 3 sd are allowed.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest

from harness.netem import PathProgram, compile_path
from harness.units import Duration
from tests.lab.test_virtual_links import simulator_rootfs
from tools.bench.gauge import Passage, Stream, Train, Trial, gauge
from tools.bench.links import symmetric

Floats = NDArray[np.float64]

pytestmark = pytest.mark.usefixtures("work_on_every_core")
CORE = max(os.sched_getaffinity(0))
FRAME = 1514
#: A full frame at 2.64 Mbit/s, ns: the mean time between two opportunities.
MEAN = 1514 * 8 / 2.64e6 * 1e9
DELAY = 10e6
#: What a stamp may be off, ns: a few looks at the guest's clock.
TICKS = 2000
LIMIT = 20
#: The lab's own addresses, in both IP versions, and one that has nothing to do with a stream.
CLIENT, SERVER = "193.167.0.100", "193.167.100.100"
CLIENT6, SERVER6 = "fd00:cafe:cafe:0::100", "fd00:cafe:cafe:100::100"
RED = {
    "discipline": "red", "limit": "400 packets", "min": "9 kB", "max": "24 kB", "probability": "10 %", "wq": 0.002,
    "average_packet": "1280 B",
}  # fmt: skip


def served(seed: int = 1, **overrides: object) -> PathProgram:
    """2.64 Mbit/s of Poisson service, 10 ms, a queue of 20 packets."""
    link: dict[str, object] = {
        "rate": "2.64 Mbit/s", "delay": "10 ms", "queue": f"{LIMIT} packets",
        "service": {"process": "poisson"}, **overrides,
    }  # fmt: skip
    return compile_path(symmetric((), **link), "serial", seed)


def busy(packets: int, frame_bytes: int = FRAME) -> Stream:
    """More than twice what is served."""
    return Stream((Train(packets, 2_000_000, frame_bytes),))


#: 1.1 load for long enough that RED's average settles, silence, and again.
TWICE = Stream(
    (
        Train(12_000, round(MEAN / 1.1), FRAME),
        Train(3000, round(MEAN / 1.1), FRAME, start_ns=70_000_000_000),
    )
)
COLD = {"process": "poisson", "cold_start": "5 s", "period": "15 s"}
TRIALS = {
    "one seed": Trial(served(1), busy(30_000)),
    "one seed again": Trial(served(1), busy(6000)),
    "another seed": Trial(served(2), busy(30_000)),
    "small packets": Trial(served(3), busy(6000, 100)),
    "now and then": Trial(served(4), Stream((Train(3000, 100_000_000, FRAME),))),
    "cold start": Trial(served(1, service=COLD), busy(15_500)),
    "RED": Trial(served(1, queue=RED), TWICE, drain_ns=3_000_000_000),
}


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return simulator_rootfs()


@pytest.fixture(scope="module")
def passages(rootfs: Path, work_on_every_core: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Passage]:
    measured = gauge(list(TRIALS.values()), rootfs, tmp_path_factory.mktemp("gauge"), core=CORE)
    return dict(zip(TRIALS, measured, strict=True))


def departures(passage: Passage) -> Floats:
    """When packets left the queue, ns, in order."""
    return passage.received_ns[~passage.lost] - DELAY


def dispersion(times: Floats, window: float) -> tuple[float, float]:
    """(variance of the counts in windows over their mean, its sd for a Poisson process)."""
    counts, _ = np.histogram(times, np.arange(times[0], times[-1], window))
    return float(counts.var(ddof=1) / counts.mean()), math.sqrt(2 / (counts.size - 1))


def waiting(passage: Passage) -> NDArray[np.int64]:
    """How many packets each packet found in the queue. Shape (packets,)."""
    accepted = np.concatenate([[0], np.cumsum(~passage.lost)[:-1]])
    gone: NDArray[np.int64] = np.searchsorted(departures(passage), passage.sent_ns + TICKS)
    return accepted - gone


def _in_step(first_gaps: Floats, second_gaps: Floats) -> tuple[int, int]:
    """Where two sequences of gaps, which may differ by a few at the beginning, have the same one first."""
    first, second = np.nonzero(np.abs(first_gaps[:5, None] - second_gaps[None, :5]) <= TICKS)
    return int(first[0]), int(second[0])


@pytest.mark.parametrize("name", ["one seed", "another seed"])
def test_a_busy_link_serves_a_poisson_process_of_the_links_rate(passages: dict[str, Passage], name: str) -> None:
    gaps = np.diff(departures(passages[name]))
    assert gaps.size > 10_000
    assert gaps.mean() == pytest.approx(MEAN, rel=3 / math.sqrt(gaps.size))
    assert kstest(gaps / MEAN, "expon").pvalue > 0.01
    # The test could see a difference of some per cent.
    assert kstest(gaps / MEAN, "expon", args=(0, 1.06)).pvalue < 0.001
    for window in (10e6, 100e6):
        index, sd = dispersion(departures(passages[name]), window)
        assert index == pytest.approx(1, abs=3 * sd)


def test_the_seed_repeats_the_gaps(passages: dict[str, Passage]) -> None:
    first, again, another = (np.diff(departures(passages[name]))[:2000] for name in list(TRIALS)[:3])
    assert np.abs(first - again).max() <= TICKS
    assert np.abs(first - another).max() > MEAN


def test_an_opportunity_is_one_packet_however_small(passages: dict[str, Passage]) -> None:
    gaps = np.diff(departures(passages["small packets"]))
    assert kstest(gaps / MEAN, "expon").pvalue > 0.01


def test_the_queue_holds_as_many_packets_as_its_limit(passages: dict[str, Passage]) -> None:
    passage = passages["one seed"]
    queue = waiting(passage)
    assert queue[~passage.lost].max() == LIMIT - 1
    # A packet that left while this one came may be counted either way.
    assert np.isin(queue[passage.lost], [LIMIT - 1, LIMIT]).all()
    assert (queue[passage.lost] == LIMIT).mean() > 0.999


def test_an_idle_link_keeps_no_opportunity(passages: dict[str, Passage]) -> None:
    waits = passages["now and then"].delay_ns - DELAY
    assert waits.mean() == pytest.approx(MEAN, rel=3 / math.sqrt(waits.size))
    assert kstest(waits / MEAN, "expon").pvalue > 0.01


def test_a_cold_start_has_ten_opportunities_a_second_and_comes_again(passages: dict[str, Passage]) -> None:
    times = departures(passages["cold start"])
    for begin in (0, 15e9):
        cold = times[(times > begin + 50e6) & (times < begin + 5e9 - 50e6)]
        assert cold.size == pytest.approx(49, abs=1)
        assert np.abs(np.diff(cold) - 100e6).max() <= TICKS
    rounds = [np.diff(times[(times > begin + 5e9) & (times < begin + 15e9)]) for begin in (0, 15e9)]
    for warm in rounds:
        assert warm.size == pytest.approx(10e9 / MEAN, abs=3 * math.sqrt(10e9 / MEAN))
        assert kstest(warm / MEAN, "expon").pvalue > 0.01
    # As a trace in a loop: the same gaps again, from where the last opportunity of the cold start has gone.
    first, second = (warm[start : start + 1500] for warm, start in zip(rounds, _in_step(*rounds), strict=True))
    assert np.abs(first - second).max() <= TICKS


def test_red_sees_what_waits_for_opportunities(passages: dict[str, Passage]) -> None:
    """Its average, followed in plain numbers: qavg += (backlog - qavg) / 512 at each arrival, and nothing when idle.

    Below min nothing is lost; from max on everything is; in between a loss comes as soon as (qavg - min) × packets
    since the last loss exceeds a number that is uniform up to (max - min) / P (include/net/red.h).
    """
    passage = passages["RED"]
    counters = passage.qdisc("to_client", "red")
    assert (counters["early"], counters["pdrop"]) == (passage.lost.sum(), 0)
    low, high, most = 9000, 24_000, (24_000 - 9000) / 0.1
    # Bytes by which a packet that left while another came may move the average.
    near = 20
    average, since, reach = 0.0, -1, 0.0
    expected = variance = dropped = 0.0
    regions = {"below": 0, "between": 0, "above": 0}
    after_silence: list[float] = []
    for backlog, lost, number in zip(waiting(passage) * FRAME, passage.lost, range(passage.lost.size), strict=True):
        average += (backlog - average) / 512
        if number >= TWICE.trains[0].count and len(after_silence) < 50:
            after_silence.append(average)
        if average < low or average >= high:
            region = "below" if average < low else "above"
            if min(abs(average - low), abs(average - high)) > near:
                assert lost == (region == "above"), (number, average)
            since = -1
        else:
            region = "between"
            since += 1
            now = (average - low) * since
            chance = min(max(now - reach, 0) / (most - reach), 1) if since else 0.0
            expected, variance, dropped = expected + chance, variance + chance * (1 - chance), dropped + lost
            since, reach = (0, 0.0) if lost else (since, max(reach, now) if since else 0.0)
        regions[region] += 1
    assert min(regions.values()) > 100, regions
    assert dropped == pytest.approx(expected, abs=3 * math.sqrt(variance))
    # No idle decay: after twelve seconds of silence the first packets find an average that an empty queue never had.
    assert after_silence[0] > low


# --- access delays


def near_and_far(access: dict[str, str], changes: tuple[object, ...] = ()) -> PathProgram:
    """5 ms towards the client and back, beside what some addresses have of their own."""
    path = symmetric(changes, delay="5 ms", rate="100 Mbit/s")
    return compile_path(path, "serial", 1, {address: Duration.parse(delay) for address, delay in access.items()})


OWN = {CLIENT: "20 ms", CLIENT6: "20 ms", SERVER: "20 ms", SERVER6: "20 ms", "193.167.0.101": "35 ms"}
#: 400 bytes at 100 Mbit/s, ms.
OWN_TIME = 0.032
OTHERS = {"193.167.0.101": "20 ms", "193.167.100.101": "20 ms", CLIENT6: "35 ms", SERVER6: "35 ms"}


def test_an_address_has_its_own_access_delay_in_both_directions(rootfs: Path, tmp_path: Path) -> None:
    trains = (Train(200, 1_000_000, 400),)
    trials = [
        Trial(near_and_far(access), Stream(trains, direction))
        for access in (OWN, OTHERS)
        for direction in ("to_client", "to_server")
    ]  # fmt: skip
    delays = [passage.delay_ns / 1e6 for passage in gauge(trials, rootfs, tmp_path, core=CORE)]
    for delay, expected in zip(delays, (25, 25, 5, 5), strict=True):
        assert delay.min() == pytest.approx(expected + OWN_TIME, abs=0.005)
        assert delay.max() == pytest.approx(expected + OWN_TIME, abs=0.005)


def test_changes_apply_to_every_access_delay(rootfs: Path, tmp_path: Path) -> None:
    change = {"at": "1 s", "forward": {"delay": "45 ms", "loss": "20 %"}}
    stream = Stream((Train(6000, 1_000_000, 400),))
    trials = [Trial(near_and_far(access, (change,)), stream) for access in (OWN, OTHERS)]
    for passage, more in zip(gauge(trials, rootfs, tmp_path, core=CORE), (20, 0), strict=True):
        before, after = passage.sent_ns < 0.99e9, passage.sent_ns > 1.01e9
        assert not passage.lost[before].any()
        assert np.allclose(passage.delay_ns[before] / 1e6, 5 + more + OWN_TIME, atol=0.005)
        assert np.allclose(passage.delay_ns[after & ~passage.lost] / 1e6, 45 + more + OWN_TIME, atol=0.005)
        lost = passage.lost[after]
        assert lost.mean() == pytest.approx(0.2, abs=3 * math.sqrt(0.2 * 0.8 / lost.size))

"""Policers and slots on the lab kernel in virtual time, packet by packet.

What is expected follows from net/sched/act_police.c and net/sched/sch_netem.c. Seeds are fixed, so that a result is the
same every time.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.analysis.link_replay import LinkPhase
from harness.analysis.policing import token_surplus_ns
from harness.analysis.slots import replay_opportunities
from harness.netem import PathProgram, compile_path
from harness.scenario.schema import Path as EmulatedPath
from harness.scenario.schema import Slots
from tests.lab.test_virtual_links import simulator_rootfs
from tools.bench.gauge import Passage, Stream, Train, Trial, gauge
from tools.bench.links import symmetric
from tools.bench.queueing_theory import lindley

pytestmark = pytest.mark.usefixtures("work_on_every_core")
CORE = max(os.sched_getaffinity(0))
RATE, DELAY, FRAME = 10_000_000, 10_000_000, 1250
#: What a stamp may be off, ns: a few looks at the guest's clock.
TICKS = 2000
BURST = 20_000


def policed(rate: str = "10 Mbit/s", burst: str = "20 kB") -> PathProgram:
    queue = {"discipline": "policer", "burst": burst}
    return compile_path(symmetric((), rate=rate, delay="10 ms", queue=queue), "serial")


def slotted(**service: object) -> EmulatedPath:
    return symmetric((), rate="10 Mbit/s", delay="10 ms", queue="400 packets", service={"process": "slots", **service})


#: Twice the policer's rate; its rate in bursts of 40 packets; packets of several sizes.
OVERLOAD = Stream((Train(20_000, 500_000, FRAME),))
BURSTS = Stream(tuple(Train(40, 0, FRAME, start_ns=number * 50_000_000) for number in range(200)))
SIZES = Stream(
    tuple(Train(1000, 700_000, size, start_ns=700_000_000 * number) for number, size in enumerate((90, 700, 1514)))
)
POLICED = {
    "overload": Trial(policed(), OVERLOAD),
    "bursts": Trial(policed(), BURSTS),
    "several sizes": Trial(policed(), SIZES),
    "a tenth of a percent more": Trial(policed("10.01 Mbit/s"), OVERLOAD),
    "a frame more of burst": Trial(policed(burst="21250 B"), OVERLOAD),
}
SLOTTED = {
    "as Wi-Fi": (slotted(packets=42, every=["800 us", "10 ms"]), Stream((Train(6000, 900_000, FRAME),))),
    "few packets": (slotted(packets=8, every=["1 ms", "8 ms"]), Stream((Train(6000, 1_100_000, FRAME),))),
    "bytes": (slotted(bytes="8 kB", every="5 ms"), Stream((Train(6000, 900_000, FRAME),))),
    "now and then": (slotted(packets=42, every=["800 us", "10 ms"]), Stream((Train(1500, 20_000_000, FRAME),))),
}


@pytest.fixture(scope="module")
def passages(work_on_every_core: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Passage]:
    trials = POLICED | {name: Trial(compile_path(path, "serial"), stream) for name, (path, stream) in SLOTTED.items()}
    measured = gauge(list(trials.values()), simulator_rootfs(), tmp_path_factory.mktemp("gauge"), core=CORE)
    return dict(zip(trials, measured, strict=True))


def surplus(passage: Passage, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    phase = LinkPhase(0, RATE, DELAY, 0.0, BURST, 0, None)
    known = np.ones(len(lengths), np.bool_)
    return token_surplus_ns(passage.sent_ns.astype(np.int64), lengths, ~passage.lost, known, (phase,))


def lengths_of(stream: object) -> NDArray[np.int64]:
    assert isinstance(stream, Stream)
    return np.concatenate([np.full(train.count, train.frame_bytes, np.int64) for train in stream.trains])


@pytest.mark.parametrize("name", ["overload", "bursts", "several sizes"])
def test_a_policer_drops_what_its_token_bucket_says(passages: dict[str, Passage], name: str) -> None:
    passage = passages[name]
    expected = surplus(passage, lengths_of(POLICED[name].stream)) < 0
    assert (passage.lost == expected).all() and 0 < passage.lost.sum() < len(passage.lost)


def test_what_passes_waits_for_nothing(passages: dict[str, Passage]) -> None:
    passage = passages["bursts"]
    delays = (passage.received_ns - passage.sent_ns)[~passage.lost]
    # Packets that leave together come one after the other: each takes the kernel some looks at the clock.
    assert delays.min() >= DELAY and np.median(delays) < DELAY + 40 * TICKS


def test_a_policer_passes_its_rate(passages: dict[str, Passage]) -> None:
    passage = passages["overload"]
    seconds = (passage.sent_ns[-1] - passage.sent_ns[0]) / 1e9
    passed = float((~passage.lost).sum() * FRAME)
    assert (passed - BURST) * 8 / seconds == pytest.approx(RATE, rel=1e-3)


@pytest.mark.parametrize("name", ["a tenth of a percent more", "a frame more of burst"])
def test_a_policer_that_is_slightly_another_is_told_apart(passages: dict[str, Passage], name: str) -> None:
    passage = passages[name]
    assert (surplus(passage, lengths_of(OVERLOAD))[~passage.lost] < -TICKS).any()


@pytest.mark.parametrize("name", SLOTTED)
def test_packets_leave_at_opportunities(passages: dict[str, Passage], name: str) -> None:
    path, passage = SLOTTED[name][0], passages[name]
    slots, kept = path.to_client.slots, ~passage.lost
    assert isinstance(slots, Slots)
    transmission = FRAME * 8e9 / RATE
    came = lindley(passage.sent_ns[kept], np.full(kept.sum(), transmission))
    left = passage.received_ns[kept] - DELAY
    result = replay_opportunities(
        slots, came.astype(np.int64), left.astype(np.int64), np.full(kept.sum(), FRAME), [False] * kept.sum(), 5 * TICKS
    )
    assert (result.early, result.late) == (0, 0)
    shortest, longest = (gap.value for gap in slots.gaps)
    gaps = np.array(result.gaps_ns)
    assert gaps.size > 500 and shortest - TICKS <= gaps.min() and gaps.max() <= longest + TICKS
    error = 3 * (longest - shortest) / np.sqrt(12 * gaps.size)
    assert abs(gaps.mean() - (shortest + longest) / 2) <= error + TICKS
    # No opportunity has more packets than it may, by the times alone.
    _, together = np.unique(np.cumsum(np.diff(left, prepend=0) > 10 * TICKS), return_counts=True)
    most = slots.packets if slots.packets is not None else -(-8000 // FRAME)
    assert together.max() <= most and (name != "few packets" or together.max() == most)


def test_slots_keep_the_link_s_rate(passages: dict[str, Passage]) -> None:
    passage = passages["as Wi-Fi"]
    arrived = passage.received_ns[~passage.lost]
    assert (arrived.size - 1) * FRAME * 8e9 / (arrived[-1] - arrived[0]) == pytest.approx(RATE, rel=2e-3)

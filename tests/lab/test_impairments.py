"""What a link does behind its queue, in virtual time: shares that were asked for, and RED's average while it rests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from harness.netem import compile_path, early_share
from harness.scenario.schema import GilbertElliott, Link
from harness.scenario.schema import Path as EmulatedPath
from tests.examples import link
from tests.lab.test_virtual_links import simulator_rootfs
from tools.bench.gauge import Passage, Stream, Train, Trial, gauge

CORE = max(os.sched_getaffinity(0))
COUNT = 20_000
MS = 1_000_000
#: A probability below which a number of packets is not the one asked for.
IMPROBABLE = 0.01
BURSTS = {"good_to_bad": "1 %", "bad_to_good": "25 %"}
#: What is asked of a link of 50 Mbit/s and 20 ms.
LINKS: Mapping[str, dict[str, Any]] = {
    "reorder 25 %": {"reorder": "25 %"},
    "reorder 24 %": {"reorder": "24 %"},
    "reorder with a gap": {"reorder": {"share": "10 %", "gap": 5, "ahead": "3 ms"}},
    "duplicate 3 %": {"duplicate": "3 %"},
    "duplicate 4 %": {"duplicate": "4 %"},
    "Gilbert–Elliott": {"loss": BURSTS},
    "independent": {"loss": "3.85 %"},
    "jitter in order": {"jitter": {"deviation": "5 ms", "distribution": "normal"}},
    "jitter out of order": {"jitter": {"deviation": "5 ms", "distribution": "normal", "order": "free"}},
}


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return simulator_rootfs()


def asked(name: str) -> Link:
    return link("50 Mbit/s", "20 ms", **LINKS[name])


@pytest.fixture(scope="module")
def passages(rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Passage]:
    """A packet of 1250 B each ms, on an empty queue each."""
    stream = Stream((Train(COUNT, MS),))
    paths = [EmulatedPath.model_validate({"forward": asked(name), "return": link()}) for name in LINKS]
    trials = [Trial(compile_path(path, "serial"), stream) for path in paths]
    return dict(zip(LINKS, gauge(trials, rootfs, tmp_path_factory.mktemp("gauge"), core=CORE), strict=True))


def chance(hits: int, count: int, share: float) -> float:
    """Probability of a number of hits that is at least as improbable as this one (binomial, both sides)."""
    return float(stats.binomtest(hits, count, share).pvalue)


def deviation_ns(passage: Passage, link_asked: Link) -> NDArray[np.float64]:
    """By how much each packet's delay differs from the link's, which a packet's own time is part of."""
    own_ns = link_asked.rate.time_for(1250) * 1e9
    return np.asarray(passage.delay_ns - link_asked.delay.value - own_ns, np.float64)


def early(passage: Passage, link_asked: Link) -> int:
    assert link_asked.reorder is not None
    ahead = (link_asked.reorder.ahead or link_asked.delay).value
    return int((deviation_ns(passage, link_asked) < -ahead / 2).sum())


def test_as_many_packets_overtake_as_asked(passages: dict[str, Passage]) -> None:
    assert chance(early(passages["reorder 25 %"], asked("reorder 25 %")), COUNT, 0.25) > IMPROBABLE
    assert chance(early(passages["reorder 24 %"], asked("reorder 24 %")), COUNT, 0.25) < IMPROBABLE
    gap = asked("reorder with a gap")
    assert gap.reorder is not None
    passage = passages["reorder with a gap"]
    assert chance(early(passage, gap), COUNT, early_share(gap.reorder)) > IMPROBABLE
    deviation = deviation_ns(passage, gap)
    assert set(np.round(deviation / MS).astype(int).tolist()) == {0, -3}
    assert np.diff(np.flatnonzero(deviation < -MS)).min() >= 5


def test_as_many_packets_arrive_twice_as_asked(passages: dict[str, Passage]) -> None:
    assert chance(passages["duplicate 3 %"].repeated, COUNT, 0.03) > IMPROBABLE
    assert chance(passages["duplicate 4 %"].repeated, COUNT, 0.03) < IMPROBABLE
    assert not passages["duplicate 3 %"].lost.any()


def changes(lost: NDArray[np.bool_]) -> tuple[tuple[int, int], tuple[int, int]]:
    """(how often a loss follows a delivery, deliveries), (how often a delivery follows a loss, losses)."""
    before, after = lost[:-1], lost[1:]
    return (int((~before & after).sum()), int((~before).sum())), (int((before & ~after).sum()), int(before.sum()))


def test_bursts_of_losses_begin_and_end_as_asked(passages: dict[str, Passage]) -> None:
    """All is lost in the bad state and nothing in the good one, so that the states are seen."""
    bursts = GilbertElliott.model_validate(BURSTS)
    begun, ended = changes(passages["Gilbert–Elliott"].lost)
    assert chance(*begun, bursts.good_to_bad.fraction) > IMPROBABLE
    assert chance(*ended, bursts.bad_to_good.fraction) > IMPROBABLE
    # As many losses in the long run, but each by itself.
    assert bursts.mean == pytest.approx(0.0385, abs=1e-4)
    begun, ended = changes(passages["independent"].lost)
    assert chance(sum(passages["independent"].lost.tolist()), COUNT, 0.0385) > IMPROBABLE
    assert chance(*begun, bursts.good_to_bad.fraction) < IMPROBABLE
    assert chance(*ended, bursts.bad_to_good.fraction) < IMPROBABLE


def test_a_jitter_keeps_the_order_unless_told_otherwise(passages: dict[str, Passage]) -> None:
    ordered, free = passages["jitter in order"], passages["jitter out of order"]
    assert (np.diff(ordered.received_ns) >= 0).all()
    assert (np.diff(free.received_ns) < 0).mean() > 0.2
    deviation = deviation_ns(free, asked("jitter out of order"))
    assert abs(deviation).max() <= 20 * MS
    # Of every packet, so that a table of 4096 values differs from the distribution by less than the draws do.
    drawn = stats.truncnorm(-4, 4, scale=5 * MS)
    assert stats.kstest(deviation[:2000], drawn.cdf).pvalue > IMPROBABLE
    assert stats.kstest(deviation[:2000], stats.uniform(-10 * MS, 20 * MS).cdf).pvalue < IMPROBABLE


RED = {"discipline": "red", "limit": "100 kB", "min": "10 kB", "max": "60 kB", "probability": "10 %", "wq": 0.002}


def test_red_forgets_its_queue_while_the_link_rests(rootfs: Path, tmp_path: Path) -> None:
    """Three seconds of overload, a rest, half a load: behind a bucket the average is what it was, however long the rest.

    The average is halved about every ten seconds here: tc computes the table of its decay for ticks of 64 ns (tc_red.c,
    tc_red_eval_idle_damping), and the kernel looks it up by microseconds (include/net/red.h).
    """
    overload = Train(COUNT // 4, MS * 2 // 3)
    queue = {**RED, "average_packet": "1250 B"}
    rests = (10, 200)
    trials = []
    for more in ({}, {"burst": "1514 B"}):
        forward = link("10 Mbit/s", "20 ms", queue=queue, **more)
        program = compile_path(EmulatedPath.model_validate({"forward": forward, "return": link()}), "serial")
        for rest in rests:
            half = Train(COUNT // 20, 2 * MS, start_ns=(4 + rest) * 1000 * MS)
            trials.append(Trial(program, Stream((overload, half))))
    passages = gauge(trials, rootfs, tmp_path, core=CORE)
    assert min(passage.lost[: overload.count].sum() for passage in passages) > 500
    short, long, *kept = (int(passage.lost[overload.count :].sum()) for passage in passages)
    assert long == 0 < short < min(kept) / 2
    assert kept[1] > kept[0] / 2

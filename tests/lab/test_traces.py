"""Links that follow traces, on the lab kernel's own disciplines: packet for packet against the model, and in a cell."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from harness.errors import EngineError
from harness.netem import compile_path, series_content
from harness.netem.bounds import queue_bytes
from harness.netem.series import DeliveryCourse, RateCourse, transit_at
from harness.scenario.loader import load
from harness.scenario.schema import Path as EmulatedPath
from harness.scenario.schema import Scenario
from tests.lab.test_virtual_links import simulator_rootfs
from tools.bench.gauge import Arrivals, Passage, Trial, gauge

CORE = max(os.sched_getaffinity(0))
MS = 1_000_000
#: Each packet leaves within so much of the model's time: a look at the clock takes 256 ns of virtual time, and whoever
#: wakes up has to wait for those before.
EXACT = 2_000
PACKETS = 8000
pytestmark = pytest.mark.usefixtures("work_on_every_core")


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return simulator_rootfs()


def followed(folder: Path, forward: str) -> EmulatedPath:
    """The path of a scenario in a folder with traces: a packet-delivery trace, and rates, delays and losses each ms."""
    rng = random.Random(7)
    times = sorted(rng.randint(1, 3000) for _ in range(2500))
    (folder / "lte.trace").write_text("".join(f"{time}\n" for time in times))
    rows = ["t_ms,rate_mbps,delay_ms,loss_percent"]
    for step in range(3000):
        rate = 0 if step % 500 < 20 else rng.uniform(2, 30)
        rows.append(f"{step},{rate:.4f},{10 + 5 * (step // 300 % 3) + rng.random():.4f},{40 if step % 700 < 30 else 1}")
    (folder / "leo.csv").write_text("\n".join(rows) + "\n")
    (folder / "s.yaml").write_text(
        f"schema: 1\ntitle: s\npath: {{forward: {forward}, return: {{rate: 10 Mbit/s, delay: 20 ms}}}}\n"
        "flows: [{download: 1 MB}]\n"
    )
    return load(folder / "s.yaml", Scenario, {"name": "s"}).path


def arrivals(seconds: float, packets: int = PACKETS) -> Arrivals:
    """Packets of all sizes at random times, never two within 20 µs."""
    rng = np.random.default_rng(5)
    times = np.sort(rng.integers(0, round(seconds * 1e9), packets)) + 20_000 * np.arange(packets)
    return Arrivals(times, rng.choice([60, 300, 1214, 1514], packets))


def sent_through(path: EmulatedPath, stream: Arrivals, rootfs: Path, folder: Path) -> tuple[Passage, dict[str, Any]]:
    """What became of a stream, and of each series its content and when it started, ns after the stream's start."""
    program = compile_path(path, "serial", seed=3)
    (passage,) = gauge([Trial(program, stream, drain_ns=5_000_000_000)], rootfs, folder / "gauge", core=CORE)
    kinds = {"rate": ("to_client", "serial"), "transit": ("left", "transit")}
    return passage, {
        series.kind: (
            series_content(series),
            passage.qdisc(*kinds[series.kind])["options"]["started"] - passage.zero_ns,
            series.offset_ns,
        )
        for series in program.series
        if series.direction == "to_client"
    }


def through_queue(course: RateCourse | DeliveryCourse, passage: Passage, limit: int) -> tuple[list[int], list[float]]:
    """(packets that a drop-tail queue takes, when each of them leaves the server)."""
    accepted, departures, waiting, free = list[int](), list[float](), list[tuple[float, int]](), 0.0
    for index, (now, size) in enumerate(zip(passage.sent_ns.tolist(), passage.frame_bytes.tolist(), strict=True)):
        waiting = [item for item in waiting if item[0] > now]
        if sum(length for _, length in waiting) + size > limit:
            continue
        if isinstance(course, RateCourse):
            begun = max(free, now)
            free = done = course.sent(size, begun)
        else:
            begun, done = course.sent(size, now)
        waiting.append((begun, size))
        accepted.append(index)
        departures.append(done)
    return accepted, departures


@pytest.mark.parametrize(("trace", "seconds"), [("lte.trace", 3.0), ("leo.csv", 2.2)])
def test_packets_leave_when_the_trace_says(rootfs: Path, tmp_path: Path, trace: str, seconds: float) -> None:
    path = followed(tmp_path, f"{{rate: {{trace: {trace}, offset: 1234 ms}}, delay: 20 ms, queue: 60 kB}}")
    passage, series = sent_through(path, arrivals(seconds), rootfs, tmp_path)
    content, start, offset = series["rate"]
    course = (DeliveryCourse if content.opportunity else RateCourse)(content, start - offset, start)
    accepted, departures = through_queue(course, passage, queue_bytes(path.forward, path.rtt))
    assert set(np.flatnonzero(~passage.lost)) == set(accepted)
    # The trace was no empty one: it stood still, and the queue was full at times.
    assert 100 < passage.lost.sum() < PACKETS / 2
    late = passage.received_ns[accepted] - np.array(departures) - 20 * MS
    assert late.min() >= 0
    assert np.percentile(late, 99) <= EXACT


def test_delay_and_loss_are_those_of_their_moment(rootfs: Path, tmp_path: Path) -> None:
    path = followed(tmp_path, "{rate: 1 Gbit/s, delay: {trace: leo.csv}, loss: {trace: leo.csv}, queue: 1 MB}")
    passage, series = sent_through(path, arrivals(10, 20_000), rootfs, tmp_path)
    content, start, offset = series["transit"]
    entered = passage.sent_ns + passage.frame_bytes * 8
    delays, losses = transit_at(content, start - offset, start, entered.astype(np.int64))
    later, _ = transit_at(content, start - offset, start, entered.astype(np.int64) + EXACT)
    arrived = ~passage.lost
    # None overtakes another, where the delay falls. A packet that comes right before a step may be taken for one behind.
    soonest, latest = (
        np.maximum.accumulate((entered + way)[arrived])
        for way in (np.minimum(delays, later), np.maximum(delays, later))
    )
    assert (passage.received_ns[arrived] - soonest).min() >= -1
    assert np.percentile(passage.received_ns[arrived] - latest, 99) <= EXACT
    assert (np.diff(passage.received_ns[arrived]) >= 0).all()
    for share in np.unique(losses):
        chosen = losses == share
        lost, packets = int(passage.lost[chosen].sum()), int(chosen.sum())
        assert stats.binomtest(lost, packets, share).pvalue > 0.01, (share, lost, packets)


def test_states_that_last_for_a_time_lose_their_shares(rootfs: Path, tmp_path: Path) -> None:
    loss = "{good: 200 ms, bad: 30 ms, loss_in_bad: 60 %, loss_in_good: 0.5 %}"
    path = followed(tmp_path, f"{{rate: 1 Gbit/s, delay: 5 ms, loss: {loss}, queue: 1 MB}}")
    passage, series = sent_through(path, arrivals(20, 20_000), rootfs, tmp_path)
    content, start, offset = series["transit"]
    _, losses = transit_at(content, start - offset, start, passage.sent_ns.astype(np.int64))
    assert set(np.round(np.unique(losses), 6)) == {0.005, 0.6}
    for share in np.unique(losses):
        chosen = losses == share
        assert stats.binomtest(int(passage.lost[chosen].sum()), int(chosen.sum()), share).pvalue > 0.01


def test_a_program_whose_series_is_not_there_is_refused(rootfs: Path, tmp_path: Path) -> None:
    program = compile_path(followed(tmp_path, "{rate: {trace: lte.trace}, delay: 20 ms}"), "serial")
    with pytest.raises(EngineError, match="gauge"):
        gauge([Trial(program.model_copy(update={"series": ()}), arrivals(0.1, 10))], rootfs, tmp_path / "g", core=CORE)

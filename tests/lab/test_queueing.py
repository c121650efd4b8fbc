"""A link in virtual time against queueing theory, and TCP Reno on it against the formulas for random loss."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from harness.netem import compile_path
from tests.lab.conftest import Harness
from tests.lab.test_virtual_links import simulator_rootfs
from tools.bench.gauge import Arrivals, Trial, gauge
from tools.bench.links import Row, link_fidelity, symmetric
from tools.bench.queueing_theory import lindley, poisson_arrivals
from tools.bench.tcp_models import mathis, padhye
from tools.bench.theory import (
    GRAIN,
    ONE_SIZE,
    RATE,
    RENO_LOSS,
    RENO_SEGMENT,
    RENO_TIMER,
    off_lindley,
    reno_scenario,
    theory_experiments,
)

CORE = max(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return simulator_rootfs()


@pytest.fixture(scope="module")
def rows(rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    return link_fidelity(rootfs, tmp_path_factory.mktemp("gauge"), theory_experiments(), core=CORE)


@pytest.mark.parametrize("name", theory_experiments())
def test_a_serial_link_agrees_with_queueing_theory(rows: dict[str, list[Row]], name: str) -> None:
    assert rows[name]
    assert [row for row in rows[name] if not row.holds] == []


def test_a_token_bucket_is_told_apart(rootfs: Path, tmp_path: Path) -> None:
    """One frame and a bit of credit, at a load of one half: far from Lindley's recursion, and hardly any wait."""
    service = ONE_SIZE.frame_bytes[0] * 8e9 / RATE
    arrivals = poisson_arrivals(2 * service, 2000, np.random.default_rng(1))
    sizes = np.full(arrivals.size, ONE_SIZE.frame_bytes[0], np.int64)
    link = {"rate": "10 Mbit/s", "delay": "10 ms", "queue": "20 MB"}
    trials = [
        Trial(compile_path(symmetric((), **link, **more), "serial"), Arrivals(arrivals, sizes))
        for more in ({}, {"burst": "1514 B"})
    ]
    serial, bucket = gauge(trials, rootfs, tmp_path, core=CORE)
    assert off_lindley(serial) <= GRAIN
    assert off_lindley(bucket) > service / 2
    ideal = lindley(serial.sent_ns, np.full(arrivals.size, service)) - serial.sent_ns
    assert serial.delay_ns.mean() - 10e6 == pytest.approx(ideal.mean(), abs=GRAIN)


def test_reno_reaches_what_padhye_says_under_random_loss(warm: Harness, harness: Harness) -> None:
    wanted = reno_scenario().model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"name"})
    cell = harness.cell(harness.scenario("reno", **wanted, milestones=[]), "--engine", "virtual", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    value = {name: measurement["median"] for name, measurement in cell["measurements"].items()}
    assert (value["queue_drops_to_client"], value["timeouts"]) == (0, 0)
    assert value["loss_drops_to_client"] > 200
    rtt = value["mean_srtt"] / 1e3
    for expected in (padhye(RENO_SEGMENT, rtt, rtt + RENO_TIMER, RENO_LOSS), mathis(RENO_SEGMENT, rtt, RENO_LOSS)):
        assert value["mean_throughput"] * 1e6 == pytest.approx(expected, rel=0.15)

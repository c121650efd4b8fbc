"""Paths that change while they are in use, in virtual time: against a model, against ns-3, and as a user meets them."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.engine.images.build import Images
from harness.netem import compile_path
from harness.netem.bounds import queue_bytes
from harness.scenario.schema import Path as EmulatedPath
from tests.examples import ROOT
from tests.lab.conftest import Harness
from tests.lab.test_virtual_links import simulator_rootfs
from tools.bench.gauge import Trial, gauge
from tools.bench.links import RED, symmetric
from tools.bench.ns3 import Arrivals, departures, red_experiment
from tools.bench.paths import NEAR, compare, draw

#: Ten here; `make bench` has 200.
NUMBERS = range(10)
CORE = max(os.sched_getaffinity(0))
LINK: dict[str, Any] = {"rate": "20 Mbit/s", "delay": "20 ms", "queue": "150 kB"}


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return simulator_rootfs()


def test_random_paths_do_what_the_model_says(rootfs: Path, tmp_path: Path) -> None:
    """Rates with changes and rests, delays, losses with a seed for each phase, holes: packet for packet."""
    differences = compare(NUMBERS, rootfs, tmp_path, core=CORE)
    assert [difference for difference in differences if not difference.holds] == []
    # The paths were no empty ones.
    assert (
        sum(difference.drops for difference in differences) > 100
        and sum(difference.losses for difference in differences) > 100
    )


@pytest.fixture(scope="module")
def judge() -> str:
    """The image of ns-3."""
    images = Images(ROOT / "images", ROOT / ".state")
    images.make(images.ns3, lambda name, seconds: None)
    return images.ns3.reference


def steady(path: EmulatedPath) -> EmulatedPath:
    """A path's link as it is at first, without loss."""
    links = (("forward", path.forward), ("return", path.return_))
    return EmulatedPath.model_validate(
        {
            name: {"rate": f"{link.rate.value} bit/s", "delay": str(link.delay), "queue": str(link.queue.capacity)}
            for name, link in links
        }
    )


def test_ns3_drops_and_lets_go_the_same_packets(rootfs: Path, judge: str, tmp_path: Path) -> None:
    """The streams of the random paths over links that stay as they are, of half to one and a half of their rates."""
    paths = [steady(draw(number).path) for number in NUMBERS]
    trials = [
        Trial(compile_path(path, "serial"), draw(number).stream) for number, path in zip(NUMBERS, paths, strict=True)
    ]
    drops = 0
    for trial, path, passage in zip(trials, paths, gauge(trials, rootfs, tmp_path, core=CORE), strict=True):
        link = path.to_client if trial.stream.direction == "to_client" else path.to_server
        sent = passage.sent_ns.astype(np.int64)
        left = departures(
            judge, Arrivals(sent, passage.frame_bytes, queue_bytes(link, path.rtt), ((0, link.rate.value),))
        )  # fmt: skip
        assert ((left < 0) == passage.lost).all()
        apart = np.abs(passage.received_ns - link.delay.value - left)[~passage.lost]
        assert apart.max() <= NEAR
        drops += int(passage.lost.sum())
    assert drops > 100


def test_red_drops_as_much_as_ns3s_and_keeps_its_queue(rootfs: Path, judge: str, tmp_path: Path) -> None:
    """A few runs of RED; one of another probability is told apart."""
    other = red_experiment(judge, symmetric(queue={**RED, "probability": "2.4 %"}), runs=4)
    experiment = red_experiment(judge, runs=4)
    passages = gauge([*experiment.trials, *other.trials], rootfs, tmp_path, core=CORE)
    assert [row for row in experiment.read(passages[:4]) if not row.holds] == []
    assert [row.name for row in other.read(passages[4:]) if not row.holds] == ["RED's mean wait, mean of 4 runs"]


# --- as a user meets them


def steps(*changes: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"at": at, "forward": {"rate": rate}} for at, rate in changes]


OUTAGE = steps(("1 s", "1 kbit/s"), ("1200 ms", "20 Mbit/s"))
CASES: dict[str, dict[str, Any]] = {
    "fall": {"path": {"forward": LINK, "return": LINK, "changes": OUTAGE}},
    "fall-behind-a-bucket": {"path": {"forward": {**LINK, "burst": "1514 B"}, "return": LINK, "changes": OUTAGE}},
    "rest": {"path": {"forward": LINK, "return": LINK, "changes": steps(("1 s", "0 bit/s"), ("1200 ms", "20 Mbit/s"))}},
}


@pytest.fixture(scope="module")
def cells(warm: Harness, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Cells of 5 MB from ngtcp2 over each path, in virtual time."""
    harness = Harness(tmp_path_factory.mktemp("changing"))
    by_name = {}
    for name, case in CASES.items():
        file = harness.scenario(name, flows=[{"download": "5 MB"}], milestones=["5 MB"], timeout="60 s", **case)
        (by_name[name],) = harness.cells(
            file, "--clients", "ngtcp2", "--servers", "ngtcp2", "--engine", "virtual", "--repeat", "1"
        )
    return by_name


@pytest.mark.parametrize("name", CASES)
def test_a_fall_of_the_rate_ends_with_itself(cells: dict[str, dict[str, Any]], name: str) -> None:
    """5 MB take 2.1 s at the line's rate, and 0.2 s are missing; a packet at 1 kbit/s took 12 s before."""
    cell = cells[name]
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    completion = next(measurement for name, measurement in cell["measurements"].items() if name.endswith("completion"))
    assert completion["median"] < 4
    (breakdown,) = cell["because"]
    line = sum(part["seconds"] for part in breakdown["parts"] if part["state"] == "line_rate")
    assert line < 2.5


def test_each_change_loses_packets_of_its_own(warm: Harness, harness: Harness) -> None:
    """1 % with a change of the delay every half second: with one seed for all, the same packet behind each."""
    forward = {"rate": "10 Mbit/s", "delay": "25 ms", "loss": "1 %"}
    changes = [{"at": f"{500 * number} ms", "forward": {"delay": f"{25 + number % 2} ms"}} for number in range(1, 30)]
    path = {"forward": forward, "return": {**forward, "loss": "0 %"}, "changes": changes}
    file = harness.scenario("phases", path=path, flows=[{"download": "5 MB"}], milestones=["5 MB"], timeout="60 s")
    cell = harness.cell(file, "--clients", "ngtcp2", "--servers", "ngtcp2", "--engine", "virtual", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    (share,) = [
        measurement["median"]
        for name, measurement in cell["measurements"].items()
        if name.endswith("loss_drops_to_client")
    ]
    assert 15 <= share <= 70  # of about 3800 packets


def test_what_waits_for_a_longer_delay_is_not_late(warm: Harness, harness: Harness) -> None:
    """From 20 to 300 ms each way: acknowledgements then take longer, and are not held back by anybody."""
    link = {**LINK, "queue": "400 kB"}
    changes = [{"at": "1 s", "forward": {"delay": "300 ms"}, "return": {"delay": "300 ms"}}]
    path = {"forward": link, "return": link, "changes": changes}
    file = harness.scenario(
        "handover", path=path, flows=[{"download": "5 MB"}], milestones=["5 MB"], timeout="60 s",
        parameters={"server.congestion_control": "reno"},
    )  # fmt: skip
    cell = harness.cell(file, "--clients", "ngtcp2", "--servers", "ngtcp2", "--engine", "virtual", "--repeat", "1")
    (breakdown,) = cell["because"]
    late = sum(part["seconds"] for part in breakdown["parts"] if part["state"] == "acknowledgements")
    assert late < 0.5


def test_the_draw_is_in_order() -> None:
    """What the paths are drawn as: every change at a time of its own, and a rate at the end."""
    for number in range(50):
        changes = draw(number).path.changes
        assert all(before.at < after.at for before, after in pairwise(changes))
        assert not changes or changes[-1].forward is None or changes[-1].forward.rate is not None

"""The emulated links in virtual time, against published figures and the rules of the kernel's queues.

One lab kernel takes all experiments, with other work on every core: nothing here may depend on the machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from harness.engine.images.build import Images
from harness.engine.images.cache import Cache
from harness.engine.images.rootfs_export import RootFileSystems
from harness.errors import EngineError
from harness.netem import PathProgram, compile_path
from harness.scenario.schema import Path as EmulatedPath
from tests.examples import ROOT, link
from tests.lab.conftest import CACHE
from tools.bench.gauge import Passage, Stream, Train, Trial, gauge
from tools.bench.links import (
    BUCKET,
    Experiment,
    Row,
    drop_tail,
    experiments,
    link_fidelity,
    lossy,
    random_early_detection,
    symmetric,
)

#: Layouts A and F of the published comparison (kernel 6.1.192 and 7.2.13, virtual time): ms and Mbit/s.
PUBLISHED = {"median delay at 1.25 load": 79.52, "most delay at 1.25 load": 79.92, "rate at 1.25 load": 10.0009}
pytestmark = pytest.mark.usefixtures("rootfs", "work_on_every_core")
CORE = max(os.sched_getaffinity(0))


def simulator_rootfs() -> Path:
    """The simulator's image with the lab kernel, as a folder."""
    images = Images(ROOT / "images", ROOT / ".state")
    build = images.sim_build("lab")
    images.make(build, lambda name, seconds: None)
    return Path(RootFileSystems(Cache(CACHE)).of(build.reference).rootfs)


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return simulator_rootfs()


def mistaken() -> dict[str, Experiment]:
    """Links that are not quite what they are held against."""
    path = symmetric()
    weak = {
        "discipline": "red", "limit": "50 kB", "min": "15 kB", "max": "40 kB", "probability": "5 %", "burst": 85,
        "average_packet": "1280 B",
    }  # fmt: skip
    return {
        "a packet less of queue": drop_tail(compile_path(symmetric(queue="48750 B"), "serial"), path),
        "0.2 % more rate": drop_tail(compile_path(symmetric(rate="10.02 Mbit/s"), "serial"), path),
        "a token bucket": drop_tail(compile_path(symmetric(burst=BUCKET), "serial"), path),
        "a serial link": drop_tail(compile_path(path, "serial"), symmetric(burst=BUCKET)),
        "another probability": random_early_detection(symmetric(queue=weak), runs=6),
    }


@pytest.fixture(scope="module")
def rows(rootfs: Path, work_on_every_core: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    return link_fidelity(rootfs, tmp_path_factory.mktemp("gauge"), {**experiments(), **mistaken()}, core=CORE)


@pytest.mark.parametrize("name", experiments())
def test_links_do_what_the_rules_of_their_queues_say(rows: dict[str, list[Row]], name: str) -> None:
    assert rows[name]
    assert [row for row in rows[name] if not row.holds] == []


@pytest.mark.parametrize("name", mistaken())
def test_a_link_that_is_slightly_another_is_told_apart(rows: dict[str, list[Row]], name: str) -> None:
    assert [row for row in rows[name] if not row.holds]


@pytest.mark.parametrize("layout", ["one namespace", "two hops"])
def test_both_layouts_give_the_published_figures(rows: dict[str, list[Row]], layout: str) -> None:
    measured = {row.name: row.measured for row in rows[layout]}
    assert 40.0000 <= measured["least delay at 0.9 load"] <= measured["most delay at 0.9 load"] <= 40.0010
    # A tenth of a packet, and the last digit of the rate.
    for name, published in PUBLISHED.items():
        assert measured[name] == pytest.approx(published, abs=5e-5 if "rate" in name else 0.1)


def red_fates(rootfs: Path, folder: Path, seed: int) -> list[bool]:
    """What RED does with each packet of a stream, whose random numbers are the guest's."""
    (passage,) = gauge(random_early_detection().trials[:1], rootfs, folder, seed=seed, core=CORE)
    fates: list[bool] = passage.lost.tolist()
    return fates


def test_the_guests_seed_decides_what_red_drops(rootfs: Path, tmp_path: Path) -> None:
    first = red_fates(rootfs, tmp_path, 1)
    assert red_fates(rootfs, tmp_path, 1) == first
    assert red_fates(rootfs, tmp_path, 2) != first


def test_where_results_are_put_does_not_decide_what_red_drops(rootfs: Path, tmp_path: Path) -> None:
    assert red_fates(rootfs, tmp_path / "one", 1) == red_fates(rootfs, tmp_path / "another", 1)


def test_the_programs_seed_decides_what_netem_drops(rootfs: Path, tmp_path: Path) -> None:
    def patterns(name: str, guest_seed: int) -> list[Passage]:
        shorter = [
            Trial(trial.program, Stream((Train(2000, 50_000, 250),)))
            for trial in (lossy(7), lossy(8))
        ]  # fmt: skip
        return list(gauge(shorter, rootfs, tmp_path / name, seed=guest_seed, core=CORE))

    seven, eight = patterns("first", 1)
    assert seven.lost.any()
    assert not np.array_equal(seven.lost, eight.lost)
    # Whatever else the guest draws.
    again, _ = patterns("again", 2)
    assert np.array_equal(seven.lost, again.lost)


def test_what_waits_in_the_path_holds_no_sender_back(rootfs: Path, tmp_path: Path) -> None:
    """2.5 MB at once into a queue that holds them, from a socket whose buffer holds a tenth of that."""
    queue = link("10 Mbit/s", "10 ms", queue="4 MB")
    program = compile_path(EmulatedPath.model_validate({"forward": queue, "return": queue}), "serial")
    (passage,) = gauge([Trial(program, Stream((Train(2000, 0),)), drain_ns=3_000_000_000)], rootfs, tmp_path, core=CORE)
    assert not passage.lost.any()
    assert passage.sent_ns[-1] - passage.sent_ns[0] < 100e6
    assert passage.received_ns[-1] - passage.received_ns[0] > 1.9e9


def test_a_command_that_the_kernel_refuses_is_named(rootfs: Path, tmp_path: Path) -> None:
    wrong = PathProgram(setup=(("tc", "qdisc", "add", "dev", "left", "root", "nonsense"),), changes=(), links={})
    with pytest.raises(EngineError) as failure:
        gauge([Trial(wrong, Stream((Train(1, 0),)))], rootfs, tmp_path, core=CORE)
    assert "nonsense" in failure.value.hint

"""Patterns and outages of a direction in virtual time: what the kernel makes of them, and what the link proof says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from harness.netem import compile_path, realise
from harness.netem.link_states import link_states, queue_limit
from harness.scenario.schema import Path as EmulatedPath
from harness.topology.mobility import outages_by_path
from harness.units import Duration
from tests.examples import scenario
from tests.lab.conftest import Harness
from tests.lab.test_virtual_links import simulator_rootfs
from tools.bench.gauge import Stream, Train, Trial, constant_rate, gauge

CORE = max(os.sched_getaffinity(0))
FORWARD: dict[str, Any] = {"rate": "20 Mbit/s", "delay": "20 ms", "queue": "100 kB"}
RETURN: dict[str, Any] = {"rate": "20 Mbit/s", "delay": "10 ms", "queue": "100 kB"}
#: One packet of 1250 bytes at 20 Mbit/s.
TIME = 500_000
MS = 1_000_000


@pytest.fixture(scope="module")
def rootfs() -> Path:
    return simulator_rootfs()


def trial(stream: Stream, seed: int = 1, **keys: Any) -> Trial:
    path = realise(
        EmulatedPath.model_validate({"forward": FORWARD, "return": RETURN, **keys}), seed, Duration.parse("10 s")
    )
    outages = outages_by_path(scenario(path=path)).get("", ())
    return Trial(compile_path(path, "serial", seed, outages=outages), stream)


def test_an_outage_of_a_direction_drops_what_leaves_its_queue_then(rootfs: Path, tmp_path: Path) -> None:
    dark: dict[str, Any] = {"return": {**RETURN, "blackhole": {"after": "500 ms", "lasts": "100 ms", "every": "1 s"}}}
    directions: tuple[Literal["to_server"], Literal["to_client"]] = ("to_server", "to_client")
    trials = [trial(constant_rate(8e6, 2, direction=direction), **dark) for direction in directions]
    silent, other = gauge(trials, rootfs, tmp_path, core=CORE)
    assert not other.lost.any()
    # Of an empty queue a packet leaves after its own time, and the clock starts with the first.
    leaves = silent.sent_ns - silent.sent_ns[0] + TIME
    holes = [(begin, begin + 100 * MS) for begin in (500 * MS, 1500 * MS)]
    inside = np.any([(leaves >= begin) & (leaves < end) for begin, end in holes], axis=0)
    near = np.any([np.abs(leaves - edge) < 2 * TIME for hole in holes for edge in hole], axis=0)
    assert (silent.lost == inside)[~near].all()
    assert 2 * 100 * MS / 1.25e6 - 4 <= silent.lost.sum() <= 2 * 100 * MS / 1.25e6 + 4
    # What had left the queue before arrives in the outage.
    came = silent.received_ns[~silent.lost] - silent.sent_ns[0]
    assert ((came > 502 * MS) & (came < 509 * MS)).any()


def test_an_outage_and_a_change_together(rootfs: Path, tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "changes": [{"at": "500 ms", "every": "500 ms", "forward": {"delay": ["30 ms", "60 ms"]}}],
        "blackhole": {"after": "500 ms", "lasts": "50 ms", "every": "500 ms"},
    }
    stream = constant_rate(8e6, 2)
    first, again, other = gauge(
        [trial(stream, 1, **keys), trial(stream, 1, **keys), trial(stream, 2, **keys)], rootfs, tmp_path, core=CORE
    )
    assert np.allclose(first.received_ns, again.received_ns, rtol=0, atol=1000, equal_nan=True)
    sent = first.sent_ns - first.sent_ns[0]
    for seed, passage in ((1, first), (2, other)):
        path = realise(
            EmulatedPath.model_validate({"forward": FORWARD, "return": RETURN, **keys}), seed, Duration.parse("10 s")
        )
        delays = [state.delay.value for state in link_states(path)["to_client"]]
        for number, begin in enumerate((500 * MS, 1000 * MS, 1500 * MS), 1):
            after = (sent > begin + 60 * MS) & (sent < begin + 490 * MS)
            assert np.allclose(passage.delay_ns[after], delays[number] + TIME, atol=20_000)
            assert passage.lost[(sent > begin + MS) & (sent < begin + 48 * MS)].all()
    assert not np.allclose(first.delay_ns[-10:], other.delay_ns[-10:], atol=MS)


QUEUES: dict[str, Any] = {
    "bfifo": "100 kB",
    "pfifo": "60 packets",
    "codel": "codel",
    "fq_codel": "fq_codel",
    "pie": "pie",
    "fq_pie": "fq_pie",
    "cake": "cake",
}


@pytest.fixture(scope="module")
def resized(rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Kind of queue → what became of 100 packets at once, a tenth of a second after it was cut to 20."""
    trials = {
        kind: trial(
            Stream((Train(1, 0), Train(100, 0, start_ns=600 * MS))),
            forward={**FORWARD, "queue": queue},
            changes=[{"at": "500 ms", "forward": {"queue": "100 kB" if kind == "cake" else "20 packets"}}],
        )
        for kind, queue in QUEUES.items()
    }
    passages = gauge(list(trials.values()), rootfs, tmp_path_factory.mktemp("resized"), core=CORE)
    return dict(zip(trials, passages, strict=True))


@pytest.mark.parametrize("kind", QUEUES)
def test_a_kernel_resizes_a_queue_where_it_is(resized: dict[str, Any], kind: str) -> None:
    passage = resized[kind]
    options = passage.qdisc("to_client", kind)["options"]
    path = EmulatedPath.model_validate(
        {"forward": {**FORWARD, "queue": QUEUES[kind]}, "return": RETURN,
         "changes": [{"at": "500 ms", "forward": {"queue": "100 kB" if kind == "cake" else "20 packets"}}]}
    )  # fmt: skip
    if kind != "cake":
        assert options["limit"] == queue_limit(link_states(path)["to_client"][1], path.rtt)
    if kind in ("bfifo", "pfifo"):
        # The first of them is in service, and no longer in the queue.
        room = 20 if kind == "pfifo" else 20 * 1514 // 1250
        assert int((~passage.lost[1:]).sum()) == room + 1
    elif kind != "cake":
        # CoDel and PIE may drop more; nobody holds more.
        assert 1 <= int((~passage.lost[1:]).sum()) <= 21


def test_a_jitter_that_a_change_begins(rootfs: Path, tmp_path: Path) -> None:
    changes = [{"at": "1 s", "forward": {"jitter": "5 ms"}}, {"at": "2 s", "forward": {"jitter": "0 s"}}]
    (passage,) = gauge([trial(constant_rate(1e6, 3), changes=changes)], rootfs, tmp_path, core=CORE)
    sent, delays = passage.sent_ns - passage.sent_ns[0], passage.delay_ns - TIME
    calm, varied, again = (delays[(sent > begin) & (sent < begin + 990 * MS)] for begin in (1, 1001 * MS, 2001 * MS))
    assert np.ptp(calm) < 20_000 and np.ptp(again) < 20_000
    assert 8 * MS < np.ptp(varied) <= 10 * MS + 20_000


# --- as a user meets them

PATTERN: dict[str, Any] = {
    "forward": {"rate": "20 Mbit/s", "delay": "20 ms"},
    "return": {"rate": "5 Mbit/s", "delay": "20 ms"},
    "changes": [
        {
            "at": "5 s", "every": "5 s",
            "forward": {"delay": ["20 ms", "40 ms"], "rate": ["5 Mbit/s", "20 Mbit/s"], "outage": ["20 ms", "60 ms"]},
        },
        {"at": "7 s", "every": "10 s", "return": {"jitter": "3 ms"}},
        {"at": "9 s", "every": "10 s", "return": {"jitter": "0 s"}, "forward": {"queue": "100 ms", "duplicate": "1 %"}},
        {"at": "11 s", "every": "20 s", "forward": {"rate": "0 bit/s"}},
        {"at": "11200 ms", "every": "20 s", "forward": {"rate": "15 Mbit/s"}},
    ],
}  # fmt: skip


def test_a_pattern_over_a_minute_keeps_the_link_proof(warm: Harness, harness: Harness) -> None:
    file = harness.scenario("pattern", path=PATTERN, flows=[{"stop": "60 s"}], timeout="60 s", milestones=[])
    cell = harness.cell(file, "--clients", "ngtcp2", "--servers", "ngtcp2", "--engine", "virtual", "--repeat", "2")
    # A run whose link was not the one that was asked for is none of these.
    assert cell["outcomes"] == {"completed": 2}, cell["sentence"]
    rates = next(
        measurement["values"] for name, measurement in cell["measurements"].items() if name.endswith("throughput")
    )
    assert len(set(rates)) == 2


def test_an_outage_of_one_direction_loses_its_packets_alone(warm: Harness, harness: Harness) -> None:
    dark = {"rate": "5 Mbit/s", "delay": "20 ms", "blackhole": {"after": "1 s", "lasts": "200 ms"}}
    path = {"forward": {"rate": "20 Mbit/s", "delay": "20 ms"}, "return": dark}
    file = harness.scenario("dark", path=path, flows=[{"download": "5 MB"}], milestones=["5 MB"])
    cell = harness.cell(file, "--clients", "ngtcp2", "--servers", "ngtcp2", "--engine", "virtual", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    completion = next(
        measurement["median"] for name, measurement in cell["measurements"].items() if name.endswith("completion")
    )
    assert 2.1 < completion < 4


def test_a_low_orbit_in_one_word(warm: Harness, harness: Harness) -> None:
    path = {"profile": "leo", "forward": {"rate": "20 Mbit/s"}}
    file = harness.scenario("leo", path=path, flows=[{"stop": "40 s"}], timeout="40 s", milestones=[])
    cell = harness.cell(file, "--clients", "ngtcp2", "--servers", "ngtcp2", "--engine", "virtual", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]

"""Links whose rate, delay or loss changes: reference times, the replay's servers, and what the proof finds out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.link_estimates import coincidence_probability
from harness.analysis.link_replay import Bottleneck, LinkPhase, SerialServer, TokenBucket
from harness.analysis.metrics import measure
from harness.analysis.time_breakdown.inputs import TransferClock
from harness.catalogue.limits import mistakes
from harness.netem import compile_path, ideal_time, slow_start_time, timeline
from harness.netem.mobility import flow_timeline
from harness.units import Size
from tests.examples import link, path, scenario
from tests.unit.captures import T0, Link, Recipe, write_run
from tools.bench.fidelity import crossing

MS = 1_000_000


def phases(*steps: tuple[int, int], burst: int | None = None, limit: int = 10**9) -> list[LinkPhase]:
    """Phases of (since, ns; bit/s)."""
    return [LinkPhase(since, rate, 0, 0.0, burst, limit, None) for since, rate in steps]


def served(server: Bottleneck, arrivals: list[int]) -> list[float]:
    """When packets leave that come at these times."""
    for index, now in enumerate(arrivals):
        server.advance(now)
        server.accept(index, now)
    return server.departures


# --- the servers of the replay


def test_a_packet_in_service_goes_on_with_its_remaining_bits() -> None:
    """1000 bytes at 8 Mbit/s are 1 ms: half of one is left when the rate becomes a tenth, and nothing moves at 0."""
    slower = SerialServer(phases((0, 8 * 10**6), (500_000, 8 * 10**5)), [1000, 1000])
    assert served(slower, [0, 0]) == pytest.approx([5.5 * MS, 15.5 * MS])
    stopped = SerialServer(phases((0, 8 * 10**6), (500_000, 0), (3 * MS, 8 * 10**6)), [1000, 1000])
    assert served(stopped, [0, 0]) == pytest.approx([3.5 * MS, 4.5 * MS])
    ended = SerialServer(phases((0, 8 * 10**6), (500_000, 0)), [1000, 1000])
    assert served(ended, [0, 0]) == [math.inf, math.inf]


def test_a_fall_of_the_rate_ends_with_itself() -> None:
    """A full frame at 1 kbit/s would take 12 s; where that rate holds for 0.2 s, it takes 0.2 s."""
    steps = ((0, 20 * 10**6), (2000 * MS, 1000), (2200 * MS, 20 * 10**6))
    for server in (SerialServer(phases(*steps), [1514] * 3), TokenBucket(phases(*steps, burst=1514), [1514] * 3)):
        left = served(server, [1999_900_000, 1999_950_000, 2100 * MS])
        assert left[1] < 2202 * MS and left[2] < 2203 * MS
        assert left[1] > 2200 * MS


def test_a_change_lets_no_token_in() -> None:
    """At 8 Mbit/s a bucket of 1000 bytes, emptied at 0, holds 500 at 0.5 ms; at 0.8 Mbit/s the rest takes 5 ms."""
    bucket = TokenBucket(phases((0, 8 * 10**6), (500_000, 8 * 10**5), burst=1000), [1000, 1000])
    assert served(bucket, [0, 100]) == pytest.approx([0, 5.5 * MS])


@given(st.data())
def test_the_serial_server_carries_what_its_rates_allow(data: st.DataObject) -> None:
    """Between the start and the end of service the rates carry the packet's bits, no more and no less."""
    moments = sorted(data.draw(st.sets(st.integers(1, 50 * MS), max_size=6)))
    rates = data.draw(st.lists(st.sampled_from([0, 10**4, 10**6, 10**8]), min_size=len(moments), max_size=len(moments)))
    steps = [(0, 10**6), *zip(moments, rates, strict=True)]
    sizes = data.draw(st.lists(st.integers(60, 1514), min_size=1, max_size=8))
    arrivals = sorted(data.draw(st.lists(st.integers(0, 60 * MS), min_size=len(sizes), max_size=len(sizes))))
    server = SerialServer(phases(*steps), sizes)
    left = served(server, arrivals)
    edges = [since for since, _ in steps] + [math.inf]
    free = 0.0
    for start, end, size, came in zip(server.starts, left, sizes, arrivals, strict=True):
        assert start == max(came, free)
        free = end
        if math.isinf(end):
            assert steps[-1][1] == 0
            break
        carried = sum(
            rate * max(0.0, min(end, until) - max(start, since))
            for (since, rate), until in zip(steps, edges[1:], strict=True)
        )
        assert carried / 8e9 == pytest.approx(size, rel=1e-6)


@given(seed=st.integers(0, 10**6), rates=st.lists(st.sampled_from([0, 10**6, 5 * 10**6, 10**7]), max_size=4))
def test_the_replay_s_server_and_the_model_of_a_path_agree(seed: int, rates: list[int]) -> None:
    """Two implementations: one of the link proof, one that knows the scenario alone."""
    generator = np.random.default_rng(seed)
    arrivals = np.cumsum(generator.integers(1, 2 * MS, 80))
    sizes = generator.integers(60, 1500, 80)
    changes = [
        {"at": f"{20 * (n + 1)} ms", "forward": {"rate": f"{rate} bit/s"}} for n, rate in enumerate([*rates, 10**7])
    ]
    changed = path(forward=link("8 Mbit/s", "10 ms", queue="20 kB"), changes=changes)
    expected = crossing(changed, True, arrivals.astype(np.float64), sizes, 1)
    steps = [(0, 8 * 10**6), *((20 * MS * (n + 1), rate) for n, rate in enumerate([*rates, 10**7]))]
    server = SerialServer(phases(*steps, limit=20_000), sizes.tolist())
    for index, now in enumerate(arrivals.tolist()):
        server.advance(now)
        assert server.is_full(int(sizes[index])) == bool(expected.dropped[index])
        if not expected.dropped[index]:
            server.accept(index, now)
            assert server.departures[index] + 10 * MS == pytest.approx(expected.received_ns[index], abs=1)


# --- random loss from phase to phase


def losses(seeds: list[int], packets: int = 400) -> list[Any]:
    return [np.random.default_rng(seed).random(packets) < 0.01 for seed in seeds]


def test_losses_that_repeat_with_each_phase_are_found_out() -> None:
    assert coincidence_probability(losses([1] * 4)) < 1e-6
    assert coincidence_probability(losses(list(range(60)))) > 0.01
    assert coincidence_probability(losses([1])) == 1.0
    assert coincidence_probability([]) == 1.0


def reseeded(seeds: list[int]) -> Recipe:
    """A link with 1 % of loss whose delay changes every 200 ms; each phase loses by the numbers of its seed."""
    delays = [50 + number % 2 for number in range(len(seeds))]
    changes = tuple(
        {"at": 0.2 * number, "to_client": {"delay_ns": delays[number] * MS}, "to_server": None}
        for number in range(1, len(seeds))
    )
    events = tuple(
        {"event": "change", "index": number, "at": 0.2 * (number + 1), "t": T0 / 1e9 + 0.2 * (number + 1)}
        for number in range(len(changes))
    )
    lossy = {"rate": "10 Mbit/s", "delay": "50 ms", "loss": "1 %", "queue": "100 kB"}
    return Recipe(
        replace(Link(), loss=0.01), load=0.8, changes=changes, change_events=events,
        scenario={"path": {"forward": lossy, "return": lossy}},
    )  # fmt: skip


def test_the_proof_tells_a_generator_that_began_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.analysis.metrics import link_proof

    run = write_run(tmp_path, reseeded([1, 2, 3, 4, 5, 6]))
    proof = measure(tmp_path, run).link
    assert proof is not None and not any("began anew" in text for text in proof.problems)
    monkeypatch.setattr(link_proof, "_losses_by_phase", lambda view, direction: losses([1] * 6))
    proof = measure(tmp_path, run).link
    assert proof is not None
    assert any("to_client: random loss took packets at the same places" in text for text in proof.problems)


# --- reference times


def test_reference_times_follow_delays_holes_and_rates_of_nothing() -> None:
    size, larger = Size.parse("100 kB"), Size.parse("10 MB")
    plain = {"forward": link("20 Mbit/s", "20 ms"), "return": link("20 Mbit/s", "20 ms")}
    steady = timeline(path(**plain))
    assert ideal_time(steady, size) == pytest.approx(0.08 + 0.04)
    late = timeline(path(**plain, changes=[{"at": "1 s", "forward": {"delay": "300 ms"}}]))
    assert ideal_time(late, size) == ideal_time(steady, size)
    assert ideal_time(late, larger) == pytest.approx(ideal_time(steady, larger) + 0.28)
    hole = timeline(path(**plain, blackhole={"after": "1 s", "lasts": "2 s"}))
    assert ideal_time(hole, larger) == pytest.approx(ideal_time(steady, larger) + 2)
    nothing = [{"at": "1 s", "forward": {"rate": "0 bit/s"}}, {"at": "2 s", "forward": {"rate": "20 Mbit/s"}}]
    assert ideal_time(timeline(path(**plain, changes=nothing)), larger) == pytest.approx(ideal_time(steady, larger) + 1)
    assert math.isinf(ideal_time(timeline(path(**plain, changes=nothing[:1])), larger))
    assert math.isinf(slow_start_time(timeline(path(**plain, changes=nothing[:1])), larger))
    for each in (late, hole):
        assert slow_start_time(each, larger) >= ideal_time(each, larger)


def test_a_client_that_moves_meets_the_other_path() -> None:
    moved = scenario(
        path=None,
        paths={
            "one": {"forward": link("10 Mbit/s", "20 ms"), "return": link("10 Mbit/s", "20 ms")},
            "two": {"forward": link("2 Mbit/s", "300 ms"), "return": link("2 Mbit/s", "300 ms")},
        },
        flows=[{"download": "10 MB", "moves": [{"at": "2 s", "how": "interface", "to": "two", "gap": "500 ms"}]}],
    )
    way = flow_timeline(moved)
    assert [(state.since, state.rate_bps, state.to_client) for state in way.states] == [(0, 1e7, 0.02), (2, 2e6, 0.3)]
    # 1.94 s at 10 Mbit/s from 0.06 s on, the rest at 2.
    assert ideal_time(way, Size.parse("10 MB")) == pytest.approx(2 + (80e6 - 1.94e7) / 2e6 + 0.3)


def test_a_size_that_the_path_never_carries_is_refused() -> None:
    stopped = scenario(path=path(changes=[{"at": "1 s", "forward": {"rate": "0 bit/s"}}]))
    assert [mistake.text for mistake in mistakes(stopped)] == ["the path never carries 10 MB"]


# --- the clock of the attribution


def test_the_round_trip_follows_both_delays() -> None:
    """20 ms each way, from 1 s on 300 ms: an answer that is under way then takes the new delay back."""
    clock = TransferClock(0, np.array([1000 * MS]), np.array([20 * MS, 300 * MS]))
    trips = clock.round_trips(np.array([1000 * MS]), np.array([20 * MS, 300 * MS]))
    moments = np.array([0, 970, 985, 1100]) * MS
    assert (trips.at(moments) / MS).tolist() == [40, 40, 320, 600]


def test_moments_at_the_sender_stay_in_order_where_the_delay_falls() -> None:
    clock = TransferClock(0, np.array([1000 * MS]), np.array([300 * MS, 20 * MS]))
    t_ns = np.array([0, 999, 1001, 1300, 2000]) * MS
    assert (clock.at_sender(t_ns) / MS).tolist() == [300, 1299, 1300, 1320, 2020]


# --- what a change says to tc


def test_a_change_keeps_a_queue_of_packets() -> None:
    """tbf hands its limit on to any fifo inside it, whatever that counts (net/sched/sch_fifo.c, fifo_set_limit)."""
    changes = [{"at": "5 s", "forward": {"rate": "1 Mbit/s"}}]
    program = compile_path(path(forward=link(queue="25 packets"), changes=changes), "bucket")
    (change,) = [command for moment in program.changes for command in moment.commands]
    assert change[-2:] == ("limit", "25")

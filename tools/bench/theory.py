"""A serial link held against queueing theory, in virtual time: every packet's times, and mean waits.

Streams are drawn from seeds, so that a figure is the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.netem import PathProgram, compile_path
from harness.scenario.schema import FRAME_HEADER, MTU, Scenario
from tools.bench.gauge import Arrivals, Passage, Stream, Train, Trial
from tools.bench.links import Experiment, Row, symmetric
from tools.bench.queueing_theory import Inputs, Sizes, lindley, poisson_arrivals, wait_estimate

Floats = NDArray[np.float64]

RATE = 10_000_000
DELAY = 10_000_000
#: Packets of one stream at each load, and seeds of streams: the standard error of a mean wait is 0.5 to 2.5 %.
LOADS = {0.5: 8000, 0.8: 10_000, 0.95: 24_000}
SEEDS = (1, 2, 3)
#: How far a mean wait may be from theory beyond its standard error, of it.
WAIT = 0.02
ONE_SIZE = Sizes((1000,), (1.0,))
#: Acknowledgements, middling and full frames.
MIXED = Sizes((78, 590, 1514), (0.5, 0.25, 0.25))
#: Layer-2 sizes of the packet pairs.
PAIRS = (64, 576, 1500)
#: Share of segments lost to Reno; its segment with timestamps, bytes; and Linux's least timer beyond the RTT, s (RFC
#: 6298's variance is never less: tcp_rto_min). Linux counts acknowledged bytes (tcp_reno_cong_avoid), so that delayed
#: ACKs do not slow the window's growth: b = 1.
RENO_LOSS, RENO_SEGMENT, RENO_TIMER = 0.005, 1448, 0.2
#: What a look at the clock costs, ns (images/lab-kernel/lab_clock.h): the grain of virtual time.
LOOK = 256
#: A packet's way has about eight reads of the clock between the stamps of its two ends (hfsc and two netems, each on
#: the way in and out, the stamps, a timer). It may wait for as many of another packet whose turn has come, too.
GRAIN = 16 * LOOK
_MS = 1e6


def _serial(seed: int = 1, **more: object) -> PathProgram:
    """10 Mbit/s, 10 ms and a queue that never fills, as a cell in virtual time has it."""
    link: dict[str, object] = {"rate": "10 Mbit/s", "delay": "10 ms", "queue": "20 MB", **more}
    return compile_path(symmetric((), **link), "serial", seed)


def _left(passage: Passage) -> Floats:
    """When packets left the link, ns; NaN for lost ones. Shape (packets,)."""
    return passage.received_ns - DELAY


def _services(frame_bytes: NDArray[np.int64]) -> Floats:
    return frame_bytes * 8e9 / RATE


def off_lindley(passage: Passage) -> float:
    """The farthest that any packet is from Lindley's recursion of the stream's own departures, ns; NaN with losses."""
    apart = _left(passage) - lindley(passage.sent_ns, _services(passage.frame_bytes))
    return float(np.abs(apart).max())


def _exact(name: str, passages: Sequence[Passage]) -> Row:
    worst = max(map(off_lindley, passages))
    return Row(f"{name}: any packet's departure, from Lindley's", worst / _MS, 0, GRAIN / _MS, "ms")


# --- Poisson arrivals


def _draw(inputs: Inputs, sizes: Sizes, packets: int, generator: np.random.Generator) -> Arrivals:
    return Arrivals(poisson_arrivals(inputs.mean_gap, packets, generator), sizes.draw(packets, generator))


def poisson_into_a_serial_link(name: str, sizes: Sizes, load: float, packets: int) -> Experiment:
    """M/D/1 or M/G/1: the mean wait against Pollaczek and Khinchine's, and every packet against Lindley's recursion."""
    service = sizes.moment(1, RATE)
    inputs = Inputs(service / load, service, sizes.moment(2, RATE))
    trials = tuple(
        Trial(_serial(), _draw(inputs, sizes, packets, np.random.default_rng(seed)), drain_ns=3_000_000_000)
        for seed in SEEDS
    )

    def stream(generator: np.random.Generator) -> tuple[Floats, Floats]:
        drawn = _draw(inputs, sizes, packets, generator)
        return drawn.departures_ns.astype(np.float64), _services(drawn.frame_bytes)

    def read(passages: Sequence[Passage]) -> list[Row]:
        waits = [_left(passage) - _services(passage.frame_bytes) - passage.sent_ns for passage in passages]
        services = [_services(passage.frame_bytes) for passage in passages]
        title = f"{name} at load {load:g}"
        return [_mean_wait(title, inputs, stream, passages, waits, services), _exact(title, passages)]

    return Experiment(trials, read)


def _mean_wait(
    title: str,
    inputs: Inputs,
    stream: Callable[[np.random.Generator], tuple[Floats, Floats]],
    passages: Sequence[Passage],
    waits: Sequence[Floats],
    services: Sequence[Floats],
) -> Row:
    estimate = wait_estimate(inputs, stream)
    estimates = [
        estimate(wait[:-1], service[:-1], np.diff(passage.sent_ns), inputs)
        for wait, service, passage in zip(waits, services, passages, strict=True)
    ]
    tolerance = WAIT * inputs.mean_wait + estimate.sd / math.sqrt(len(estimates))
    return Row(f"{title}: mean wait", float(np.mean(estimates)) / _MS, inputs.mean_wait / _MS, tolerance / _MS, "ms")


def poisson_into_a_poisson_service(load: float, packets: int) -> Experiment:
    """M/M/1: the mean wait, and the mean time until a packet has left, whose opportunity comes at random.

    An opportunity is one packet of any size, a full frame's time apart in the mean. What a packet takes is seen from
    when it was first in the queue.
    """
    service = (MTU + FRAME_HEADER) * 8e9 / RATE
    inputs = Inputs(service / load, service, 2 * service**2)
    behind = {"service": {"process": "poisson"}, "queue": "100000 packets"}
    trials = tuple(
        Trial(
            _serial(seed, **behind),
            _draw(inputs, ONE_SIZE, packets, np.random.default_rng(seed)),
            drain_ns=3_000_000_000,
        )
        for seed in SEEDS
    )

    def stream(generator: np.random.Generator) -> tuple[Floats, Floats]:
        arrivals = poisson_arrivals(inputs.mean_gap, packets, generator).astype(np.float64)
        return arrivals, generator.exponential(service, packets)

    def read(passages: Sequence[Passage]) -> list[Row]:
        title = f"M/M/1 at load {load:g}"
        waits, services = [], []
        for passage in passages:
            left = _left(passage)
            first = np.maximum(passage.sent_ns, np.concatenate([[0.0], left[:-1]]))
            waits.append(first - passage.sent_ns)
            services.append(left - first)
        all_services = np.concatenate(services)
        error = 3 * service / math.sqrt(all_services.size)
        return [
            _mean_wait(title, inputs, stream, passages, waits, services),
            Row(f"{title}: mean service", float(all_services.mean()) / _MS, service / _MS, error / _MS, "ms"),
        ]

    return Experiment(trials, read)


# --- known times


def constant_arrivals(load: float, packets: int = 2000) -> Experiment:
    """D/D/1: below load 1 no packet waits, and each takes its own time."""
    size = ONE_SIZE.frame_bytes[0]
    own = size * 8e9 / RATE

    def read(passages: Sequence[Passage]) -> list[Row]:
        (passage,) = passages
        apart = float(np.abs(passage.delay_ns - DELAY - own).max())
        return [
            Row(f"D/D/1 at load {load:g}: any packet's delay beyond its own time", apart / _MS, 0, GRAIN / _MS, "ms")
        ]

    return Experiment((Trial(_serial(), Stream((Train(packets, round(own / load), size),))),), read)


def packet_pairs(pairs: int = 200) -> Experiment:
    """Pairs of packets that come together leave as far apart as the second takes (packet-pair dispersion).

    S. Keshav, A control-theoretic approach to flow control (SIGCOMM 1991). A token bucket lets both go at once.
    """
    gap = 20_000_000
    trials = tuple(
        Trial(_serial(), Stream(tuple(Train(2, 0, size, start_ns=number * gap) for number in range(pairs))))
        for size in PAIRS
    )

    def read(passages: Sequence[Passage]) -> list[Row]:
        rows = []
        for size, passage in zip(PAIRS, passages, strict=True):
            apart = passage.received_ns[1::2] - passage.received_ns[::2]
            own = size * 8e9 / RATE
            rows += [
                Row(f"pairs of {size} bytes: {word} dispersion", float(value) / _MS, own / _MS, GRAIN / _MS, "ms")
                for word, value in (("least", apart.min()), ("most", apart.max()))
            ]
        return rows

    return Experiment(trials, read)


# --- TCP


def reno_scenario() -> Scenario:
    """One flow of Reno for 300 s on 100 Mbit/s and two BDP of queue, far from what it reaches under random loss."""
    link = {"rate": "100 Mbit/s", "delay": "50 ms", "queue": "2 BDP"}
    return Scenario.model_validate(
        {
            "name": "bench/reno",
            "title": "Reno under random loss",
            "path": {"forward": {**link, "loss": f"{RENO_LOSS:.1%}"}, "return": link},
            "flows": [{"kind": "tcp", "stop": "300 s", "parameters": {"server.congestion_control": "reno"}}],
            "timeout": "400 s",
        }
    )


def theory_experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    experiments: dict[str, Experiment] = {"packet pairs": packet_pairs()}
    for load, packets in LOADS.items():
        experiments[f"D/D/1 at {load:g}"] = constant_arrivals(load)
        experiments[f"M/D/1 at {load:g}"] = poisson_into_a_serial_link("M/D/1", ONE_SIZE, load, packets)
        experiments[f"M/G/1 at {load:g}"] = poisson_into_a_serial_link("M/G/1", MIXED, load, packets)
        experiments[f"M/M/1 at {load:g}"] = poisson_into_a_poisson_service(load, packets)
    return experiments

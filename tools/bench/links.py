"""The emulated links held against the rules of the kernel's queues, packet by packet, in virtual time.

Each experiment sends known streams through path programs as cells use them, in the lab kernel that cells use. It
compares what came out with what a serial server, tbf, bfifo, sch_red and netem must do (tools.bench.fidelity).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

import numpy as np
from scipy.stats import norm

from harness.netem import PathProgram, compile_path
from harness.netem.bounds import burst_bytes, queue_bytes
from harness.scenario.schema import GilbertElliott, Link, Path
from tools.bench.fidelity import (
    Prediction,
    gap_change,
    gilbert_elliott,
    loss_runs,
    netem_losses,
    red,
    red_parameters,
    tail_drop,
)
from tools.bench.gauge import Passage, Stream, Train, Trial, constant_rate, gauge

#: Layer-2 size of the packets, bytes, as in the published comparison of layouts.
FRAME = 1250
#: Runs of RED, and of its Monte Carlo prediction.
RED_RUNS, RED_PREDICTED = 20, 1000
#: Packets of a loss pattern.
LOSS_PACKETS = 10_000
_MS = 1e6
#: The link of the published comparison: 1 ms per packet, a queue of 40 packets; and its bucket of one packet and a bit.
REFERENCE: Mapping[str, object] = {"rate": "10 Mbit/s", "delay": "40 ms", "queue": "50 kB"}
BUCKET = "1600 B"
RED: Mapping[str, object] = {
    "discipline": "red",
    "limit": "50 kB",
    "min": "15 kB",
    "max": "40 kB",
    "probability": "10 %",
    "burst": 85,
    "average_packet": "1280 B",
}
LOSS: Mapping[str, object] = {"good_to_bad": "1 %", "bad_to_good": "20 %"}


@dataclass(frozen=True)
class Row:
    """One figure of a link, beside what it must be."""

    name: str
    measured: float
    expected: float
    tolerance: float
    unit: str

    @property
    def holds(self) -> bool:
        """Whether the figure is as expected; never for NaN."""
        return abs(self.measured - self.expected) <= self.tolerance


@dataclass(frozen=True)
class Experiment:
    """Streams through programs, and how to read what came out."""

    trials: tuple[Trial, ...]
    read: Callable[[Sequence[Passage]], list[Row]]
    """The rows, from one passage per trial."""


def symmetric(changes: Sequence[object] = (), **more: object) -> Path:
    """The reference link in both directions, with some of its values replaced."""
    link = {**REFERENCE, **more}
    return Path.model_validate({"forward": link, "return": link, "changes": list(changes)})


def two_hops(link: Link, limit_bytes: int) -> PathProgram:
    """The link as two hops, the layout that the others are compared with: tbf on a wire's egress, netem behind it.

    Data towards the client only. The wire is a veth pair; its far end takes the address of the interface the
    frames came in by, or the kernel would not route what others were meant to receive.
    """
    lines = (
        "ip link add hop type veth peer name landing address 02:42:c1:a7:64:02",
        "ip link set dev hop up",
        "ip link set dev landing up",
        "tc qdisc add dev right handle ffff: ingress",
        "tc filter add dev right parent ffff: protocol ip prio 1 u32 match u32 0 0 action mirred egress redirect "
        "dev hop",
        f"tc qdisc add dev hop root handle 1: tbf rate {link.rate.value}bit burst {burst_bytes(link, 'serial')} "
        f"limit {limit_bytes}",
        f"tc qdisc add dev left root handle 1: netem limit 10000 delay {link.delay.value}ns",
    )
    return PathProgram(setup=tuple(tuple(line.split()) for line in lines), changes=(), links={})


# --- delay and rate of a drop-tail link


def drop_tail(program: PathProgram, path: Path) -> Experiment:
    """Delay below the link's rate; delays, drops and rate above it; against the rules of the server and bfifo.

    `path` says what `program` is to be like; its link is the reference link, or like it.
    """
    link = path.to_client
    rate, burst = link.rate.value, burst_bytes(path.to_client, "serial")
    calm, busy = constant_rate(0.9 * rate, 1, FRAME), constant_rate(1.25 * rate, 3, FRAME)
    if burst is None:
        # Without another size ahead, every fourth packet would come just as one leaves, and either may be the first.
        (train,) = busy.trains
        busy = Stream((Train(1, 0, FRAME + 100), replace(train, start_ns=train.gap_ns)))

    def read(passages: Sequence[Passage]) -> list[Row]:
        below, above = passages
        departures = tail_drop(busy.departures_ns, busy.frame_bytes, rate, burst, queue_bytes(link, path.rtt))
        predicted = departures - busy.departures_ns + link.delay.value
        left = departures[~np.isnan(departures)]
        expected_rate = 8e9 * FRAME * (left.size - 1) / (left[-1] - left[0])
        packet = 8e9 * FRAME / rate
        # A token bucket sends at once, a serial link in the packet's own time.
        delay = (link.delay.value + (packet if burst is None else 0)) / _MS
        rows = [
            Row("lost at 0.9 load", float(below.lost.sum()), 0, 0, "packets"),
            # A microsecond is four looks at the clock.
            Row("least delay at 0.9 load", float(np.nanmin(below.delay_ns)) / _MS, delay, 1e-3, "ms"),
            Row("most delay at 0.9 load", float(np.nanmax(below.delay_ns)) / _MS, delay, 1e-3, "ms"),
        ]
        rows += [
            Row(
                f"{word} delay at 1.25 load",
                statistic(above.delay_ns) / _MS,
                statistic(predicted) / _MS,
                0.1 * packet / _MS,
                "ms",
            )
            for word, statistic in (("median", _median), ("most", _most))
        ]
        rows.append(Row("rate at 1.25 load", above.rate_bps / 1e6, expected_rate / 1e6, 5e-5 * rate / 1e6, "Mbit/s"))
        # Equal sets of drops, and then equal delays.
        same = np.array_equal(above.lost, np.isnan(predicted))
        apart = float(np.nanmax(np.abs(above.delay_ns - predicted))) if same else math.nan
        rows.append(Row("any packet's delay, from the rule's", apart / _MS, 0, 0.1 * packet / _MS, "ms"))
        return rows

    return Experiment((Trial(program, calm), Trial(program, busy)), read)


def _median(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(np.nanmedian(values))


def _most(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(np.nanmax(values))


# --- RED


def random_early_detection(path: Path | None = None, runs: int = RED_RUNS, burst: str | None = None) -> Experiment:
    """RED's drops, early and for want of room, over many runs, against its rules.

    Two seconds of 1.25 load around two seconds of silence, in which the average decays on a serial link. `path` is what
    is measured; what is expected is always that of `RED`, on a serial link without a `burst`.
    """
    reference = symmetric(queue=RED, burst=burst)
    program = compile_path(path or reference, "serial")
    gap = round(0.8e9 * FRAME * 8 / reference.to_client.rate.value)
    stream = Stream((Train(1000, gap, FRAME), Train(1000, gap, FRAME, start_ns=3_000_000_000)))

    def read(passages: Sequence[Passage]) -> list[Row]:
        link = reference.to_client
        predicted = red(
            stream.departures_ns,
            stream.frame_bytes,
            link.rate.value,
            burst_bytes(link, "serial"),
            red_parameters(link, reference.rtt),
            RED_PREDICTED,
        )
        rows = []
        for word, counter, values in (("early", "early", predicted.early), ("full", "pdrop", predicted.full)):
            counts = np.array([passage.qdisc("to_client", "red")[counter] for passage in passages], dtype=np.float64)
            prediction = Prediction(float(values.mean()), float(values.std(ddof=1)))
            error = prediction.sd * math.sqrt(1 / runs + 1 / RED_PREDICTED)
            # That of the farthest of so many runs which is as rare as 3 sd are for one.
            farthest = float(norm.isf(norm.sf(3) / runs))
            rows += [
                Row(f"{word} drops, mean of {runs} runs", float(counts.mean()), prediction.mean, 3 * error, "packets"),
                Row(
                    f"{word} drops, sd",
                    float(counts.std(ddof=1)),
                    prediction.sd,
                    3 * prediction.sd / math.sqrt(2 * runs - 2),
                    "packets",
                ),
                Row(f"{word} drops, farthest run", max(map(prediction.deviation, counts)), 0, farthest, "sd"),
            ]
        return rows

    return Experiment((Trial(program, stream),) * runs, read)


# --- loss


def lossy(seed: int) -> Trial:
    """A Gilbert–Elliott loss pattern: packets that no queue drops."""
    path = symmetric(rate="100 Mbit/s", loss=LOSS)
    return Trial(compile_path(path, "serial", seed), Stream((Train(LOSS_PACKETS, 50_000, 250),)))


def loss_model(seeds: Sequence[int] = (1, 2)) -> Experiment:
    """Share and runs of a Gilbert–Elliott loss, for seeds of netem, and that a seed repeats its pattern."""

    def read(passages: Sequence[Passage]) -> list[Row]:
        model = GilbertElliott.model_validate(LOSS)
        expected = gilbert_elliott(model, LOSS_PACKETS)
        rows = []
        for seed, passage in zip(seeds, passages, strict=False):
            share, run = expected.share, expected.run
            runs = loss_runs(passage.lost)
            rows += [
                Row(f"seed {seed}: lost", 100 * float(passage.lost.mean()), 100 * share.mean, 300 * share.sd, "%"),
                Row(
                    f"seed {seed}: mean run of losses",
                    float(runs.mean()) if runs.size else 0.0,
                    run.mean,
                    3 * run.sd,
                    "packets",
                ),
                Row(
                    f"seed {seed}: packets with another fate than the rule's",
                    float(np.count_nonzero(passage.lost != netem_losses(model, seed, LOSS_PACKETS))),
                    0,
                    0,
                    "packets",
                ),
            ]
        different = np.count_nonzero(passages[0].lost != passages[-1].lost)
        rows.append(Row("same seed again: packets with another fate", float(different), 0, 0, "packets"))
        return rows

    return Experiment(tuple(lossy(seed) for seed in (*seeds, seeds[0])), read)


# --- changes


def scheduled_changes(at: float = 5.0) -> Experiment:
    """A rate that halves, and a delay that grows, `at` seconds after the first packet."""
    begin, before = round(at * 1e9), round((at - 0.05) * 1e9)
    # 0.1 ms per packet, so that the queue says to 0.1 ms when its rate changed.
    fast: dict[str, object] = {"rate": "100 Mbit/s", "queue": "500 kB"}
    rate = symmetric([{"at": f"{at:g} s", "forward": {"rate": "50 Mbit/s"}}], **fast)
    delay = symmetric([{"at": f"{at:g} s", "forward": {"delay": "60 ms"}}], **fast)
    first = Train(1, 0, FRAME)
    busy = Stream((first, Train(1200, 80_000, FRAME, start_ns=before)))
    calm = Stream((first, Train(1000, 100_000, 250, start_ns=before)))

    def read(passages: Sequence[Passage]) -> list[Row]:
        halved, grown = passages
        # From where the queue has begun to fill.
        served = halved.received_ns[~halved.lost & (halved.sent_ns > before + 1e7)] - rate.to_client.delay.value
        _, first_at_new_rate = gap_change(served, 8e9 * FRAME / 100e6)
        late = served[served > begin + 1e7]
        new_rate = 8e3 * FRAME * (late.size - 1) / (late[-1] - late[0])
        longer = grown.sent_ns[grown.delay_ns > 50e6]
        switched = float(longer[0]) if longer.size else math.nan
        return [
            Row("rate change: first packet at the new rate", (first_at_new_rate - begin) / _MS, 0, 1, "ms"),
            Row("rate change: rate after it", new_rate, 50, 0.005, "Mbit/s"),
            Row("delay change: first packet with the new delay", (switched - begin) / _MS, 0, 1, "ms"),
            # 250 bytes at 100 Mbit/s.
            Row("delay change: delay after it", float(grown.delay_ns[-1]) / _MS, 60 + 0.02, 1e-3, "ms"),
        ]

    return Experiment((Trial(compile_path(rate, "serial"), busy), Trial(compile_path(delay, "serial"), calm)), read)


def experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    path, bucket = symmetric(), symmetric(burst=BUCKET)
    return {
        "serial": drop_tail(compile_path(path, "serial"), path),
        "one namespace": drop_tail(compile_path(bucket, "serial"), bucket),
        "two hops": drop_tail(two_hops(bucket.to_client, queue_bytes(bucket.to_client, bucket.rtt)), bucket),
        "RED": random_early_detection(),
        "RED behind a bucket": random_early_detection(burst=BUCKET),
        "Gilbert–Elliott loss": loss_model(),
        "changes": scheduled_changes(),
    }


def link_fidelity(
    rootfs: FilePath, folder: FilePath, chosen: Mapping[str, Experiment] | None = None, *, seed: int = 1, core: int = 0
) -> dict[str, list[Row]]:
    """Run experiments in one lab kernel, all if none are chosen, and compare. The rows of each.

    `rootfs` is the root file system of the simulator's image; `folder` takes what is measured. EngineError when
    the gauge cannot be run.
    """
    chosen = experiments() if chosen is None else chosen
    passages = gauge([trial for item in chosen.values() for trial in item.trials], rootfs, folder, seed=seed, core=core)
    rows, start = {}, 0
    for name, item in chosen.items():
        end = start + len(item.trials)
        rows[name] = item.read(passages[start:end])
        start = end
    return rows

"""ns-3 as a judge of links: known arrivals through its queues and its serial link (images/ns3)."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import LinkDirection
from harness.analysis.link_replay import Fate
from harness.analysis.run_view import RunView
from harness.engine.confinement import isolated_options
from harness.engine.docker_cli import LONGEST, command_error
from harness.errors import EngineError
from harness.netem import compile_path
from harness.scenario.schema import Path
from tools.bench.fidelity import red_parameters
from tools.bench.gauge import Passage, Stream, Train, Trial
from tools.bench.links import FRAME, RED, RED_RUNS, Experiment, Row, symmetric

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: A link whose RED drops few: there ns-3 and Linux define it alike.
RED_PATH = symmetric(queue={**RED, "probability": "2 %"})


@dataclass(frozen=True)
class Arrivals:
    """What comes to one bottleneck; arrays of shape (n,), in order of time."""

    t_ns: Ints
    frame_bytes: Ints
    """Layer-2 length."""
    limit_bytes: int
    rates: tuple[tuple[int, int], ...]
    """(since, ns; bit/s), the first from the start."""

    def text(self, queue: str = "") -> str:
        """It as the judge reads it: ns after the first arrival or rate. `queue`: its line, if it is not drop-tail."""
        zero = int(self.t_ns[0])
        events = [(max(since - zero, 0), 0, f"rate {max(since - zero, 0)} {rate}") for since, rate in self.rates]
        packets = zip((self.t_ns - zero).tolist(), self.frame_bytes.tolist(), strict=True)
        events += [(t_ns, 1, f"packet {t_ns} {size}") for t_ns, size in packets]
        # Packets of one moment stay in their order.
        events.sort(key=lambda event: event[:2])
        return "\n".join([queue or f"queue {self.limit_bytes}", *(line for _, _, line in events)]) + "\n"


def departures(image: str, arrivals: Arrivals) -> Ints:
    """When ns-3 has each packet leave the link, ns on the arrivals' clock; -1 of one that its queue dropped.

    `image`: the reference of the judge's. Shape (n,). EngineError where it cannot be run.
    """
    left = _judged(image, arrivals.text())
    return np.where(left >= 0, left + int(arrivals.t_ns[0]), -1)


@dataclass(frozen=True, eq=False)
class RedRuns:
    """What RED did to one stream, over runs with random numbers of their own; arrays of shape (runs,)."""

    early: Ints
    """Packets dropped by the average."""
    full: Ints
    """Packets dropped for want of room."""
    wait_ns: Floats
    """Mean of what the others waited for the link."""


def red_runs(image: str, stream: Stream, path: Path, runs: int) -> RedRuns:
    """ns-3's RED for a stream to the client over a path's link. EngineError where it cannot be run.

    ns-3 is told not to wait after a drop and not to drop gently above the maximum, as Linux does neither. Both then
    count packets between drops so that the next drop is uniform (S. Floyd and V. Jacobson, *Random Early Detection
    Gateways for Congestion Avoidance*, 1993, §7, method 2): on 1 … 1/p in Linux, as the paper's text says, and on
    1 … 1/p - 1 in ns-3, as its algorithm says. So both are alike where p is small.
    """
    link = path.to_client
    red = red_parameters(link, path.rtt)
    arrivals = Arrivals(
        stream.departures_ns.astype(np.int64), stream.frame_bytes, red.limit_bytes, ((0, link.rate.value),)
    )
    weight, mean = 2.0**-red.log_weight, round(float(stream.frame_bytes.mean()))
    queue = f"red {red.limit_bytes} {red.min_bytes} {red.max_bytes} {red.probability} {weight} {mean} {runs}"
    early, full, waited = _judged(image, arrivals.text(queue)).reshape(-1, 3).T
    return RedRuns(early, full, waited / (len(stream.frame_bytes) - early - full))


def red_experiment(image: str, path: Path = RED_PATH, runs: int = RED_RUNS) -> Experiment:
    """RED's drops and waits in the lab kernel, over `path`, beside ns-3's over RED_PATH.

    20 s of a load of 1.01: one packet of a hundred must be dropped, and the queue is as long as makes RED drop it.
    """
    link = RED_PATH.to_client
    packet_ns = 8e9 * FRAME / link.rate.value
    stream = Stream((Train(20_000, round(packet_ns / 1.01), FRAME),))

    def read(passages: Sequence[Passage]) -> list[Row]:
        expected = red_runs(image, stream, RED_PATH, 10 * runs)
        early = np.array([passage.qdisc("to_client", "red")["early"] for passage in passages], np.float64)
        wait_ns = np.array([np.nanmean(passage.delay_ns) for passage in passages]) - link.delay.value - packet_ns
        return [
            _mean_row("RED's early drops", early, expected.early.astype(np.float64), "packets"),
            _mean_row("RED's mean wait", wait_ns / 1e6, expected.wait_ns / 1e6, "ms"),
        ]

    return Experiment((Trial(compile_path(path, "serial"), stream),) * runs, read)


def _mean_row(name: str, measured: Floats, expected: Floats, unit: str) -> Row:
    """The mean of runs beside that of ns-3's, within three standard errors of their difference."""
    error = math.hypot(*(values.std(ddof=1) / math.sqrt(values.size) for values in (measured, expected)))
    return Row(f"{name}, mean of {measured.size} runs", float(measured.mean()), float(expected.mean()), 3 * error, unit)


def _judged(image: str, text: str) -> Ints:
    """The numbers that the judge prints. EngineError where it cannot be run."""
    command = ["docker", "run", *isolated_options(), "--interactive", image]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LONGEST, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"ns-3: {error}") from error
    if done.returncode:
        raise command_error("ns-3", done.stderr)
    return np.array(done.stdout.split(), np.int64)


@dataclass(frozen=True)
class Agreement:
    """One direction of a run beside ns-3."""

    run: str
    direction: str
    packets: int
    drops: int
    """Of the lab's queue."""
    other_fates: int
    """Packets that one of the two dropped and the other did not."""
    worst_ns: int
    """The furthest apart that both let a packet leave."""


def of_direction(run: str, direction: LinkDirection, image: str) -> Agreement | None:
    """A direction of a run beside ns-3; None where ns-3 has no such link.

    It has a queue of bytes that drops at its tail, and a serial server. A rate of 0 it does not have.
    """
    asked, passage = direction.settings, direction.passage
    rates = tuple((phase.start_ns, phase.rate_bps) for phase in direction.phases)
    plain = asked.burst_bytes is None and asked.service == "constant" and asked.discipline == "droptail"
    if (
        not plain
        or asked.limit_bytes is None
        or asked.jitter_ns
        or not len(passage.entered)
        or not all(rate for _, rate in rates)
    ):
        return None
    changes = [rates[0], *(later for before, later in pairwise(rates) if later[1] != before[1])]
    left = departures(image, Arrivals(passage.entered.t_ns, passage.entered.length, asked.limit_bytes, tuple(changes)))
    # What was under way when the capture ended, or cut off with its path, says nothing of the queue.
    known = ~np.isin(direction.replay.fate, [Fate.IN_FLIGHT, Fate.CUT])
    dropped = direction.replay.fate == Fate.QUEUE_DROP
    both = passage.arrived & (left >= 0)
    seen = direction.departures_ns() + direction.replay.transmission_ns
    apart = np.abs(seen - left)[both]
    return Agreement(
        run,
        direction.name,
        len(left),
        int(dropped.sum()),
        int(((left < 0) != dropped)[known].sum()),
        int(apart.max(initial=0)),
    )


def agreements(views: Sequence[tuple[str, RunView]], image: str) -> Iterator[Agreement]:
    """Both directions of each path of runs, as far as ns-3 has such links. `views`: with a name each."""
    for name, view in views:
        for part in view.every_path:
            for direction in part.directions.values():
                agreement = of_direction(name, direction, image)
                if agreement is not None:
                    yield agreement

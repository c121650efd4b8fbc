"""ns-3 as a judge of links: arrivals of runs through its drop-tail queue and point-to-point device (images/ns3)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import Direction
from harness.analysis.replay import Fate
from harness.analysis.view import RunView
from harness.engines.docker import LONGEST, failure
from harness.errors import EngineError

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Arrivals:
    """What comes to one bottleneck; arrays of shape (n,), in order of time."""

    t_ns: Ints
    frame_bytes: Ints
    """Layer-2 length."""
    limit_bytes: int
    rates: tuple[tuple[int, int], ...]
    """(since, ns; bit/s), the first from the start."""

    def text(self) -> str:
        """It as the judge reads it: ns after the first arrival or rate."""
        zero = int(self.t_ns[0])
        events = [(max(since - zero, 0), 0, f"rate {max(since - zero, 0)} {rate}") for since, rate in self.rates]
        packets = zip((self.t_ns - zero).tolist(), self.frame_bytes.tolist(), strict=True)
        events += [(t_ns, 1, f"packet {t_ns} {size}") for t_ns, size in packets]
        # Packets of one moment stay in their order.
        events.sort(key=lambda event: event[:2])
        return "\n".join([f"queue {self.limit_bytes}", *(line for _, _, line in events)]) + "\n"


def departures(image: str, arrivals: Arrivals) -> Ints:
    """When ns-3 has each packet leave the link, ns on the arrivals' clock; -1 of one that its queue dropped.

    `image`: the reference of the judge's. Shape (n,). EngineError where it cannot be run.
    """
    command = ["docker", "run", "--rm", "--interactive", "--network", "none", image]
    try:
        done = subprocess.run(
            command, input=arrivals.text(), capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"ns-3: {error}") from error
    if done.returncode:
        raise failure("ns-3", done.stderr)
    left = np.array(done.stdout.split(), np.int64)
    return np.where(left >= 0, left + int(arrivals.t_ns[0]), -1)


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


def of_direction(run: str, direction: Direction, image: str) -> Agreement | None:
    """A direction of a run beside ns-3; None where ns-3 has no such link.

    It has a queue of bytes that drops at its tail, and a serial server. A rate of 0 it does not have.
    """
    asked, passage = direction.asked, direction.passage
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
    left = departures(
        image, Arrivals(passage.entered.t_ns, passage.entered.length, asked.limit_bytes, tuple(changes))
    )  # fmt: skip
    # What was under way when the capture ended, or cut off with its path, says nothing of the queue.
    known = ~np.isin(direction.replayed.fate, [Fate.IN_FLIGHT, Fate.CUT])
    dropped = direction.replayed.fate == Fate.QUEUE_DROP
    both = passage.arrived & (left >= 0)
    seen = direction.departures_ns() + direction.replayed.own_ns
    apart = np.abs(seen - left)[both]
    return Agreement(
        run, direction.name, len(left), int(dropped.sum()), int(((left < 0) != dropped)[known].sum()),
        int(apart.max(initial=0)),
    )  # fmt: skip


def agreements(views: Sequence[tuple[str, RunView]], image: str) -> Iterator[Agreement]:
    """Both directions of each path of runs, as far as ns-3 has such links. `views`: with a name each."""
    for name, view in views:
        for part in view.every_path:
            for direction in part.directions.values():
                found = of_direction(name, direction, image)
                if found is not None:
                    yield found

"""Random paths in virtual time beside a model of them, packet for packet.

Rates, delays and losses that change, rates of 0, holes; a Poisson stream of packets of random sizes over each. What
came out of the lab kernel must be what `tools.bench.fidelity.crossing` says.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path as FilePath
from typing import Literal

import numpy as np

from harness.netem import Outage, PathProgram, compile_path
from harness.scenario.schema import Path
from tools.bench.fidelity import Crossing, changes_ns, crossing
from tools.bench.fidelity.prediction import Floats
from tools.bench.gauge import Arrivals, Passage, Trial, gauge

#: Packets of a stream, and their layer-2 sizes, bytes.
PACKETS, SMALLEST, LARGEST = 1200, 60, 1500
#: How far a packet may be from the model, ns: looks at the clock, and rounding to whole ns.
NEAR = 5_000
#: Where between the time that a change is due and the end of its commands it may take effect.
PLACES = tuple(number / 16 for number in range(17))
#: What the way from the sender's stamp to the queue may take, ns.
WAYS = (0, 300, 600)
#: Rates at which hfsc's curve is exact, bit/s (`harness.netem.bounds.curve_rate`). One that changes is any.
RATES = tuple(round(value * 1e6) for value in (0.25, 0.5, 1, 2, 4, 5, 8, 10, 16, 20, 40, 50))


@dataclass(frozen=True)
class Drawn:
    """A path that was drawn by lot, and a stream over it."""

    number: int
    path: Path
    stream: Arrivals

    @property
    def to_client(self) -> bool:
        """Its direction."""
        return self.stream.direction == "to_client"

    def expected(
        self, sent_ns: Floats | None = None, times_ns: Sequence[float] = (), air_times_ns: Sequence[float] = ()
    ) -> Crossing:
        """What must come of it.

        `sent_ns`: when packets really left; `times_ns`, `air_times_ns`: when changes took effect.
        """
        sent = self.stream.departures_ns.astype(np.float64) if sent_ns is None else sent_ns
        return crossing(self.path, self.to_client, sent, self.stream.frame_bytes, self.number, times_ns, air_times_ns)

    @property
    def trial(self) -> Trial:
        """It as the gauge runs it."""
        last = float(np.nanmax(self.expected().received_ns, initial=0))
        rest = max(0, round(last - self.stream.departures_ns[-1]))
        return Trial(self.program, self.stream, rest + 1_000_000_000)

    @cached_property
    def program(self) -> PathProgram:
        """It as tc has it."""
        holes = self.path.blackhole.times if self.path.blackhole is not None else ()
        outages = [Outage(from_ns=begin.value, until_ns=end.value) for begin, end in holes]
        return compile_path(self.path, "serial", self.number, outages=outages)


def draw(number: int) -> Drawn:
    """The path and stream of a number: the same for the same one."""
    lot = random.Random(number)
    rate = lot.choice(RATES)
    load = lot.uniform(0.5, 1.5)
    gap_ns = (SMALLEST + LARGEST) / 2 * 8e9 / (rate * load)
    gaps = [0, *(max(20_000, round(lot.expovariate(1 / gap_ns))) for _ in range(PACKETS - 1))]
    sizes = [lot.randint(SMALLEST, LARGEST) for _ in range(PACKETS)]
    departures = np.cumsum(np.array(gaps, np.int64))
    link = {
        "rate": f"{rate} bit/s",
        "delay": f"{lot.randint(0, 300_000)} us",
        "loss": _loss(lot),
        "queue": f"{lot.randint(3 * LARGEST, 60 * LARGEST)} B",
    }
    path: dict[str, object] = {"forward": link, "return": {**link, "loss": _loss(lot)}}
    length = int(departures[-1])
    if lot.random() < 0.25:
        after = lot.randint(length // 20, length // 4)
        lasts = lot.randint(1_000_000, max(1_000_001, length // 4))
        path["blackhole"] = {"after": f"{after} ns", "lasts": f"{lasts} ns", "repeat": lot.randint(1, 3)}
    else:
        path["changes"] = list(_changes(lot, length, rate))
    direction: Literal["to_client", "to_server"] = "to_client" if lot.random() < 0.5 else "to_server"
    return Drawn(number, Path.model_validate(path), Arrivals(departures, np.array(sizes, np.int64), direction))


def _loss(lot: random.Random) -> object:
    kind = lot.random()
    if kind < 0.4:
        return "0 %"
    if kind < 0.8:
        return f"{lot.uniform(0.1, 10):.2f} %"
    return {"good_to_bad": f"{lot.uniform(0.1, 5):.2f} %", "bad_to_good": f"{lot.uniform(10, 60):.2f} %"}


def _changes(lot: random.Random, length: int, rate: int) -> Iterator[dict[str, object]]:
    """Up to eight changes of both directions, the last of which leaves a rate."""
    moments = sorted({lot.randint(1, length) for _ in range(lot.randint(0, 8))})
    for number, moment in enumerate(moments):
        new: dict[str, object] = {}
        if lot.random() < 0.7:
            still = lot.random() < 0.2 and number + 1 < len(moments)
            new["rate"] = "0 bit/s" if still else f"{max(1000, round(rate * 10 ** lot.uniform(-1, 0.5)))} bit/s"
        if lot.random() < 0.5:
            new["delay"] = f"{lot.randint(0, 300_000)} us"
        if lot.random() < 0.4 or not new:
            new["loss"] = _loss(lot)
        if number + 1 == len(moments):
            new["rate"] = f"{rate} bit/s"
        yield {"at": f"{moment} ns", "forward": new, "return": new}


@dataclass(frozen=True)
class Difference:
    """How a passage differs from its model."""

    number: int
    fates: int
    """Packets that came and should not have, or the other way round."""
    worst_ns: float
    """The furthest that a packet was from where the model has it."""
    late_ns: float
    """How long the commands of a change took at most."""
    drops: int
    losses: int
    agrees: int
    """How many packets have the model's fate and time, before the first that does not."""

    @property
    def holds(self) -> bool:
        """Whether all packets had the model's fate, and its times but for the grain of the clock."""
        return self.fates == 0 and self.worst_ns <= NEAR


def difference(drawn: Drawn, passage: Passage) -> Difference:
    """A passage beside what must come of it.

    A change takes effect while its commands run, a rate's at one place of that time and a delay's or a loss's at
    another. A packet is at the queue a few looks at the clock after it left. All three are what fits best of `PLACES`
    and `WAYS`: first one place for everything, and only where that does not fit, two for each change.
    """
    ends = dict(zip((change.at_ns for change in drawn.program.changes), passage.changed_ns, strict=True))
    due = changes_ns(drawn.path)
    late = max((end - at for at, end in ends.items()), default=0)

    def beside(parts: Sequence[tuple[float, float]], way: float) -> Difference:
        # A change to what it was already has no commands.
        spans = [(at, ends.get(at, at) - at) for at in due]
        times = [at + part * span for (at, span), (part, _) in zip(spans, parts, strict=True)]
        airs = [at + part * span for (at, span), (_, part) in zip(spans, parts, strict=True)]
        model = drawn.expected(passage.sent_ns + way, times, airs)
        arrives, came = ~np.isnan(model.received_ns), ~passage.lost
        apart = np.where(arrives & came, np.abs(passage.received_ns - model.received_ns), 0)
        disagreeing = np.flatnonzero((arrives != came) | (apart > NEAR))
        return Difference(
            drawn.number,
            int((arrives != came).sum()),
            float(apart.max(initial=0)),
            float(late),
            int(model.dropped.sum()),
            int((~arrives & ~model.dropped).sum()),
            int(disagreeing[0]) if disagreeing.size else PACKETS,
        )

    places = PLACES if ends else (0.0,)
    best = _best(beside([(place, place)] * len(due), way) for place, way in product(places, WAYS))
    for way in WAYS:
        # In order of time: of a change the places are those that agree with the lab for longest.
        parts = [(places[0], places[0])] * len(due)
        for index in range(len(due)):
            if best.holds:
                return best
            tried = [[*parts[:index], pair, *parts[index + 1 :]] for pair in product(places[::2], places[::2])]
            differences = [beside(each, way) for each in tried]
            parts = tried[int(np.argmax([each.agrees for each in differences]))]
            best = _best([best, *differences])
    return best


def _best(differences: Iterable[Difference]) -> Difference:
    """The first that holds; else the one that differs least."""
    least: Difference | None = None
    for candidate in differences:
        if candidate.holds:
            return candidate
        if least is None or candidate.agrees > least.agrees:
            least = candidate
    assert least is not None
    return least


def compare(numbers: Sequence[int], rootfs: FilePath, folder: FilePath, *, core: int = 0) -> list[Difference]:
    """Run the paths of these numbers in one lab kernel, each beside its model."""
    every = [draw(number) for number in numbers]
    passages = gauge([drawn.trial for drawn in every], rootfs, folder, core=core)
    return [difference(drawn, passage) for drawn, passage in zip(every, passages, strict=True)]

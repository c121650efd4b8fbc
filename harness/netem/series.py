"""Series: the files from which the lab kernel takes a link's rate, delay and loss over time (sch_series.h there).

What a trace says becomes a file of 64-bit words. The same arrays are the model that the link proof replays.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from harness.netem.program import Direction, LinkSeries
from harness.scenario.schema import FRAME_HEADER, OPPORTUNITY, TUNNEL_HEADER, Link, TimedGilbertElliott, Trace
from harness.units import Duration

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

# numpy is imported where it is used: most commands read no trace.

#: After so long a model of the loss in time repeats itself.
MODEL_PERIOD = Duration.parse("1 h")

_MAGIC = int.from_bytes(b"QLSERIES", "little")
#: Words ahead of the entries: magic, width of an entry, period, bytes of an opportunity, overhead, number of entries.
_HEADER = 6
#: A certain loss, in the kernel's units.
_CERTAIN = 1 << 32
#: How the length of a packet counts at an opportunity: as a tunnel device sees it, not as Ethernet does.
_OVERHEAD = TUNNEL_HEADER - FRAME_HEADER


def rate_series(link: Link, direction: Direction, seed: int) -> LinkSeries | None:
    """The series of a link's rate; None where it follows no trace. `seed`: the run's."""
    if link.traced is None or link.traced.rate is None:
        return None
    return _series(direction, "rate", link, seed, link.traced.rate)


def transit_series(link: Link, direction: Direction, seed: int, own_seed: int) -> LinkSeries | None:
    """The series of a link's delay and loss; None where both are constant. `own_seed`: that of the direction."""
    if isinstance(link.loss, TimedGilbertElliott):
        model = f"{link.loss.model_dump_json()} {link.delay.value} {own_seed}"
        return LinkSeries(
            direction=direction,
            kind="transit",
            file=_file(model),
            offset_ns=0,
            delay_ns=link.delay.value,
            loss=link.mean_loss,
            model=link.loss,
            seed=own_seed,
        )
    if link.traced is None or not link.traced.transit:
        return None
    return _series(direction, "transit", link, seed, link.traced.delay, link.traced.loss)


def _file(content: str) -> str:
    return f"{hashlib.sha256(content.encode()).hexdigest()[:16]}.series"


def _series(
    direction: Direction, kind: Literal["rate", "transit"], link: Link, seed: int, *traces: Trace | None
) -> LinkSeries:
    present = [trace for trace in traces if trace is not None]
    parts = [f"{trace.digest} {trace.loop}" if trace is not None else "" for trace in traces]
    constants = [] if kind == "rate" else [str(link.delay.value), str(link.mean_loss)]
    return LinkSeries(
        direction=direction,
        kind=kind,
        file=_file(" ".join([kind, *parts, *constants])),
        offset_ns=_offset(present[0], seed),
        traces=tuple(traces),
        delay_ns=link.delay.value,
        loss=link.mean_loss,
    )


def _offset(trace: Trace, seed: int) -> int:
    """Where a trace starts, ns. A drawn one is a whole millisecond, and the same wherever a run uses the file."""
    if isinstance(trace.offset, Duration):
        return trace.offset.value
    drawn = int.from_bytes(hashlib.sha256(f"{seed} {trace.digest}".encode()).digest()[:8], "big")
    return drawn % (trace.period.value // 10**6) * 10**6


@dataclass(frozen=True)
class SeriesContent:
    """The entries of a series."""

    times_ns: npt.NDArray[np.int64]
    """Shape (n,)."""
    columns: tuple[npt.NDArray[np.int64], ...]
    """Each of shape (n,): of rates bit/s; of a way behind the bottleneck delay in ns and loss in 2^-32; none of
    opportunities."""
    period_ns: int
    """0 where it does not repeat."""
    opportunity: int = 0
    """Bytes of an opportunity, and what a packet's length counts for more or less."""
    overhead: int = 0

    def encode(self) -> bytes:
        """The file."""
        import numpy as np

        width = 1 + len(self.columns)
        header = [_MAGIC, width, self.period_ns, self.opportunity, self.overhead & (1 << 64) - 1, len(self.times_ns)]
        entries = np.column_stack([self.times_ns, *self.columns]).astype("<u8")
        return np.array(header, "<u8").tobytes() + entries.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> SeriesContent:
        """The content of a file. ValueError where it is none."""
        import numpy as np

        words: Words = np.frombuffer(data, "<u8")
        if len(words) <= _HEADER or words[0] != _MAGIC or len(words) != _HEADER + int(words[1]) * int(words[5]):
            raise ValueError("it is no series")
        entries = words[_HEADER:].reshape(-1, int(words[1])).astype(np.int64)
        times, *columns = entries.T
        period, opportunity, overhead = (int(word) for word in words[2:5].astype(np.int64))
        return cls(times, tuple(columns), period, opportunity, overhead)


def series_content(series: LinkSeries) -> SeriesContent:
    """The content of a series. UnfitError where this process has not read its traces."""
    import numpy as np

    if series.model is not None:
        times, losses = _drawn_states(series.model, series.seed)
        return SeriesContent(times, (np.full(len(times), series.delay_ns), losses), MODEL_PERIOD.value)
    if series.kind == "rate":
        (trace,) = series.traces
        assert trace is not None
        content = trace.content
        period = content.period_ns if trace.loop else 0
        if content.has_opportunities:
            return SeriesContent(content.times_ns, (), period, OPPORTUNITY, _OVERHEAD)
        rates = np.rint(content.values["rate"]).astype(np.int64)
        return SeriesContent(*_steps(content.times_ns, rates), period)
    delay, loss = series.traces
    times = np.unique(np.concatenate([trace.content.times_ns for trace in (delay, loss) if trace is not None]))
    delays, losses = np.full(len(times), series.delay_ns), np.full(len(times), loss_units(series.loss))
    if delay is not None:
        delays = np.rint(_held(delay, "delay", times)).astype(np.int64)
    if loss is not None:
        losses = np.rint(_held(loss, "loss", times) * _CERTAIN).astype(np.int64)
    first = delay or loss
    assert first is not None
    return SeriesContent(*_steps(times, delays, losses), first.period.value if first.loop else 0)


def _drawn_states(model: TimedGilbertElliott, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """When the states of a model begin, ns, and their losses in the kernel's units; the good one is first.

    Their lengths are exponential, in whole microseconds, so that no rounding of a logarithm shows.
    """
    import numpy as np

    rng, moment, times, losses = random.Random(seed), 0, list[int](), list[int]()
    states = ((model.good, model.loss_in_good), (model.bad, model.loss_in_bad))
    while moment < MODEL_PERIOD.value:
        mean, loss = states[len(times) % 2]
        times.append(moment)
        losses.append(loss_units(loss.fraction))
        moment += max(1, round(rng.expovariate(1e3 / mean.value))) * 1000
    return np.array(times, np.int64), np.array(losses, np.int64)


def loss_units(share: float) -> int:
    """A chance of loss in the kernel's units."""
    return round(share * _CERTAIN)


def _held(trace: Trace, name: Literal["delay", "loss"], times: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    import numpy as np

    content = trace.content
    return content.values[name][np.searchsorted(content.times_ns, times, side="right") - 1]


def _steps(
    times: npt.NDArray[np.int64], *columns: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], tuple[npt.NDArray[np.int64], ...]]:
    """The same without entries that change nothing."""
    import numpy as np

    changes = np.any([np.diff(column, prepend=column[0] - 1) != 0 for column in columns], axis=0)
    return times[changes], tuple(column[changes] for column in columns)


# --- The model: what a series does to packets.


@dataclass
class RateCourse:
    """A serial server whose rate follows a series: the work done by each moment, and when so much work is done."""

    content: SeriesContent
    base_ns: float
    """When it stood at its beginning: its start less its offset."""
    start_ns: float
    """When it was started; nothing is sent before."""
    _edges: list[float] = field(init=False)
    _work: list[float] = field(init=False)
    """At each edge, bits times 10^9."""

    def __post_init__(self) -> None:
        import numpy as np

        times, (rates,) = self.content.times_ns.astype(float), self.content.columns
        end = float(self.content.period_ns) if self.content.period_ns else times[-1]
        edges = np.append(times, end)
        self._edges = edges.tolist()
        self._work = np.concatenate([[0.0], np.cumsum(np.diff(edges) * rates)]).tolist()

    def sent(self, length: int, start: float) -> float:
        """When the last of `length` bytes was sent, if sending begins at `start`, ns; infinite for never."""
        return self._moment(self._position(max(start, self.start_ns)) + length * 8e9)

    def _position(self, moment: float) -> float:
        """The work done since the beginning, if the link was always busy."""
        passed, whole = moment - self.base_ns, 0.0
        if self.content.period_ns:
            rounds = passed // self.content.period_ns
            passed, whole = passed - rounds * self.content.period_ns, rounds * self._work[-1]
        index = bisect_right(self._edges, passed, 0, len(self.content.times_ns)) - 1
        return whole + self._work[index] + (passed - self._edges[index]) * int(self.content.columns[0][index])

    def _moment(self, work: float) -> float:
        rounds = 0.0
        if self.content.period_ns:
            rounds = work // self._work[-1]
            work -= rounds * self._work[-1]
        index = min(bisect_right(self._work, work), len(self._edges) - 1) - 1
        left, rate = work - self._work[index], int(self.content.columns[0][index])
        if not self.content.period_ns and work > self._work[-1]:
            index = len(self.content.times_ns) - 1
            left, rate = work - self._work[index], int(self.content.columns[0][index])
        if left and not rate:
            return float("inf")
        within = self._edges[index] + (left / rate if left else 0.0)
        return self.base_ns + rounds * self.content.period_ns + within


@dataclass
class DeliveryCourse:
    """A server with the opportunities of a packet-delivery trace. Packets are to be given in order."""

    content: SeriesContent
    base_ns: float
    start_ns: float
    _round: int = 0
    _next: int = 0
    """The next opportunity, in its round."""
    _budget: int = 0
    """Bytes that are left of the last one, at `_now`."""
    _now: float = -1.0

    def sent(self, length: int, arrival: float) -> tuple[float, float]:
        """(when a packet leaves the queue, when its last byte leaves) behind all that were given before, ns."""
        left, begun = length + self.content.overhead, -1.0
        arrival = max(arrival, self.start_ns - 1)
        while True:
            # What is left of an opportunity is for packets that had come by then.
            if self._budget and self._now > arrival:
                begun = self._now if begun < 0 else begun
                used = min(left, self._budget)
                left, self._budget = left - used, self._budget - used
                if not left:
                    return begun, self._now
            self._budget = 0
            moment = self._advance(arrival if begun < 0 else -1.0)
            if moment == float("inf"):
                return begun if begun >= 0 else moment, moment
            self._now, self._budget = moment, self.content.opportunity

    def _advance(self, arrival: float) -> float:
        """The time of the next opportunity that comes after `arrival`; infinite where there is none."""
        times, period = self.content.times_ns, self.content.period_ns
        if period and arrival - self.base_ns > (self._round + 2) * period:
            self._round, self._next = int((arrival - self.base_ns) // period) - 1, 0
        while True:
            if self._next == len(times):
                if not period:
                    return float("inf")
                self._round, self._next = self._round + 1, 0
            moment = self.base_ns + self._round * period + float(times[self._next])
            self._next += 1
            if moment > arrival:
                return moment


def transit_at(
    content: SeriesContent, base_ns: int, start_ns: int, moments: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """(delay in ns, share of loss) in force at moments, each of shape (n,)."""
    import numpy as np

    passed = np.maximum(moments, start_ns) - base_ns
    if content.period_ns:
        passed %= content.period_ns
    rows = np.maximum(np.searchsorted(content.times_ns, passed, side="right") - 1, 0)
    delays, losses = content.columns
    return delays[rows], losses[rows] / _CERTAIN

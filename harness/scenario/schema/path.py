"""The emulated path: two links with their losses and queues, and how they change while they are in use."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from harness.errors import UnfitError
from harness.formatting import format_value
from harness.scenario.schema.base import Part, short_or
from harness.scenario.schema.faults import Blackhole, Corrupt, Drop
from harness.units import Duration, Percentage, QueueSize, Rate, Size

# --- Random loss.


class GilbertElliott(Part):
    """Two-state loss, advanced once per packet (netem `gemodel`; Gilbert 1960, Elliott 1963)."""

    good_to_bad: Percentage
    """Probability of leaving the good state at a packet (netem p)."""
    bad_to_good: Percentage
    """Probability of leaving the bad state at a packet (netem r)."""
    loss_in_bad: Percentage = Percentage.parse("100 %")
    """Loss in the bad state (netem 1-h)."""
    loss_in_good: Percentage = Percentage.parse("0 %")
    """Loss in the good state (netem 1-k)."""

    @property
    def mean(self) -> float:
        """Long-run share of packets lost."""
        p, r = self.good_to_bad.fraction, self.bad_to_good.fraction
        if p + r == 0:
            return self.loss_in_good.fraction
        return (r * self.loss_in_good.fraction + p * self.loss_in_bad.fraction) / (p + r)


# --- Sizes of packets on a link.


#: The IP MTU of every emulated link, bytes.
MTU = 1500
#: Bytes that tc counts in addition to the IP packet: the Ethernet header.
FRAME_HEADER = 14


# --- The queue of a bottleneck, and its drop policy.


class DropTail(Part):
    """A first-in first-out queue that drops what does not fit."""

    discipline: Literal["droptail"] = "droptail"
    size: QueueSize
    """How much it holds: '50 kB', '25 packets', '100 ms' or '1 BDP'."""


class Red(Part):
    """Random Early Detection as Linux's sch_red does it (Floyd & Jacobson 1993; net/sched/sch_red.c)."""

    discipline: Literal["red"]
    limit: QueueSize
    """Hard limit of the queue."""
    min: QueueSize
    """Average queue below which nothing is dropped."""
    max: QueueSize
    """Average queue above which everything is dropped (sch_red is not gentle)."""
    probability: Percentage
    """Drop probability when the average reaches `max`; below 100 %, which tc cannot express."""
    wq: Annotated[float, Field(gt=0, le=0.5, allow_inf_nan=False)] | None = None
    """Weight of the moving average; the nearest power of two is used."""
    burst: Annotated[int, Field(strict=True, gt=0)] | None = None
    """tc's burst in packets, instead of `wq`."""
    average_packet: Size = Size.parse("1000 B")
    """Mean packet size (tc avpkt)."""
    ecn: bool = False
    """Mark instead of dropping where the packet allows it."""

    @field_validator("probability")
    @classmethod
    def _below_one(cls, value: Percentage) -> Percentage:
        if not 0 < value.fraction < 1:
            raise UnfitError("must be above 0 % and below 100 %: tc wraps 1.0 to 0 (use 99.9 %)", "write '10 %', say")
        return value

    @model_validator(mode="after")
    def _one_weight(self) -> Self:
        if (self.wq is None) == (self.burst is None):
            raise UnfitError("give exactly one of wq and burst", "write wq: 0.002, and no burst")
        return self


Queue = Annotated[DropTail | Red, Field(discriminator="discipline")]

#: RED in its short form ("RED 1 BDP"): thresholds as fractions of the limit (as in scenarios/queue), the largest
#: probability and the weight (Floyd & Jacobson 1993, and Floyd's notes on it).
RED_MIN, RED_MAX, RED_PROBABILITY, RED_WQ = Decimal("0.3"), Decimal("0.8"), "10 %", 0.002


def short_red(text: str) -> dict[str, object]:
    """RED from its limit alone. Raises ValueError."""
    limit = QueueSize.parse(text)
    return {
        "discipline": "red",
        "limit": limit,
        "min": limit.part(RED_MIN),
        "max": limit.part(RED_MAX),
        "probability": RED_PROBABILITY,
        "wq": RED_WQ,
        "average_packet": f"{MTU} B",
    }


# --- path


def _least(value: Rate) -> Rate:
    if value.value < 1000:
        raise UnfitError("a link needs at least 1 kbit/s", "is the unit the one you meant?")
    return value


def _least_or_none(value: Rate | None) -> Rate | None:
    return value if value is None or value.value == 0 else _least(value)


class Service(Part):
    """When the bottleneck serves its queue, where that is not at a constant rate: one packet an opportunity."""

    process: Literal["poisson"]
    """Exponential gaps between opportunities, with a full packet of the path's MTU at the link's rate as their mean."""
    cold_start: Duration = Duration(0)
    """At first one opportunity every 100 ms, for so long (mahimahi's Poisson traces have 5 s of it)."""
    period: Duration | None = None
    """The cold start comes again every so often, as where a trace is played in a loop."""

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.period is not None and self.period.value <= self.cold_start.value:
            raise UnfitError(
                f"the cold start of {self.cold_start} comes again after {self.period}, before it is over",
                "write a longer period",
            )
        return self


class Link(Part):
    """One direction of the path: first the bottleneck queue, then delay, jitter and loss."""

    rate: Rate
    """Layer-2 rate of the bottleneck (frames with their 14-byte Ethernet header); with a service process its mean."""
    service: Service | None = None
    """When packets leave the queue; by default at the rate, evenly."""
    delay: Duration
    """One-way propagation delay."""
    jitter: Duration = Duration(0)
    """Uniform variation of the delay, ±; it may reorder packets."""
    loss: Percentage | GilbertElliott = Percentage(0)
    """Random loss after the queue: a percentage (iid), or a Gilbert–Elliott model."""
    drop: Drop | None = None
    """UDP datagrams that are dropped behind the queue: by number, or by chance with a longest burst."""
    corrupt: Corrupt | None = None
    """UDP datagrams of which a byte is changed behind the queue, by chance."""
    queue: Annotated[
        Queue,
        Field(
            json_schema_extra=short_or("a drop-tail queue: '50 kB', '25 packets', '100 ms', '1 BDP'; or 'RED 1 BDP'")
        ),
    ] = DropTail(size=QueueSize.parse("1 BDP"))
    """The bottleneck's queue: a size (drop-tail), 'RED' and a limit (thresholds at 0.3 and 0.8 of it, 10 % at most,
    wq 0.002), or a discipline with its parameters."""
    burst: Size | None = None
    """Token bucket of the bottleneck (tc tbf burst), with either engine; by default none in virtual time, where packets
    leave one after the other, and in real time what late timers need."""

    _rate = field_validator("rate")(_least)

    @field_validator("queue", mode="before")
    @classmethod
    def _short_queue(cls, value: object) -> object:
        if isinstance(value, str):
            word, _, limit = value.partition(" ")
            value = short_red(limit) if word == "RED" else {"size": value}
        if not isinstance(value, dict | Part):
            raise UnfitError(
                f"{format_value(value)} is not a queue: write its size, or its keys", "for example '1 BDP'"
            )
        return {"discipline": "droptail", **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.jitter > self.delay:
            raise UnfitError(
                f"jitter {self.jitter} exceeds the delay {self.delay}", "write a smaller jitter, or a longer delay"
            )
        if self.burst is not None and self.burst.bytes < MTU + FRAME_HEADER:
            raise UnfitError(
                f"burst {self.burst} is below one frame ({MTU + FRAME_HEADER} B): tbf would drop frames",
                "write '15 kB', say",
            )
        if (self.drop or self.corrupt) and self.mean_loss:
            raise UnfitError(
                "nobody can tell random loss from what is dropped or damaged by rule", "leave out loss, drop or corrupt"
            )
        if self.service is not None and self.burst is not None:
            raise UnfitError("a link with a service process has no token bucket: leave out burst", "leave out burst")
        if self.service is not None and self.held.unit != "packets":
            raise UnfitError(
                "behind a service process the queue's limit counts packets: write '20 packets'",
                "write '20 packets', say",
            )
        return self

    @property
    def held(self) -> QueueSize:
        """The hard limit of the queue."""
        return self.queue.limit if isinstance(self.queue, Red) else self.queue.size

    @property
    def mean_loss(self) -> float:
        """Share of packets the random loss takes in the long run."""
        return self.loss.fraction if isinstance(self.loss, Percentage) else self.loss.mean


class LinkChange(Part):
    """New values for one direction; what is not named stays."""

    rate: Rate | None = None
    """New rate; 0 bit/s sends nothing until the next change. The packet in service goes on with its remaining bits.
    A queue given in bytes, or derived from the first rate's BDP, keeps its bytes."""
    delay: Duration | None = None
    """New one-way delay, for packets that enter from now on."""
    loss: Percentage | GilbertElliott | None = None
    """New random loss."""

    _rate = field_validator("rate")(_least_or_none)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.rate is None and self.delay is None and self.loss is None:
            raise UnfitError("a change needs at least one of rate, delay and loss", "write rate: 10 Mbit/s, say")
        return self


class Change(Part):
    """A change of the path while it is in use."""

    at: Duration
    """When, counted from the client's first datagram at the simulator."""
    forward: LinkChange | None = None
    """Towards the terminal."""
    return_: Annotated[LinkChange | None, Field(alias="return")] = None
    """From the terminal."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.forward is None and self.return_ is None:
            raise UnfitError(
                "a change needs a direction: forward, return or both", "write forward: {rate: 10 Mbit/s}, say"
            )
        return self


class Path(Part):
    """A path with two directions. `forward` leads to the terminal, `return` leads away from it."""

    forward: Link
    """Towards the terminal (the satellite user's side)."""
    return_: Annotated[Link, Field(alias="return")]
    """From the terminal."""
    terminal: Literal["client", "server"] = "client"
    """Which endpoint sits at the terminal; 'server' makes a download an upload from the terminal."""
    mtu: Annotated[int, Field(strict=True, ge=1280, le=MTU)] = MTU
    """IP MTU of every interface, bytes; 1280 is the least that IPv6 allows (RFC 8200 §5)."""
    changes: tuple[Change, ...] = ()
    """Changes over time, in order."""
    blackhole: Blackhole | None = None
    """Times in which it forwards nothing."""

    @model_validator(mode="after")
    def _dark(self) -> Self:
        if self.blackhole is None:
            return self
        if self.changes:
            raise UnfitError("a path that goes dark keeps its figures", "leave out changes, or blackhole")
        if any(link.service is not None for link in (self.forward, self.return_)):
            raise UnfitError("a path goes dark, and a service process goes on for ever", "leave out service")
        return self

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        times = [change.at for change in self.changes]
        if times != sorted(set(times)):
            raise UnfitError("changes must be in order of time, each at a time of its own", "put the earlier one first")
        if any(link.service is not None for link in (self.forward, self.return_)) and any(
            side is not None and side.rate is not None
            for change in self.changes
            for side in (change.forward, change.return_)
        ):
            raise UnfitError("a path with a service process keeps its rate", "leave out the rate of the change")
        return self

    @model_validator(mode="after")
    def _thresholds(self) -> Self:
        for name, link in (("forward", self.forward), ("return", self.return_)):
            queue = link.queue
            if not isinstance(queue, Red):
                continue
            low, high, limit = (
                size.bytes_at(link.rate, self.rtt, MTU + FRAME_HEADER) for size in (queue.min, queue.max, queue.limit)
            )
            if not 0 < low < high <= limit:
                raise UnfitError(
                    f"{name}.queue: RED needs min below max, and max within the limit: min {low} B, max {high} B, "
                    f"limit {limit} B",
                    "write thresholds of 0.3 and 0.8 of the limit, say",
                )
        return self

    @property
    def rtt(self) -> Duration:
        """Round-trip propagation delay at the start."""
        return self.forward.delay + self.return_.delay

    @property
    def to_client(self) -> Link:
        """The direction server to client."""
        return self.forward if self.terminal == "client" else self.return_

    @property
    def to_server(self) -> Link:
        """The direction client to server."""
        return self.return_ if self.terminal == "client" else self.forward

    def change_to_client(self, change: Change) -> LinkChange | None:
        """What a change does to the direction server to client."""
        return change.forward if self.terminal == "client" else change.return_

    def change_to_server(self, change: Change) -> LinkChange | None:
        """What a change does to the direction client to server."""
        return change.return_ if self.terminal == "client" else change.forward

    @property
    def rates_to_client(self) -> tuple[tuple[Duration, Rate], ...]:
        """(since, rate) of the direction server to client: from the first datagram on, and from each change of it."""
        steps = [(Duration(0), self.to_client.rate)]
        for change in self.changes:
            side = self.change_to_client(change)
            if side is not None and side.rate is not None:
                steps.append((change.at, side.rate))
        return tuple(steps)

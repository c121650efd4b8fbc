"""The emulated path: two links with their losses and queues, and how they change while they are in use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import Part, short_or
from harness.scenario.schema.faults import Blackhole, Corrupt, Drop
from harness.scenario.schema.impairments import GilbertElliott, Jitter, Loss, Reorder, TimedGilbertElliott
from harness.scenario.schema.path_mtu import PacketSize, PathMtu, in_full
from harness.scenario.schema.profiles import PROFILES, ProfileName, with_profile
from harness.scenario.schema.queue import (
    FRAME_HEADER,
    LARGEST_MTU,
    MTU,
    SMALLEST_MTU,
    DropTail,
    Policer,
    Queue,
    Red,
    read_queue,
)
from harness.scenario.schema.ranges import Durations, Rates, Shares, fixed, largest, smallest, written_form
from harness.scenario.schema.trace import Traced, or_trace, replace_traces
from harness.units import Duration, Percentage, QueueSize, Rate, Size

# --- path


def _least(value: Rate) -> Rate:
    if value.value < 1000:
        raise UnfitError("a link needs at least 1 kbit/s", "is the unit the one you meant?")
    return value


def _least_or_none_or_range(value: Rate | tuple[Rate, Rate] | None) -> object:
    for rate in value if isinstance(value, tuple) else (value,):
        if rate is not None and rate.value:
            _least(rate)
    return value


def _form(value: object) -> str:
    return "a model" if isinstance(value, dict | Part) else written_form(value)


_Jitters = Annotated[
    Annotated[Duration, Tag("a value")]
    | Annotated[tuple[Duration, Duration], Tag("a range")]
    | Annotated[Jitter, Tag("a model")],
    Discriminator(_form),
]
_Losses = Annotated[
    Annotated[Percentage, Tag("a value")]
    | Annotated[tuple[Percentage, Percentage], Tag("a range")]
    | Annotated[GilbertElliott, Tag("a model")],
    Discriminator(_form),
]


class PoissonService(Part):
    """Random service of the bottleneck's queue in place of a constant rate: one packet an opportunity."""

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


#: A datagram of 1200 bytes as a frame over IPv4 and UDP.
_LEAST_FULL_FRAME = 1200 + 28 + FRAME_HEADER
#: The most packets of an opportunity: more are no limit (tc's slot has 31 bits for them).
_MOST_PACKETS = 1_000_000


class Slots(Part):
    """Opportunities at which several packets leave together, as aggregates of Wi-Fi and grants of DOCSIS do.

    Packets are sent at the link's rate, which stays the mean rate. Then they wait for the next opportunity
    (tc-netem(8): slot). It comes some time after the first of them; where the one before was used up, some time after
    that one.
    """

    process: Literal["slots"]
    """Several packets leave at each opportunity."""
    every: Duration | tuple[Duration, Duration]
    """Time until the next opportunity: always the same, or drawn evenly from [shortest, longest]."""
    packets: Annotated[int, Field(strict=True, ge=1, le=_MOST_PACKETS)] | None = None
    """The most packets of an opportunity; by default all that wait."""
    bytes: Size | None = None
    """An opportunity ends with the packet that reaches so many bytes, with layer-2 headers; by default it does not."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        shortest, longest = self.gaps
        if shortest > longest:
            raise UnfitError("ranges go from the smallest to the largest value", "exchange the two")
        if not longest.value:
            raise UnfitError("opportunities that come at once are no slots", "write every: [800 us, 10 ms], say")
        if self.bytes is not None and not self.bytes.bytes:
            raise UnfitError("an opportunity without bytes passes nothing", "write bytes: 64 kB, say")
        return self

    @property
    def gaps(self) -> tuple[Duration, Duration]:
        """The shortest and the longest time until an opportunity."""
        return self.every if isinstance(self.every, tuple) else (self.every, self.every)

    @property
    def capacity(self) -> float:
        """Rate of datagrams of 1200 bytes that opportunities carry in the long run, bit/s; infinite without a limit.

        These are the smallest that a QUIC sender fills (RFC 9000 §14.1). A limit in packets carries less of smaller
        ones.
        """
        packets = math.inf if self.packets is None else self.packets * _LEAST_FULL_FRAME
        size = math.inf if self.bytes is None else self.bytes.bytes
        return min(packets, size) * 8 / (sum(gap.seconds for gap in self.gaps) / 2)


class Link(Part):
    """One direction of the path: first the bottleneck queue, then delay, jitter and loss."""

    rate: Annotated[Rate, Field(json_schema_extra=or_trace)]
    """Layer-2 rate of the bottleneck (frames with their 14-byte Ethernet header); with a service process its mean. Or
    {trace: FILE}: what the file says, as for delay and loss."""
    service: Annotated[PoissonService | Slots, Field(discriminator="process")] | None = None
    """When packets leave; by default at the rate, evenly."""
    delay: Annotated[Duration, Field(json_schema_extra=or_trace)]
    """One-way propagation delay."""
    jitter: Duration | Jitter = Duration(0)
    """Variation of the delay: a time (uniform, ±; packets overtake each other), or a distribution that keeps order."""
    reorder: Reorder | None = None
    """Packets that overtake others: a share ('1 %'), or what else is to be said of them."""
    duplicate: Percentage = Percentage(0)
    """Share of the packets that arrive twice, each copy with its own delay and loss."""
    loss: Annotated[Loss, Field(json_schema_extra=or_trace)] = Percentage(0)
    """Random loss after the queue: a percentage (iid), or a Gilbert–Elliott model, per packet or in time."""
    drop: Drop | None = None
    """UDP datagrams that are dropped behind the queue: by number, or by chance with a longest burst."""
    ecn: Literal["bleach", "ect1-to-ect0", "mark", "drop"] | None = None
    """What a node on the way does to ECN (RFC 3168 §5) behind the queue: clear it, rewrite ECT(1) as ECT(0), mark every
    packet that allows it, or drop such packets."""
    mtu: PacketSize | PathMtu | None = None
    """The largest IP packet that passes, bytes, by default what the interfaces carry: a size (its sender is told by
    ICMP), or a size with `icmp: false` (a black hole). It is decided behind the queue, ahead of delay and loss."""
    corrupt: Corrupt | None = None
    """UDP datagrams of which a byte is changed behind the queue, by chance."""
    queue: Annotated[
        Queue,
        Field(
            json_schema_extra=short_or(
                "a drop-tail queue: '50 kB', '25 packets', '100 ms', '1 BDP'; 'RED 1 BDP'; or a discipline: fq_codel"
            )
        ),
    ] = DropTail(size=QueueSize.parse("1 BDP"))
    """The bottleneck's queue: a size (drop-tail), 'RED' and a limit (thresholds at 0.3 and 0.8 of it, 10 % at most,
    wq 0.002), the name of a discipline with its defaults, or a discipline with its parameters."""
    blackhole: Blackhole | None = None
    """Times in which this direction alone forwards nothing: what leaves the queue then is dropped."""
    burst: Size | None = None
    """Token bucket of the bottleneck (tc tbf burst), with either engine; by default none in virtual time, where packets
    leave one after the other, and in real time what late timers need."""

    traced: Traced | None = None
    """The values that follow a trace: write `rate: {trace: FILE}`, and the same for delay and loss."""

    _rate = field_validator("rate")(_least)

    _queue = field_validator("queue", mode="before")(read_queue)

    @field_validator("reorder", mode="before")
    @classmethod
    def _short_reorder(cls, value: object) -> object:
        return {"share": value} if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _traces(cls, data: Any, info: ValidationInfo) -> Any:
        return replace_traces(data, info) if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.traced is not None:
            self._can_follow(self.traced)
        if self.follows_transit:
            self._stands_alone()
        if self.variation.deviation > self.delay:
            raise UnfitError(
                f"jitter {self.variation.deviation} exceeds the delay {self.delay}",
                "write a smaller jitter, or a longer delay",
            )
        if self.reorder is not None:
            self._can_reorder(self.reorder)
        if self.burst is not None and self.burst.bytes < MTU + FRAME_HEADER:
            raise UnfitError(
                f"burst {self.burst} is below one frame ({MTU + FRAME_HEADER} B): tbf would drop frames",
                "write '15 kB', say",
            )
        if (self.drop or self.corrupt) and self.mean_loss:
            raise UnfitError(
                "nobody can tell random loss from what is dropped or damaged by rule", "leave out loss, drop or corrupt"
            )
        if self.burst is not None and not self.queue.holds:
            raise UnfitError(
                f"a {self.queue.title} has a bucket of its own, and no queue that another would serve",
                "leave out the link's burst",
            )
        if self.slots is not None:
            self._can_have_slots(self.slots)
        if self.poisson is not None and self.burst is not None:
            raise UnfitError("a link with a service process has no token bucket: leave out burst", "leave out burst")
        if self.poisson is not None and not isinstance(self.queue, DropTail | Red):
            raise UnfitError(
                f"behind a service process a queue is drop-tail or RED, not {self.queue.discipline}",
                "write '20 packets', say",
            )
        if self.poisson is not None and self.queue.capacity.unit != "packets":
            raise UnfitError(
                "behind a service process the queue's limit counts packets: write '20 packets'",
                "write '20 packets', say",
            )
        return self

    def _can_follow(self, traced: Traced) -> None:
        for name, trace in traced.all:
            mean = {"rate": self.rate.value, "delay": self.delay.value, "loss": self.mean_loss * 1e9}[name]
            if abs(mean - trace.mean * (1e9 if name == "loss" else 1)) > 1:
                raise UnfitError(f"the {name} follows {trace.trace}, so that it has no other value", "leave out one")
        if traced.rate is not None and (self.burst is not None or self.service is not None):
            raise UnfitError(
                f"the rate follows {traced.rate.trace}, and is served as that says", "leave out burst and service"
            )
        if traced.rate is not None and isinstance(self.queue, Policer):
            raise UnfitError(f"the rate follows {traced.rate.trace}, and a policer has one rate", "write a queue")

    def _stands_alone(self) -> None:
        cause = "the loss has states that last for a time"
        if self.traced is not None and (trace := self.traced.delay or self.traced.loss) is not None:
            cause = f"delay or loss follow {trace.trace}"
        timed = isinstance(self.loss, TimedGilbertElliott) and self.traced is not None and self.traced.transit
        for key, present in (
            ("jitter", bool(self.variation.deviation.value)),
            ("reorder", self.reorder is not None),
            ("duplicate", bool(self.duplicate.value)),
            ("slots", self.slots is not None),
            ("loss in states", isinstance(self.loss, GilbertElliott) or timed),
        ):
            if present:
                raise UnfitError(f"{cause}, and {key} cannot be added to that", "leave out one of both")

    def _can_have_slots(self, slots: Slots) -> None:
        if self.variation.deviation.value or self.may_reorder or self.duplicate.value:
            raise UnfitError(
                "waits for opportunities and other variations of the delay cannot be told apart",
                "leave out jitter, reorder and duplicate, or service",
            )
        if slots.capacity < self.rate.value:
            raise UnfitError(
                f"opportunities carry {Rate(round(slots.capacity))} of 1200-byte datagrams, less than the link's "
                f"{self.rate}",
                "write more packets or bytes, or shorter times",
            )

    def _can_reorder(self, reorder: Reorder) -> None:
        if not self.delay.value:
            raise UnfitError("a link without delay has nothing to overtake", "write a delay, or leave reorder out")
        if reorder.ahead is not None and not 0 < reorder.ahead.value <= self.delay.value:
            raise UnfitError(
                f"packets cannot be {reorder.ahead} ahead of a delay of {self.delay}", "write a shorter time, or none"
            )
        if reorder.ahead is not None and self.duplicate.value:
            raise UnfitError(
                "packets that are some time ahead need a second netem, and one that duplicates must be alone",
                "leave out ahead, or duplicate",
            )
        if reorder.ahead is not None and self.variation.deviation.value:
            raise UnfitError(
                "jitter and packets that are some time ahead cannot be told apart", "leave out jitter, or ahead"
            )

    @property
    def poisson(self) -> PoissonService | None:
        """The random service of its queue, where it has one."""
        return self.service if isinstance(self.service, PoissonService) else None

    @property
    def slots(self) -> Slots | None:
        """The opportunities that its packets wait for, where there are some."""
        return self.service if isinstance(self.service, Slots) else None

    @property
    def variation(self) -> Jitter:
        """The jitter in its long form."""
        return self.jitter if isinstance(self.jitter, Jitter) else Jitter(deviation=self.jitter, order="free")

    @property
    def follows_rate(self) -> bool:
        """Whether its rate follows a trace."""
        return self.traced is not None and self.traced.rate is not None

    @property
    def follows_transit(self) -> bool:
        """Whether its delay or its loss follows a trace, or a model in time."""
        return isinstance(self.loss, TimedGilbertElliott) or (self.traced is not None and self.traced.transit)

    @property
    def path_mtu(self) -> PathMtu | None:
        """The MTU in its long form; None where it is the interfaces' own."""
        return in_full(self.mtu)

    @property
    def may_reorder(self) -> bool:
        """Whether packets may overtake each other behind the queue."""
        free = bool(self.variation.deviation.value) and self.variation.order == "free"
        return free or self.reorder is not None

    @property
    def mean_loss(self) -> float:
        """Share of packets the random loss takes in the long run."""
        return self.loss.fraction if isinstance(self.loss, Percentage) else self.loss.mean


def _or_share(schema: dict[str, Any]) -> None:
    """For a JSON Schema: reordering may also be written as a share alone."""
    schema["anyOf"] = [{"type": "string", "description": "a share, '1 %', or none"}, *schema["anyOf"]]


class LinkChange(Part):
    """New values for one direction; what is not named stays. A list of two is a range: a value is drawn from it evenly,
    anew at each repetition of the change, by the seed of the run.
    """

    rate: Rates | None = None
    """New rate; 0 bit/s sends nothing until the next change. The packet in service goes on with its remaining bits.
    A queue given in bytes, or derived from the first rate's BDP, keeps its bytes."""
    delay: Durations | None = None
    """New one-way delay, for packets that enter from now on."""
    jitter: _Jitters | None = None
    """New variation of the delay. A time alone keeps the distribution, the correlation and the order of packets."""
    reorder: Annotated[Reorder | Literal["none"] | None, Field(json_schema_extra=_or_share)] = None
    """New share of packets that overtake others; 'none' ends it."""
    duplicate: Shares | None = None
    """New share of packets that arrive twice."""
    loss: _Losses | None = None
    """New random loss."""
    queue: QueueSize | None = None
    """New limit of the queue. A time, or a BDP, is that of the rate and the delays from now on; a packet is a full
    frame. What waits stays, unless the discipline drops what is too much."""
    outage: Durations | None = None
    """Nothing passes for so long: what leaves the queue in that time is dropped, and what has left it arrives."""
    mtu: PacketSize | PathMtu | None = None
    """New MTU, for packets that leave the queue from now on: 1300, or {size: 1300, icmp: false}."""

    _rate = field_validator("rate")(_least_or_none_or_range)

    @field_validator("rate", "delay", "jitter", "duplicate", "loss", "outage")
    @classmethod
    def _ascending(cls, value: object) -> object:
        if isinstance(value, tuple) and value[0] > value[1]:
            raise UnfitError("a range goes from the least to the most", f"write [{value[1]}, {value[0]}]")
        return value

    @field_validator("reorder", mode="before")
    @classmethod
    def _short_reorder(cls, value: object) -> object:
        return {"share": value} if isinstance(value, str) and value != "none" else value

    @field_validator("outage")
    @classmethod
    def _some_time(cls, value: Duration | tuple[Duration, Duration] | None) -> object:
        least = value[0] if isinstance(value, tuple) else value
        if least is not None and not least.value:
            raise UnfitError("an outage of no time is none", "write '50 ms', say, or leave it out")
        return value

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.named:
            raise UnfitError(
                "a change needs at least one of rate, delay, jitter, reorder, duplicate, loss, queue, outage and mtu",
                "write rate: 10 Mbit/s, say",
            )
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """The keys that have a value."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def ranges(self) -> tuple[str, ...]:
        """The keys whose values are drawn."""
        return tuple(name for name in self.named if isinstance(getattr(self, name), tuple))

    @property
    def path_mtu(self) -> PathMtu | None:
        """The new MTU in its long form; None where it stays."""
        return in_full(self.mtu)


class Change(Part):
    """A change of the path while it is in use, once or again and again."""

    at: Duration
    """When, counted from the client's first datagram."""
    every: Duration | None = None
    """It comes again so long after it came, until no flow can still be running."""
    until: Duration | None = None
    """No repetition comes at this time or later, counted as `at` is."""
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
        if self.every is not None and not self.every.value:
            raise UnfitError("it comes again after no time", "write every: 15 s, say")
        if self.until is not None and self.every is None:
            raise UnfitError("a change without every comes once: until ends nothing", "write every: 15 s, say")
        if self.until is not None and self.until <= self.at:
            raise UnfitError(f"it begins at {self.at}, and ends at {self.until}", "write a later until")
        return self

    @property
    def sides(self) -> Iterator[tuple[Literal["forward", "return"], LinkChange]]:
        """The directions that it changes, and how."""
        if self.forward is not None:
            yield "forward", self.forward
        if self.return_ is not None:
            yield "return", self.return_


def _or_profile(schema: dict[str, Any]) -> None:
    """For a JSON Schema: with a profile a path needs no directions, and a direction not all of its keys."""
    directions = {name: schema["properties"][name] for name in ("forward", "return")}
    schema["properties"] |= {name: {"description": part["description"]} for name, part in directions.items()}
    required = [name for name in schema.pop("required") if name not in directions]
    if required:
        schema["required"] = required
    partial = {name: {"type": "object"} for name in directions}
    schema["if"] = {"required": ["profile"]}
    schema["then"] = {"properties": partial}
    schema["else"] = {"properties": directions, "required": list(directions)}


class Path(Part):
    """A path with two directions. `forward` leads to the terminal, `return` leads away from it."""

    model_config = ConfigDict(json_schema_extra=_or_profile)

    profile: ProfileName | None = None
    """A link as people have it; keys beside it take the place of its own. A path holds the profile's values and not its
    name, so that a run says what it was."""
    forward: Link
    """Towards the terminal (the satellite user's side)."""
    return_: Annotated[Link, Field(alias="return")]
    """From the terminal."""
    terminal: Literal["client", "server"] = "client"
    """Which endpoint sits at the terminal; 'server' makes a download an upload from the terminal."""
    mtu: Annotated[int, Field(strict=True, ge=SMALLEST_MTU, le=LARGEST_MTU)] = MTU
    """IP MTU of every interface, bytes; 1280 is the least that IPv6 allows (RFC 8200 §5). What a direction carries may
    be less: see its own `mtu`."""
    changes: tuple[Change, ...] = ()
    """Changes over time, in order."""
    blackhole: Blackhole | None = None
    """Times in which it forwards nothing."""

    @model_validator(mode="before")
    @classmethod
    def _profile(cls, content: object) -> object:
        if not isinstance(content, Mapping) or content.get("profile") is None:
            return content
        name = content["profile"]
        if name in PROFILES:
            return with_profile(content, name)
        # The field's own error is the only one: nothing else of the path can be known to be missing.
        return {**with_profile(content, PROFILES[0]), "profile": name}

    @field_validator("mtu", mode="before")
    @classmethod
    def _interface(cls, value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool) and value < SMALLEST_MTU:
            raise UnfitError(
                f"an interface with an MTU of {value} B has no IPv6, which every interface of a lab has (RFC 8200 §5: "
                f"{SMALLEST_MTU} B at least)",
                f"write it for a direction: forward: {{mtu: {value}}}",
            )
        return value

    @model_validator(mode="after")
    def _within_interfaces(self) -> Self:
        changes = [
            (f"changes: after {change.at}, {name}", side.path_mtu)
            for change in self.changes
            for name, side in change.sides
        ]
        for place, path_mtu in (("forward", self.forward.path_mtu), ("return", self.return_.path_mtu), *changes):
            if path_mtu is not None and path_mtu.size > self.mtu:
                raise UnfitError(
                    f"{place}: an MTU of {path_mtu.size} B, and the interfaces carry {self.mtu} B at most",
                    f"write {self.mtu} or less, or give the path mtu: {path_mtu.size}",
                )
        return self

    @model_validator(mode="after")
    def _bucket_holds_a_frame(self) -> Self:
        frame = self.mtu + FRAME_HEADER
        for name, link in (("forward", self.forward), ("return", self.return_)):
            if link.burst is not None and link.burst.bytes < frame:
                raise UnfitError(
                    f"{name}.burst {link.burst} is below one frame ({frame} B): tbf would drop frames",
                    "write '15 kB', say",
                )
        return self

    @model_validator(mode="after")
    def _dark(self) -> Self:
        links = (self.forward, self.return_)
        outages = any(side.outage is not None for change in self.changes for _, side in change.sides)
        dark = outages or any(item.blackhole is not None for item in (self, *links))
        if dark and any(link.poisson is not None for link in links):
            raise UnfitError("a path goes dark, and a service process goes on for ever", "leave out service")
        return self

    @model_validator(mode="after")
    def _follows(self) -> Self:
        for index, change in enumerate(self.changes):
            for name, new in change.sides:
                link = self.link(name)
                for key, trace in link.traced.all if link.traced is not None else ():
                    if getattr(new, key) is not None:
                        raise UnfitError(
                            f"changes.{index}.{name}.{key}: it follows {trace.trace}", "put the change into the trace"
                        )
                behind = {"delay", "jitter", "reorder", "duplicate", "loss"}
                if link.follows_transit and behind & set(new.named):
                    raise UnfitError(
                        f"changes.{index}.{name}: where delay or loss follow a trace, or have states that last for a "
                        "time, neither changes otherwise",
                        "put the change into a trace, as columns",
                    )
        if self.blackhole is not None and any(link.follows_transit for link in (self.forward, self.return_)):
            raise UnfitError(
                "where both directions go dark together, neither has a delay or loss over time of another kind",
                "write blackhole below forward and return, or a loss of 100 % into a trace",
            )
        return self

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        times = [change.at for change in self.changes]
        repeats = any(change.every is not None for change in self.changes)
        if not repeats and times != sorted(set(times)):
            raise UnfitError("changes must be in order of time, each at a time of its own", "put the earlier one first")
        rates = [
            (self.link(name), side.rate)
            for change in self.changes
            for name, side in change.sides
            if side.rate is not None
        ]
        for link, rate in rates:
            if not link.queue.holds and not smallest(rate).value:
                raise UnfitError(
                    "a policer at a rate of 0 would pass nothing but its bucket",
                    "write blackhole, or a rate of 1 kbit/s",
                )
        for link, rate in rates:
            if link.slots is not None:
                link.model_copy(update={"rate": largest(rate)})._can_have_slots(link.slots)
        if rates and any(link.poisson is not None for link in (self.forward, self.return_)):
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

    def link(self, side: Literal["forward", "return"]) -> Link:
        """One of its directions."""
        return self.forward if side == "forward" else self.return_

    def direction(self, side: Literal["forward", "return"]) -> Literal["to_client", "to_server"]:
        """Where one of its directions leads."""
        return "to_client" if (side == "forward") == (self.terminal == "client") else "to_server"

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
    def mirrored(self) -> Path:
        """The same path with its ends exchanged: what it is to data from the client to the server."""
        return self.model_copy(update={"terminal": "server" if self.terminal == "client" else "client"})

    def rates(self, direction: Literal["to_client", "to_server"]) -> tuple[tuple[Duration, Rate], ...]:
        """(since, rate) of a direction: from the first datagram on, and from each change of it."""
        down = direction == "to_client"
        steps = [(Duration(0), (self.to_client if down else self.to_server).rate)]
        for change in self.changes:
            side = self.change_to_client(change) if down else self.change_to_server(change)
            if side is not None and side.rate is not None:
                # Of a range the most, where none was drawn yet.
                steps.append((change.at, largest(side.rate)))
        return tuple(steps)

    @property
    def outages(self) -> tuple[tuple[Duration, Duration, Literal["forward", "return"] | None], ...]:
        """(from, until, direction; None for both) of the times in which a path with plain changes forwards nothing."""
        whole = [(begin, end, None) for begin, end in (self.blackhole.times if self.blackhole is not None else ())]
        return (
            *whole,
            *(
                (change.at, change.at + fixed(side.outage), name)
                for change in self.changes
                for name, side in change.sides
                if side.outage is not None
            ),
        )

    @property
    def is_plain(self) -> bool:
        """Whether each change comes once, with values that are no ranges, and every outage is one of a change or of
        the whole path while nothing else changes: as `harness.netem.patterns.realise` makes it.
        """
        if any(link.blackhole is not None for link in (self.forward, self.return_)):
            return False
        if self.blackhole is not None and (self.changes or not self.blackhole.is_plain):
            return False
        return all(change.every is None and not any(side.ranges for _, side in change.sides) for change in self.changes)

    @property
    def draws(self) -> bool:
        """Whether values of its changes or outages are drawn by the seed of a run."""
        blackholes = (self.blackhole, self.forward.blackhole, self.return_.blackhole)
        return any(side.ranges for change in self.changes for _, side in change.sides) or any(
            blackhole is not None and isinstance(blackhole.lasts, tuple) for blackhole in blackholes
        )

"""What a person writes down: scenarios, paths, links, queues, flows, objectives, implementations.

Everything here is frozen and validated, and does no I/O. The JSON Schema that editors use is generated
from these classes (`harness schema`), so the docstrings below are its documentation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

from harness.parameters import (
    ROLES,
    ParameterName,
    ParameterValue,
    Role,
    RoleSettings,
    Setting,
    WrittenNumber,
    WrittenValue,
    canonical_value,
)
from harness.units import Duration, Percentage, QueueSize, Rate, Size

#: The IP MTU of every emulated link, bytes.
MTU = 1500
#: Bytes that tc counts on top of the IP packet: the Ethernet header.
FRAME_HEADER = 14

#: Flows that a lab can hold: what is left of its networks' addresses.
MAXIMUM_FLOWS = 50
#: Different access delays among the flows of a scenario: the classes of sch_prio, less that of everyone else.
MAXIMUM_ACCESS_DELAYS = 14
#: Datagrams that the generator can send in a second, in real time, on one core: it keeps time up to 30,000 here.
GENERATOR_LIMIT = 20_000

NAME = r"^[a-z0-9][a-z0-9._-]*$"


class Part(BaseModel):
    """A frozen part of the model; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True)


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
    wq: Annotated[float, Field(gt=0, le=0.5)] | None = None
    """Weight of the moving average; the nearest power of two is used."""
    burst: Annotated[int, Field(gt=0)] | None = None
    """tc's burst in packets, instead of `wq`."""
    average_packet: Size = Size.parse("1000 B")
    """Mean packet size (tc avpkt)."""
    ecn: bool = False
    """Mark instead of dropping where the packet allows it."""

    @field_validator("probability")
    @classmethod
    def _below_one(cls, value: Percentage) -> Percentage:
        if not 0 < value.fraction < 1:
            raise ValueError("must be above 0 % and below 100 %: tc wraps 1.0 to 0 (use 99.9 %)")
        return value

    @model_validator(mode="after")
    def _one_weight(self) -> Self:
        if (self.wq is None) == (self.burst is None):
            raise ValueError("give exactly one of wq and burst")
        return self


Queue = Annotated[DropTail | Red, Field(discriminator="discipline")]

#: RED in its short form ("RED 1 BDP"): thresholds as parts of the limit (as in the notebook behind scenarios/queue),
#: the largest probability and the weight (Floyd & Jacobson 1993, and Floyd's notes on it).
RED_MIN, RED_MAX, RED_PROBABILITY, RED_WQ = Decimal("0.3"), Decimal("0.8"), "10 %", 0.002


def _short_or(form: str) -> Callable[[dict[str, Any]], None]:
    """For a JSON Schema: what has parts may also be written as a text."""

    def extend(schema: dict[str, Any]) -> None:
        # A discriminator (OpenAPI) means nothing to JSON Schema, and has no place for a text.
        del schema["discriminator"]
        schema["oneOf"] = [{"type": "string", "description": form}, *schema["oneOf"]]

    return extend


def _short_red(text: str) -> dict[str, object]:
    """RED from its limit alone. Raises ValueError."""
    limit = QueueSize.parse(text)
    return {
        "discipline": "red", "limit": limit, "min": limit.part(RED_MIN), "max": limit.part(RED_MAX),
        "probability": RED_PROBABILITY, "wq": RED_WQ, "average_packet": f"{MTU} B",
    }  # fmt: skip


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
            raise ValueError(f"the cold start of {self.cold_start} comes again after {self.period}, before it is over")
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
    queue: Annotated[
        Queue,
        Field(
            json_schema_extra=_short_or("a drop-tail queue: '50 kB', '25 packets', '100 ms', '1 BDP'; or 'RED 1 BDP'")
        ),
    ] = DropTail(size=QueueSize.parse("1 BDP"))
    """The bottleneck's queue: a size (drop-tail), 'RED' and a limit (thresholds at 0.3 and 0.8 of it, 10 % at most,
    wq 0.002), or a discipline with its parameters."""
    burst: Size | None = None
    """Token bucket of the bottleneck (tc tbf burst), with either engine; by default none in virtual time, where packets
    leave one after the other, and in real time what late timers need."""

    @field_validator("rate")
    @classmethod
    def _some_rate(cls, value: Rate) -> Rate:
        if value.value < 1000:
            raise ValueError("a link needs at least 1 kbit/s")
        return value

    @field_validator("queue", mode="before")
    @classmethod
    def _short_queue(cls, value: object) -> object:
        if isinstance(value, str):
            word, _, limit = value.partition(" ")
            value = _short_red(limit) if word == "RED" else {"size": value}
        return {"discipline": "droptail", **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.jitter > self.delay:
            raise ValueError(f"jitter {self.jitter} exceeds the delay {self.delay}")
        if self.burst is not None and self.burst.bytes < MTU + FRAME_HEADER:
            raise ValueError(f"burst {self.burst} is below one frame ({MTU + FRAME_HEADER} B): tbf would drop frames")
        if self.service is not None and self.burst is not None:
            raise ValueError("a link with a service process has no token bucket: leave out burst")
        if self.service is not None and self.held.unit != "packets":
            raise ValueError("behind a service process the queue's limit counts packets: write '20 packets'")
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
    """New rate. A queue given in bytes, or derived from the first rate's BDP, keeps its bytes."""
    delay: Duration | None = None
    """New one-way delay, for packets that enter from now on."""
    loss: Percentage | GilbertElliott | None = None
    """New random loss."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.rate is None and self.delay is None and self.loss is None:
            raise ValueError("a change needs at least one of rate, delay and loss")
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
            raise ValueError("a change needs a direction: forward, return or both")
        return self


class Path(Part):
    """A path with two directions. `forward` leads to the terminal, `return` leads away from it."""

    forward: Link
    """Towards the terminal (the satellite user's side)."""
    return_: Annotated[Link, Field(alias="return")]
    """From the terminal."""
    terminal: Literal["client", "server"] = "client"
    """Which endpoint sits at the terminal; 'server' makes a download an upload from the terminal."""
    mtu: Annotated[int, Field(ge=1280, le=MTU)] = MTU
    """IP MTU of every interface, bytes; 1280 is the least that IPv6 allows (RFC 8200 §5)."""
    changes: tuple[Change, ...] = ()
    """Changes over time, in order."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        times = [change.at for change in self.changes]
        if times != sorted(set(times)):
            raise ValueError("changes must be in order of time, each at a time of its own")
        if any(link.service is not None for link in (self.forward, self.return_)) and any(
            side is not None and side.rate is not None
            for change in self.changes
            for side in (change.forward, change.return_)
        ):
            raise ValueError("a path with a service process keeps its rate")
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
                raise ValueError(
                    f"{name}.queue: RED needs min below max, and max within the limit: min {low} B, max {high} B, "
                    f"limit {limit} B"
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


class Bulk(Part):
    """As much as the transport takes."""

    model: Literal["bulk"] = "bulk"


class ConstantRate(Part):
    """Equal amounts at equal times; what the transport does not take in time follows as soon as it does."""

    model: Literal["cbr"]
    rate: Rate
    """Of the payload."""
    packet: Size = Size.parse("1200 B")
    """UDP payload of a datagram; TCP cuts its own segments."""


class Poisson(Part):
    """Datagrams of one size with exponential gaps."""

    model: Literal["poisson"]
    rate: Rate
    """Mean rate of the UDP payload."""
    packet: Size = Size.parse("1200 B")
    """UDP payload of a datagram."""


class UniformGaps(Part):
    """Datagrams with sizes and gaps drawn from uniform distributions."""

    model: Literal["uniform"]
    packet: tuple[Size, Size]
    """UDP payload of a datagram: smallest, largest."""
    gap: tuple[Duration, Duration]
    """Time between two datagrams: shortest, longest."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.packet[0].bytes > self.packet[1].bytes or self.gap[0].value > self.gap[1].value:
            raise ValueError("ranges go from the smallest to the largest value")
        if not self.gap[1].value:
            raise ValueError("a gap is longer than nothing")
        return self

    @property
    def rate(self) -> Rate:
        """Mean rate of the UDP payload."""
        size, gap = sum(one.bytes for one in self.packet) / 2, sum(one.seconds for one in self.gap) / 2
        return Rate(round(size * 8 / gap))


Traffic = Annotated[Bulk | ConstantRate | Poisson | UniformGaps, Field(discriminator="model")]
FlowKind = Literal["quic", "tcp", "udp"]
#: What plays flows of TCP and UDP unless a flow names something else: this kernel's, driven by a generator.
GENERATOR = "linux"


class Flow(Part):
    """One client and one server, each a host of its own. Data flows from the server to the client unless told."""

    kind: FlowKind = "quic"
    """Transport. TCP is the kernel's own, UDP has no congestion control."""
    download: Size | None = None
    """Size of the file, or of what a TCP flow transfers in its direction; or stop."""
    start: Duration = Duration(0)
    """When the client starts, counted from the moment the path is up."""
    stop: Duration | None = None
    """When the flow is cut off, on the clock of `start`; what it transfers has no end of its own."""
    repeat_after: Duration | None = None
    """Download once more in a new connection, this long after the first ended (session tickets kept)."""
    traffic: Annotated[Traffic, Field(json_schema_extra=_short_or("'bulk': as much as the transport takes"))] = Bulk()
    """What the sender sends, and when: 'bulk', or a model with its figures."""
    direction: Literal["to_client", "to_server"] = "to_client"
    """Where data goes. QUIC endpoints serve downloads only."""
    client: Annotated[str, Field(pattern=NAME)] | None = None
    """The implementation at the client, instead of the matrix's."""
    server: Annotated[str, Field(pattern=NAME)] | None = None
    """The implementation at the server, instead of the matrix's."""
    access_delay: Duration = Duration(0)
    """Further one-way delay of this flow alone, in both directions, beyond the bottleneck."""
    parameters: dict[str, WrittenValue] = {}
    """Endpoint parameters of this flow alone, as client.NAME or server.NAME."""

    @field_validator("traffic", mode="before")
    @classmethod
    def _short_traffic(cls, value: object) -> object:
        return {"model": value} if isinstance(value, str) else value

    @field_validator("parameters")
    @classmethod
    def _canonical(cls, value: dict[str, ParameterValue]) -> dict[str, ParameterValue]:
        return {name: canonical_value(name, item) for name, item in value.items()}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if (self.download is None) == (self.stop is None):
            raise ValueError("give exactly one of download (a size) and stop (a time)")
        if self.stop is not None and self.stop.value <= self.start.value:
            raise ValueError(f"stops at {self.stop}, before it starts at {self.start}")
        if self.stop is not None and self.repeat_after is not None:
            raise ValueError("what is cut off at a time is not repeated: leave out stop or repeat_after")
        if self.kind == "quic":
            if not isinstance(self.traffic, Bulk) or self.direction != "to_client":
                raise ValueError("QUIC endpoints serve files: their flows are downloads in bulk")
            return self
        if self.repeat_after is not None:
            raise ValueError(f"a flow of {self.kind} is not repeated: leave out repeat_after")
        if self.kind == "udp" and self.download is not None:
            raise ValueError("a flow of udp has a stop, no size: what is lost is not sent again, so it has no end")
        if self.kind == "tcp":
            if self.download is not None and not self.download.bytes:
                raise ValueError("a flow of tcp with a size transfers something")
            if not isinstance(self.traffic, Bulk | ConstantRate):
                raise ValueError("the traffic of a tcp flow is bulk or cbr")
        elif isinstance(self.traffic, Bulk):
            raise ValueError("the traffic of a udp flow is cbr, poisson or uniform")
        else:
            self._within_the_generator(self.traffic)
        return self

    def _within_the_generator(self, traffic: ConstantRate | Poisson | UniformGaps) -> None:
        sizes = traffic.packet if isinstance(traffic, UniformGaps) else (traffic.packet,)
        smallest, largest = min(size.bytes for size in sizes), max(size.bytes for size in sizes)
        if not smallest >= 16 or largest > MTU - 48:
            raise ValueError(f"a datagram of the generator has a payload of 16 to {MTU - 48} B")
        frequency = traffic.rate.value / 8 / (sum(size.bytes for size in sizes) / len(sizes))
        if frequency > GENERATOR_LIMIT:
            raise ValueError(
                f"{traffic.rate} are {frequency:.0f} datagrams/s, and the generator sends at most {GENERATOR_LIMIT}"
            )

    def implementation(self, role: Role) -> str | None:
        """The implementation this flow names for a role; None where it is the matrix's."""
        named = self.client if role == "client" else self.server
        return named if named is not None or self.kind == "quic" else GENERATOR

    @property
    def file(self) -> Size | None:
        """The file that a QUIC client downloads to its end; None for what is cut off at a time or generated."""
        return self.download if self.kind == "quic" else None

    @property
    def sender(self) -> Role:
        """Who sends the data."""
        return "server" if self.direction == "to_client" else "client"


class Objective(Part):
    """A demand on one metric, met by the median over the repetitions."""

    metric: str
    """Name of a metric, such as completion, milestone_2MB, goodput, repeat_completion."""
    at_most: Duration | Rate | float | None = None
    """Upper bound, with the metric's unit."""
    at_least: Duration | Rate | float | None = None
    """Lower bound, with the metric's unit."""

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("give exactly one of at_most and at_least")
        return self

    @field_validator("at_most", "at_least", mode="before")
    @classmethod
    def _bound(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        for kind in (Duration, Rate):
            with contextlib.suppress(ValueError):
                return kind.parse(value)
        raise ValueError(f"'{value}' is not a bound: a duration ('3 s'), a rate ('20 Mbit/s') or a plain number")

    @field_serializer("at_most", "at_least")
    def _written(self, value: Duration | Rate | float | None) -> str | float | None:
        # Pydantic would write a plain number as the first of the types that it might be.
        return str(value) if isinstance(value, Duration | Rate) else value

    @property
    def bound(self) -> float:
        """The bound in the unit of the metric: seconds, Mbit/s or 1."""
        value = self.at_most if self.at_most is not None else self.at_least
        if isinstance(value, Duration):
            return value.seconds
        if isinstance(value, Rate):
            return value.value / 1e6
        assert value is not None
        return value

    @property
    def unit(self) -> str:
        """The unit the bound is written in: s, Mbit/s or 1."""
        value = self.at_most if self.at_most is not None else self.at_least
        return "s" if isinstance(value, Duration) else "Mbit/s" if isinstance(value, Rate) else "1"

    def __str__(self) -> str:
        sign, value = ("≤", self.at_most) if self.at_most is not None else ("≥", self.at_least)
        return f"{self.metric} {sign} {value}"


class Scenario(Part):
    """What to emulate, what to do, what to demand."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    """Version of this format."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/-]*$")] = "unnamed"
    """Folder and file name below scenarios/; filled in by the catalogue."""
    title: str
    """One line for people."""
    description: str = ""
    """What the case stands for, and what was chosen where its source is silent."""
    references: tuple[str, ...] = ()
    """Where the case and its numbers come from."""
    path: Path
    """The emulated path."""
    flows: Annotated[tuple[Flow, ...], Field(min_length=1, max_length=MAXIMUM_FLOWS)]
    """The clients, each with its server; all share the path."""
    clients: tuple[Annotated[str, Field(pattern=NAME)], ...] = ()
    """Who the clients are where the command line names nobody; everybody by default."""
    servers: tuple[Annotated[str, Field(pattern=NAME)], ...] = ()
    """Who the servers are where the command line names nobody; everybody by default."""
    protocol: Literal["auto", "h3", "hq-interop"] = "auto"
    """Application protocol; auto takes h3 where both ends speak it, else hq-interop."""
    ip_version: Literal[4, 6] = 4
    """IP version of the transfers."""
    timeout: Duration = Duration.parse("120 s")
    """How long one transfer may take."""
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    """How often each cell runs unless the command line says otherwise."""
    milestones: tuple[Size, ...] = tuple(Size.parse(size) for size in ("2 MB", "10 MB", "100 MB"))
    """Amounts of the file whose arrival is timed."""
    objectives: tuple[Objective, ...] = ()
    """Demands; a source's open ones are absent, not invented."""
    parameters: dict[str, WrittenValue] = {}
    """Endpoint parameters, as client.NAME or server.NAME."""
    vary: dict[str, tuple[WrittenNumber, ...]] = {}
    """A sweep: NAME → values. NAME is client.X, server.X, X alone for both roles, or path.forward.rate and its like."""
    combine: Literal["product", "zip"] = "product"
    """How several sweeps go together: every value with every other, or the first with the first and so on."""

    @field_validator("parameters")
    @classmethod
    def _canonical(cls, value: dict[str, ParameterValue]) -> dict[str, ParameterValue]:
        return {name: canonical_value(name, item) for name, item in value.items()}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        known = {f"milestone_{size.label()}" for size in self.milestones_within()}
        for objective in self.objectives:
            base = objective.metric.removeprefix("repeat_")
            if base.startswith("milestone_") and base not in known:
                raise ValueError(f"objective on {objective.metric}, but the milestones are {', '.join(sorted(known))}")
            if objective.metric.startswith("repeat_") and all(flow.repeat_after is None for flow in self.flows):
                raise ValueError(f"objective on {objective.metric}, but no flow has repeat_after")
        delays = {flow.access_delay for flow in self.flows} - {Duration(0)}
        if len(delays) > MAXIMUM_ACCESS_DELAYS:
            raise ValueError(f"{len(delays)} different access delays, but a path has room for {MAXIMUM_ACCESS_DELAYS}")
        for number, flow in enumerate(self.flows):
            if flow.stop is not None and flow.stop.value - flow.start.value > self.timeout.value:
                raise ValueError(f"flow {number} runs until {flow.stop}, longer than the timeout of {self.timeout}")
        return self

    def milestones_within(self) -> list[Size]:
        """The milestones that the largest of the files has."""
        sizes = [flow.file for flow in self.flows if flow.file is not None]
        return [size for size in self.milestones if sizes and size <= max(sizes)]

    @property
    def open_roles(self) -> set[Role]:
        """Roles that the matrix's implementations play in some flow; the others are all named by the flows."""
        return {role for role in ROLES for flow in self.flows if flow.implementation(role) is None}


Protocol = Literal["h3", "hq-interop", "tcp", "udp"]


class Implementation(Part):
    """A contestant: an image that follows the interop endpoint contract."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    """Version of this format."""
    name: Annotated[str, Field(pattern=NAME)]
    """Short name, used on the command line."""
    title: str = ""
    """Name shown to people."""
    project: str = ""
    """Home page."""
    licence: str = ""
    """Licence of the implementation."""
    version: str = ""
    """Version of the implementation inside the image."""
    image: str | None = None
    """A published image, by name; pulled when it is not present."""
    build: str | None = None
    """Folder of the Dockerfile, relative to this file, instead of `image`."""
    upstream_image: str | None = None
    """A published image that the build starts from; where no registry is reached, it cannot be built."""
    upstream_repository: str | None = None
    """A Git repository that the build clones; where it is not reached, it cannot be built."""
    build_time: Duration = Duration.parse("60 s")
    """Time of a build on two cores, for the estimate."""
    tested: bool = False
    """Whether the authors of its manifest have run it; what is said of others is what their sources say."""
    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ("client", "server")
    """Roles it can play."""
    protocols: Annotated[tuple[Protocol, ...], Field(min_length=1)] = ("h3", "hq-interop")
    """Application protocols it speaks over QUIC; tcp and udp of a generator of background traffic."""
    colour: Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")] = "#777777"
    """Its colour in every plot."""
    marker: str = "circle"
    """Its marker in every plot."""
    session: bool = False
    """Whether its client keeps session tickets in SESSION_DIR and resumes from them."""
    parameters: dict[ParameterName, RoleSettings] = {}
    """Normalised parameters: per role how they are set, which values it takes, and the default in force."""
    extensions: tuple[Literal["ack_frequency"], ...] = ()
    """Extensions it negotiates; ack_frequency lets a peer set its ACK ratio (draft-ietf-quic-ack-frequency)."""
    notes: str = ""
    """Anything a reader should know."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.image is None) == (self.build is None):
            raise ValueError("give exactly one of image (a published image) and build (a folder with a Dockerfile)")
        return self

    @field_validator("parameters", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """Tell each entry its name, which decides how its values are written."""
        if not isinstance(value, dict):
            return value
        return {key: {**item, "parameter": key} if isinstance(item, dict) else item for key, item in value.items()}

    @model_validator(mode="after")
    def _roles_it_plays(self) -> Self:
        for name, settings in self.parameters.items():
            # What was written without a role is the same for both, and holds for those there are.
            for role in ROLES:
                if role not in self.roles and settings.of(role) is not None and settings.client != settings.server:
                    raise ValueError(f"parameters.{name} has a {role}, but roles names none")
        if self.build is None and (self.upstream_image or self.upstream_repository):
            raise ValueError("upstream_image and upstream_repository say what a build needs; there is no build")
        return self

    @property
    def elsewhere(self) -> bool:
        """Whether it needs a published image or a repository."""
        return bool(self.image or self.upstream_image or self.upstream_repository)

    @property
    def speaks_quic(self) -> bool:
        """Whether it belongs into a matrix."""
        return bool({"h3", "hq-interop"} & set(self.protocols))

    def setting(self, role: Role, name: str) -> Setting | None:
        """How it sets a parameter in a role, with the default in force; None where nothing is known."""
        settings = self.parameters.get(name)
        return settings.of(role) if settings is not None and role in self.roles else None

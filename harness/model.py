"""What a person writes down: scenarios, paths, links, queues, flows, objectives, implementations.

Everything here is frozen and validated, and does no I/O. The JSON Schema that editors use is generated
from these classes (`harness schema`), so the docstrings below are its documentation.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.parameters import ROLES, ParameterName, ParameterValue, Role, RoleSettings, Setting, canonical_value
from harness.units import Duration, Percentage, QueueSize, Rate, Size

#: The IP MTU of every emulated link, bytes.
MTU = 1500
#: Bytes that tc counts on top of the IP packet: the Ethernet header.
FRAME_HEADER = 14

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


class Link(Part):
    """One direction of the path: first the bottleneck queue, then delay, jitter and loss."""

    rate: Rate
    """Layer-2 rate of the bottleneck (frames with their 14-byte Ethernet header)."""
    delay: Duration
    """One-way propagation delay."""
    jitter: Duration = Duration(0)
    """Uniform variation of the delay, ±; it may reorder packets."""
    loss: Percentage | GilbertElliott = Percentage(0)
    """Random loss after the queue: a percentage (iid), or a Gilbert–Elliott model."""
    queue: Queue = DropTail(size=QueueSize.parse("1 BDP"))
    """The bottleneck's queue: a size (drop-tail), or a discipline with its parameters."""
    burst: Size | None = None
    """Token bucket of the bottleneck (tc tbf burst); by default two frames or 4 ms at the rate."""

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
            value = {"size": value}
        return {"discipline": "droptail", **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.jitter > self.delay:
            raise ValueError(f"jitter {self.jitter} exceeds the delay {self.delay}")
        if self.burst is not None and self.burst.bytes < MTU + FRAME_HEADER:
            raise ValueError(f"burst {self.burst} is below one frame ({MTU + FRAME_HEADER} B): tbf would drop frames")
        return self

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
    changes: tuple[Change, ...] = ()
    """Changes over time, in order."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        times = [change.at for change in self.changes]
        if times != sorted(set(times)):
            raise ValueError("changes must be in order of time, each at a time of its own")
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


class Flow(Part):
    """One client that downloads one file from one server."""

    download: Size
    """Size of the file."""
    start: Duration = Duration(0)
    """When the client starts, counted from the start of the first."""
    repeat_after: Duration | None = None
    """Download once more in a new connection, this long after the first ended (session tickets kept)."""


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
    flows: Annotated[tuple[Flow, ...], Field(min_length=1)]
    """The clients, each with its server; all share the path."""
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
    parameters: dict[str, ParameterValue] = {}
    """Endpoint parameters, as client.NAME or server.NAME."""
    vary: dict[str, tuple[ParameterValue | float, ...]] = {}
    """A sweep: NAME → values. NAME is client.X, server.X, X alone for both roles, or path.forward.rate and its like."""
    combine: Literal["product", "zip"] = "product"
    """How several sweeps go together: every value with every other, or the first with the first and so on."""

    @field_validator("parameters")
    @classmethod
    def _canonical(cls, value: dict[str, ParameterValue]) -> dict[str, ParameterValue]:
        return {name: canonical_value(name, item) for name, item in value.items()}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        largest = max(flow.download for flow in self.flows)
        known = {f"milestone_{size.label()}" for size in self.milestones if size <= largest}
        for objective in self.objectives:
            base = objective.metric.removeprefix("repeat_")
            if base.startswith("milestone_") and base not in known:
                raise ValueError(f"objective on {objective.metric}, but the milestones are {', '.join(sorted(known))}")
            if objective.metric.startswith("repeat_") and all(flow.repeat_after is None for flow in self.flows):
                raise ValueError(f"objective on {objective.metric}, but no flow has repeat_after")
        return self


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
    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ("client", "server")
    """Roles it can play."""
    protocols: Annotated[tuple[Literal["h3", "hq-interop"], ...], Field(min_length=1)] = ("h3", "hq-interop")
    """Application protocols it speaks."""
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

    def setting(self, role: Role, name: str) -> Setting | None:
        """How it sets a parameter in a role, with the default in force; None where nothing is known."""
        settings = self.parameters.get(name)
        return settings.of(role) if settings is not None and role in self.roles else None

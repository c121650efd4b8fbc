"""The path program as data: commands, and the figures they stand for."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from harness.scenario.schema import DisciplineName, TimedGilbertElliott, Trace

#: One command as an argument vector. The interfaces are called `left` (client side) and `right`.
Command = tuple[str, ...]
Side = Literal["left", "right"]
Direction = Literal["to_client", "to_server"]


class Record(BaseModel):
    """A frozen part of the program. Keys that a later version adds to a stored one are ignored."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="ignore")
    #: Fields that are written only where they have a value, so that what is older stays as it was.
    later: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_later(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = handler(self)
        return {name: value for name, value in content.items() if name not in self.later or value is not None}


class TimedCommands(Record):
    """Commands that apply `at_ns` after the client's first datagram."""

    at_ns: int
    commands: tuple[Command, ...]


class SizeLimit(Record):
    """The largest IP packet that a direction carries, where it is less than its interfaces carry."""

    size: int
    """Bytes, header included."""
    icmp: bool
    """Whether the sender of a larger packet is told, and one over IPv4 without DF is fragmented."""


class LinkProgram(Record):
    """The compiled figures of one direction; the link proof compares against them."""

    device: str
    """The ifb that holds the bottleneck queue."""
    ingress: Side
    egress: Side
    rate_bps: int
    delay_ns: int
    jitter_ns: int
    burst_bytes: int | None
    """The token bucket; None for a serial server, and for a service process."""
    limit_bytes: int | None
    limit_packets: int | None
    discipline: DisciplineName
    service: Literal["constant", "poisson", "slots"] = "constant"
    mean_loss: float
    mtu: SizeLimit | None = None


class LinkState(Record):
    """The figures of a direction from a change on; None where nothing changes."""

    rate_bps: int | None = None
    delay_ns: int | None = None
    burst_bytes: int | None = None
    mean_loss: float | None = None
    jitter_ns: int | None = None
    """How much earlier than the delay a packet may leave."""
    limit_bytes: int | None = None
    limit_packets: int | None = None
    mtu: SizeLimit | None = None

    later = frozenset({"jitter_ns", "limit_bytes", "limit_packets", "mtu"})


class PathChange(Record):
    """Figures of a scheduled change."""

    at: float
    to_client: LinkState | None
    to_server: LinkState | None


class Outage(Record):
    """A time in which a path forwards nothing, ns after the client's first datagram."""

    from_ns: int
    until_ns: int | None
    """None where it never does again."""
    direction: Direction | None = None
    """The only direction that it concerns, whose packets are dropped when they leave the queue. None for both: the
    clients' side is gone, with what is in flight to it."""

    later = frozenset({"direction"})


class AddressMapping(Record):
    """A path's rewriting of a client's address from a moment on (RFC 4787's address and port mapping)."""

    at_ns: int
    inner: tuple[str, str]
    """The client's own addresses, IPv4 and IPv6."""
    outer: tuple[str, str]
    """The source addresses of its datagrams behind the path."""
    port: int | None
    """Their source port; None where it stays the client's."""


class Fault(Record):
    """Datagrams of one direction that are dropped, or get a byte changed."""

    direction: Direction
    kind: Literal["drop", "corrupt"]
    packets: tuple[int, ...] = ()
    """By their numbers among those that pass the queue, from 1; none where it is chance."""
    rate: float = 0.0
    """The chance of each, unless as many as `burst` came before it."""
    burst: int | None = None


class LinkSeries(Record):
    """A file from which a direction's rate, or its delay and loss, come over time."""

    direction: Direction
    kind: Literal["rate", "transit"]
    file: str
    """Its name, which follows from what it is made of."""
    offset_ns: int
    """Where it starts, at the client's first datagram."""
    traces: tuple[Trace | None, ...] = ()
    """What it is made of: the trace of the rate, or those of delay and loss."""
    delay_ns: int = 0
    loss: float = 0.0
    """Delay and loss where no trace says them."""
    model: TimedGilbertElliott | None = None
    """The model of the loss in time."""
    seed: int = 0
    """Of the model."""


class PathProgram(Record):
    """The commands, and the figures they stand for."""

    version: Literal[1] = 1
    setup: tuple[Command, ...]
    changes: tuple[TimedCommands, ...]
    links: dict[Direction, LinkProgram]
    timeline: tuple[PathChange, ...] = ()
    outages: tuple[Outage, ...] = ()
    mappings: tuple[AddressMapping, ...] = ()
    faults: tuple[Fault, ...] = ()
    series: tuple[LinkSeries, ...] = ()

    def lines(self) -> list[str]:
        """The program as a person would type it."""
        lines = [" ".join(command) for command in self.setup]
        for change in self.changes:
            lines.append(f"# {change.at_ns / 1e9:g} s after the client's first datagram")
            lines.extend(" ".join(command) for command in change.commands)
        return lines

"""The path program as data: commands, and the figures they stand for."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

#: One command as an argument vector. The interfaces are called `left` (client side) and `right`.
Command = tuple[str, ...]
Side = Literal["left", "right"]
Direction = Literal["to_client", "to_server"]


class Record(BaseModel):
    """A frozen part of the program. Keys that a later version adds to a stored one are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TimedCommands(Record):
    """Commands that apply `at_ns` after the client's first datagram."""

    at_ns: int
    commands: tuple[Command, ...]


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
    discipline: Literal["droptail", "red"]
    service: Literal["constant", "poisson"] = "constant"
    mean_loss: float


class LinkState(Record):
    """The figures of a direction from a change on; None where nothing changes."""

    rate_bps: int | None = None
    delay_ns: int | None = None
    burst_bytes: int | None = None
    mean_loss: float | None = None


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

    def lines(self) -> list[str]:
        """The program as a person would type it."""
        lines = [" ".join(command) for command in self.setup]
        for change in self.changes:
            lines.append(f"# {change.at_ns / 1e9:g} s after the client's first datagram")
            lines.extend(" ".join(command) for command in change.commands)
        return lines

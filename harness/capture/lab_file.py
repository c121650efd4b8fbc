"""The configuration of the lab (lab.json): endpoints' addresses, both directions of the link, changes over time."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.capture.files import MOST_RECORD, read_bytes

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Endpoint(_Asked):
    """One end of a flow."""

    addresses: tuple[str, ...]
    among: tuple[str, ...] = ()
    """All that it has, where these are those of one path."""

    def place(self, address: str) -> int:
        """The index of an address among all its addresses, from 0."""
        return (self.among or self.addresses).index(address)


class MoveFacts(_Asked):
    """A change of a client's address."""

    at: float
    """Seconds after the first datagram of the run."""
    how: str
    """migrate, interface, nat-port or nat-address."""
    path: str
    """That its client is on from then on."""
    gap: float = 0.0
    """Seconds until the client itself does something."""
    addresses: tuple[str, ...]
    """The client's as the server sees them from then on."""
    port: int | None = None
    """Its port as the server sees it; None where that is the client's own choice."""


class FlowAddresses(_Asked):
    """Both ends of a flow, and its configuration."""

    flow: int
    client: Endpoint
    server: Endpoint
    kind: Literal["quic", "https", "tcp", "udp"] = "quic"
    label: str = ""
    """What people call it."""
    sender: Literal["client", "server"] = "server"
    """Who sends the data."""
    start: float = 0.0
    """When its client starts, s since the path is up."""
    stop: float | None = None
    """When it is cut off, on the same clock; None where its size ends it."""
    access_delay_ns: int = 0
    """Its own one-way delay on top of the link's."""
    path: str = ""
    """That its client starts on, of several."""
    moves: tuple[MoveFacts, ...] = ()
    """In order of time."""

    @property
    def over_tcp(self) -> bool:
        """Whether its packets are TCP segments."""
        return self.kind in ("https", "tcp")

    @property
    def is_rebound(self) -> bool:
        """Whether a path rewrites its client's address or port at some time."""
        return any(move.how.startswith("nat-") for move in self.moves)

    def within(self, networks: Sequence[Network]) -> FlowAddresses:
        """The flow with only those of its client's addresses that are in `networks`."""
        own = [text for text in self.client.addresses if any(ipaddress.ip_address(text) in net for net in networks)]
        return self.model_copy(update={"client": Endpoint(addresses=tuple(own), among=self.client.addresses)})


class LinkSettings(_Asked):
    """One direction of the link as set when it was brought up."""

    device: str
    """Name of the bottleneck's ifb in the counters."""
    egress: str
    """Name of the device whose netem delays and loses, in the counters."""
    rate_bps: int
    delay_ns: int
    jitter_ns: int = 0
    burst_bytes: int | None = None
    """The token bucket that serves the queue; None where packets leave one after the other, each in its own time."""
    limit_bytes: int | None = None
    limit_packets: int | None = None
    mean_loss: float = 0.0
    discipline: Literal["droptail", "red"] = "droptail"
    service: Literal["constant", "poisson"] = "constant"
    """How the queue is served: at the rate, or one packet at each of its random opportunities."""


class LinkSettingsChange(_Asked):
    """New values for one direction; None keeps the old one."""

    rate_bps: int | None = None
    delay_ns: int | None = None
    mean_loss: float | None = None
    burst_bytes: int | None = None
    limit_bytes: int | None = None
    limit_packets: int | None = None


class ScheduledChange(_Asked):
    """A change of the path, `at` seconds after the client's first datagram."""

    at: float
    to_client: LinkSettingsChange | None = None
    to_server: LinkSettingsChange | None = None


class Links(_Asked):
    """Both directions."""

    to_client: LinkSettings
    to_server: LinkSettings

    @property
    def rtt_ns(self) -> int:
        """The shortest configured round trip, without any queue, ns."""
        return sum(link.delay_ns - link.jitter_ns for link in (self.to_client, self.to_server))


class OutageFacts(_Asked):
    """A scheduled outage of a path, ns after the run's first datagram; None where the path does not come back."""

    from_ns: int
    until_ns: int | None = None


class MappingFacts(_Asked):
    """A scheduled rewriting of a client's address by a path, ns after the first datagram of the run."""

    at_ns: int
    inner: tuple[str, str]
    """The client's own addresses."""
    outer: tuple[str, str]
    """What the server sees."""
    port: int | None = None
    """What the server sees of its port; None where that is the client's own."""


class FaultFacts(_Asked):
    """A configured fault: a path drops or damages datagrams of one direction."""

    direction: Literal["to_client", "to_server"]
    kind: Literal["drop", "corrupt"]
    packets: tuple[int, ...] = ()
    rate: float = 0.0
    burst: int | None = None


class PathFacts(_Asked):
    """One of several paths."""

    path: str
    simulator: Annotated[str, Field(pattern=r"^sim(-[a-z0-9][a-z0-9-]{0,31})?$")]
    """The folder of its simulator."""
    networks: tuple[str, ...]
    """Those of its clients."""
    links: Links
    changes: tuple[ScheduledChange, ...] = ()
    outages: tuple[OutageFacts, ...] = ()
    mappings: tuple[MappingFacts, ...] = ()
    faults: tuple[FaultFacts, ...] = ()


class ProxyFacts(_Asked):
    """A proxy between two segments in a row."""

    proxy: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    """The folder, and the container, of its name."""
    left: str
    """The simulator at its side towards the clients."""
    right: str


class LabFacts(_Asked):
    """lab.json: the configuration of the run's lab."""

    flows: tuple[FlowAddresses, ...]
    links: Links
    """Of the path, or of the first of several, as are the changes; of segments in a row what they are together."""
    changes: tuple[ScheduledChange, ...] = ()
    mtu: int = 1500
    """IP MTU of every interface, bytes."""
    paths: tuple[PathFacts, ...] = ()
    """All of them, where there are several or clients move; of segments in a row each, from the clients' end."""
    proxies: tuple[ProxyFacts, ...] = ()
    """Those between segments, from the clients' end. Each splits every flow that is TCP."""
    outages: tuple[OutageFacts, ...] = ()
    """Of the path that is looked at."""
    mappings: tuple[MappingFacts, ...] = ()
    """Of the path that is looked at."""
    faults: tuple[FaultFacts, ...] = ()
    """Of the path that is looked at."""

    def alone(self, path: str) -> LabFacts:
        """The lab with one of its paths, and the flows' addresses on that path."""
        (path_facts,) = (facts for facts in self.paths if facts.path == path)
        networks = [ipaddress.ip_network(network) for network in path_facts.networks]
        flows = tuple(flow.within(networks) for flow in self.flows)
        settings = {name: getattr(path_facts, name) for name in ("links", "changes", "outages", "mappings", "faults")}
        return self.model_copy(update={**settings, "flows": flows, "paths": (path_facts,)})


def read_lab(path: Path) -> LabFacts:
    """Read lab.json. Raises OSError; ValueError (pydantic's) where it is not valid."""
    return LabFacts.model_validate_json(read_bytes(path, MOST_RECORD))

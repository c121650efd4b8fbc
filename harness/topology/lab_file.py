"""lab.json: what the lab of a run was asked to be. The simulators' readers and the engines' writer share these types.

Keys that a reader does not know are ignored, and what a file lacks has its default: files of older runs stay readable.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.netem.program import AddressMapping, Fault, Outage, SizeLimit
from harness.scenario.schema import DisciplineName
from harness.topology.spec import LabMove

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class _LabModel(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True, extra="ignore")


class Endpoint(_LabModel):
    """One end of a flow."""

    addresses: tuple[str, ...]
    among: tuple[str, ...] = ()
    """All that it has, where these are those of one path."""

    def place(self, address: str) -> int:
        """The index of an address among all its addresses, from 0."""
        return (self.among or self.addresses).index(address)


class FlowAddresses(_LabModel):
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
    moves: tuple[LabMove, ...] = ()
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


class LinkSettings(_LabModel):
    """One direction of the link as set when it was brought up."""

    device: str
    """Name of the bottleneck's ifb in the counters."""
    ingress: str = ""
    """Where packets come in."""
    egress: str
    """Name of the device whose netem delays and loses, in the counters."""
    rate_bps: int
    delay_ns: int
    jitter_ns: int = 0
    burst_bytes: int | None = None
    """The token bucket that serves the queue; None where packets leave one after the other, each in its own time."""
    limit_bytes: int | None = None
    limit_packets: int | None = None
    discipline: DisciplineName = "droptail"
    service: Literal["constant", "poisson", "slots"] = "constant"
    """How the queue is served: at the rate, or one packet at each of its random opportunities. With slots at the rate,
    and then packets wait for an opportunity that several have together."""
    mean_loss: float = 0.0
    mtu: SizeLimit | None = None
    """The largest packet that passes; None where it is what the interfaces carry."""


class LinkSettingsChange(_LabModel):
    """New values for one direction; None keeps the old one."""

    rate_bps: int | None = None
    delay_ns: int | None = None
    burst_bytes: int | None = None
    mean_loss: float | None = None
    mtu: SizeLimit | None = None
    limit_bytes: int | None = None
    limit_packets: int | None = None
    jitter_ns: int | None = None


class ScheduledChange(_LabModel):
    """A change of the path, `at` seconds after the client's first datagram."""

    at: float
    to_client: LinkSettingsChange | None = None
    to_server: LinkSettingsChange | None = None


class Links(_LabModel):
    """Both directions."""

    to_client: LinkSettings
    to_server: LinkSettings

    @property
    def rtt_ns(self) -> int:
        """The shortest configured round trip, without any queue, ns."""
        return sum(link.delay_ns - link.jitter_ns for link in (self.to_client, self.to_server))


class SeriesFacts(_LabModel):
    """A file from which one direction's rate, or its delay and loss, came over time."""

    direction: Literal["to_client", "to_server"]
    kind: Literal["rate", "transit"]
    file: Annotated[str, Field(pattern=r"^plan/([a-z0-9-]+/)?[0-9a-f]{16}\.series$")]
    """In the run's folder."""
    offset_ns: int
    """Where it started."""


class PathFacts(_LabModel):
    """One of several paths."""

    path: str
    simulator: Annotated[str, Field(pattern=r"^sim(-[a-z0-9][a-z0-9-]{0,31})?$")]
    """The folder of its simulator."""
    networks: tuple[str, ...]
    """Those of its clients."""
    links: Links
    changes: tuple[ScheduledChange, ...] = ()
    outages: tuple[Outage, ...] = ()
    mappings: tuple[AddressMapping, ...] = ()
    faults: tuple[Fault, ...] = ()
    series: tuple[SeriesFacts, ...] = ()


class ProxyFacts(_LabModel):
    """A proxy between two segments in a row."""

    proxy: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    """The folder, and the container, of its name."""
    left: str
    """The simulator at its side towards the clients."""
    right: str


class LabFacts(_LabModel):
    """lab.json: the configuration of the run's lab."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    flows: tuple[FlowAddresses, ...]
    mtu: int = 1500
    """IP MTU of every interface, bytes."""
    links: Links
    """Of the path, or of the first of several, as are the changes; of segments in a row what they are together."""
    changes: tuple[ScheduledChange, ...] = ()
    paths: tuple[PathFacts, ...] = ()
    """All of them, where there are several or clients move; of segments in a row each, from the clients' end."""
    proxies: tuple[ProxyFacts, ...] = ()
    """Those between segments, from the clients' end. Each splits every flow that is TCP."""
    outages: tuple[Outage, ...] = ()
    """Of the path that is looked at."""
    mappings: tuple[AddressMapping, ...] = ()
    """Of the path that is looked at."""
    faults: tuple[Fault, ...] = ()
    """Of the path that is looked at."""
    series: tuple[SeriesFacts, ...] = ()
    """Of the path that is looked at."""

    def least_delay_ns(self, direction: Literal["to_client", "to_server"]) -> int:
        """The shortest delay that a packet of a direction may have at any time, without any queue."""
        link: LinkSettings = getattr(self.links, direction)
        delay, jitter = link.delay_ns, link.jitter_ns
        least = delay - jitter
        for change in self.changes:
            new: LinkSettingsChange | None = getattr(change, direction)
            if new is not None:
                delay = delay if new.delay_ns is None else new.delay_ns
                jitter = jitter if new.jitter_ns is None else new.jitter_ns
                least = min(least, delay - jitter)
        return least

    def for_path(self, path: str) -> LabFacts:
        """The lab with one of its paths, and the flows' addresses on that path."""
        (path_facts,) = (facts for facts in self.paths if facts.path == path)
        networks = [ipaddress.ip_network(network) for network in path_facts.networks]
        flows = tuple(flow.within(networks) for flow in self.flows)
        names = ("links", "changes", "outages", "mappings", "faults", "series")
        settings = {name: getattr(path_facts, name) for name in names}
        return self.model_copy(update={**settings, "flows": flows, "paths": (path_facts,)})

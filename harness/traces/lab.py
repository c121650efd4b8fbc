"""What was asked of the lab: endpoints' addresses, both directions of the link, changes over time (lab.json)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from harness.traces.files import read_bytes


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Endpoint(_Asked):
    """One end of a flow."""

    addresses: tuple[str, ...]


class FlowAddresses(_Asked):
    """Both ends of a flow, and what it was asked to do."""

    flow: int
    client: Endpoint
    server: Endpoint
    kind: Literal["quic", "tcp", "udp"] = "quic"
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


class LabFacts(_Asked):
    """lab.json: what the run's lab was asked to be."""

    flows: tuple[FlowAddresses, ...]
    links: Links
    changes: tuple[ScheduledChange, ...] = ()
    mtu: int = 1500
    """IP MTU of every interface, bytes."""


def read_lab(path: Path) -> LabFacts:
    """Read lab.json. Raises OSError; ValueError (pydantic's) where it does not say what it must."""
    return LabFacts.model_validate_json(read_bytes(path))

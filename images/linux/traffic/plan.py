"""What a flow is to be: read from the environment that the harness gives both of its ends."""

from __future__ import annotations

import json
import math
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from traffic import TrafficError
from traffic.law import Law

Role = Literal["client", "server"]
Kind = Literal["tcp", "udp"]
#: What a datagram holds at least: its number and the time it was sent, bytes.
HEAD = 16
#: TCP's congestion control where nothing is asked for, whatever this kernel's own default is.
DEFAULT_ALGORITHM = "cubic"


@dataclass(frozen=True)
class Plan:
    """One flow, as one of its ends sees it."""

    role: Role
    kind: Kind
    sender: Role
    seconds: float
    """From the client's start to the end of its traffic; infinite where a size ends it."""
    law: Law | None
    """When how much is sent; None for as much as goes."""
    seed: int
    peer: str
    """Name of the server."""
    algorithm: str = DEFAULT_ALGORITHM
    """The sender's congestion control; TCP only."""
    size: int | None = None
    """Bytes to transfer; TCP only. None where a time ends it."""

    @property
    def sends(self) -> bool:
        """Whether data comes from this end."""
        return self.role == self.sender


def _one_of(value: Any, words: Any, what: str) -> Any:
    if value not in get_args(words):
        raise TrafficError(f"{what} must be {' or '.join(get_args(words))}, not {value!r}")
    return value


def _algorithm(kind: Kind, words: list[str]) -> str:
    """The congestion control that the sender's words ask for."""
    algorithm = DEFAULT_ALGORITHM
    for word in words:
        found = re.fullmatch(r"--congestion-control=([a-z0-9_]+)", word)
        if found is None:
            raise TrafficError(f"not an option of this generator: {word}")
        if kind == "udp":
            raise TrafficError("UDP has no congestion control to choose")
        algorithm = found[1]
    return algorithm


def _extent(kind: Kind, raw: Mapping[str, Any]) -> tuple[float, int | None]:
    """(seconds, size): infinite and a size, or a time and None."""
    if (raw.get("seconds") is None) == (raw.get("size") is None):
        raise TrafficError("a flow has either seconds or a size")
    if raw.get("seconds") is not None:
        return float(raw["seconds"]), None
    size = int(raw["size"])
    if kind == "udp":
        raise TrafficError("UDP has no size: datagrams that are lost are not sent again")
    if size < 1:
        raise TrafficError(f"a size of {size} B")
    return math.inf, size


def read_plan(role: str, environment: Mapping[str, str]) -> Plan:
    """Read PEER, TRAFFIC and CLIENT_PARAMS or SERVER_PARAMS. TrafficError when they are not what they should be."""
    own = _one_of(role, Role, "the role")
    try:
        raw = json.loads(environment["TRAFFIC"])
        kind = _one_of(raw["kind"], Kind, "the kind of traffic")
        sender = _one_of(raw["sender"], Role, "the sender")
        law = Law.read(raw["traffic"])
        seconds, size = _extent(kind, raw)
        seed, words = int(raw["seed"]), [str(word) for word in raw["words"]]
        peer = environment["PEER"]
    except (KeyError, TypeError, ValueError) as error:
        raise TrafficError(f"TRAFFIC and PEER do not describe a flow: {type(error).__name__}: {error}") from error
    if own != sender and environment.get(f"{role.upper()}_PARAMS"):
        raise TrafficError(f"congestion control is the sender's, and this {role} sends no data")
    if kind == "udp" and law is None:
        raise TrafficError("UDP knows no bulk: nothing tells it how fast to send")
    if kind == "udp" and law is not None and law.packet[0] < HEAD:
        raise TrafficError(f"a datagram of {law.packet[0]} B has no room for its number and time, {HEAD} B")
    if kind == "tcp" and law is not None and law.model != "cbr":
        raise TrafficError(f"iperf3 sends at a constant rate or as much as goes, not by the law {law.model}")
    return Plan(own, kind, sender, seconds, law, seed, peer, _algorithm(kind, words), size)


def address_of(peer: str, port: int, kind: Kind) -> tuple[int, Any]:
    """(address family, socket address) of a host; the first that its name has. TrafficError when it has none."""
    kind_of = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    try:
        family, _, _, _, address = socket.getaddrinfo(peer, port, type=kind_of)[0]
    except OSError as error:
        raise TrafficError(f"PEER {peer}: {error}") from error
    return family, address

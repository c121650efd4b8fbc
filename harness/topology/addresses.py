"""The addresses of a lab: the interop runner's networks, shifted by slot where several labs are up at once.

Each path has a network of clients; the servers' network is shared. The networks of the clients of further paths are far
enough apart for the slots between them. Between segments in a row there are further networks, without endpoints.

The first network of a side has room for 50 flows, beside the addresses that a path writes in place of a client's. More
flows have addresses in the networks behind it, which are on the same wire. The simulator has host 2 of each of them, as
endpoints expect (images/endpoint/setup.sh).
"""

from __future__ import annotations

import ipaddress
from typing import Literal

Side = Literal["left", "right"]
"""left: clients, right: servers."""

#: Host parts of addresses. From the first simulator the others count up on the servers' side. From the first flow's
#: endpoints further flows count up. The last is of the addresses that a path writes in place of a client's.
FIRST_SIMULATOR, FIRST_ENDPOINT, FIRST_MAPPED = 2, 100, 150
#: Flows with addresses in the first network of a side, and in each further one; the first host there.
FIRST_FLOWS, FURTHER_FLOWS, _FURTHER_ENDPOINT = 50, 200, 50
#: Addresses that a path has for rewriting, before it reuses them.
MAPPED_COUNT = 100
#: Distance of two paths' networks of clients, in the third byte; slots lie between.
_PATH = 25
#: The first network between two segments, two for each of seven boundaries; slots lie between.
_BETWEEN, _NEXT = 126, 9
#: Host parts of the two stations in a network between two segments, that at the clients' end first.
STATION_HOSTS = 2, 3


def is_simulator(address: str) -> bool:
    """Whether an address, IPv4 or IPv6, is that of a lab's first simulator, in whatever network. ValueError."""
    parsed = ipaddress.ip_address(address)
    host_bits = 8 if isinstance(parsed, ipaddress.IPv4Address) else 64
    return int(parsed) % (1 << host_bits) == FIRST_SIMULATOR


def network(side: Side, slot: int, path: int = 0) -> tuple[str, str]:
    """A side's network, IPv4 and IPv6. `path`: the number of the path whose clients' network it is."""
    return _network_prefixes(_third_byte(side, slot, path))


def address(side: Side, slot: int, host: int, path: int = 0) -> tuple[str, str]:
    """A host's addresses on a side, IPv4 and IPv6."""
    return _host_addresses(_third_byte(side, slot, path), host)


def flow_address(side: Side, slot: int, flow: int, path: int = 0) -> tuple[str, str]:
    """The addresses of a flow's client (left) or server (right), IPv4 and IPv6."""
    if flow < FIRST_FLOWS:
        return address(side, slot, FIRST_ENDPOINT + flow, path)
    number, host = divmod(flow - FIRST_FLOWS, FURTHER_FLOWS)
    return _host_addresses(_third_byte(side, slot, path) + 1 + number, _FURTHER_ENDPOINT + host)


def further_networks(side: Side, slot: int, flows: int, path: int = 0) -> tuple[tuple[str, str], ...]:
    """The networks of a side behind its first that so many flows need, IPv4 and IPv6 each."""
    return tuple(_network_prefixes(third) for third in _further_bytes(side, slot, flows, path))


def further_addresses(side: Side, slot: int, host: int, flows: int, path: int = 0) -> tuple[tuple[str, str], ...]:
    """A host's addresses in these networks, IPv4 and IPv6 each."""
    return tuple(_host_addresses(third, host) for third in _further_bytes(side, slot, flows, path))


def _further_bytes(side: Side, slot: int, flows: int, path: int) -> range:
    first = _third_byte(side, slot, path) + 1
    return range(first, first - (FIRST_FLOWS - flows) // FURTHER_FLOWS) if flows > FIRST_FLOWS else range(0)


def network_between(number: int, slot: int) -> tuple[str, str]:
    """A network between two segments, IPv4 and IPv6, by its number from the clients' end."""
    return _network_prefixes(_BETWEEN + _NEXT * number + slot)


def address_between(number: int, slot: int, host: int) -> tuple[str, str]:
    """A host's addresses in a network between two segments, IPv4 and IPv6."""
    return _host_addresses(_BETWEEN + _NEXT * number + slot, host)


def _host_addresses(third: int, host: int) -> tuple[str, str]:
    return f"193.167.{third}.{host}", f"fd00:cafe:cafe:{third}::{host}"


def _network_prefixes(third: int) -> tuple[str, str]:
    return f"193.167.{third}.0/24", f"fd00:cafe:cafe:{third}::/64"


def _third_byte(side: Side, slot: int, path: int) -> int:
    return slot + _PATH * path if side == "left" else 100 + slot

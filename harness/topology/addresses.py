"""The addresses of a lab: the interop runner's networks, shifted by slot where several labs are up at once.

Each path has a network of clients; the servers' network is shared. The networks of the clients of further paths are far
enough apart for the slots between them. Between segments in a row there are further networks, without endpoints.
"""

from __future__ import annotations

from typing import Literal

Side = Literal["left", "right"]
"""left: clients, right: servers."""

#: Host parts of addresses. From the first simulator the others count up on the servers' side. From the first flow's
#: endpoints further flows count up. The last is of the addresses that a path writes in place of a client's.
FIRST_SIMULATOR, FIRST_ENDPOINT, FIRST_MAPPED = 2, 100, 150
#: Addresses that a path has for rewriting, before it reuses them.
MAPPED_COUNT = 100
#: Distance of two paths' networks of clients, in the third byte; slots lie between.
_PATH = 25
#: The first network between two segments, two for each of seven boundaries; slots lie between.
_BETWEEN, _NEXT = 126, 9
#: Host parts of the two stations in a network between two segments, that at the clients' end first.
STATION_HOSTS = 2, 3


def network(side: Side, slot: int, path: int = 0) -> tuple[str, str]:
    """A side's network, IPv4 and IPv6. `path`: the number of the path whose clients' network it is."""
    return _network_prefixes(_third_byte(side, slot, path))


def address(side: Side, slot: int, host: int, path: int = 0) -> tuple[str, str]:
    """A host's addresses on a side, IPv4 and IPv6."""
    return _host_addresses(_third_byte(side, slot, path), host)


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

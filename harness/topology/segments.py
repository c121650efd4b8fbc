"""The lab of segments in a row: a simulator for each, proxies between them, and the routes of all stations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.scenario.schema import Proxy as Asked
from harness.scenario.schema import Scenario
from harness.topology.addresses import (
    FIRST_SIMULATOR,
    STATION_HOSTS,
    Side,
    address,
    address_between,
    network,
    network_between,
)
from harness.topology.spec import Interface, Network, ProxyHost, Route

#: Settings of every proxy's kernel: it forwards, and does not take packets for others' addresses for forged.
_PROXY_SYSCTLS = {
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.ip_forward": "1",
    "net.ipv6.conf.all.disable_ipv6": "0",
    "net.ipv6.conf.all.forwarding": "1",
}
#: The first two of the three figures of a buffer: its minimum and its default size (Linux's own).
_SEND, _LEAST, _FIRST = "4096 16384", 4096, 131072


@dataclass(frozen=True)
class Station:
    """The interfaces and routes of a simulator or a proxy, which packets pass."""

    left: Interface
    right: Interface
    routes: tuple[Route, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The networks, simulators and proxies, from the clients' end to the servers'."""

    networks: dict[str, Network]
    simulators: tuple[Station, ...]
    proxies: tuple[ProxyHost, ...]


def segment_layout(scenario: Scenario, slot: int) -> Layout:
    """The networks of segments in a row, and their stations."""
    kinds = _station_kinds(scenario)
    networks = _networks(len(kinds), slot)
    names = list(networks)
    stations = [
        Station(
            _end_interface(networks, names, number, "right", slot),
            _end_interface(networks, names, number + 1, "left", slot),
        )
        for number in range(len(kinds))
    ]
    routed = [replace(station, routes=_routes(stations, networks, number)) for number, station in enumerate(stations)]
    simulators = tuple(station for station, kind in zip(routed, kinds, strict=True) if kind is None)
    proxies = [(station, kind) for station, kind in zip(routed, kinds, strict=True) if kind is not None]
    return Layout(
        networks, simulators, tuple(_proxy(number, *pair, scenario.path.mtu) for number, pair in enumerate(proxies))
    )


def _station_kinds(scenario: Scenario) -> list[Asked | None]:
    """The stations in order, from the clients' end: None for a simulator."""
    kinds: list[Asked | None] = [None]
    for boundary in scenario.proxies:
        kinds += [None] if boundary is None else [boundary, None]
    return kinds


def _networks(stations: int, slot: int) -> dict[str, Network]:
    prefixes = {"left": network("left", slot)}
    prefixes |= {f"between{number}": network_between(number, slot) for number in range(stations - 1)}
    prefixes["right"] = network("right", slot)
    sides: dict[str, Side] = {"left": "left", "right": "right"}
    return {name: Network(side=sides.get(name), ipv4=ipv4, ipv6=ipv6) for name, (ipv4, ipv6) in prefixes.items()}


def _end_interface(networks: dict[str, Network], names: Sequence[str], number: int, side: Side, slot: int) -> Interface:
    """An interface in the network of that number, at its left or right end."""
    name = names[number]
    if (outer_side := networks[name].side) is not None:
        ipv4, ipv6 = address(outer_side, slot, FIRST_SIMULATOR)
    else:
        ipv4, ipv6 = address_between(number - 1, slot, STATION_HOSTS[side == "right"])
    return Interface(network=name, ipv4=ipv4, ipv6=ipv6)


def _routes(stations: Sequence[Station], networks: dict[str, Network], number: int) -> tuple[Route, ...]:
    """The routes of one station to the networks that it is not in."""
    names, routes = list(networks), []
    for place, name in enumerate(names):
        if place in (number, number + 1):
            continue
        side: Side = "left" if place < number else "right"
        neighbour = stations[number - 1].right if side == "left" else stations[number + 1].left
        target_network = networks[name]
        for target, via in ((target_network.ipv4, neighbour.ipv4), (target_network.ipv6, neighbour.ipv6)):
            routes.append(Route(network=target, side=side, via=via))
    return tuple(routes)


def _receive_buffer(proxy: Asked, mtu: int) -> str:
    """tcp_rmem: a connection's default buffer holds its initial window, which is half of it (tcp_win_from_space)."""
    first = min(max(_FIRST, 2 * mtu * proxy.initial_rwnd), proxy.tcp_rmem_max.bytes)
    return f"{_LEAST} {first} {proxy.tcp_rmem_max.bytes}"


def _proxy(number: int, station: Station, proxy: Asked, mtu: int) -> ProxyHost:
    return ProxyHost(
        name=f"proxy{number}",
        left=station.left,
        right=station.right,
        routes=station.routes,
        sysctls={
            **_PROXY_SYSCTLS,
            "net.ipv4.tcp_rmem": _receive_buffer(proxy, mtu),
            "net.ipv4.tcp_wmem": f"{_SEND} {proxy.tcp_wmem_max.bytes}",
        },
        initial_cwnd=proxy.initial_cwnd,
        initial_rwnd=proxy.initial_rwnd,
        congestion_control=proxy.congestion_control,
    )

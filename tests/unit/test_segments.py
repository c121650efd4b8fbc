"""Segments in a row: what they are together, the lab that is made of them, and what proxies are told."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from simulator.plan import Route
from simulator.split import catching, configuration, delivering, routes

from harness.planning.sweep import expand_points
from harness.report.explanation import scenario_text
from harness.scenario.schema import MAXIMUM_SEGMENTS, Scenario
from harness.topology import Lab, build_lab, sim_plan
from harness.units import Duration, Percentage, Rate
from tests.bad_segments import SEQUENCE
from tests.examples import catalogue, cell, implementation

LAN = {"rate": "1 Gbit/s", "delay": "1 ms"}
PROXY = {"proxy": "tcp-split"}


def sequence(*steps: object, **more: object) -> Scenario:
    """Segments by their names, and what else is given as it is."""
    segments = [{"name": step, "forward": LAN, "return": LAN} if isinstance(step, str) else step for step in steps]
    content = {"title": "A row", "path": segments, "flows": [{"download": "1 MB"}], **more}
    return Scenario.model_validate(content)


def lab(*steps: object) -> Lab:
    return build_lab(cell(sequence(*steps), implementation(), implementation()), 0)


def test_from_end_to_end_it_is_the_slowest_rate_and_all_delays_and_losses() -> None:
    fast = {"rate": "100 Mbit/s", "delay": "3 ms", "jitter": "1 ms", "loss": "10 %"}
    slow = {"rate": "10 Mbit/s", "delay": "300 ms", "loss": "20 %", "queue": "100 ms"}
    row = sequence({"name": "a", "forward": fast, "return": slow}, {"name": "b", "forward": slow, "return": fast})
    for link in (row.path.forward, row.path.return_):
        assert (link.rate, link.delay) == (Rate.parse("10 Mbit/s"), Duration.parse("303 ms"))
        assert (link.jitter, link.loss) == (Duration.parse("1 ms"), Percentage.parse("28 %"))
        assert link.queue.capacity.bytes_at(link.rate, row.path.rtt, 1514) == 125_000
    # The clients are behind the last one.
    assert list(row.every_path) == ["b", "a"]


def test_every_station_knows_the_way_to_every_network() -> None:
    """Packets come from any end to the other by the routes alone, each hop a neighbour of the one before."""
    built_lab = lab("a", PROXY, "b", "c", PROXY, "d")
    stations = built_lab.stations
    assert [station.name for station in stations] == ["sim", "proxy0", "sim-c", "sim-b", "proxy1", "sim-a"]
    by_address = {each.ipv4: station for station in stations for each in station.interfaces.values()}
    for target, first in (("right", stations[0]), ("left", stations[-1])):
        at, passed = first, [first.name]
        while target not in (at.left.network, at.right.network):
            (route,) = (each for each in at.routes if each.network == built_lab.networks[target].ipv4)
            at = by_address[route.via]
            passed.append(at.name)
        assert passed == [station.name for station in (stations if target == "right" else stations[::-1])]
    for station in stations:
        own = [ipaddress.ip_interface(text).network for each in station.interfaces.values() for text in each.prefixed]
        known = {*own, *(ipaddress.ip_network(route.network) for route in station.routes)}
        every = (text for network in built_lab.networks.values() for text in (network.ipv4, network.ipv6))
        assert known == set(map(ipaddress.ip_network, every))


def test_the_first_simulator_asks_the_servers_before_the_others_delay_anything() -> None:
    built_lab = lab("a", PROXY, "b")
    first, second = (sim_plan(built_lab, simulator) for simulator in built_lab.simulators)
    assert (first["after"], second["after"]) == ("", "sim")
    assert len(first["wait_for"]) == 1
    assert second["wait_for"] == []
    beside = {each["address"] for each in first["neighbours"] if each["side"] == "right"}
    assert beside == set(built_lab.proxies[0].left.addresses)


def test_no_two_addresses_of_the_longest_row_are_alike() -> None:
    steps = [step for number in range(MAXIMUM_SEGMENTS) for step in (f"s{number}", PROXY)][:-1]
    built_lab = lab(*steps)
    addresses = [text for each in built_lab.stations for face in each.interfaces.values() for text in face.addresses]
    assert len(set(addresses)) == len(addresses)
    networks = [ipaddress.ip_network(network.ipv4) for network in built_lab.networks.values()]
    assert len(set(networks)) == len(networks) == 2 * MAXIMUM_SEGMENTS
    assert len(built_lab.proxies) == MAXIMUM_SEGMENTS - 1
    # Whatever a slot adds, networks of another slot are others.
    other = build_lab(cell(sequence(*steps), implementation(), implementation()), 0, slot=8)
    assert not {network.ipv4 for network in other.networks.values()} & set(map(str, networks))


def test_a_row_is_another_cell_with_other_proxies_and_with_none() -> None:
    plain, split = lab("a", "b"), lab("a", PROXY, "b")
    wide = lab("a", PROXY | {"initial_cwnd": 100}, "b")
    assert split.proxies[0].initial_cwnd == 10
    assert wide.proxies[0].initial_cwnd == 100
    assert plain.proxies == ()


def test_a_proxys_first_receive_buffer_holds_its_initial_window() -> None:
    for packets, first in ((10, 131_072), (100, 300_000), (3000, 6_000_000)):
        (proxy,) = lab("a", PROXY | {"initial_rwnd": packets}, "b").proxies
        assert proxy.sysctls["net.ipv4.tcp_rmem"] == f"4096 {first} 6000000"


def test_a_sweep_sets_all_proxies_and_one_segment(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text(SEQUENCE)
    scenario = catalogue().scenario(tmp_path / "case.yaml")
    points = expand_points(scenario, {}, {"path.proxy.initial_cwnd": ["10", "32"]})
    assert len(points) == 2 * 2 * 2
    assert {proxy.initial_cwnd for point in points for proxy in point.scenario.proxies if proxy} == {10, 32}
    losses = {point.scenario.every_path["satellite"].forward.mean_loss for point in points}
    assert losses == {0.0, 0.01}
    assert all(point.scenario.every_path["wifi"] == scenario.every_path["wifi"] for point in points)


def test_no_client_moves_behind_segments(tmp_path: Path) -> None:
    text = SEQUENCE.replace("{kind: tcp, download: 10 MB}", "{download: 10 MB, moves: [{at: 1 s, how: nat-port}]}")
    (tmp_path / "case.yaml").write_text(text)
    with pytest.raises(Exception, match="a client behind segments in a row stays where it is"):
        catalogue().scenario(tmp_path / "case.yaml")


def test_words_for_people_name_every_segment(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text(SEQUENCE)
    text = scenario_text(catalogue().scenario(tmp_path / "case.yaml"), "virtual")
    assert all(f"segment {name}" in text for name in ("internet", "satellite", "wifi"))
    assert (
        "proxy: splits TCP; send buffer 33 MB, receive buffer 6 MB, initial windows 100 and 10 packets, cubic" in text
    )


def test_a_proxy_takes_what_comes_from_the_clients_and_what_answers_its_own_connections() -> None:
    commands = [" ".join(command) for command in catching("eth1")]
    rules = [command for command in commands if command.startswith("nft add rule")]
    # Its own first: what answers them must not be taken for another client's.
    assert "socket transparent 1 meta mark set 100 accept" in rules[0]
    assert [("iifname eth1" in rule, "tproxy" in rule) for rule in rules] == [
        (False, False),
        (True, True),
        (True, True),
    ]
    assert [" ".join(command) for command in delivering()] == [
        "ip -4 rule add fwmark 100 lookup 100",
        "ip -4 route add local 0.0.0.0/0 dev lo table 100",
        "ip -6 rule add fwmark 100 lookup 100",
        "ip -6 route add local ::/0 dev lo table 100",
    ]


def test_a_proxy_connects_from_the_callers_own_address() -> None:
    text = configuration()
    assert text.count("option transparent") == text.count("usesrc client") == text.count("transparent\n    option") == 2


def test_connections_that_take_a_route_start_with_its_windows() -> None:
    (command,) = routes([Route("193.167.0.0/24", "left", "193.167.126.2")], {"left": "eth0"}, "initcwnd", "32")
    assert " ".join(command) == ("ip route replace 193.167.0.0/24 via 193.167.126.2 dev eth0 onlink initcwnd 32")

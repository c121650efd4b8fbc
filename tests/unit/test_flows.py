"""Flows of several kinds: what may be written, who plays them, what the lab makes of them."""

from __future__ import annotations

import json
from ipaddress import ip_interface
from itertools import combinations
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.cli.options import require_few_flows
from harness.engine.compose_file import compose_document
from harness.errors import InputError
from harness.execution.matrix import Request, build_matrix, named_implementations, swept_points
from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError, configure_endpoints
from harness.scenario.schema import Flow, Implementation, Scenario
from harness.topology import Lab, build_lab, lab_summary
from harness.topology.build import served_size
from tests.examples import SIM, catalogue, images, implementation, path, scenario

UDP = {"kind": "udp", "stop": "50 s", "traffic": {"model": "poisson", "rate": "8 Mbit/s", "packet": "1000 B"}}
TCP = {"kind": "tcp", "stop": "15 s", "parameters": {"server.congestion_control": "reno"}}


def generator() -> Implementation:
    setting = {"flag": "--congestion-control={value}", "values": ["reno", "cubic"], "default": "cubic"}
    settings = {
        "congestion_control": {"client": setting, "server": setting},
        "initial_cwnd": {"environment": "INITCWND={value}"},
        "tcp_wmem_max": {"sysctl": "net.ipv4.tcp_wmem=4096 16384 {bytes}"},
        "tcp_rmem_max": {"sysctl": "net.ipv4.tcp_rmem=4096 131072 {bytes}"},
    }
    return implementation("linux", protocols=["tcp", "udp"], parameters=settings)


def flow_cells(*flows: object, **overrides: object) -> list[Cell]:
    implementations = {stack.name: stack for stack in (generator(), implementation("gamma"), implementation("delta"))}
    tested_scenario = scenario(flows=list(flows), objectives=[], **overrides)
    request = Request([tested_scenario], [implementation("alpha")], [implementation("beta"), implementation("gamma")])
    assert set(named_implementations(swept_points(request))) <= set(implementations)
    return build_matrix(request, images("alpha", "beta", *implementations), SIM, implementations)


def lab(*flows: object, **overrides: object) -> Lab:
    return build_lab(flow_cells(*flows, **overrides)[0], 0)


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        ({}, "exactly one of download"),
        ({"download": "1 MB", "stop": "5 s"}, "exactly one of download"),
        ({"start": "6 s", "stop": "5 s"}, "before it starts"),
        ({"stop": "5 s", "repeat_after": "1 s"}, "not repeated"),
        ({"stop": "5 s", "traffic": {"model": "cbr", "rate": "1 Mbit/s"}}, "their flows are in bulk"),
        ({"download": "1 MB", "direction": "to_server"}, "what goes to the server is no download"),
        ({"upload": "1 MB", "download": "1 MB"}, "download says it once more"),
        ({"upload": "1 MB", "direction": "to_server"}, "direction says it once more"),
        ({"upload": "1 MB", "stop": "5 s"}, "exactly one of download"),
        ({"kind": "tcp", "upload": "0 B"}, "transfers something"),
        ({"kind": "tcp"}, "exactly one of download"),
        ({"kind": "tcp", "download": "1 MB", "stop": "5 s"}, "exactly one of download"),
        ({"kind": "tcp", "download": "1 MB", "repeat_after": "1 s"}, "tcp is not repeated"),
        ({"kind": "tcp", "download": "0 B"}, "transfers something"),
        (
            {"kind": "tcp", "download": "1 MB", "traffic": {"model": "poisson", "rate": "1 Mbit/s"}},
            "bulk or cbr",
        ),
        ({"kind": "udp", "download": "1 MB", "traffic": {"model": "cbr", "rate": "1 Mbit/s"}}, "a stop, no size"),
        ({"kind": "udp", "stop": "5 s"}, "cbr, poisson or uniform"),
        ({"kind": "tcp", "stop": "5 s", "traffic": {"model": "poisson", "rate": "1 Mbit/s"}}, "bulk or cbr"),
        ({"kind": "udp", "stop": "5 s", "traffic": {"model": "poisson", "rate": "900 Mbit/s"}}, "at most"),
        ({"kind": "udp", "stop": "5 s", "traffic": {"model": "cbr", "rate": "1 Mbit/s", "packet": "9 kB"}}, "payload"),
        (
            {
                "kind": "udp",
                "stop": "5 s",
                "traffic": {"model": "uniform", "packet": ["9 B", "2 B"], "gap": ["1 s"] * 2},
            },
            "smallest to the largest",
        ),
    ],
)
def test_what_is_no_flow(flow: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Flow.model_validate(flow)


def test_a_plain_number_as_a_bound_is_read_back() -> None:
    tested_scenario = scenario(
        objectives=[{"metric": "jain_shared", "at_least": 0.95}, {"metric": "completion", "at_most": "3 s"}]
    )
    assert (
        Scenario.model_validate_json(tested_scenario.model_dump_json(by_alias=True)).objectives
        == tested_scenario.objectives
    )


def test_a_flow_is_over_within_the_timeout() -> None:
    with pytest.raises(ValidationError, match="longer than the timeout"):
        scenario(flows=[{"stop": "200 s"}], objectives=[])


def test_a_path_has_room_for_so_many_access_delays() -> None:
    flows = [{"stop": "5 s", "access_delay": f"{number} ms"} for number in range(16)]
    with pytest.raises(ValidationError, match="15 different access delays"):
        scenario(flows=flows, objectives=[])


@pytest.mark.parametrize(
    ("low", "high", "limit"), [("9 kB", "8 kB", "30 kB"), ("9 kB", "40 kB", "30 kB"), ("9 kB", "9 kB", "30 kB")]
)
def test_red_has_its_thresholds_in_order_and_inside_the_queue(low: str, high: str, limit: str) -> None:
    queue = {"discipline": "red", "limit": limit, "min": low, "max": high, "probability": "10 %", "wq": 0.002}
    with pytest.raises(ValidationError, match="min below max, and max within the limit"):
        path(forward={"rate": "10 Mbit/s", "delay": "10 ms", "queue": queue})


def test_uniform_traffic_has_a_mean_rate() -> None:
    flow = Flow.model_validate(
        {
            "kind": "udp",
            "stop": "50 s",
            "traffic": {"model": "uniform", "packet": ["500 B", "1000 B"], "gap": ["10 ms", "20 ms"]},
        }
    )
    # 750 bytes every 15 ms.
    assert str(flow.traffic.rate) == "400 kbit/s"  # type: ignore[union-attr]


def test_who_plays_a_flow() -> None:
    cells = flow_cells({"stop": "5 s"}, {"stop": "5 s", "server": "delta"}, TCP)
    # Somebody of the matrix plays in the first flow, so there is a cell for every server.
    assert [cell.server.name for cell in cells] == ["beta", "gamma"]
    assert cells[0].key != cells[1].key
    cell = cells[0]
    players = [tuple(cell.implementation(role, flow).name for role in ("client", "server")) for flow in range(3)]
    assert players == [("alpha", "beta"), ("alpha", "delta"), ("linux", "linux")]
    assert cell.image("server", 1).identity == "digest-of-delta"


def test_flows_that_name_everybody_need_no_matrix() -> None:
    cells = flow_cells(TCP, UDP)
    assert [(cell.client.name, cell.server.name) for cell in cells] == [("linux", "linux")]
    both = flow_cells({"stop": "5 s", "client": "gamma", "server": "delta"})
    assert [(cell.client.name, cell.server.name) for cell in both] == [("gamma", "delta")]


def test_another_implementation_in_a_flow_is_another_cell() -> None:
    keys = {flow_cells({"stop": "5 s"}, {"stop": "5 s", "server": name})[0].key for name in ("gamma", "delta")}
    assert len(keys) == 2


def test_a_generator_is_told_what_its_sender_does() -> None:
    built_lab = lab({"stop": "5 s"}, {**TCP, "start": "3 s"}, UDP, {**UDP, "direction": "to_server"})
    generators = [json.loads(built_lab.host(f"client{flow}").environment["TRAFFIC"]) for flow in (1, 2, 3)]
    assert [item["kind"] for item in generators] == ["tcp", "udp", "udp"]
    assert generators[0]["words"] == ["--congestion-control=reno"]
    assert generators[0]["seconds"] == 12
    assert generators[1]["traffic"] == {"model": "poisson", "rate": 8_000_000, "packet": [1000, 1000]}
    assert [item["sender"] for item in generators] == ["server", "server", "client"]
    assert generators[1]["seed"] != generators[2]["seed"], "two flows do not send at the same moments"
    assert built_lab.host("server1").environment["TRAFFIC"] == built_lab.host("client1").environment["TRAFFIC"]
    assert "REQUESTS" not in built_lab.host("client1").environment
    assert [flow.label for flow in built_lab.flows] == ["alpha → beta", "TCP (reno)", "UDP (poisson)", "UDP (poisson)"]


def test_a_flow_of_tcp_may_have_a_size() -> None:
    cbr = {"model": "cbr", "rate": "1 Mbit/s"}
    built_lab = lab(
        {"download": "1 MB"},
        {"kind": "tcp", "download": "10 MB", "start": "2 s"},
        {"kind": "tcp", "download": "64 KiB", "direction": "to_server", "traffic": cbr},
        {"kind": "tcp", "stop": "4 s"},
    )
    generators = [json.loads(built_lab.host(f"server{flow}").environment["TRAFFIC"]) for flow in (1, 2, 3)]
    assert [(item.get("size"), item.get("seconds")) for item in generators] == [(10**7, None), (65536, None), (None, 4)]
    assert [item["sender"] for item in generators] == ["server", "client", "server"]
    assert generators[1]["traffic"]["rate"] == 1_000_000
    assert [(flow["start"], flow["stop"]) for flow in lab_summary(built_lab)["flows"]] == [
        (0, None),
        (2, None),
        (0, None),
        (0, 4),
    ]
    # Nothing is served, nobody but the generator ends it, and it has the time that any transfer may take.
    assert [(flow.file, flow.size, flow.cut_off) for flow in built_lab.flows[1:]] == [("", 0, False)] * 3
    assert built_lab.time_limit(built_lab.flows[1]) == built_lab.timeout


def test_what_ends_by_itself_has_milestones() -> None:
    tested_scenario = scenario(flows=[{"kind": "tcp", "download": "20 MB"}, {"download": "5 MB"}], objectives=[])
    assert [size.label() for size in tested_scenario.milestones_within()] == ["2MB", "10MB"]
    with pytest.raises(ValidationError, match="objective on milestone_2MB, but the milestones are none"):
        scenario(flows=[{"kind": "tcp", "stop": "20 s"}], objectives=[{"metric": "milestone_2MB", "at_most": "3 s"}])


def test_a_host_s_kernel_is_set_where_a_flow_asks_for_it() -> None:
    asked = {"server.tcp_wmem_max": "33 MB", "client.tcp_rmem_max": "33 MB", "server.initial_cwnd": 100}
    built_lab = lab({"stop": "5 s"}, {**TCP, "parameters": asked})
    assert built_lab.host("server1").sysctls == {"net.ipv4.tcp_wmem": "4096 16384 33000000"}
    assert built_lab.host("client1").sysctls == {"net.ipv4.tcp_rmem": "4096 131072 33000000"}
    assert built_lab.host("server1").environment["INITCWND"] == "100"
    assert not built_lab.host("server0").sysctls and "INITCWND" not in built_lab.host("client1").environment
    services = compose_document(built_lab)["services"]
    assert services["server1"]["sysctls"] == {"net.ipv4.tcp_wmem": "4096 16384 33000000"}
    assert "sysctls" not in services["server0"]


def test_only_quic_flows_take_what_is_asked_of_the_cell() -> None:
    built_lab = lab({"stop": "5 s"}, TCP, UDP, parameters={"server.congestion_control": "cubic"})
    assert built_lab.host("server0").environment["SERVER_PARAMS"] == "--cc=cubic"
    assert built_lab.host("server1").environment["SERVER_PARAMS"] == "--congestion-control=reno"
    assert built_lab.host("server2").environment["SERVER_PARAMS"] == ""
    assert built_lab.effective["server.congestion_control"] == "cubic"
    assert built_lab.effective["flow1.server.congestion_control"] == "reno"


def test_a_flow_of_tcp_needs_who_speaks_it() -> None:
    with pytest.raises(UnsupportedError, match="gamma does not speak tcp"):
        build_lab(flow_cells({**TCP, "server": "gamma"})[0], 0)


def test_what_is_cut_off_has_more_to_send_than_can_pass() -> None:
    flow, link = (
        Flow.model_validate({"start": "5 s", "stop": "30 s"}),
        path(forward={"rate": "10 Mbit/s", "delay": "1 s"}),
    )
    # 25 s at 10 Mbit/s are 31.25 MB.
    assert served_size(flow, link).bytes == 50_000_000
    built_lab = lab({"stop": "5 s"})
    assert built_lab.flows[0].cut_off
    assert built_lab.time_limit(lab(TCP).flows[0]) == pytest.approx(25), (
        "the generator ends by itself, with some patience"
    )


def test_a_sweep_may_change_one_flow() -> None:
    def points(**vary: list[object]) -> list[Cell]:
        return flow_cells(
            {"stop": "5 s"}, {"stop": "5 s"}, vary={name.replace("__", "."): item for name, item in vary.items()}
        )

    swept = points(flow1__server=["gamma", "delta"], flow0__server__congestion_control=["reno", "cubic"])
    assert len(swept) == 2 * 2 * 2
    assert {cell.implementation("server", 1).name for cell in swept} == {"gamma", "delta"}
    assert swept[0].parameters == {"flow1.server": "gamma", "flow0.server.congestion_control": "reno"}
    assert build_lab(swept[0], 0).host("server0").environment["SERVER_PARAMS"] == "--cc=reno"
    assert build_lab(swept[0], 0).host("server1").environment["SERVER_PARAMS"] == ""
    with pytest.raises(InputError, match="there are 2 flows"):
        points(flow2__server=["gamma"])
    with pytest.raises(InputError, match="not a property of a flow"):
        points(flow1__colour=["red"])
    with pytest.raises(InputError, match="has no unit"):
        points(flow1__access_delay=["5"])


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("flows:\n  - {stop: 5 s, server: quicke}\n", "7:25", "implementation 'quicke'"),
        ("flows:\n  - {stop: 5 s}\nclients: [ngtcp2, quich]\n", "8:19", "implementation 'quich'"),
        ("flows:\n  - {stop: 5 s}\nvary:\n  flow0.server: [quick]\n", "9:18", "implementation 'quick'"),
        ("flows:\n  - {stop: 5 s}\nparameters:\n  server.congestion_control: reeno\n", "9:30", "congestion control"),
        (
            "flows:\n  - {kind: tcp, stop: 5 s, parameters: {server.congestion_control: vegan}}\n",
            "7:68",
            "congestion control 'vegan'",
        ),
    ],
)
def test_names_that_nobody_has_are_found_where_they_stand(tmp_path: Path, text: str, place: str, words: str) -> None:
    file = tmp_path / "case.yaml"
    links = "path:\n  forward: {rate: 1 Mbit/s, delay: 1 s}\n  return: {rate: 1 Mbit/s, delay: 1 s}\n"
    file.write_text(f"schema: 1\ntitle: x\n{links}{text}")
    with pytest.raises(InputError) as caught:
        catalogue().scenario(file)
    assert f"{file}:{place}: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("family", ["dumbbell", "queue"])
def test_the_shipped_scenarios_make_labs(family: str) -> None:
    implementations = {name: stack for name, (stack, _) in catalogue().implementations().items()}
    for tested_scenario in catalogue().find_scenarios([family]):
        clients, servers = (
            [implementations[name] for name in names or ("ngtcp2",)]
            for names in (tested_scenario.clients, tested_scenario.servers)
        )
        request = Request([tested_scenario], clients, servers)
        names = {*named_implementations(swept_points(request)), *(item.name for item in (*clients, *servers))}
        seen: dict[str, set[object]] = {name: set() for name in tested_scenario.vary}
        played = set()
        for cell in build_matrix(request, images(*names), SIM, implementations):
            try:
                lab = build_lab(cell, 0)
            except UnsupportedError as error:
                assert "congestion_control" in str(error)
                continue
            assert len(lab.flows) == len(tested_scenario.flows)
            played.add(cell.server.name)
            for name, values in seen.items():
                values.add(cell.parameters[name])
        # Nothing is in a scenario's lists that nobody can play.
        assert all(values == {str(value) for value in tested_scenario.vary[name]} for name, values in seen.items())
        assert played >= {item.name for item in servers} or not tested_scenario.open_roles


def test_a_scenario_says_who_is_in_it_where_nobody_else_does() -> None:
    tested_scenario: Scenario = scenario(flows=[{"stop": "5 s"}], objectives=[], servers=["gamma"])
    everyone = [implementation(name) for name in ("alpha", "beta", "gamma")]
    pictures = images("alpha", "beta", "gamma")
    by_default = build_matrix(
        Request([tested_scenario], everyone[:1], everyone, default_roles=frozenset({"server"})), pictures, SIM
    )
    assert [cell.server.name for cell in by_default] == ["gamma"]
    cells = build_matrix(Request([tested_scenario], everyone[:1], everyone[:2]), pictures, SIM)
    assert [cell.server.name for cell in cells] == ["alpha", "beta"]


# --- several equal flows, and several hundred


def test_an_entry_with_a_count_stands_for_several_flows() -> None:
    counted = scenario(flows=[{"download": "1 MB", "count": 3, "every": "2 s", "start": "1 s"}, {"download": "5 MB"}])
    starts = [flow.start.seconds for flow in counted.flows]
    assert starts == [1, 3, 5, 0] and [flow.count for flow in counted.flows] == [1, 1, 1, 1]
    written = [{"download": "1 MB", "start": f"{start} s"} for start in (1, 3, 5)]
    assert counted == scenario(flows=[*written, {"download": "5 MB"}])
    # What is stored has all flows, and is read as such.
    assert Scenario.model_validate(counted.model_dump(mode="json", by_alias=True)) == counted


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        ({"download": "1 MB", "count": 0}, "greater than or equal to 1"),
        ({"download": "1 MB", "count": 501}, "less than or equal to 500"),
        ({"download": "1 MB", "every": "1 s"}, "no other to start after"),
        ({"stop": "5 s", "count": 10, "every": "1 s"}, "the last of 10 flows starts at 9 s"),
        (
            {"download": "1 MB", "count": 2, "every": "1 s", "moves": [{"at": "2 s", "how": "nat-port"}]},
            "flows that move start together",
        ),
        ({"download": "100 kB", "connections": 2}, "the flow has none to share"),
        ({"files": [{"count": 2, "size": "1 kB"}], "connections": 3}, "3 connections share 2 files"),
    ],
)
def test_counts_that_cannot_be(flow: object, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Flow.model_validate(flow)


def test_several_connections_of_a_client_share_its_files() -> None:
    files = [{"count": 6, "size": "1 MB"}]
    (made_cell,) = flow_cells({"files": files, "connections": 6})[:1]
    with pytest.raises(UnsupportedError, match="alpha makes one connection at a time"):
        configure_endpoints(made_cell, 0)
    (able,) = build_matrix(
        Request(
            [scenario(flows=[{"files": files, "connections": 6}], objectives=[])],
            [implementation("alpha", connections=True)],
            [implementation("beta")],
        ),
        images("alpha", "beta"),
        SIM,
        {},
    )
    assert build_lab(able, 0).host("client0").environment["CONNECTIONS"] == "6"


def test_more_flows_than_a_lab_has_room_for() -> None:
    with pytest.raises(ValidationError, match="600 flows, and a lab has room for 500"):
        scenario(flows=[{"download": "1 MB", "count": 300}] * 2, objectives=[])
    with pytest.raises(ValidationError, match="several paths has addresses for 50"):
        scenario(path=None, paths={"a": path(), "b": path()}, flows=[{"download": "1 MB", "count": 51}], objectives=[])


def test_flows_beyond_the_fiftieth_have_addresses_in_further_networks() -> None:
    many = build_lab(flow_cells({"download": "1 MB", "count": 500})[0], 0)
    few = build_lab(flow_cells({"download": "1 MB", "count": 50})[0], 0)
    # The first fifty have the addresses that they have without the others.
    assert [host.interfaces for host in many.hosts[:100]] == [host.interfaces for host in few.hosts]
    addresses = [address for host in many.hosts for address in host.addresses]
    assert len(set(addresses)) == len(addresses) == 2000
    sim = many.simulators[0]
    for side, interface in sim.interfaces.items():
        networks = [ip_interface(text).network for text in interface.prefixed]
        assert not any(
            network.overlaps(other) for network, other in combinations(networks, 2) if network.version == other.version
        )
        for host in many.hosts:
            if (host.role == "client") == (side == "left"):
                # Each endpoint finds the simulator at host 2 of its own network (images/endpoint/setup.sh).
                own = ip_interface(f"{host.ipv4}/24").network
                assert str(own[2]) in (interface.ipv4, *interface.further)
                assert any(ip_interface(host.ipv6).ip in network for network in networks)
    # Other networks of the lab are elsewhere.
    left, right = (ip_interface(sim.interfaces[side].prefixed[0]).network for side in ("left", "right"))
    assert len({left, right}) == 2
    plan = lab_summary(many)
    assert len(plan["flows"]) == 500 and few.simulators[0].left.further == ()


def test_real_time_has_room_for_fifty_flows() -> None:
    require_few_flows(scenario(flows=[{"download": "1 MB", "count": 50}], objectives=[]))
    with pytest.raises(InputError, match="102 containers") as failure:
        require_few_flows(scenario(flows=[{"download": "1 MB", "count": 51}], objectives=[]))
    assert "--engine virtual" in failure.value.hint


def test_a_mistake_of_counted_flows_is_told_once_at_their_entry(tmp_path: Path) -> None:
    text = """schema: 1
title: counted
path:
  forward: {rate: 10 Mbit/s, delay: 20 ms}
  return: {rate: 10 Mbit/s, delay: 20 ms}
flows:
  - {download: 1 MB, count: 30}
  - {download: 1 MB, count: 20, access_delay: 9 h}
"""
    file = tmp_path / "counted.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as failure:
        catalogue().scenario(file)
    assert str(failure.value).count("counted.yaml:8:") == len(str(failure.value).splitlines()) == 1

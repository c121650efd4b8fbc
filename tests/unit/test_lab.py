from __future__ import annotations

import ipaddress

import pytest
from pydantic import ValidationError

from harness.errors import InputError
from harness.outcome import EngineName
from harness.planning.endpoint_config import UnsupportedError, default_receive_window, effective_parameters
from harness.scenario.schema import Flow
from harness.topology import build_lab, run_seed, sim_plan
from harness.units import Duration, Size
from tests.examples import cell, implementation, link, path, scenario


def _flows(count: int) -> list[Flow]:
    return [Flow(download=Size.parse("1 MB"), start=Duration.parse(f"{n} s")) for n in range(count)]


def test_addresses_are_those_of_the_published_simulator() -> None:
    lab = build_lab(cell(), 0)
    client, server = lab.host("client0"), lab.host("server0")
    assert (client.ipv4, client.ipv6) == ("193.167.0.100", "fd00:cafe:cafe:0::100")
    assert (server.ipv4, server.ipv6) == ("193.167.100.100", "fd00:cafe:cafe:100::100")
    assert lab.simulators[0].left.ipv4 == "193.167.0.2"
    assert client.hosts["sim"] == ("193.167.0.2",)
    assert client.hosts["server46"] == (server.ipv4, server.ipv6)


def test_the_contract_s_environment() -> None:
    lab = build_lab(cell(parameters={"server.congestion_control": "reno", "client.initial_rtt": "0.65 s"}), 0)
    client, server = lab.host("client0").environment, lab.host("server0").environment
    assert client["REQUESTS"] == "https://server4:443/10MB.bin"
    assert client["TESTCASE"] == server["TESTCASE"] == "http3"
    assert client["CLIENT_PARAMS"] == "--window=16777216 --rtt=650ms"
    assert server["SERVER_PARAMS"] == "--cc=reno"
    assert server["REQUESTS"] == ""
    assert "SESSION_DIR" not in client


@pytest.mark.parametrize("engine", ["virtual", "compose"])
def test_what_keeps_a_program_from_the_host_s_processor_is_told_in_virtual_time_alone(engine: EngineName) -> None:
    environment = {"GODEBUG": "cpu.avx512vl=off", "ROLE": "neither"}
    lab = build_lab(cell(engine=engine, server=implementation("beta", virtual_environment=environment)), 0)
    server = lab.host("server0").environment
    assert server.get("GODEBUG") == ("cpu.avx512vl=off" if engine == "virtual" else None)
    # What the contract sets is not the manifest's to say.
    assert server["ROLE"] == "server"
    assert "GODEBUG" not in lab.host("client0").environment


def test_a_repeat_keeps_the_session_where_the_image_can() -> None:
    repeats = scenario(flows=[Flow(download=Size.parse("1 MB"), repeat_after=Duration.parse("10 s"))], objectives=[])
    keeps = build_lab(cell(repeats, client=implementation("alpha", session=True)), 0)
    assert keeps.host("client0").environment["SESSION_DIR"] == "/session"
    assert "SESSION_DIR" not in build_lab(cell(repeats), 0).host("client0").environment


def test_n_flows_share_the_path_and_nothing_else() -> None:
    lab = build_lab(cell(scenario(flows=_flows(5), objectives=[])), 0)
    assert len(lab.hosts) == 10
    addresses = [address for host in lab.hosts for address in (host.ipv4, host.ipv6)]
    assert len(set(addresses)) == 20
    for host in lab.hosts:
        network = lab.networks["left" if host.role == "client" else "right"]
        assert ipaddress.ip_address(host.ipv4) in ipaddress.ip_network(network.ipv4)
        assert ipaddress.ip_address(host.ipv6) in ipaddress.ip_network(network.ipv6)
    assert [flow.start for flow in lab.flows] == [0, 1, 2, 3, 4]
    early = {item["address"] for item in sim_plan(lab, lab.simulators[0])["neighbours"] if not item["late"]}
    assert lab.host("client0").ipv4 in early
    assert lab.host("client1").ipv4 not in early


def test_slots_keep_labs_apart() -> None:
    lab, built_lab = build_lab(cell(), 0, slot=0), build_lab(cell(), 0, slot=3)
    assert {network.ipv4 for network in lab.networks.values()}.isdisjoint(
        network.ipv4 for network in built_lab.networks.values()
    )


def test_ipv6_is_asked_for_by_name() -> None:
    assert (
        build_lab(cell(scenario(ip_version=6)), 0)
        .host("client0")
        .environment["REQUESTS"]
        .startswith("https://server6:")
    )


def test_the_window_never_limits_the_path() -> None:
    fast = cell(scenario(path=path(forward=link("250 Mbit/s"))))
    assert default_receive_window(fast) == 2**27, "the power of two above 2 · (20,312,500 + 20,312,500)"
    assert effective_parameters(fast)["client.connection_window"] == "128 MiB"
    tested_cell = cell(parameters={"client.connection_window": "1000 kB"})
    assert effective_parameters(tested_cell)["client.connection_window"] == "1 MB"


@pytest.mark.parametrize(
    ("client", "server", "parameters", "role", "words"),
    [
        (implementation("alpha", roles=("server",), parameters={}), None, {}, "client", "has no client"),
        (None, implementation("beta", roles=("client",), parameters={}), {}, "server", "has no server"),
        (implementation("alpha", protocols=("hq-interop",)), implementation("beta", protocols=("h3",)), {}, "client", "share no"),
        (None, None, {"client.congestion_control": "reno"}, "client", "cannot set congestion_control as a client"),
        (None, None, {"server.congestion_control": "bbr"}, "server", "does not know congestion_control bbr"),
        (None, None, {"server.pacing": "off"}, "server", "cannot set pacing"),
        (None, None, {"client.ack_ratio": "4"}, "client", "cannot set ack_ratio as a client; it is 2"),
        (None, None, {"server.initial_rtt": "10 us"}, "server", "takes initial_rtt from 1 ms, not 10 us"),
    ],
)  # fmt: skip
def test_what_nobody_honours_is_unsupported_by_name(
    client: object, server: object, parameters: dict[str, str], role: str, words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        build_lab(cell(client=client, server=server, parameters=parameters), 0)  # type: ignore[arg-type]
    assert caught.value.role == role


def test_a_parameter_with_a_wrong_unit_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"client\.initial_rtt"):
        build_lab(cell(parameters={"client.initial_rtt": "650"}), 0)


def test_hq_interop_is_taken_where_h3_is_not_common() -> None:
    lab = build_lab(cell(client=implementation("alpha", protocols=("hq-interop",))), 0)
    assert lab.host("client0").environment["TESTCASE"] == "transfer"


def test_loss_differs_between_repetitions_and_not_between_cells_of_a_study() -> None:
    seeds = [run_seed(cell(), repetition) for repetition in range(100)]
    assert len(set(seeds)) == 100
    assert run_seed(cell(parameters={"server.congestion_control": "reno"}), 3) == seeds[3]


def test_too_many_flows() -> None:
    with pytest.raises(ValidationError, match="at most 500"):
        scenario(flows=_flows(501), objectives=[])

"""What is asked of an endpoint is what its program is told, or somebody refuses it by name.

Every parameter, in both roles, in flows of every kind, by every way of asking; and what a run shows against it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
from traffic.plan import read_plan
from traffic.tcp import client_command

from harness.errors import InputError
from harness.evaluation.cell_result import initial_window_bytes
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, Contestant
from harness.planning.design import design_for_pair, flow_pair
from harness.planning.endpoint_config import UnsupportedError
from harness.planning.sweep import Point
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import (
    PARAMETERS,
    ROLES,
    Parameter,
    ParameterValue,
    Role,
    parse_parameter_name,
    peer_role,
)
from harness.scenario.schema import Implementation, Scenario
from harness.topology import Lab, build_lab, flow_label
from tests.examples import SIM, catalogue, images, scenario

Way = Literal["file", "set", "vary of the file", "vary", "factor", "profile", "flow", "set of a flow"]
WAYS: tuple[Way, ...] = ("file", "set", "vary of the file", "vary", "factor", "profile", "flow", "set of a flow")
QUIC: dict[str, object] = {"download": "1 MB"}
TCP: dict[str, object] = {"kind": "tcp", "download": "1 MB"}
TO_SERVER: dict[str, object] = {**TCP, "direction": "to_server"}
UDP: dict[str, object] = {"kind": "udp", "stop": "5 s", "traffic": {"model": "poisson", "rate": "1 Mbit/s"}}
KINDS: dict[str, list[dict[str, object]]] = {
    "quic": [QUIC],
    "tcp": [TCP],
    "tcp to the server": [TO_SERVER],
    "udp": [UDP],
    "quic beside tcp and udp": [QUIC, TCP, UDP],
    "udp before tcp": [UDP, TCP],
}
SAMPLES: dict[str, ParameterValue] = {
    "word": "nobody-s",
    "switch": "on",
    "size": "1300 B",
    "duration": "17 ms",
    "count": 7,
}


@cache
def known() -> dict[str, Implementation]:
    return {name: entry[0] for name, entry in catalogue().implementations().items()}


def values(parameter: Parameter, settings: list[Setting]) -> list[ParameterValue]:
    """A value that somebody takes, where there is one, and one that is as good as any."""
    samples: list[ParameterValue] = (
        ["20 KiB", "1 MiB"] if parameter.name.startswith("tcp_") else [SAMPLES[parameter.kind]]
    )
    for setting in settings:
        words: list[ParameterValue | None] = [str(word) for word in setting.values or ()]
        taken = words or [setting.maximum or setting.minimum]
        samples += [value for value in taken[-1:] if value is not None]
    return list(dict.fromkeys(parameter.canonical(value) for value in samples))


def asked(
    way: Way, flows: list[dict[str, object]], full: str, value: ParameterValue, pair: Mapping[Role, Implementation]
) -> list[Cell]:
    """The cells in which a value is asked for; none where the pair's design says that it does not honour it."""
    role, name = parse_parameter_name(full)
    more: dict[str, object] = {"flows": flows, "objectives": [], "milestones": []}
    fixed: dict[str, ParameterValue] = {}
    varied: dict[str, list[ParameterValue]] = {}
    if way == "file":
        more["parameters"] = {full: value}
    elif way == "set":
        fixed = {full: value}
    elif way == "vary of the file":
        more["vary"] = {full: [value]}
    elif way == "vary":
        varied = {full: [value]}
    elif way == "factor":
        setting = pair["client" if role == "client" else "server"].setting(
            "client" if role == "client" else "server", name
        )
        levels = [value, *(level for level in values(PARAMETERS[name], [setting] if setting else []) if level != value)]
        levels += [level for level in (setting.default if setting else None,) if level is not None]
        canonical = list(dict.fromkeys(PARAMETERS[name].canonical(level) for level in levels))
        if len(canonical) < 2:
            return []
        more["study"] = {"factors": {full: canonical}, "least": 1}
    elif way == "profile":
        more["study"] = {"profiles": {"asked": {full: value}}, "least": 1}
    elif way == "flow":
        more["flows"] = [{**flows[0], "parameters": {full: value}}, *flows[1:]]
    else:
        fixed = {f"flow0.{full}": value}
    tested_scenario = scenario(**more)
    if tested_scenario.study is not None and not _takes_part(tested_scenario, full, value, pair):
        return []
    request = Request([tested_scenario], [pair["client"]], [pair["server"]], parameters=fixed, vary=varied)
    cells = build_matrix(request, images(*known()), SIM, known())
    return [cell for cell in cells if tested_scenario.study is None or cell.parameters.get(full) == value]


def _takes_part(definition: Scenario, full: str, value: ParameterValue, pair: Mapping[Role, Implementation]) -> bool:
    """Whether a study has a cell with the value; what is absent is named by the design."""
    cast = {name: Contestant(implementation=item, image=images(name)[name]) for name, item in known().items()}
    design = design_for_pair(Point(definition, {}), flow_pair(definition, pair["client"], pair["server"], cast))
    if any(point.parameters.get(full) == value for point in design.points):
        return True
    assert any(full in name for name in design.unsupported), (design.unsupported, design.too_few)
    return False


def is_set(lab: Lab, cell: Cell, flow: int, full: str, value: ParameterValue) -> bool:
    """Whether the program at a role of a flow is told a value, or does it untold."""
    role, name = parse_parameter_name(full)
    implementation, peer, parameter = (
        cell.implementation(role, flow),
        cell.implementation(peer_role(role), flow),
        PARAMETERS[name],
    )
    setting, ask = implementation.setting(role, name), peer.setting(peer_role(role), name)
    kind = cell.scenario.flows[flow].kind
    if kind == "udp":
        return False
    hosts = {end: lab.host(f"{end}{flow}") for end in ROLES}
    if setting is not None and setting.settable:
        try:
            words = setting.fill(setting.flag or setting.environment or setting.sysctl or "", parameter, value)
        except ValueError:
            return False
        environment = hosts[role].environment
        if setting.flag and kind == "tcp":
            plan = read_plan(role, environment)
            command = client_command(plan, 2, 443)
            assert command[command.index("-C") + 1] == plan.algorithm
            assert read_plan(peer_role(role), hosts[peer_role(role)].environment).algorithm == plan.algorithm
            sent = json.loads(environment["TRAFFIC"])["words"]
            return words in sent or (not sent and setting.default == value and plan.algorithm == value)
        if setting.flag:
            return f" {words} " in f" {environment[f'{role.upper()}_PARAMS']} "
        place = environment if setting.environment else hosts[role].sysctls
        return place.get(words.partition("=")[0]) == words.partition("=")[2]
    if setting is not None and setting.default is not None and parameter.canonical(setting.default) == value:
        return True
    if ask is not None and ask.asks is not None and "ack_frequency" in implementation.extensions:
        words = ask.fill(ask.asks, parameter, value)
        return f" {words} " in f" {hosts[peer_role(role)].environment[f'{peer_role(role).upper()}_PARAMS']} "
    return False


def held(
    way: Way, flows: list[dict[str, object]], full: str, value: ParameterValue, pair: Mapping[Role, Implementation]
) -> int:
    """How many cells do what they are called by, in all flows that can; those that do not are refused by name."""
    count = 0
    for cell in asked(way, flows, full, value, pair):
        try:
            lab = build_lab(cell, 0)
        except UnsupportedError as error:
            assert full.partition(".")[2] in error.detail
            continue
        role, name = parse_parameter_name(full)
        every = range(1) if "flow" in way else range(len(flows))
        obeying = [flow for flow in every if is_set(lab, cell, flow, full, value)]
        able = [
            flow
            for flow in every
            if cell.scenario.flows[flow].kind == "quic"
            or (cell.scenario.flows[flow].kind == "tcp" and cell.implementation(role, flow).setting(role, name))
        ]
        assert obeying == able and obeying, (way, full, value, [cell.implementation(role, flow).name for flow in every])
        for flow in obeying:
            if name == "congestion_control" and cell.scenario.flows[flow].sender == role:
                assert f"({value})" in flow_label(cell, flow)
        count += 1
    return count


def settings_of(pair: Mapping[Role, Implementation], flows: list[dict[str, object]], full: str) -> list[Setting]:
    """What all that play a role say of a parameter."""
    role, _ = parse_parameter_name(full)
    players = [pair[role], *([known()["linux"]] if any("kind" in flow for flow in flows) else [])]
    return [
        setting
        for implementation in players
        if (setting := implementation.setting(role, full.partition(".")[2])) is not None
    ]


def every_parameter() -> Iterator[str]:
    return (f"{role}.{name}" for role in ROLES for name in PARAMETERS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_asked_takes_effect_or_is_refused(way: Way, kind: str) -> None:
    flows = KINDS[kind]
    generated = all("kind" in flow for flow in flows)
    pair: dict[Role, Implementation] = {role: known()["linux" if generated else "quiche"] for role in ROLES}
    done = {
        full
        for full in every_parameter()
        for value in values(PARAMETERS[full.partition(".")[2]], settings_of(pair, flows, full))
        if held(way, flows, full, value, pair)
    }
    # Somebody does something: what refuses everything is no proof.
    if kind == "udp" or (kind == "udp before tcp" and "flow" in way):
        assert not done
    elif generated:
        sender = "client" if kind == "tcp to the server" else "server"
        assert {f"{sender}.congestion_control", "server.tcp_wmem_max", "client.tcp_rmem_max"} <= done
        assert not {"server.initial_rtt", "client.pacing"} & done
    else:
        assert {"server.congestion_control", "server.initial_rtt"} <= done


@pytest.mark.parametrize("name", sorted(known()))
def test_every_implementation_does_what_it_is_set_to_or_refuses(name: str) -> None:
    implementation = known()[name]
    if not implementation.speaks_quic and "h2" not in implementation.protocols:
        pytest.skip("a generator's flows are above, and a session of WebTransport is no download")
    pairs: dict[Role, Implementation] = {
        role: implementation
        if role in implementation.roles
        else known()["quiche" if implementation.protocols != ("h2",) else "https"]
        for role in ROLES
    }
    done, claimed = set[str](), set[str]()
    for full in every_parameter():
        role, _ = parse_parameter_name(full)
        setting = implementation.setting(role, full.partition(".")[2])
        if setting is not None and setting.settable:
            claimed.add(full)
        for value in values(PARAMETERS[full.partition(".")[2]], [setting] if setting else []):
            if held("set", [QUIC], full, value, pairs):
                done.add(full)
    assert claimed <= done


def test_no_implementation_has_settings_that_only_one_of_its_transports_takes() -> None:
    """A manifest has one setting a role: who speaks both QUIC and TCP would need two."""
    for implementation in known().values():
        assert len({"tcp" if speaks in ("h2", "tcp", "udp") else "quic" for speaks in implementation.protocols}) == 1


def linux_cell(flows: list[dict[str, Any]], **parameters: ParameterValue) -> Cell:
    pair = [known()["linux"]]
    tested_scenario = scenario(flows=flows, objectives=[], milestones=[])
    fixed = {name.replace("__", "."): value for name, value in parameters.items()}
    return build_matrix(Request([tested_scenario], pair, pair, parameters=fixed), images(*known()), SIM, known())[0]


def test_a_flow_s_own_value_hides_none_that_is_asked_for() -> None:
    """Where every flow has another value of its own, the cell would be called by what nobody does."""
    own = {**TCP, "parameters": {"server.congestion_control": "cubic"}}
    with pytest.raises(UnsupportedError, match=r"bbr is asked for, and each flow .* has its own: cubic"):
        build_lab(linux_cell([own], server__congestion_control="bbr"), 0)
    lab = build_lab(linux_cell([own, TCP], server__congestion_control="bbr"), 0)
    assert [flow.label for flow in lab.flows] == ["TCP (cubic)", "TCP (bbr)"]
    assert build_lab(linux_cell([own], server__congestion_control="cubic"), 0).flows[0].label == "TCP (cubic)"


def test_both_ends_of_a_generated_flow_have_the_sender_s_congestion_control() -> None:
    with pytest.raises(UnsupportedError, match="one congestion_control at both ends of a flow, that of the server"):
        build_lab(linux_cell([TCP], client__congestion_control="bbr"), 0)
    both = build_lab(linux_cell([TCP], client__congestion_control="bbr", server__congestion_control="bbr"), 0)
    assert both.host("client0").environment["CLIENT_PARAMS"] == ""
    assert json.loads(both.host("client0").environment["TRAFFIC"])["words"] == ["--congestion-control=bbr"]


#: The input of the report: TCP whose congestion control is varied as everybody's is.
VARIED = """\
schema: 1
title: A TCP flow whose congestion control is varied as everybody's is
path:
  forward: {rate: 10 Mbit/s, delay: 50 ms, loss: 2 %}
  return: {rate: 10 Mbit/s, delay: 50 ms}
flows: [{kind: tcp, download: 1 MB}]
vary: {server.congestion_control: [cubic, bbr]}
milestones: []
timeout: 120 s
"""


def read(folder: Path, text: str) -> Scenario:
    file = folder / "asked.yaml"
    file.write_text(text)
    return catalogue().scenario(file)


def test_a_varied_congestion_control_is_told_to_tcp(tmp_path: Path) -> None:
    pair = [known()["linux"]]
    cells = build_matrix(Request([read(tmp_path, VARIED)], pair, pair), images(*known()), SIM, known())
    labs = [build_lab(cell, 0) for cell in cells]
    assert [read_plan("server", lab.host("server0").environment).algorithm for lab in labs] == ["cubic", "bbr"]
    assert [lab.flows[0].label for lab in labs] == ["TCP (cubic)", "TCP (bbr)"]
    assert [lab.effective for lab in labs] == [
        {"flow0.server.congestion_control": algorithm} for algorithm in ("cubic", "bbr")
    ]
    assert len({cell.key for cell in cells}) == 2


def test_a_file_may_ask_of_tcp_what_tcp_alone_has(tmp_path: Path) -> None:
    tested_scenario = read(
        tmp_path, VARIED.replace("server.congestion_control: [cubic, bbr]", "client.initial_rwnd: [10, 20]")
    )
    assert tested_scenario.vary == {"client.initial_rwnd": (10, 20)}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("server.congestion_control: [cubic, bbr]", "server.initial_rtt: [10 ms]", "told the initial_rtt of a server"),
        ("[cubic, bbr]", "[cubic, bbr3]", "nobody here has the congestion control 'bbr3'"),
        ("tcp, download: 1 MB", "udp, stop: 9 s, traffic: {model: poisson, rate: 1 Mbit/s}", "a flow of udp has no"),
        ("vary: {server", "parameters: {server.pacing: on}\nvary: {server", "can be told the pacing of a server"),
    ],
)
def test_a_file_that_asks_a_generator_for_what_it_has_not_is_a_mistake(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, VARIED.replace(old, new))


def test_a_flow_of_udp_is_told_nothing() -> None:
    with pytest.raises(UnsupportedError, match="a flow of udp has no parameters"):
        build_lab(linux_cell([UDP], server__initial_cwnd=20), 0)


def test_the_textbook_s_first_window_is_the_flow_s_own() -> None:
    asked = {"parameters": {"server.initial_cwnd": 100}}
    assert initial_window_bytes(linux_cell([{**TCP, **asked}])) == 100 * 1200
    assert initial_window_bytes(linux_cell([TCP], server__initial_cwnd=100)) == 100 * 1200
    assert initial_window_bytes(linux_cell([TCP], flow0__server__initial_cwnd=100)) == 100 * 1200
    assert initial_window_bytes(linux_cell([TO_SERVER], client__initial_cwnd=100)) == 100 * 1200
    assert initial_window_bytes(linux_cell([TCP])) == 10 * 1200

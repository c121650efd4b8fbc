"""The MTU of a path: what a scenario can say, the commands, the words, what the proof and the metrics make of it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from simulator.features import needed_features
from simulator.plan import ETHERNET_MTU
from simulator.ports import Port, _wires
from simulator.shell import _batches

from harness.analysis.metrics import measure
from harness.capture.capture import read_capture
from harness.netem import PathProgram, compile_path
from harness.netem.bounds import burst_bytes
from harness.planning.sweep import SweepError, expand_points
from harness.report.explanation import scenario_text
from harness.topology import build_lab, lab_summary, sim_plan
from harness.topology.lab_file import FlowAddresses
from tests.examples import cell, link, path, scenario
from tests.unit.captures import CLIENT, CLIENT6, SERVER, SERVER6, T0, Recipe, Traffic, frame, pcap, short, write_run

SIGNALLED, SILENT = 1300, {"size": 1300, "icmp": False}
FLOWS = [
    FlowAddresses.model_validate({"flow": 0, "client": {"addresses": [CLIENT]}, "server": {"addresses": [SERVER]}})
]


def of(program: PathProgram, *words: str) -> list[str]:
    """The commands of a program's start that have these words."""
    lines = [" ".join(command) for command in program.setup]
    return [line for line in lines if all(word in line.split() for word in words)]


# --- what a scenario can say


def test_a_size_is_told_by_icmp_unless_it_says_otherwise() -> None:
    for mtu, icmp in ((SIGNALLED, True), (SILENT, False), ({"size": 1300}, True)):
        path_mtu = path(forward=link(mtu=mtu)).forward.path_mtu
        assert path_mtu is not None and (path_mtu.size, path_mtu.icmp) == (1300, icmp)
    assert path().forward.path_mtu is None


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"forward": link(mtu=1501)}, "the interfaces carry 1500 B at most"),
        ({"mtu": 1400, "return": link(mtu=1401)}, "the interfaces carry 1400 B at most"),
        ({"changes": [{"at": "1 s", "return": {"mtu": 9000}}]}, "after 1 s, return: an MTU of 9000 B"),
        ({"mtu": 1279}, "no IPv6"),
        ({"mtu": 9001}, "9000"),
        ({"forward": {"rate": "1 Mbit/s", "delay": "1 ms", "mtu": 67}}, "68"),
        ({"mtu": 9000, "forward": link(burst="9000 B", queue="50 kB")}, "below one frame (9014 B)"),
    ],
)
def test_what_no_path_can_be(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words.replace("(", r"\(").replace(")", r"\)")):
        path(**keys)


def test_a_sweep_of_sizes_keeps_whether_senders_are_told() -> None:
    silent = scenario(path=path(forward=link(mtu=SILENT)), vary={"path.forward.mtu": [1280, 1400]})
    links = [point.scenario.path.forward for point in expand_points(silent, {}, {})]
    assert [(link_state.path_mtu.size, link_state.path_mtu.icmp) for link_state in links if link_state.path_mtu] == [
        (1280, False),
        (1400, False),
    ]
    (given,) = expand_points(scenario(), {"path.down.mtu": "1280"}, {})
    assert given.scenario.path.forward.mtu == 1280
    with pytest.raises(SweepError, match="interfaces carry"):
        expand_points(scenario(), {"path.forward.mtu": 9000}, {})


# --- the commands


def test_a_black_hole_is_a_rule_and_no_route() -> None:
    program = compile_path(path(forward=link(mtu=SILENT)), "bucket")
    assert of(program, "nft", "drop") == ["nft add rule inet path_mtu to_client meta length > 1300 drop"]
    assert of(program, "iifname", "right", "jump") == [
        "nft add rule inet path_mtu through iifname right jump to_client"
    ]
    assert not of(program, "ip", "route")


def test_an_mtu_with_icmp_is_a_route_of_both_ip_versions_and_no_rule() -> None:
    program = compile_path(path(**{"return": link(mtu=SIGNALLED)}), "bucket")
    assert of(program, "ip", "route") == [
        "ip route add 0.0.0.0/0 dev right table 102 mtu lock 1300",
        "ip route add ::/0 dev right table 102 mtu lock 1300",
    ]
    assert of(program, "rule", "iif", "left", "102") == [
        "ip -4 rule add iif left lookup 102 pref 100",
        "ip -6 rule add iif left lookup 102 pref 100",
    ]
    assert not of(program, "nft")
    assert "rule" in needed_features(program.setup)


def test_below_the_least_mtu_of_ipv6_a_router_has_no_word_for_it() -> None:
    program = compile_path(path(forward=link(mtu=1000)), "bucket")
    assert of(program, "route", "::/0")[0].endswith("mtu lock 1280")
    assert of(program, "route", "0.0.0.0/0")[0].endswith("mtu lock 1000")
    assert of(program, "drop") == ["nft add rule inet path_mtu to_client meta nfproto ipv6 meta length > 1000 drop"]


def test_a_change_between_told_and_silent_and_back() -> None:
    changes = [{"at": f"{at} s", "forward": {"mtu": mtu}} for at, mtu in enumerate((SIGNALLED, SILENT, 1500), 1)]
    program = compile_path(path(changes=changes), "bucket")
    assert [[" ".join(command) for command in moment.commands] for moment in program.changes] == [
        [
            "ip route replace 0.0.0.0/0 dev left table 101 mtu lock 1300",
            "ip route replace ::/0 dev left table 101 mtu lock 1300",
        ],
        [
            "ip route replace 0.0.0.0/0 dev left table 101 mtu lock 1500",
            "ip route replace ::/0 dev left table 101 mtu lock 1500",
            "nft flush chain inet path_mtu to_client",
            "nft add rule inet path_mtu to_client meta length > 1300 drop",
        ],
        ["nft flush chain inet path_mtu to_client"],
    ]
    sizes = [change.to_client.mtu for change in program.timeline if change.to_client is not None]
    assert [(limit.size, limit.icmp) for limit in sizes if limit] == [(1300, True), (1300, False), (1500, True)]


def test_what_a_router_says_takes_no_transmission_time_of_the_flows() -> None:
    program = compile_path(path(forward=link(mtu=SIGNALLED)), "serial")
    assert len(of(program, "serial")) == 2 and not of(program, "netem", "rate")
    assert of(compile_path(path(forward=link(mtu=SILENT)), "serial"), "netem", "rate")


def test_segments_in_a_row_lead_to_the_next_station() -> None:
    row = scenario(
        path=[
            {"name": "far", "forward": link(mtu=SIGNALLED), "return": link()},
            {"name": "near", "forward": link(), "return": link()},
        ]
    )
    near, far = build_lab(cell(row), 0).simulators
    assert (near.path, far.path) == ("near", "far")
    (four, six) = of(far.program, "ip", "route")
    gateways = {route.via for route in far.routes if route.side == "left"}
    assert {four.split()[5], six.split()[5]} == gateways and "onlink" in four.split()


def test_rules_of_each_ip_version_are_a_batch_of_their_own() -> None:
    program = compile_path(path(forward=link(mtu=SIGNALLED)), "bucket")
    batches = _batches([list(command) for command in program.setup if command[0] == "ip"])
    assert [sorted({tuple(command[:2]) for command in batch if "rule" in command}) for batch in batches][-2:] == [
        [("ip", "-4")],
        [("ip", "-6")],
    ]


# --- jumbo frames


@pytest.mark.parametrize("mtu", [1280, 1500, 9000])
def test_a_bridge_carries_what_its_ports_send(mtu: int) -> None:
    ports = [Port(name, "eth0", [f"10.0.0.{at}/24"], simulator=not at) for at, name in enumerate(("sim", "a", "b"))]
    up = [command for command in _wires("left", ports, mtu) if command[-1] == "up"]
    assert len(up) == 4
    assert all((["mtu", str(mtu)] == command[-3:-1]) == (mtu > ETHERNET_MTU) for command in up)


def test_a_bucket_and_the_simulator_have_room_for_a_jumbo_frame() -> None:
    assert burst_bytes(link("1 Mbit/s"), "bucket", 9000) == 2 * 9014
    assert burst_bytes(link("1 Mbit/s"), "bucket", 1280) == burst_bytes(link("1 Mbit/s"), "bucket")
    jumbo, small = (build_lab(cell(scenario(path=path(mtu=mtu))), 0) for mtu in (9000, 1280))
    assert sim_plan(jumbo, jumbo.simulators[0])["mtu"] == 9000
    assert "mtu" not in sim_plan(small, small.simulators[0])


# --- lab.json, and the words


def test_a_path_without_an_mtu_of_its_own_says_nothing_of_it() -> None:
    own = lab_summary(build_lab(cell(scenario(path=path(forward=link(mtu=SILENT)))), 0))["links"]
    assert own["to_client"]["mtu"] == {"size": 1300, "icmp": False} and "mtu" not in own["to_server"]
    changing = path(changes=[{"at": "1 s", "forward": {"delay": "1 ms"}}])
    (change,) = lab_summary(build_lab(cell(scenario(path=changing)), 0))["changes"]
    assert "mtu" not in change["to_client"] and change["to_server"] is None


@pytest.mark.parametrize(
    ("mtu", "words", "not_words"),
    [
        (1300, "their sender is told", "handshake"),
        ({"size": 1300, "icmp": False}, "vanish without a word", "told"),
        (1248, "over IPv6 no sender is told of less than 1280 B", "handshake"),
        (1247, "no QUIC handshake passes over IPv6,", "IPv4 and"),
        (1227, "no QUIC handshake passes over IPv4 and IPv6,", "vanish"),
    ],
)
def test_an_explanation_says_what_becomes_of_large_packets(mtu: object, words: str, not_words: str) -> None:
    text = scenario_text(scenario(path=path(forward=link(mtu=mtu))), "compose")
    (line,) = [line for line in text.splitlines() if line.startswith("    MTU ")]
    assert words in line and not_words not in line


def test_an_explanation_says_when_the_mtu_changes() -> None:
    changing = path(mtu=9000, changes=[{"at": "2 s", "return": {"mtu": SILENT}}])
    text = scenario_text(scenario(path=changing), "compose")
    assert "after 2 s: return MTU 1300 B: packets above 1300 B vanish" in text
    assert "MTU 9000 B)" in text


# --- the proof and the metrics


#: When the MTU falls, s, below all datagrams of data (1280 B with their headers) and above all acknowledgements.
FALL, SIZE = 1.0, 1000


def fallen(*, passes: bool = False, known: bool = True, icmp: bool = False) -> Recipe:
    """A download whose large packets vanish from a moment on (unless `passes`), as lab.json says (if `known`)."""

    def vanish(traffic: Traffic) -> Traffic:
        carried = traffic.down_carried
        after = T0 + round(FALL * 1e9) + 50_000_000
        out = [None if t is not None and t > after and not passes else t for t in carried.out_ns]
        return replace(traffic, down_carried=replace(carried, out_ns=out))

    change = {"at": FALL, "to_client": {"mtu": {"size": SIZE, "icmp": icmp}}, "to_server": None}
    event = {"event": "change", "index": 0, "at": FALL, "t": T0 / 1e9 + FALL}
    return Recipe(
        load=0.8, packets=1500, fill=vanish, changes=(change,) * known, change_events=(event,) * known, size=1_800_000
    )


def test_packets_that_are_too_large_are_accounted_for(tmp_path: Path) -> None:
    measured = measure(tmp_path, write_run(tmp_path, fallen()))
    proof = measured.link
    assert proof is not None and proof.valid, proof and proof.problems
    drops = proof.to_client.size_drops
    assert drops > 100 and proof.to_client.unasked_drops <= 2 and proof.to_client.loss_drops == 0
    assert measured.value("size_drops_to_client", 0, "first") == drops
    assert measured.value("size_drops_to_server", 0, "first") is None
    assert measured.value("mtu_recovery_time", 0, "first") is None
    assert any(f"at an MTU of {SIZE} B no QUIC handshake passes" in warning for warning in measured.warnings)
    (absence,) = [absence for absence in measured.absent if absence.metric == "mtu_recovery_time"]
    assert "12000 B" in absence.why


def test_packets_that_vanish_without_being_too_large_are_not(tmp_path: Path) -> None:
    proof = measure(tmp_path, write_run(tmp_path, fallen(known=False))).link
    assert proof is not None and any("vanished that nothing was asked to drop" in problem for problem in proof.problems)
    assert proof.to_client.size_drops == 0


@pytest.mark.parametrize("icmp", [False, True])
def test_large_packets_that_pass_are_found_out(tmp_path: Path, icmp: bool) -> None:
    """Those of the recipe have DF: a router may not fragment them."""
    measured = measure(tmp_path, write_run(tmp_path, fallen(passes=True, icmp=icmp)))
    assert measured.link is not None
    assert any(f"packets larger than the MTU of {SIZE} B passed" in problem for problem in measured.link.problems)


def test_the_largest_packet_is_what_discovery_came_to(tmp_path: Path) -> None:
    """1252 B of payload, 28 B of headers; no MTU of the path's own."""
    measured = measure(tmp_path, write_run(tmp_path, Recipe(packets=300)))
    assert measured.value("discovered_mtu_to_client", 0, "first") == 1280
    assert measured.value("size_drops_to_client", 0, "first") is None


# --- fragments


def fragments(*, first: int = 1276, identification: int = 7) -> list[bytes]:
    """A datagram of 1472 B in two fragments over IPv4."""
    head = bytearray(frame(short(1, 1472, T0, True)))
    head[16:22] = struct.pack(">HHH", first, identification, 0x2000)
    tail = bytearray(head)
    tail[16:22] = struct.pack(">HHH", 1500 - first + 20, identification, (first - 20) // 8)
    tail[34:] = bytes(len(tail) - 34)
    return [bytes(head), bytes(tail)]


def read(tmp_path: Path, frames: Sequence[tuple[bytes, int]]) -> Any:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap((T0 + at, data, length) for at, (data, length) in enumerate(frames)))
    return read_capture(file, FLOWS)


def test_a_fragment_is_a_packet_of_its_flow_whose_payload_the_first_one_has(tmp_path: Path) -> None:
    first, tail = fragments()
    capture = read(tmp_path, [(first, 1290), (tail, 258)])
    assert capture.continues.tolist() == [False, True]
    assert capture.payload.tolist() == [1472, 0]
    assert capture.length.tolist() == [1290, 258]
    assert capture.may_fragment.tolist() == [True, True]
    assert len(set(capture.key.tolist())) == 2


def test_a_whole_datagram_and_its_first_fragment_are_the_same_packet(tmp_path: Path) -> None:
    whole = read(tmp_path, [(frame(short(1, 1472, T0, True)), 1514)])
    cut = read(tmp_path, [(fragment, 1290) for fragment in fragments()])
    assert whole.key[0] == cut.key[0] and not whole.may_fragment[0]


def test_a_stranger_s_fragment_is_left_out(tmp_path: Path) -> None:
    _, tail = fragments()
    stranger = bytearray(tail)
    stranger[29] = 77
    tcp = bytearray(tail)
    tcp[23] = 6
    assert len(read(tmp_path, [(bytes(stranger), 258), (bytes(tcp), 258)])) == 0


def test_a_fragment_header_of_ipv6_hides_no_datagram(tmp_path: Path) -> None:
    flows = [
        FlowAddresses.model_validate(
            {"flow": 0, "client": {"addresses": [CLIENT6]}, "server": {"addresses": [SERVER6]}}
        )
    ]
    whole = frame(replace(short(1, 1452, T0, True), ipv6=True))
    cut = []
    for offset, more in ((0, 1), (154, 0)):
        head = bytearray(whole[:54] + struct.pack(">BBHI", 17, 0, offset << 3 | more, 70_000) + whole[54:])[
            : len(whole)
        ]
        head[20] = 44
        cut.append(bytes(head))
    file = tmp_path / "six.pcap"
    file.write_bytes(pcap((T0 + at, data, 1294) for at, data in enumerate([*cut, whole])))
    capture = read_capture(file, flows)
    assert capture.continues.tolist() == [False, True, False]
    assert capture.payload.tolist() == [1452, 0, 1452] and capture.source_port.tolist() == [443, 0, 443]
    assert not capture.may_fragment.any()

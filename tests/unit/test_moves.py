"""Clients that change their address: what a scenario says of it, and the lab that it amounts to."""

from __future__ import annotations

from typing import Any

import pytest

from harness.netem import compile_path, mobility
from harness.outcome import Cell
from harness.planning import sampling
from harness.planning.endpoint_config import UnsupportedError
from harness.planning.sweep import SweepError, expand_points, is_dimension
from harness.scenario.schema import Implementation, Scenario
from harness.store.identity import lab_digest, with_key
from harness.topology import Lab, build_lab, lab_summary, sim_plan
from tests.examples import cell, implementation, scenario

CELLULAR = {"forward": {"rate": "100 Mbit/s", "delay": "20 ms"}, "return": {"rate": "50 Mbit/s", "delay": "20 ms"}}
CAMPUS = {"forward": {"rate": "150 Mbit/s", "delay": "1 ms"}, "return": {"rate": "150 Mbit/s", "delay": "1 ms"}}
GO = {"at": "200 ms", "to": "campus", "how": "migrate", "overlap": "1 s"}
PORT = {"at": "5 s", "how": "nat-port", "every": "1 s"}
BACK = {"at": "7 s", "to": "cellular", "how": "interface", "gap": "50 ms"}


def case(*each: dict[str, str], **overrides: Any) -> Scenario:
    flow = {"download": "10 MB", "moves": list(each)}
    content = {"path": None, "paths": {"cellular": CELLULAR, "campus": CAMPUS}, "flows": [flow], "objectives": []}
    return scenario(**{**content, **overrides})


def mover(name: str = "mover", **overrides: object) -> Implementation:
    return implementation(name, image=None, build=".", **{"moves": ("migrate", "interface"), **overrides})


def moved(*each: dict[str, str], client: Implementation | None = None, **overrides: Any) -> Cell:
    return cell(case(*each, **overrides), client or mover(), mover("stays", moves=()))


def lab(*each: dict[str, str], **overrides: Any) -> Lab:
    return build_lab(moved(*each, **overrides), 0)


# --- where clients are


def test_a_client_is_on_one_path_after_the_other() -> None:
    tested_scenario = case(GO, PORT, BACK)
    assert mobility.client_stays(tested_scenario, tested_scenario.flows[0])[:2] == [
        mobility.Stay("cellular", 0, 200_000_000),
        mobility.Stay("campus", 200_000_000, 7_000_000_000),
    ]
    assert mobility.flow_paths(tested_scenario, tested_scenario.flows[0]) == ["cellular", "campus"]


def test_a_rebinding_comes_again_until_the_next_move() -> None:
    tested_scenario = case(GO, PORT, BACK)
    assert [
        (applied_rebinding.at_ns / 1e9, applied_rebinding.path)
        for applied_rebinding in mobility.path_rebindings(tested_scenario, tested_scenario.flows[0])
    ] == [
        (5, "campus"),
        (6, "campus"),
    ]
    last = case({"at": "5 s", "how": "nat-address", "every": "40 s"})
    assert [applied_rebinding.at_ns / 1e9 for applied_rebinding in mobility.path_rebindings(last, last.flows[0])] == [
        5,
        45,
        85,
    ]
    once = case({"at": "5 s", "how": "nat-address"})
    assert [applied_rebinding.at_ns / 1e9 for applied_rebinding in mobility.path_rebindings(once, once.flows[0])] == [5]


def test_a_path_may_move_a_client_between_its_connections() -> None:
    again = scenario(
        flows=[{"download": "1 MB", "repeat_after": "5 s", "moves": [{"at": "4 s", "how": "nat-address"}]}],
        objectives=[],
    )
    assert [applied_rebinding.at_ns / 1e9 for applied_rebinding in mobility.path_rebindings(again, again.flows[0])] == [
        4
    ]
    assert build_lab(cell(again), 0).flows[0].repeat_after == 5


def test_a_path_is_lost_until_somebody_comes_to_it_again() -> None:
    outages = [
        (path_loss.path, path_loss.at_ns / 1e9, path_loss.until_ns and path_loss.until_ns / 1e9)
        for path_loss in mobility.find_lost_paths(case(GO, BACK))
    ]
    assert outages == [("cellular", 1.2, 7.0), ("campus", 7.0, None)]


# --- the lab


def test_a_client_has_an_interface_for_each_path() -> None:
    built_lab = lab(GO, BACK)
    client, server = built_lab.host("client0"), built_lab.host("server0")
    assert [item.network for item in client.interfaces] == ["left", "left-campus"]
    assert client.addresses == [
        "193.167.0.100", "fd00:cafe:cafe:0::100", "193.167.25.100", "fd00:cafe:cafe:25::100",
    ]  # fmt: skip
    assert client.environment["ADDRESSES"] == (
        "193.167.0.100,fd00:cafe:cafe:0::100;193.167.25.100,fd00:cafe:cafe:25::100"
    )
    assert server.environment["ROUTES"] == "193.167.25.0/24,193.167.100.3;fd00:cafe:cafe:25::/64,fd00:cafe:cafe:100::3"
    assert [(item.name, item.left.ipv4, item.right.ipv4) for item in built_lab.simulators] == [
        ("sim", "193.167.0.2", "193.167.100.2"),
        ("sim-campus", "193.167.25.2", "193.167.100.3"),
    ]


def test_a_client_is_told_what_it_does_itself() -> None:
    environment = lab(GO, PORT, BACK).host("client0").environment
    assert environment["MOVES"] == (
        "0.2,migrate,193.167.25.100,fd00:cafe:cafe:25::100;7.05,interface,193.167.0.100,fd00:cafe:cafe:0::100"
    )
    assert "MOVES" not in lab(PORT).host("client0").environment


def test_a_client_that_starts_on_another_path_waits_for_its_simulator() -> None:
    flow = {"download": "1 MB", "path": "campus"}
    client = lab(flows=[flow]).host("client0")
    assert client.hosts["sim"] == ("193.167.25.2",)
    assert [item.network for item in client.interfaces] == ["left-campus"]


def test_each_simulator_knows_whom_it_stands_between() -> None:
    built_lab = lab(GO)
    first, second = (sim_plan(built_lab, simulator) for simulator in built_lab.simulators)
    assert {each["address"] for each in second["neighbours"]} == {
        "193.167.25.100", "fd00:cafe:cafe:25::100", "193.167.100.100", "fd00:cafe:cafe:100::100",
    }  # fmt: skip
    assert (first["peers"], second["name"]) == (["sim", "sim-campus"], "sim-campus")
    assert (first["wait_for"], second["wait_for"]) == ([["193.167.100.100", 443]], [])


def test_losses_of_paths_are_not_the_same() -> None:
    lossy = {**CELLULAR, "forward": {**CELLULAR["forward"], "loss": "1 %"}}
    built_lab = lab(GO, paths={"cellular": lossy, "campus": lossy})
    seeds = [
        word
        for path_program in built_lab.programs
        for command in path_program.setup
        if "seed" in command
        for word in command[-1:]
    ]
    assert len(set(seeds)) == 2


def test_a_path_that_is_lost_says_so_to_nobody() -> None:
    program = lab(GO, BACK).simulators[0].program
    down, up = (change for change in program.changes if change.at_ns in (1_200_000_000, 7_000_000_000))
    assert ("tc", "qdisc", "replace", "dev", "left", "root", "blackhole") in down.commands
    qdiscs = [command for command in program.setup if command[:5] == ("tc", "qdisc", "add", "dev", "left")]
    assert [command for command in qdiscs if "root" in command] == [
        command for command in up.commands if command[:3] == ("tc", "qdisc", "add") and "root" in command
    ]
    # What drops comes ahead of what redirects, and goes again.
    assert sum(command[:3] == ("tc", "filter", "del") for command in up.commands) == 2
    ours = [command for command in program.setup if command[:5] == ("tc", "filter", "add", "dev", "left")]
    assert min(int(command[command.index("prio") + 1]) for command in ours) == 3


def test_a_rebinding_changes_one_thing_at_a_time() -> None:
    built_lab = lab(
        {"at": "1 s", "how": "nat-port"}, {"at": "2 s", "how": "nat-address"}, {"at": "3 s", "how": "nat-port"}
    )  # fmt: skip
    mappings = [(mapping.outer[0], mapping.port) for mapping in built_lab.simulators[0].program.mappings]
    assert mappings == [("193.167.0.100", 10000), ("193.167.0.150", 10000), ("193.167.0.150", 10001)]
    seen = lab_summary(built_lab)["flows"][0]["client"]["addresses"]
    assert {"193.167.0.100", "193.167.0.150", "fd00:cafe:cafe:0::150"} <= set(seen)
    assert built_lab.simulators[1].program.mappings == ()
    assert not any(command[0] == "nft" for command in built_lab.simulators[1].program.setup)


def test_a_path_that_nobody_loses_is_compiled_as_ever() -> None:
    tested_scenario = case(GO, PORT)
    setup = compile_path(tested_scenario.paths["cellular"], "bucket").setup
    stays = lab(PORT, paths={"cellular": CELLULAR, "campus": CAMPUS}).simulators[1].program
    assert stays.setup == compile_path(tested_scenario.paths["campus"], "bucket", seed=1001).setup
    assert lab().simulators[0].program.setup == setup
    assert stays.changes == ()


def test_every_move_is_in_the_summary() -> None:
    summary = lab_summary(lab(GO, PORT, BACK))
    assert [(move["at"], move["how"], move["path"]) for move in summary["flows"][0]["moves"]] == [
        (0.2, "migrate", "campus"), (5.0, "nat-port", "campus"), (6.0, "nat-port", "campus"),
        (7.0, "interface", "cellular"),
    ]  # fmt: skip
    assert [(path["path"], path["outages"]) for path in summary["paths"]] == [
        ("cellular", [{"from_ns": 1_200_000_000, "until_ns": 7_000_000_000}]),
        ("campus", [{"from_ns": 7_000_000_000, "until_ns": None}]),
    ]


# --- who can


def test_a_client_that_cannot_move_is_unsupported_by_name() -> None:
    for client, words in ((mover(moves=()), "mover cannot be told to move by interface"),
                          (mover(moves=("migrate",)), "by interface; its moves are migrate")):  # fmt: skip
        with pytest.raises(UnsupportedError, match=words) as caught:
            lab(BACK | {"to": "campus"}, client=client)
        assert (caught.value.role, caught.value.reason) == ("client", "move")
    assert lab(PORT, client=mover(moves=())), "address translation asks nothing of a client"


def test_published_images_know_one_way_only() -> None:
    with pytest.raises(UnsupportedError, match="alpha is a published image") as caught:
        build_lab(cell(case()), 0)
    assert caught.value.reason == "paths"
    tested_scenario = scenario(flows=[{"download": "1 MB", "moves": [PORT]}], objectives=[])
    assert build_lab(cell(tested_scenario), 0), "one path is theirs"


# --- sweeps and draws


def test_one_of_several_paths_is_varied() -> None:
    points = expand_points(case(), {}, {"paths.campus.down.rate": ["10 Mbit/s", "20 Mbit/s"]})
    assert [str(point.scenario.paths["campus"].forward.rate) for point in points] == ["10 Mbit/s", "20 Mbit/s"]
    assert {str(point.scenario.path.forward.rate) for point in points} == {"100 Mbit/s"}
    assert is_dimension("paths.campus.down.rate")
    assert not is_dimension("paths.campus.down.speed")
    for name, words in (("path.down.rate", "several paths"), ("paths.x.down.rate", "no path 'x'")):
        with pytest.raises(SweepError, match=words):
            expand_points(case(), {name: "1 Mbit/s"}, {})
    with pytest.raises(SweepError, match="has one path"):
        expand_points(scenario(), {"paths.x.down.rate": "1 Mbit/s"}, {})


RANGES = {
    "paths.cellular.forward.rate": ["100 Mbit/s", "150 Mbit/s"],
    "paths.cellular.forward.delay": ["13.5 ms", "24 ms"],
    "paths.campus.forward.loss": ["0 %", "5 %"],
}


def test_a_value_is_drawn_from_its_range_for_each_repetition() -> None:
    tested_scenario = case(draw=RANGES)
    draws = [sampling.sample_values(tested_scenario, seed) for seed in range(200)]
    rates = sorted(float(each["paths.cellular.forward.rate"].split()[0]) for each in draws)
    assert len({tuple(each.values()) for each in draws}) == 200
    assert 100 <= rates[0] < 101 < 149 < rates[-1] <= 150
    assert sampling.sample_values(tested_scenario, 7) == sampling.sample_values(tested_scenario, 7)
    settled = sampling.with_drawn_values(tested_scenario, draws[0])
    assert str(settled.paths["cellular"].forward.rate) == draws[0]["paths.cellular.forward.rate"]
    assert str(settled.paths["campus"].forward.loss) == draws[0]["paths.campus.forward.loss"]
    assert not settled.draw


def test_what_was_drawn_is_in_the_lab_and_kept_with_its_parameters() -> None:
    tested_cell = moved(GO, draw=RANGES)
    labs = [build_lab(tested_cell, repetition) for repetition in range(3)]
    assert len({built_lab.effective["paths.cellular.forward.rate"] for built_lab in labs}) == 3
    for built_lab in labs:
        rate = built_lab.simulators[0].program.links["to_client"].rate_bps
        assert f"{rate / 1e6:g}" == str(built_lab.effective["paths.cellular.forward.rate"]).split()[0]


def test_a_range_is_part_of_what_a_cell_is() -> None:
    narrow = {**RANGES, "paths.cellular.forward.rate": ["100 Mbit/s", "149 Mbit/s"]}
    keys = {with_key(moved(GO, draw=ranges)).key for ranges in (RANGES, narrow, {})}
    assert len(keys) == 3


def test_what_the_command_line_sets_is_not_drawn() -> None:
    (point,) = expand_points(case(draw=RANGES), {"paths.cellular.forward.rate": "10 Mbit/s"}, {})
    assert "paths.cellular.forward.rate" not in point.scenario.draw
    assert len(point.scenario.draw) == 2


def test_moves_and_paths_are_part_of_what_a_cell_is() -> None:
    cells = [moved(), moved(GO), moved(BACK | {"to": "campus"}), moved(PORT), moved(GO, paths={"cellular": CELLULAR,
             "campus": CELLULAR})]  # fmt: skip
    assert len({lab_digest(tested_cell) for tested_cell in cells}) == len(cells)

"""What computing costs in virtual time: how it is written, varied, refused, and given to a guest."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from simulator import container
from simulator.container import PR_LAB_COST, Container

from harness.engine.images.rootfs_export import RootFs
from harness.engine.virtual.guest_config import world_document
from harness.errors import InputError
from harness.execution.matrix import Request, build_matrix, swept_points
from harness.outcome import Cell
from harness.planning.design import study_mistakes
from harness.planning.endpoint_config import endpoint_parameters
from harness.planning.sweep import SweepError, dimensions, expand_points, full_names, is_cpu_name, is_dimension
from harness.report.explanation import scenario_text
from harness.scenario.schema import Cpu, Scenario
from harness.store.identity import drop_empty, lab_digest, scenario_keys
from harness.topology import build_lab
from harness.topology.run_files import digest_content
from harness.units import Cost
from tests.examples import SIM, images, implementation, scenario

PHONE = {"per_call": "2 us", "per_datagram": "5 us", "per_byte": "0.5 ns"}


def virtual_cell(tested_scenario: Scenario, **parameters: str) -> Cell:
    """A cell in virtual time of alpha with itself."""
    alpha = implementation()
    request = Request([tested_scenario], [alpha], [alpha], engine="virtual", parameters=parameters)
    (built_cell,) = build_matrix(request, images("alpha"), SIM)
    return built_cell


def test_costs_are_counted_in_picoseconds() -> None:
    cpu = Cpu.model_validate(PHONE)
    assert cpu.costs == (2_000_000, 5_000_000, 500)
    assert str(cpu) == "2 us per call, 5 us per datagram, 500 ps per byte"
    assert str(Cpu.model_validate({"per_byte": "1.5 ns"})) == "1.5 ns per byte"
    assert Cpu.model_validate(cpu.model_dump(mode="json")) == cpu


@pytest.mark.parametrize(
    ("cpu", "words"),
    [
        ({"client": {}}, "computing is free"),
        ({"client": {"per_call": "0 ns"}}, "computing is free"),
        ({"server": {"per_call": "2"}}, "has no unit"),
        ({"server": {"per_call": 2}}, "has no unit"),
        ({"server": {"per_call": "1 h"}}, "not a unit of a cost"),
        ({"server": {"per_call": "-1 us"}}, "cannot be negative"),
        ({"server": {"per_datagram": "1001 ms"}}, "1 s is the most"),
        ({"server": {"per_byte": "2 ms"}}, "1 ms is the most"),
        ({"server": {"per_packet": "5 us"}}, "per_packet"),
        ({"sim": {"per_call": "5 us"}}, "client"),
    ],
)
def test_costs_that_cannot_be(cpu: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        scenario(cpu=cpu)


def test_costs_are_varied_by_role_and_by_kind() -> None:
    names = {name for name in dimensions() if is_cpu_name(name)}
    assert len(names) == 9
    assert all(map(is_dimension, names))
    assert not is_dimension("client.cpu.per_packet")
    points = expand_points(scenario(), {"server.cpu.per_call": "1us"}, {"client.cpu.per_datagram": ["0 us", "5 us"]})
    assert [point.parameters["client.cpu.per_datagram"] for point in points] == ["0 ps", "5 us"]
    free, slow = (point.scenario.cpu for point in points)
    assert {*free} == {"server"}
    assert slow["client"].costs == (0, 5_000_000, 0)
    assert slow["server"].costs == (1_000_000, 0, 0)


def test_a_cost_of_both_roles_joins_those_that_the_scenario_has() -> None:
    assert full_names("cpu.per_call") == ["client.cpu.per_call", "server.cpu.per_call"]
    (point,) = expand_points(scenario(cpu={"client": PHONE}), {"cpu.per_call": "3 us"}, {})
    assert point.scenario.cpu["client"].costs == (3_000_000, 5_000_000, 500)
    assert point.scenario.cpu["server"].costs == (3_000_000, 0, 0)
    (free,) = expand_points(scenario(cpu={"client": {"per_call": "1 us"}}), {"client.cpu.per_call": "0 us"}, {})
    assert not free.scenario.cpu


@pytest.mark.parametrize(("value", "words"), [("5", "has no unit"), ("2 s", "1 s is the most"), ("fast", "not a cost")])
def test_a_cost_of_a_sweep_that_cannot_be(value: str, words: str) -> None:
    with pytest.raises(SweepError, match=words) as raised:
        expand_points(scenario(), {}, {"client.cpu.per_call": [value]})
    assert (raised.value.dimension, raised.value.value) == ("client.cpu.per_call", value)


def test_costs_are_no_parameter_that_an_image_must_have() -> None:
    assert endpoint_parameters({"client.cpu.per_call": "2 us", "client.ack_ratio": 2}) == {"client.ack_ratio": 2}
    costed_cell = virtual_cell(scenario(), **{"cpu.per_call": "2 us"})
    assert costed_cell.parameters == {"client.cpu.per_call": "2 us", "server.cpu.per_call": "2 us"}
    assert [host.cpu and host.cpu.costs for host in build_lab(costed_cell, 0).hosts] == [(2_000_000, 0, 0)] * 2


def test_costs_may_be_the_factors_of_a_study() -> None:
    factors = {"client.cpu.per_datagram": ["1 us", "50 us"]}
    assert not [*study_mistakes(scenario(study={"factors": factors, "design": "full", "least": 1}))]


def test_in_real_time_computing_costs_what_it_costs() -> None:
    request = Request([scenario(cpu={"client": PHONE})], [implementation()], [implementation()], engine="compose")
    with pytest.raises(InputError, match="in real time") as raised:
        swept_points(request)
    assert "--engine virtual" in raised.value.hint


def test_a_cell_is_another_one_with_a_cost_and_the_same_without() -> None:
    plain = lab_digest(virtual_cell(scenario()))
    digests = {lab_digest(virtual_cell(scenario(cpu={role: PHONE}))) for role in ("client", "server")}
    assert len(digests | {plain}) == 3
    # A key that is not given is in no digest: stored cells keep theirs.
    assert "cpu" not in str(drop_empty(digest_content(build_lab(virtual_cell(scenario()), 0))))
    assert {"cpu", "per_byte"} <= scenario_keys(virtual_cell(scenario(cpu={"client": PHONE})))


def test_a_guest_is_told_the_costs_of_those_that_have_some() -> None:
    lab = build_lab(virtual_cell(scenario(cpu={"client": PHONE})), 0)
    rootfs = RootFs("alpha:1", "sha256:1", "sha256:1", "/exported/alpha", ["/run"], [], "/", "", 15)
    client, server = world_document(lab, {host.name: rootfs for host in lab.hosts}, 1)["hosts"]
    assert client["cpu_ps"] == [2_000_000, 5_000_000, 500]
    assert "cpu_ps" not in server


class _Library:
    """A C library whose prctl notes what it was given."""

    def __init__(self, result: int) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.result = result

    def prctl(self, option: int, *arguments: ctypes.c_ulong) -> int:
        self.calls.append((option, *(argument.value for argument in arguments)))
        return self.result


def _container(costs: tuple[int, ...]) -> Container:
    container = object.__new__(Container)
    container._cpu_ps = costs
    return container


def test_a_container_sets_its_costs_or_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library(0)
    monkeypatch.setattr(container, "_LIBC", library)
    _container(())._set_cost()
    assert not library.calls
    _container((2_000_000, 5_000_000, 500))._set_cost()
    assert library.calls == [(PR_LAB_COST, 2_000_000, 5_000_000, 500, 0)]
    library.result = -1
    with pytest.raises(OSError, match="what computing costs"):
        _container((1, 0, 0))._set_cost()


def test_explain_says_what_computing_costs() -> None:
    assert f"computing costs the clients {Cpu.model_validate(PHONE)}" in scenario_text(
        scenario(cpu={"client": PHONE}), "virtual"
    )


@pytest.mark.parametrize("text", ["500 ps", "1.5 ns", "2 us", "20 ms", "1 s"])
def test_a_cost_reads_its_own_form(text: str) -> None:
    assert str(Cost.parse(text)) == text

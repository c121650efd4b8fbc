"""The simulator's own gate: what the path delays or loses is not the client's fault."""

from __future__ import annotations

from typing import Any

import pytest

from harness.catalogue.limits import mistakes
from harness.netem import compile_path
from harness.scenario.schema import Scenario
from harness.units import Duration
from tests.examples import link, path
from tests.unit.captures import SCENARIO

GATE = ("match", "ip", "sport", "57832", "0xffff")


def commands(**fields: Any) -> list[tuple[str, ...]]:
    program = compile_path(path(**fields), "serial")
    return [*program.setup, *(command for change in program.changes for command in change.commands)]


def passes_gate(tc_commands: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [command for command in tc_commands if "57832" in command and "sport" in command]


@pytest.mark.parametrize(("delay", "spared"), [("5 s", False), ("8 s", False), ("9 s", True), ("61 s", True)])
def test_a_long_delay_spares_the_gate_s_answers(delay: str, spared: bool) -> None:
    tc_commands = commands(forward=link("1 Mbit/s", delay))
    gate_filters = passes_gate(tc_commands)
    assert bool(gate_filters) == spared
    for gate_filter in gate_filters:
        assert gate_filter[4] == "left" and gate_filter[-2:] == ("flowid", "2:2")
        assert gate_filter[gate_filter.index("match", gate_filter.index("57832") - 3) :][: len(GATE)] == GATE
    # Its class has no netem: what is in no class that has one is not delayed.
    netems = [command for command in tc_commands if "netem" in command and "delay" in command and command[4] == "left"]
    assert [netem[5:9] for netem in netems] == [("parent", "2:1", "handle", "11:") if spared else ("parent", "1:", "handle", "2:")]  # fmt: skip


def test_the_way_to_the_servers_has_no_gate() -> None:
    tc_commands = commands(**{"return": link("1 Mbit/s", "61 s")})
    assert passes_gate(tc_commands) == []


def test_a_path_that_loses_most_at_first_spares_the_gate_s_answers() -> None:
    later = [{"at": "9 s", "forward": {"loss": "0 %"}}]
    assert passes_gate(commands(forward=link("1 Mbit/s", loss="99 %"), changes=later))
    assert not passes_gate(commands(forward=link("1 Mbit/s", loss="5 %")))
    # Later losses meet nobody at the gate; such programs stay as they were.
    assert not passes_gate(commands(changes=[{"at": "9 s", "forward": {"loss": "100 %"}}]))


def test_changes_find_the_netem_in_its_class() -> None:
    tc_commands = commands(forward=link("1 Mbit/s", "61 s"), changes=[{"at": "9 s", "forward": {"delay": "1 s"}}])
    (changed,) = [command for command in tc_commands if command[:3] == ("tc", "qdisc", "change")]
    assert changed[5:9] == ("parent", "2:1", "handle", "11:")


def flow_starting(start: str, lasts: str) -> list[str]:
    content = {**SCENARIO, "name": "x", "timeout": "600 s"}
    content["path"] = {**content["path"], "blackhole": {"after": "3 s", "lasts": lasts}}
    content["flows"] = [{"download": "1 MB"}, {"download": "1 MB", "start": start}]
    return [
        f"{'.'.join(map(str, mistake.location))}: {mistake.text}"
        for mistake in mistakes(Scenario.model_validate(content))
    ]


def test_a_client_does_not_start_while_its_path_is_dark_for_long() -> None:
    (text,) = flow_starting("5 s", "90 s")
    assert text == (
        "flows.1.start: the path is dark from 3 s to 93 s, and no client waits longer than 50 s for it to be up"
    )
    assert flow_starting("5 s", "30 s") == [] == flow_starting("2 s", "90 s") == flow_starting("50 s", "90 s")
    assert Duration.parse("50 s") < Duration.parse("60 s")

"""What containers may do: the table of the docs beside the files that make them, and the fence with an `ip` of ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from harness.engine.compose_file import compose_document, paths_document, services
from harness.engine.confinement import isolated_options
from harness.engine.docker.run_options import launch
from harness.engine.fence import DONE, FENCE, bridges, fence_command, missing_layers
from harness.scenario.schema import Implementation
from harness.scenario.schema.implementation import Capability
from harness.store.identity import lab_digest
from harness.topology import Lab, build_lab
from tests.container_table import asking, containers, may_ask
from tests.examples import catalogue, cell, implementation, scenario
from tests.polling import wait_for

LINK = {"rate": "20 Mbit/s", "delay": "5 ms"}
ROW = [
    {"name": "ground", "forward": LINK, "return": LINK},
    {"proxy": "tcp-split"},
    {"name": "access", "forward": LINK, "return": LINK},
]
_MIB = {"m": 2**20, "g": 2**30}


def _lab(client: Implementation | None = None, **overrides: Any) -> Lab:
    tested_scenario = scenario(flows=[{"download": "100 kB"}], objectives=[], **overrides)
    return build_lab(cell(tested_scenario, client=client or implementation()), 0)


def _row() -> Lab:
    return _lab(path=ROW)


def _bytes(text: str) -> int:
    amount = text.removeprefix("${LAB_MEMORY:-").removesuffix("}")
    return int(amount[:-1]) * _MIB[amount[-1]]


def _each() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(kind, service, what Compose is told) of all that containers are made of."""
    lab = _row()
    for document in (compose_document(lab), paths_document(lab), {"services": services(lab)}):
        for name, service in document["services"].items():
            kind = name.rstrip("0123456789").partition("-")[0]
            yield {"client": "endpoint", "server": "endpoint", "sim": "simulator"}.get(kind, kind), name, service


def test_every_container_has_what_the_docs_say() -> None:
    rows, seen = containers(), set()
    for kind, name, service in _each():
        row = rows[kind]
        seen.add(kind)
        assert service["cap_drop"] == ["ALL"], name
        # By hand, nobody's folders are anybody else's.
        assert frozenset(service["cap_add"]) | ({"DAC_OVERRIDE"} & row.capabilities) == row.capabilities, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["pids_limit"] == row.processes, name
        assert _bytes(service["mem_limit"]) >= row.memory and service["mem_limit"] == service["memswap_limit"], name
        assert service["ulimits"] == {"core": 1}, name
        assert not {"privileged", "devices", "ports", "pid", "ipc"} & service.keys(), name
        assert (service.get("network_mode") == "host") == (row.network == "the machine's"), name
        if row.root == "read-only":
            assert service["read_only"], name
            assert {folder.partition(":")[0] for folder in service.get("tmpfs", ())} == row.in_memory, name
        if "networks" in service:
            assert service["dns"] == ["127.0.0.1"], name
    assert seen == rows.keys()


def test_the_docs_say_whose_manifest_asks_for_what() -> None:
    manifests = {name: stack.container for name, (stack, _) in catalogue().implementations().items()}
    asked = {
        name: (frozenset(container.capabilities), frozenset(container.writes))
        for name, container in manifests.items()
        if container.capabilities or container.writes
    }
    assert asking() == asked
    assert may_ask() == frozenset(get_args(Capability))
    built = {
        name for name, (stack, _) in catalogue().implementations().items() if stack.build is not None and stack.tested
    }
    assert {name for name, container in manifests.items() if container.read_only} == built


def test_an_endpoint_has_what_its_manifest_asks_for_and_a_stranger_a_root_to_write_to() -> None:
    plain, server = (services(_lab())[name] for name in ("client0", "server0"))
    assert "read_only" not in plain and "tmpfs" not in plain
    asks = {"capabilities": ["SETUID", "CHOWN"], "read_only": True, "writes": ["/var/lib/mine"]}
    lab = _lab(implementation(container=asks))
    client = services(lab)["client0"]
    assert client["cap_add"] == ["CHOWN", "DAC_OVERRIDE", "NET_ADMIN", "NET_BIND_SERVICE", "SETUID"]
    assert client["read_only"] and client["tmpfs"] == ["/run:size=64m", "/tmp:size=64m", "/var/lib/mine:size=64m"]
    assert services(lab)["server0"] == server
    words = launch(client, "client0", "run", "standing", dict.fromkeys(("LAB_OUT", "LAB_CERTS", "LAB_OWNER"), "/x"))
    assert "--read-only" in words.words and "--tmpfs /var/lib/mine:size=64m" in " ".join(words.words)


def test_an_endpoint_s_memory_is_what_the_command_says() -> None:
    variables = dict.fromkeys(("LAB_OUT", "LAB_CERTS", "LAB_OWNER"), "/x")
    client = services(_lab())["client0"]
    for limit, memory in (({}, "4g"), ({"LAB_MEMORY": "67108864"}, "67108864")):
        words = " ".join(launch(client, "client0", "run", "standing", variables | limit).words)
        assert f"--memory {memory} --memory-swap {memory} " in words


def test_a_read_only_client_that_comes_back_finds_its_tickets() -> None:
    flows = [{"download": "100 kB", "repeat_after": "1 s"}]
    tested_scenario = scenario(flows=flows, objectives=[])
    for read_only in (False, True):
        client = implementation(session=True, container={"read_only": read_only})
        compose_services = services(build_lab(cell(tested_scenario, client=client), 0))
        assert ("/session" in compose_services["client0"]["volumes"]) == read_only
        assert "/session" not in compose_services["server0"]["volumes"]


def test_what_an_image_may_do_is_part_of_a_cell_and_what_it_does_without_is_not() -> None:
    plain = lab_digest(cell())
    assert lab_digest(cell(client=implementation(container={"read_only": True, "writes": ["/var/lib/x"]}))) == plain
    assert lab_digest(cell(client=implementation(container={"capabilities": ["SETUID"]}))) != plain


def test_a_container_of_the_harness_s_own_has_no_network_and_what_it_is_given() -> None:
    text = " ".join(isolated_options("CHOWN"))
    assert "--network none --cap-drop ALL --cap-add CHOWN --security-opt no-new-privileges:true" in text
    assert "--read-only" in text and "--pids-limit" in text and "--memory" in text


# --- the fence


def test_every_network_has_a_bridge_that_the_fence_knows() -> None:
    lab = _row()
    document = compose_document(lab)
    names = bridges(list(lab.networks))
    assert len(set(names.values())) == len(lab.networks) == 4
    assert all(len(name) <= 15 for name in names.values())
    for name, network in document["networks"].items():
        assert network["driver_opts"]["com.docker.network.bridge.name"] == names[name]
        # Docker would drop what passes a simulator where bridged frames pass iptables.
        assert "internal" not in network
    fence = document["services"][FENCE]
    assert fence["entrypoint"][-4:] == list(names.values())
    assert all(service["depends_on"] == [FENCE] for name, service in document["services"].items() if name[:-1] in
               ("client", "server", "proxy"))  # fmt: skip


#: Commands of a machine: what each is asked is in `log`; what it cannot do, in a file of its name.
COMMAND = """#!/bin/sh
echo "${0##*/} $*" >>"$(dirname "$0")/log"
case "$*" in --interactive) exec cat >>"$(dirname "$0")/rules" ;; esac
case "${0##*/} $*" in "nft list"*) [ -s "$(dirname "$0")/rules" ]; exit ;; esac
[ ! -f "$0.fails" ] || { cat "$0.fails"; exit 1; }
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ip", "nft"):
        (tmp_path / name).write_text(COMMAND)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def _fenced(machine: Path) -> tuple[str, ...]:
    """What a fence of two bridges could not do; it is ended then, as the daemon ends it."""
    path = machine / "said"
    process = subprocess.Popen(fence_command(str(path), ("quic-lab0", "quic-lab1")), start_new_session=True)
    try:
        wait_for(lambda: missing_layers(path) is not None, 10)
        # It stands, whatever it could not do.
        assert process.poll() is None
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    return missing_layers(path) or ()


def test_a_fence_takes_addresses_away_and_drops_what_comes(machine: Path) -> None:
    assert _fenced(machine) == ()
    log = (machine / "log").read_text()
    for bridge in ("quic-lab0", "quic-lab1"):
        assert f"ip address flush dev {bridge}\nip link set dev {bridge} arp off" in log
    rules = (machine / "rules").read_text()
    assert "flags owner" in rules
    assert rules.count("hook ingress device quic-lab") == rules.count("policy drop") == 2


@pytest.mark.parametrize(("command", "layer"), [("ip", "addresses"), ("nft", "frames")])
def test_a_fence_says_what_it_cannot_do_and_does_the_rest(machine: Path, command: str, layer: str) -> None:
    (machine / f"{command}.fails").write_text("Operation not supported\nand more\n")
    assert _fenced(machine) == (f"{layer}: Operation not supported",)


def test_a_fence_that_is_not_done_has_said_nothing(tmp_path: Path) -> None:
    assert missing_layers(tmp_path / "said") is None
    (tmp_path / "said").write_text("frames: it")
    assert missing_layers(tmp_path / "said") is None
    (tmp_path / "said").write_text(f"frames: it\n{DONE}\n")
    assert missing_layers(tmp_path / "said") == ("frames: it",)

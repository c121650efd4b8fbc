"""What containers of a lab may do while it runs, held against the table in docs/untrusted.md."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.container_table import CAPABILITIES, PROGRAM, Row, containers
from tests.examples import ROOT
from tests.lab.conftest import Harness, left_overs
from tests.polling import wait_for

pytestmark = pytest.mark.alone

LINK = {"rate": "20 Mbit/s", "delay": "5 ms", "queue": "1 BDP"}
#: Simulators, a proxy between them, and endpoints that last, with a Python in them.
ROW = {
    "path": [
        {"name": "ground", "forward": LINK, "return": LINK},
        {"proxy": "tcp-split"},
        {"name": "access", "forward": LINK, "return": LINK},
    ],
    "flows": [{"kind": "tcp", "stop": "6 s"}],
    "milestones": [],
}  # fmt: skip
#: Filtered by Docker's own profile (proc_pid_status(5)).
FILTERED = "2"


def _asked(*words: str) -> Any:
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def _containers() -> dict[str, dict[str, Any]]:
    """Service → what Docker says of its container."""
    label = ("--filter", "label=org.quic-lab.owner")
    process = subprocess.run(["docker", "ps", "--quiet", *label], capture_output=True, text=True, check=True)
    inspections = _asked("docker", "inspect", *process.stdout.split()) if process.stdout.split() else []
    return {inspection["Config"]["Labels"]["com.docker.compose.service"]: inspection for inspection in inspections}


def _kind(service: str) -> str:
    name = re.sub(r"[\d-].*", "", service)
    return {"client": "endpoint", "server": "endpoint", "sim": "simulator"}.get(name, name)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.replace("\t", " ").split(": ", 1) for line in lines if ": " in line.replace("\t", " "))


def _names(mask: str) -> frozenset[str]:
    """Capabilities of a mask; one that no container has by its number."""
    value, names = int(mask, 16), {number: name for name, number in CAPABILITIES.items()}
    return frozenset(names.get(bit, str(bit)) for bit in range(64) if value >> bit & 1)


def _check(service: str, container: dict[str, Any], row: Row) -> None:
    """A container has what its row says, as Docker tells and as its processes do."""
    host = container["HostConfig"]
    assert host["CapDrop"] == ["ALL"] and not host["Privileged"] and not host["Devices"], service
    assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == row.capabilities, service
    assert host["SecurityOpt"] == ["no-new-privileges:true"], service
    assert host["PidsLimit"] == row.processes, service
    assert host["Memory"] == host["MemorySwap"], service
    # A simulator's has its kernel's beside it.
    assert host["Memory"] > row.memory if _kind(service) == "simulator" else host["Memory"] == row.memory, service
    # The traffic's manifest says so, too.
    assert host["ReadonlyRootfs"], service
    in_memory = host.get("Tmpfs", {})
    assert in_memory.keys() == row.in_memory and all("size=" in text for text in in_memory.values()), service
    assert host["PidMode"] == "" and host["IpcMode"] == "private", service
    if row.network == "of the lab":
        assert host["NetworkMode"] != "host" and host["Dns"] == ["127.0.0.1"], service
    else:
        assert host["NetworkMode"] == "host", service
    top = subprocess.run(
        ["docker", "top", container["Id"], "-o", "pid"], capture_output=True, text=True, check=True
    ).stdout.split()[1:]
    assert str(container["State"]["Pid"]) in top
    for pid in map(int, top):
        try:
            status = _status(pid)
        except OSError:
            # It has ended.
            continue
        assert _names(status["CapBnd"]) == row.capabilities, (service, pid)
        assert _names(status["CapPrm"]) <= row.capabilities and _names(status["CapEff"]) <= row.capabilities, service
        assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == FILTERED, (service, pid)


@contextmanager
def _listening() -> Iterator[tuple[int, list[socket.socket]]]:
    """A port of this machine's, on all its addresses, and its sockets."""
    with socket.socket(socket.AF_INET6) as stream, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as datagrams:
        for connection in (stream, datagrams):
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        stream.bind(("::", 0))
        port = stream.getsockname()[1]
        stream.listen()
        datagrams.bind(("::", port))
        yield port, [stream, datagrams]


def _came(sockets: list[socket.socket], seconds: float = 0.2) -> list[str]:
    """What came to them: from whom, and of datagrams which."""
    came = []
    while ready := select.select(sockets, [], [], seconds)[0]:
        for connection in ready:
            if connection.type == socket.SOCK_STREAM:
                accepted, whom = connection.accept()
                accepted.close()
                came.append(f"a connection from {whom[0]}")
            else:
                words, whom = connection.recvfrom(100)
                came.append(f"{words.decode()} from {whom[0]}")
    return came


def _targets(interfaces: list[dict[str, Any]]) -> list[str]:
    """This machine's addresses with the MAC address of a lab's bridge, and those that Docker gives such a bridge."""
    mac = next(interface["address"] for interface in interfaces if interface["ifname"] == "quic-lab0")
    own = [
        address["local"]
        for interface in interfaces
        if interface["ifname"] != "lo" and not interface["ifname"].startswith("veth")
        for address in interface["addr_info"]
    ]
    # By the address that a kernel makes of the MAC, too (RFC 4291, appendix A).
    eight = [int(part, 16) for part in mac.split(":")]
    eight = [eight[0] ^ 2, *eight[1:3], 0xFF, 0xFE, *eight[3:]]
    local = "fe80::" + ":".join(f"{high << 8 | low:x}" for high, low in zip(eight[::2], eight[1::2], strict=True))
    docker_s = ["193.167.0.1", "fd00:cafe:cafe::1", "fe80::1", local]
    return [f"{address},{mac}" for address in dict.fromkeys([*docker_s, *own])]


def test_running_containers_have_what_the_docs_say_and_reach_nothing_but_the_lab(
    warm: Harness, harness: Harness
) -> None:
    rows = containers()
    process = subprocess.Popen(
        harness.command("run", harness.scenario("row", **ROW), "--repeat", "1", "--no-figures"),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "HARNESS_PATIENCE": "0 s"},
    )  # fmt: skip
    try:
        with _listening() as (port, sockets):
            # Whoever is not kept from it gets there.
            socket.create_connection(("127.0.0.1", port)).close()
            assert len(_came(sockets)) == 1
            # Another harness may have the machine for a while.
            wait_for(lambda: _ready(harness) or process.poll() is not None, 300)
            inspected = _containers()
            assert {_kind(service) for service in inspected} == rows.keys()
            interfaces = _asked("ip", "-json", "address")
            inside = ["docker", "exec", inspected["client0"]["Id"], "python3", "-c", PROGRAM, str(port)]
            assert _asked(*inside, *_targets(interfaces)) == []
            assert _came(sockets) == []
        for service, container in inspected.items():
            _check(service, container, rows[_kind(service)])
        for interface in interfaces:
            if interface["ifname"].startswith("quic-lab"):
                assert interface["addr_info"] == [] and "NOARP" in interface["flags"], interface
        process.wait(60)
    finally:
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
    (record,) = harness.store.glob("runs/*/0/run.json")
    host = json.loads(record.read_text())["host"]
    assert host["containers"] == "4 GiB of memory, 4096 processes each; closed networks", text
    assert left_overs() == []


def _ready(harness: Harness) -> bool:
    """Whether the first simulator says that the path is up."""
    return any('"ready"' in file.read_text() for file in harness.store.glob("partial/*/sim/events.jsonl"))

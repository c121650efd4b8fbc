"""Interfaces set up without a process: the kernel ends up as ip(8) leaves it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest
from simulator.rtnetlink import settle
from simulator.shell import CommandError

COMMANDS = [
    ["ip", "link", "set", "dev", "lo", "up"],
    ["ip", "link", "set", "dev", "eth0", "mtu", "1280", "up"],
    ["ip", "address", "add", "193.167.0.100/24", "dev", "eth0"],
    ["ip", "address", "add", "fd00:cafe:cafe:0::100/64", "dev", "eth0", "nodad"],
    ["ip", "neigh", "replace", "193.167.0.2", "lladdr", "02:42:c1:a7:00:02", "dev", "eth0", "nud", "permanent"],
    ["ip", "neigh", "replace", "fd00:cafe:cafe::2", "lladdr", "02:42:c1:a7:00:02", "dev", "eth0", "nud", "permanent"],
]
#: A namespace of one's own with an interface; what it has by then is printed.
CREATE_INTERFACE = "ip link add eth0 address 02:42:c1:a7:00:64 type veth peer name other address 02:42:c1:a7:00:02\nip link set other up"
#: The kernel says a moment later that there is a carrier (linkwatch).
CARRIER = "for i in $(seq 100); do ip link show dev eth0 | grep -q 'state UP' && break; sleep 0.05; done"
SHOWN = "for what in address neigh 'route show table all' '-6 route show table all'; do ip $what; done"
OWN = ["unshare", "--user", "--map-root-user", "--net", "sh", "-ec"]
ENV = {**os.environ, "LC_ALL": "C"}


def _shown(work: str) -> str:
    process = subprocess.run(
        [*OWN, f"{CREATE_INTERFACE}\n{work}\n{CARRIER}\n{SHOWN}"], capture_output=True, text=True, check=True, env=ENV
    )
    return "\n".join(line for line in process.stdout.replace("tentative", "").splitlines() if "fe80" not in line)


@pytest.mark.skipif(
    shutil.which("ip") is None
    or subprocess.run([*OWN, CREATE_INTERFACE], capture_output=True, check=False).returncode != 0,
    reason="needs iproute2 and namespaces of one's own",
)
def test_the_kernel_is_left_as_by_ip() -> None:
    program = "import json, sys; from simulator.rtnetlink import settle; settle(json.loads(sys.argv[1]))"
    ours = _shown(shlex.join([sys.executable, "-c", program, json.dumps(COMMANDS)]))
    assert ours == _shown("\n".join(" ".join(command) for command in COMMANDS))


def test_what_fails_is_named() -> None:
    command = ["ip", "address", "add", "193.167.0.100/24", "dev", "nowhere"]
    with pytest.raises(CommandError, match=r"^ip address add 193\.167\.0\.100/24 dev nowhere: "):
        settle([command])


def test_what_is_not_known_is_not_guessed() -> None:
    for command in (["ip", "link", "del", "eth0"], ["ip", "address", "add", "::1/128", "dev", "lo", "optimistic"]):
        with pytest.raises(ValueError, match="no command that is carried out here"):
            settle([command])

"""In a guest with a stock kernel: its features, what it makes of path programs, and what its netem drops.

Run as `python3 guest.py PROGRAMS ANSWER`, both files of JSON. PROGRAMS: name → its setup and changes, as in a
simulator's plan. ANSWER: `release`, `missing` (feature → why), `programs` (name → why it was refused, or null),
`losses` (three times the packets that came through netem, by number) and `counters` (packets and drops by tc).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
from itertools import chain
from pathlib import Path
from typing import Any

from simulator.agent import queues_first
from simulator.features import missing_features, needed_features
from simulator.shell import CommandError, Prepared, run, run_program

ETH_P_TEST = 0x88B5
PACKETS = 400
#: socket(7); Python's module does not name it.
SO_RCVBUFFORCE = 33


def clean_up() -> None:
    """Remove everything that a program made."""
    for link in json.loads(run(("ip", "-j", "link", "show"))):
        if link["ifname"] != "lo":
            # The other end of a pair may be gone with the first.
            with contextlib.suppress(CommandError):
                run(("ip", "link", "del", link["ifname"]))


def add_pair(*names: str) -> None:
    """Interfaces of these names, each with a peer, up."""
    for name in names:
        run(("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}_peer"))
        run(("ip", "link", "set", "dev", name, "up"))
        run(("ip", "link", "set", "dev", f"{name}_peer", "up"))


def refusal(program: dict[str, Any]) -> str | None:
    """Why the kernel refused a program's setup or one of its changes; None where it took them all."""
    add_pair("left", "right")
    try:
        run_program(queues_first(program["setup"]))
        # As the simulator samples it.
        json.loads(run(("tc", "-s", "-j", "qdisc", "show")))
        for commands in program["changes"]:
            Prepared(commands).run()
    except (CommandError, ValueError) as error:
        return str(error)
    finally:
        clean_up()
    return None


def losses(seed: int) -> tuple[list[int], dict[str, int]]:
    """Numbers of the packets that came through a netem with 30 % loss, and its counters."""
    add_pair("left")
    words = ("netem", "limit", "1000", "delay", "1ms", "loss", "random", "30%", "seed", str(seed))
    run(("tc", "qdisc", "add", "dev", "left", "root", *words))
    arrived = []
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, ETH_P_TEST) as sender,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_TEST)) as receiver,
    ):
        sender.bind(("left", ETH_P_TEST))
        receiver.bind(("left_peer", ETH_P_TEST))
        # Room for all: what finds none is dropped, and no discipline counts it.
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, PACKETS * 4096)
        for number in range(PACKETS):
            sender.send(b"\xff" * 12 + ETH_P_TEST.to_bytes(2) + number.to_bytes(46))
        while select.select([receiver], [], [], 0.5)[0]:
            arrived.append(int.from_bytes(receiver.recv(100)[14:60]))
    (discipline,) = [
        item for item in json.loads(run(("tc", "-s", "-j", "qdisc", "show", "dev", "left"))) if "root" in item
    ]
    clean_up()
    return arrived, {"packets": discipline["packets"], "drops": discipline["drops"]}


def main(programs: Path, answer: Path) -> None:
    """Answer all questions of this kernel."""
    missing = missing_features()
    # A kernel that ignores netem's seed takes the commands with it all the same.
    refused = missing.keys() - {"netem seed"}
    refusals = {
        name: refusal(program)
        for name, program in json.loads(programs.read_text()).items()
        if refused.isdisjoint(needed_features([*program["setup"], *chain.from_iterable(program["changes"])]))
    }
    passed, counters = zip(*(losses(seed) for seed in (7, 7, 8)), strict=True)
    answer.write_text(
        json.dumps(
            {
                "release": os.uname().release,
                "missing": missing,
                "programs": refusals,
                "losses": passed,
                "counters": counters,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Every client that can be told to move, in virtual time: when it moves, by which address and connection ID."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from socket import IPPROTO_UDP
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import yaml

from harness.capture.files import read_bytes
from harness.capture.pcap import parse
from harness.cli.environment import open_app
from harness.topology import SERVER_PORT
from tests.examples import catalogue
from tests.lab.conftest import EARLY, LINKS, Harness

#: It takes clients of every image, and gives them connection IDs to move with.
SERVER = "quic-go"
KINDS = ("migrate", "interface")
MOVERS = [
    (name, how)
    for name, (implementation, _) in catalogue().implementations().items()
    if implementation.build is not None
    for how in implementation.moves
]
AT_MS = 300
#: In an IPv4 packet: protocol, source address, UDP's destination port, first bytes of the ID in a QUIC short header.
_PROTOCOL, _SOURCE, _PORT, _ID = 9, slice(12, 16), slice(22, 24), slice(29, 33)
#: Of a frame's header, bytes.
_ETHERNET = 14


def _scenario(harness: Harness, name: str, flows: list[dict[str, Any]]) -> str:
    """A scenario of two paths, alike."""
    file = Path(harness.scenario(name, flows=flows, milestones=["2 MB"], paths={"one": LINKS, "other": LINKS}))
    content = yaml.safe_load(file.read_text())
    del content["path"]
    file.write_text(yaml.safe_dump(content))
    return str(file)


@pytest.fixture(scope="module")
def moved(warm: Harness, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """(implementation, how) → the cell in which its client moved."""
    harness = Harness(tmp_path_factory.mktemp("moves"))
    absent = open_app().inventory.unavailable()
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for how in KINDS:
        names = [name for name, own in MOVERS if own == how and name not in absent]
        moves = [{"at": f"{AT_MS} ms", "to": "other", "how": how}]
        case = _scenario(harness, how, [{"download": "2 MB", "moves": moves}])
        measured_cells = harness.cells(
            case, "--clients", ",".join(names), "--servers", SERVER, "--repeat", "1", "--engine", "virtual"
        )
        cells |= {(cell["client"], how): cell for cell in measured_cells}
    return cells


@dataclass(frozen=True)
class Sent:
    """What a simulator saw of a client: UDP datagrams to the server's port, over IPv4."""

    t_ns: npt.NDArray[np.int64]
    packets: npt.NDArray[np.uint8]
    """First bytes of each, from the IP header on, a row each."""

    def of(self, part: slice) -> list[bytes]:
        """The bytes at one place of each."""
        return [row.tobytes() for row in self.packets[:, part]]


def from_client(cell: dict[str, Any], simulator: str) -> Sent:
    records = parse(read_bytes(Path(cell["evidence"][0]) / simulator / "trace_node_left.pcap"))
    packets = records.heads[:, _ETHERNET:]
    port = packets[:, _PORT].astype(np.int64) @ np.array([256, 1])
    wanted = (packets[:, _PROTOCOL] == IPPROTO_UDP) & (port == SERVER_PORT)
    return Sent(records.t_ns[wanted], packets[wanted])


@pytest.mark.parametrize(("name", "how"), MOVERS, ids=[f"{name}-{how}" for name, how in MOVERS])
def test_a_client_moves_when_it_is_told(moved: dict[tuple[str, str], dict[str, Any]], name: str, how: str) -> None:
    if (why := open_app().inventory.unavailable().get(name)) is not None:
        pytest.skip(f"{name} is not built here: {why}")
    cell = moved[name, how]
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    before, after = from_client(cell, "sim"), from_client(cell, "sim-other")
    late_ms = (after.t_ns[0] - before.t_ns[0]) / 1e6 - AT_MS
    # An event loop that waits with epoll counts whole milliseconds, rounded up, and then sends.
    assert -EARLY["virtual"] * 1e3 < late_ms < 1.1, f"{late_ms:.3f} ms late"
    assert len(set(after.of(_SOURCE))) == 1 and not set(after.of(_SOURCE)) & set(before.of(_SOURCE))
    if how == "migrate":
        # Of a short header: what is behind its first byte belongs to the destination connection ID.
        assert after.of(_ID)[0] not in before.of(_ID)

"""A path whose MTU falls, in virtual time: what passes, what does not, and what senders are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.analysis.run_view import RunView
from harness.capture import pcap
from harness.capture.files import capture_path, open_file
from harness.outcome import Run
from harness.scenario.schema import FRAME_HEADER
from tests.lab.conftest import Harness

VIRTUAL = ("--engine", "virtual", "--repeat", "1")
#: The MTU from a second on; datagrams of QUIC's least size pass (RFC 9000 §14).
SIZE, FALL = 1280, 1.0
ICMP, DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED = 1, 3, 4


def falling(icmp: bool) -> dict[str, Any]:
    """A path whose MTU falls towards the client."""
    plain = {"rate": "10 Mbit/s", "delay": "20 ms", "queue": "100 kB"}
    change = {"at": f"{FALL} s", "forward": {"mtu": {"size": SIZE, "icmp": icmp}}}
    return {"forward": plain, "return": {**plain, "rate": "2 Mbit/s"}, "changes": [change]}


def evidence(harness: Harness, *words: str) -> tuple[dict[str, Any], RunView]:
    """The only cell, and its run."""
    cell = harness.cell(*words, *VIRTUAL)
    (folder,) = map(Path, cell["evidence"])
    return cell, RunView(folder, Run.model_validate_json((folder / "run.json").read_text()))


def messages(view: RunView, side: str) -> list[tuple[int, int]]:
    """(when, ns; next-hop MTU) of each Fragmentation Needed on one side (RFC 1191 §4)."""
    with open_file(capture_path(view.folder, side)) as file:
        parts = list(pcap.read_parts(file))
    return [
        (int(t_ns), int.from_bytes(head[40:42].tobytes(), "big"))
        for part in parts
        for t_ns, head in zip(part.t_ns, part.heads, strict=True)
        if (head[23], head[34], head[35]) == (ICMP, DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED)
    ]


def fallen_ns(view: RunView) -> int:
    applied = view.events.applied(0, FALL)
    assert applied is not None
    return applied


def sizes(view: RunView) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """IP lengths of the packets that were sent to the client once the MTU had fallen, and which of them arrived."""
    passage = view.directions["to_client"].passage
    # By then none waits that came before.
    later = passage.entered.t_ns >= fallen_ns(view) + 200_000_000
    return passage.entered.length[later] - FRAME_HEADER, passage.arrived[later]


def link_of(cell: dict[str, Any]) -> dict[str, Any]:
    measured: dict[str, Any] = json.loads((Path(cell["evidence"][0]) / "measured.json").read_text())
    assert measured["link"]["valid"], measured["link"]["problems"]
    direction: dict[str, Any] = measured["link"]["to_client"]
    return direction


@pytest.mark.parametrize(
    "words", [("--clients", "picoquic", "--servers", "picoquic"), ("--clients", "linux", "--servers", "linux")]
)
def test_a_sender_is_told_and_the_transfer_goes_on(warm: Harness, harness: Harness, words: tuple[str, ...]) -> None:
    tcp = {"kind": "tcp"} if "linux" in words else {}
    file = harness.scenario("told", path=falling(True), flows=[{"download": "3 MB", **tcp}])
    cell, view = evidence(harness, file, *(() if tcp else words))
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    direction = link_of(cell)
    icmp_messages = messages(view, "right")
    # One for each packet that was too large, with the size that passes; nobody on the other side is told anything.
    assert len(icmp_messages) == direction["size_drops"] > 10
    assert {mtu for _, mtu in icmp_messages} == {SIZE} and min(t_ns for t_ns, _ in icmp_messages) >= fallen_ns(view)
    assert messages(view, "left") == []
    lengths, arrived = sizes(view)
    assert (lengths[arrived] <= SIZE).all() and arrived.sum() > 500
    assert direction["unasked_drops"] == 0


def test_a_kernel_that_is_told_fragments_for_its_sender(warm: Harness, harness: Harness) -> None:
    """tquic leaves the socket as it is: Linux takes the path's MTU from ICMP, and cuts what is larger (ip(7),
    IP_PMTUDISC_WANT). The fragments pass the queue as packets of their flow, and the link is still proven.
    """
    file = harness.scenario("cut", path=falling(True), flows=[{"download": "3 MB"}])
    cell, view = evidence(harness, file, "--clients", "quinn", "--servers", "tquic")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert link_of(cell)["unasked_drops"] == 0 and view.left is not None and view.right is not None
    assert messages(view, "right")
    assert view.left.continues.sum() == view.right.continues.sum() > 10


def test_in_a_black_hole_larger_packets_vanish_and_smaller_ones_do_not(warm: Harness, harness: Harness) -> None:
    """Datagrams of all sizes, whose sender listens to nobody."""
    traffic = {"model": "uniform", "packet": ["200 B", "1400 B"], "gap": ["1 ms", "3 ms"]}
    file = harness.scenario("silent", path=falling(False), flows=[{"kind": "udp", "stop": "4 s", "traffic": traffic}])
    cell, view = evidence(harness, file)
    direction = link_of(cell)
    lengths, arrived = sizes(view)
    assert not arrived[lengths > SIZE].any()
    assert arrived[lengths <= SIZE].all()
    large, whole = int((lengths > SIZE).sum()), len(lengths)
    # Of the sizes from 228 to 1428 B those above 1280 are 148 in 1201.
    assert large / whole == pytest.approx(148 / 1201, abs=0.04)
    assert direction["size_drops"] >= large and direction["unasked_drops"] == 0
    assert messages(view, "right") == [] == messages(view, "left")


def test_quic_comes_out_of_a_black_hole_by_itself(warm: Harness, harness: Harness) -> None:
    file = harness.scenario("survives", path=falling(False), flows=[{"download": "3 MB"}])
    cell, view = evidence(harness, file, "--clients", "picoquic", "--servers", "picoquic")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert link_of(cell)["size_drops"] > 10 and messages(view, "right") == []
    measured = json.loads((Path(cell["evidence"][0]) / "measured.json").read_text())
    values = {measurement["name"]: measurement["value"] for measurement in measured["measurements"]}
    assert SIZE - 52 <= values["discovered_mtu_to_client"] <= SIZE
    # Longer than the round trip, since it takes a loss to notice.
    assert 0.04 < values["mtu_recovery_time"] < 2


@pytest.mark.parametrize("clients", [1, 2])
def test_jumbo_frames_pass_a_wire_and_a_bridge(warm: Harness, harness: Harness, clients: int) -> None:
    """TCP takes what its interfaces carry, whether one client is at the simulator's own wire or two at a bridge."""
    plain = {"rate": "50 Mbit/s", "delay": "10 ms", "queue": "500 kB"}
    flows = [{"kind": "tcp", "download": "3 MB"}] * clients
    file = harness.scenario("jumbo", path={"mtu": 9000, "forward": plain, "return": plain}, flows=flows)
    cell, view = evidence(harness, file)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert link_of(cell)["oversize_frames"] == 0
    assert view.left is not None and int(view.left.length.max()) == 9000 + FRAME_HEADER

"""What is measured of segments in a row, by captures made by hand: one TCP connection over two segments of 10 ms and
100 ms, with a proxy between them or a router.

The client's end has segment b (10 ms a round trip), the servers' end segment a (100 ms).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.metrics import measure
from harness.analysis.metrics.link_proof import prove
from harness.analysis.metrics.observed.quic import most_in_flight
from harness.analysis.run_view import RunView
from harness.analysis.tcp_split import at_server_rtt_ns, legs_of, opened_connections
from harness.outcome import Run
from tests.unit.captures import make_run
from tests.unit.shared_flows import MS, Passing, Segment, link, transfer, write_captures, write_counters, write_lab

SYN, ACK, BOTH = 0x02, 0x10, 0x12
SCENARIO: dict[str, Any] = {
    "title": "Two segments",
    "path": [
        {"name": "a", "forward": {"rate": "10 Mbit/s", "delay": "50 ms"}, "return": {"rate": "10 Mbit/s", "delay": "50 ms"}},
        {"proxy": "tcp-split"},
        {"name": "b", "forward": {"rate": "10 Mbit/s", "delay": "5 ms"}, "return": {"rate": "10 Mbit/s", "delay": "5 ms"}},
    ],
    "flows": [{"kind": "tcp", "download": "2 kB"}],
    "milestones": ["1 kB"],
}  # fmt: skip


def _segment(to_client: bool, size: int, sequence: int, acknowledgement: int, flags: int = ACK) -> Segment:
    return Segment(
        0, to_client, b"", size, 0, sequence=sequence, acknowledgement=acknowledgement, flags=flags,
        identification=(sequence + acknowledgement + size) % 2**16,
    )  # fmt: skip


def _connection(began: float, way: float, answer: float, first: tuple[int, int]) -> list[Passing]:
    """A connection over one segment that takes `way` ms: its opening, two kB, each acknowledged after `answer` ms."""
    client, server = first
    passed = [
        Passing(_segment(False, 0, client, 0, SYN), began, began + way),
        Passing(_segment(True, 0, server, client + 1, BOTH), began + answer, began + answer + way),
    ]
    for number in range(4):
        at = began + 2 * answer + 20 * number
        passed.append(Passing(_segment(True, 500, server + 1 + 500 * number, client + 1), at, at + way))
        done = server + 1 + 500 * (number + 1)
        passed.append(Passing(_segment(False, 0, client + 1, done), at + answer - way, at + answer))
    return passed


def _write(folder: Path, *, split: bool, kind: str = "tcp") -> Run:
    """The run of both segments; without a split its one connection is acknowledged by the client alone. `kind`: of TCP,
    a generator's or HTTPS.
    """
    numbers = {"sim": (1000, 2000), "sim-a": (7000, 9000) if split else (1000, 2000)}
    for simulator, began, way in (("sim", 100.0, 5.0), ("sim-a", 110.0, 50.0)):
        answer = 2 * way if split or simulator == "sim" else 2 * way + 10
        write_captures(folder, _connection(began, way, answer, numbers[simulator]))
        write_counters(folder, {})
        write_lab(folder, [])
        if simulator != "sim":
            (folder / "sim").rename(folder / simulator)
        else:
            shutil.copytree(folder / "sim", folder / "kept")
            shutil.rmtree(folder / "sim")
    (folder / "kept").rename(folder / "sim")
    links = {
        delay: {name: link(name, delay_ns=delay * MS, burst_bytes=None) for name in ("to_client", "to_server")}
        for delay in (5, 50, 55)
    }
    paths = [
        {"path": path, "simulator": simulator, "networks": ["193.167.0.0/24", "fd00:cafe:cafe:0::/64"],
         "links": links[delay], "changes": [], "outages": [], "mappings": []}
        for path, simulator, delay in (("b", "sim", 5), ("a", "sim-a", 50))
    ]  # fmt: skip
    write_lab(folder, [{"kind": kind}], paths=paths, proxies=[{"proxy": "proxy0", "left": "sim", "right": "sim-a"}])
    lab = json.loads((folder / "lab.json").read_text())
    (folder / "lab.json").write_text(json.dumps({**lab, "links": links[55]}))
    (folder / "growth.csv").write_text("t_ns,flow,transfer,bytes\n")
    (folder / "cpu.csv").write_text("t_ns,container,cpu_ns,rcvbuf_errors\n")
    # A download is HTTPS by who plays it.
    flows = SCENARIO["flows"] if kind == "tcp" else [{"download": "2 kB"}]
    return make_run(scenario={**SCENARIO, "flows": flows}, transfers=(transfer(0),))


@pytest.mark.parametrize("kind", ["tcp", "https"])
def test_a_connection_that_is_split_is_acknowledged_within_each_segment(tmp_path: Path, kind: str) -> None:
    view = RunView(tmp_path, _write(tmp_path, split=True, kind=kind))
    assert view.lab is not None
    legs = {leg.segment: leg for leg in legs_of(view, view.lab.flows[0])}
    assert {name: leg.ack_delay_ns / MS for name, leg in legs.items()} == pytest.approx({"b": 10, "a": 100})
    # Behind the last proxy nobody else could answer.
    assert {name: leg.is_split for name, leg in legs.items()} == {"b": None, "a": True}
    assert not [problem for problem in prove(view)[0].problems if "split" in problem]


@pytest.mark.parametrize("kind", ["tcp", "https"])
def test_a_connection_that_is_not_split_spoils_the_run(tmp_path: Path, kind: str) -> None:
    view = RunView(tmp_path, _write(tmp_path, split=False, kind=kind))
    assert view.lab is not None
    legs = {leg.segment: leg for leg in legs_of(view, view.lab.flows[0])}
    assert legs["a"].ack_delay_ns / MS == pytest.approx(110)
    assert legs["a"].is_split is False
    problems = [problem for problem in prove(view)[0].problems if "split" in problem]
    assert problems == [
        "proxy0 did not split the TCP connections of flow 0 from port 5202",
        "a: data of flow 0 were acknowledged after 110.0 ms at the soonest, and the next proxy is 100.0 ms away: "
        "nothing was split",
    ]


def test_both_ends_of_the_row_are_its_outer_interfaces(tmp_path: Path) -> None:
    view = RunView(tmp_path, _write(tmp_path, split=True))
    inner, outer = view.of_path("b"), view.of_path("a")
    assert view.left is not None and view.right is not None and inner.left is not None and outer.right is not None
    assert (view.left.t_ns == inner.left.t_ns).all()
    assert (view.right.t_ns == outer.right.t_ns).all()
    assert opened_connections(view.left, 0) == {5202: 1000}
    assert opened_connections(view.right, 0) == {5202: 7000}


@pytest.mark.parametrize("kind", ["tcp", "https"])
def test_each_segment_has_its_own_figures(tmp_path: Path, kind: str) -> None:
    measured_run = measure(tmp_path, _write(tmp_path, split=True, kind=kind))
    assert measured_run.value("queue_drops_to_client_in_a") == measured_run.value("queue_drops_to_client_in_b") == 0
    assert measured_run.value("ack_delay_in_a", 0) == pytest.approx(100)
    assert measured_run.value("ack_delay_in_b", 0) == pytest.approx(10)
    assert measured_run.value("queue_delay_max_to_client_in_a") == pytest.approx(0, abs=0.5)
    # Of the whole there is no queue that all would share.
    assert measured_run.value("queue_delay_p50_to_client", 0, "first") is None
    if kind == "https":  # of a download the file tells when it came
        return
    # From the client's SYN at its own end.
    assert measured_run.value("first_byte", 0, "first") == pytest.approx(0.025)
    assert measured_run.value("milestone_1kB", 0, "first") == pytest.approx(0.045)


def test_behind_a_proxy_the_server_tells_nothing_of_the_client_s_buffer(tmp_path: Path) -> None:
    """Its round trip is that to the proxy, and its window the proxy's."""
    view = RunView(tmp_path, _write(tmp_path, split=True, kind="https"))
    assert at_server_rtt_ns(view) == 100 * MS
    (window,) = view.windows
    (observation,) = most_in_flight(view, window)
    # 500 B every 20 ms, each acknowledged after 100 ms.
    assert (observation.role, observation.parameter, observation.value) == ("server", "tcp_wmem_max", 2000)


def test_a_segment_that_was_sent_twice_tells_no_delay(tmp_path: Path) -> None:
    run = _write(tmp_path, split=True)
    passed = _connection(110.0, 50.0, 100.0, (7000, 9000))
    # Each of them once more, 30 ms later: which one was acknowledged nobody knows.
    again = [
        replace(passing, entered=passing.entered + 30, left=(passing.left or 0) + 30)
        for passing in passed
        if passing.packet.size
    ]
    folder = tmp_path / "twice"
    write_captures(folder, sorted([*passed, *again], key=lambda passing: passing.entered))
    for name in ("left", "right"):
        (folder / "sim" / f"trace_node_{name}.pcap").replace(tmp_path / "sim-a" / f"trace_node_{name}.pcap")
    view = RunView(tmp_path, run)
    assert view.lab is not None
    assert [leg.segment for leg in legs_of(view, view.lab.flows[0])] == ["b"]

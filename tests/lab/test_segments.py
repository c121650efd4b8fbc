"""Segments in a row: packets pass all of them, proxies split TCP and nothing else, and every segment is proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.analysis.metrics import measure
from harness.analysis.run_view import RunView
from harness.analysis.tcp_split import legs_of, opened_connections
from harness.store.records import read_run
from harness.topology.lab_file import FlowAddresses
from tests.lab.conftest import Harness

VIRTUAL, REAL = ("--engine", "virtual"), ("--engine", "compose")
LAN = {"rate": "100 Mbit/s", "delay": "2 ms", "queue": "1000 packets"}
SPACE = {"rate": "20 Mbit/s", "delay": "60 ms"}
SEGMENTS = [{"name": name, "forward": link, "return": link}
            for name, link in (("ground", LAN), ("space", SPACE), ("home", LAN))]  # fmt: skip
PROXY = {"proxy": "tcp-split", "initial_cwnd": 32}
SPLIT = [SEGMENTS[0], PROXY, SEGMENTS[1], PROXY, SEGMENTS[2]]


def _run(
    harness: Harness, name: str, path: list[Any], flows: list[dict[str, Any]], *words: str, **overrides: Any
) -> RunView:
    """A run that has completed over segments that are proven."""
    case = harness.scenario(name, path=path, flows=flows, **overrides)
    cell = harness.cell(case, "--repeat", "1", *words)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    assert len(cell["link"]["further"]) == 4
    folder = Path(cell["evidence"][0])
    return RunView(folder, read_run((folder / "run.json").read_bytes()))


def _tcp(view: RunView) -> FlowAddresses:
    assert view.lab is not None
    return next(flow for flow in view.lab.flows if flow.over_tcp)


def _is_split(view: RunView) -> None:
    tcp = _tcp(view)
    legs = {leg.segment: leg for leg in legs_of(view, tcp)}
    # Each segment's data are acknowledged at its other end.
    for name, rtt in (("home", 4), ("space", 120), ("ground", 4)):
        assert legs[name].is_split is (None if name == "home" else True)
        assert rtt <= legs[name].ack_delay_ns / 1e6 < rtt + 2
    # One connection is three, each with its own numbers, and all with the client's port.
    seen = [
        opened_connections(side, tcp.flow)
        for part in view.every_path
        for side in (part.left, part.right)
        if side is not None
    ]
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert seen[4] == seen[5]
    assert all(set(each) == set(seen[0]) for each in seen)
    for port in seen[0]:
        assert len({each[port] for each in seen}) == 3


@pytest.mark.parametrize("version", [4, 6])
def test_proxies_split_tcp_and_leave_quic_alone(harness: Harness, version: int) -> None:
    flows = [{"kind": "tcp", "download": "1 MB"}, {"download": "1 MB", "client": "quinn", "server": "quinn"}]
    view = _run(harness, f"both{version}", SPLIT, flows, *VIRTUAL, ip_version=version)
    _is_split(view)
    # QUIC's datagrams pass all three as they are.
    assert view.to_client is not None
    mine = view.to_client.entered.flow == 1
    # The two flows overrun the queue of the slowest once.
    assert view.to_client.arrived[mine].mean() > 0.9
    arrived = mine & view.to_client.arrived
    assert ((view.to_client.out_ns - view.to_client.entered.t_ns)[arrived] >= 64_000_000).all()
    assert {int(ip) for ip in view.to_client.entered.ip} == {version}


def test_https_is_split_where_its_contestants_speak_it_over_tcp(harness: Harness) -> None:
    """The scenario does not know who that is; and each segment has its figures."""
    words = ("--clients", "https", "--servers", "https", *VIRTUAL)
    view = _run(harness, "https", SPLIT, [{"download": "1 MB"}], *words)
    assert _tcp(view).kind == "https"
    _is_split(view)
    measured_run = measure(view.folder, view.run)
    for name, rtt in (("home", 4), ("space", 120), ("ground", 4)):
        assert rtt <= (measured_run.value(f"ack_delay_in_{name}", 0) or 0) < rtt + 2
        assert measured_run.value(f"queue_delay_max_to_client_in_{name}") is not None
    # The connection, TLS and the request are a round trip of the whole path each: a proxy passes on, it does not answer.
    assert 3 * 0.128 <= (measured_run.value("first_byte", 0, "first") or 0) < 4.5 * 0.128
    # The server has an answer from the nearest proxy, so that its window of ten packets is seen as what it is.
    observed = {(observation.role, observation.parameter): observation.value for observation in measured_run.observed}
    assert 8 <= float(observed["server", "initial_cwnd"]) <= 12
    assert ("client", "tcp_rmem_max") not in observed


def test_without_a_proxy_the_receiver_alone_acknowledges(harness: Harness) -> None:
    view = _run(harness, "whole", SEGMENTS, [{"kind": "tcp", "download": "1 MB"}], *VIRTUAL)
    ack_delays_ms = {leg.segment: leg.ack_delay_ns / 1e6 for leg in legs_of(view, _tcp(view))}
    assert 128 <= ack_delays_ms["ground"] < 130
    assert 124 <= ack_delays_ms["space"] < 126
    assert 4 <= ack_delays_ms["home"] < 6
    assert view.to_client is not None
    assert view.to_client.arrived.all()


def test_segments_change_at_the_labs_own_time(harness: Harness) -> None:
    slower = {**SEGMENTS[1], "changes": [{"at": "300 ms", "forward": {"rate": "5 Mbit/s"}}]}
    path = [SEGMENTS[0], slower, SEGMENTS[2]]
    view = _run(harness, "slower", path, [{"download": "1 MB", "client": "ngtcp2", "server": "ngtcp2"}], *VIRTUAL)
    zero = view.windows[0].zero_ns
    applied = view.of_path("space").events.applied(0, 0.3)
    assert zero is not None
    assert applied is not None
    assert 0 <= (applied - zero) / 1e6 - 300 <= 1


@pytest.mark.alone
def test_a_split_cell_in_real_time(harness: Harness) -> None:
    view = _run(harness, "real", SPLIT, [{"kind": "tcp", "download": "1 MB"}], *REAL)
    legs = {leg.segment: leg for leg in legs_of(view, _tcp(view))}
    assert legs["ground"].is_split
    assert legs["space"].is_split

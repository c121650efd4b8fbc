from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.analysis.metrics import measure
from harness.analysis.metrics.observed import observe
from harness.analysis.metrics.observed.quic import longest_burst
from harness.analysis.run_view import RunView
from harness.capture.capture import read_capture
from harness.capture.qlog_events import read_phases
from harness.outcome import MeasuredRun, Observation, Run, Transfer
from harness.scenario.schema import Move
from harness.topology.lab_file import Endpoint, FlowAddresses
from harness.units import Duration
from tests.unit.captures import (
    CLIENT,
    CLIENT6,
    HANDSHAKE,
    INITIAL,
    SERVER,
    SERVER6,
    T0,
    ZERO_RTT,
    Link,
    Packet,
    Recipe,
    asked_link,
    frame,
    make_run,
    pcap,
    short,
    write_run,
)

MS = 1_000_000
ONE_WAY = 50 * MS
RTT = 2 * ONE_WAY
#: Original destination connection ID of the first and of the second connection.
IDS = (bytes(range(8)), bytes(range(8, 16)))


def initial(at: float, to_client: bool = False, size: int = 1200, connection: int = 0, first: bool = True) -> Packet:
    """An Initial packet `at` ms after time zero; a server's names no connection of its client's."""
    head = INITIAL + bytes([8]) + IDS[connection] + b"\0\0" + b"\x44\x00" + (b"" if first else b"\1")
    return Packet(T0 + round(at * MS), to_client, head + round(at * 1000).to_bytes(8, "big"), size)


def handshake(at: float, to_client: bool) -> Packet:
    return Packet(T0 + round(at * MS), to_client, HANDSHAKE + round(at * 1000).to_bytes(8, "big"), 1000)


def data(at: float, size: int = 1200, to_client: bool = True) -> Packet:
    return short(round(at * 1000) * 8 + to_client, size, T0 + round(at * MS), to_client)


@dataclass
class Exchange:
    """What both ends sent, at their own sides, over a path that only delays."""

    up: list[Packet]
    down: list[Packet]
    lost: frozenset[int] = frozenset()  # of `down`
    traffic_class: dict[bool, Sequence[int]] = field(default_factory=dict)  # direction → by turns

    def write(self, folder: Path, **lab: Any) -> RunView:
        """The run's folder: captures and lab.json."""
        (folder / "sim").mkdir(parents=True, exist_ok=True)
        for name, own in (("left", False), ("right", True)):
            seen = []
            for to_client, packets in ((False, self.up), (True, self.down)):
                classes = self.traffic_class.get(to_client, (0,))
                for index, packet in enumerate(packets):
                    if to_client and not own and index in self.lost:
                        continue
                    late = 0 if to_client == own else ONE_WAY
                    head = bytearray(frame(packet))
                    head[15] = classes[index % len(classes)]
                    seen.append((packet.t_ns + late, bytes(head), packet.length))
            seen.sort(key=lambda item: item[0])
            (folder / f"sim/trace_node_{name}.pcap").write_bytes(pcap(seen))
        link = asked_link("to_client", Link(delay_ns=ONE_WAY)) | lab
        ends = {"client": {"addresses": [CLIENT, CLIENT6]}, "server": {"addresses": [SERVER, SERVER6]}}
        links = {"to_client": link, "to_server": asked_link("to_server", Link(delay_ns=ONE_WAY))}
        (folder / "lab.json").write_text(json.dumps({"flows": [{"flow": 0, **ends}], "links": links}))
        return RunView(folder, exchange_run())


def exchange_run(transfers: int = 1) -> Run:
    """A run with transfers that begin at time zero and every 100 s after."""
    times = [(T0 + index * 100_000 * MS - MS, T0 + (index * 100_000 + 50_000) * MS) for index in range(transfers)]
    run = make_run(
        transfers=tuple(
            Transfer(flow=0, index=index, size=1, started_ns=start, ended_ns=end)
            for index, (start, end) in enumerate(times)
        )
    )
    cell = run.cell
    named = {
        role: getattr(cell, role).model_copy(update={"name": name})
        for role, name in (("client", "cli"), ("server", "srv"))
    }
    return run.model_copy(update={"cell": cell.model_copy(update=named)})


def only(view: RunView, parameter: str, role: str = "server", source: str = "") -> Observation | None:
    """The observation of one parameter; None where there is none, and there are not two."""
    observations = [o for o in observe(view) if (o.parameter, o.role) == (parameter, role) and source in o.source]
    assert len(observations) <= 1 and not view.problems
    return observations[0] if observations else None


def value(view: RunView, parameter: str, role: str = "server", source: str = "") -> float | str | None:
    observation = only(view, parameter, role, source)
    return None if observation is None else observation.value


def download(flight: Sequence[Packet], packets: Sequence[Packet] = (), acks: Sequence[Packet] = ()) -> Exchange:
    """A handshake of a round trip, then the server's data; its clock starts at 150 ms."""
    up = [initial(0), handshake(RTT / MS, False), data(RTT / MS, 80, to_client=False), *acks]
    return Exchange(up, [initial(50, True), handshake(50.01, True), *flight, *packets])


# Probe timeouts


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 0.5, 60.5), 0.06),  # from the end of the flight
        ((0, 0.5, 100.5), None),  # the answer had come
        ((0, 10), None),  # the same flight
        ((0,), None),
    ],
)
def test_the_client_s_first_probe(tmp_path: Path, times: tuple[float, ...], expected: float | None) -> None:
    view = Exchange([initial(t) for t in times], [initial(50, True)]).write(tmp_path)
    probe_timeout = only(view, "first_pto", "client")
    assert (None if probe_timeout is None else probe_timeout.value) == (
        None if expected is None else pytest.approx(expected)
    )
    assert probe_timeout is None or (
        "20.0 ms if that is 3 ×" in probe_timeout.source and "30.0 ms if 2 ×" in probe_timeout.source
    )


def test_the_server_s_first_probe(tmp_path: Path) -> None:
    down = [initial(50, True), handshake(51, True), data(51.5, 300), handshake(111, True)]
    view = Exchange([initial(0), initial(0.01)], down).write(tmp_path / "a")
    assert value(view, "first_pto") == pytest.approx(0.06)
    assert value(view, "first_pto", "client") is None
    # The client's own probe had come before: the datagram may be its doing.
    view = Exchange([initial(0), initial(30)], down).write(tmp_path / "b")
    assert value(view, "first_pto") is None and value(view, "first_pto", "client") == pytest.approx(0.03)


# The first round trip of data


def test_the_initial_window_and_bursts(tmp_path: Path) -> None:
    early = data(55, 40)  # before the request: not data
    flight = [data(150.1, 60), *(data(150.2 + i * 0.01) for i in range(7)), *(data(160 + i) for i in range(3))]
    exchange = download([early, *flight], [data(250.2 + i) for i in range(50)])
    observation = only(exchange.write(tmp_path), "initial_cwnd", source="capture")
    assert (
        observation is not None
        and observation.value == pytest.approx((10 * 1200 + 60) / 1200)
        and observation.unit == "packets"
    )
    assert "12,060 B in 11 datagrams, full ones of 1,200 B" in observation.source
    assert "up to 2,240 B of it may be credit" in observation.source and "at least" not in observation.source
    burst = only(exchange.write(tmp_path), "pacing", source="first round trip")
    later = only(exchange.write(tmp_path), "pacing", source="second round trip")
    assert later is not None and later.value == 1 and "of 50 in" in later.source
    assert burst is not None and (burst.value, burst.unit) == (7, "datagrams in the longest burst")
    assert "of 11 in the first round trip" in burst.source and "all within 11.9 ms" in burst.source


def test_a_late_request_begins_the_first_round_trip(tmp_path: Path) -> None:
    """A small packet at once, the data 80 ms later: the acknowledgement of the small one ends nothing."""
    exchange = download([data(151, 60), *(data(231 + i) for i in range(40))], [data(340 + i) for i in range(100)])
    assert value(exchange.write(tmp_path), "initial_cwnd") == 40


def test_the_first_round_trip_after_a_retry(tmp_path: Path) -> None:
    """The handshake then takes the second round trip, with 1-RTT packets of its own; the data follow in the third."""
    retry = Packet(T0 + 50 * MS, True, bytes.fromhex("f000000001"), 100)
    down = [
        retry,
        initial(150, True),
        data(150.1, 40),
        *(data(250.1 + i) for i in range(12)),
        *(data(360 + i) for i in range(30)),
    ]
    view = Exchange([initial(0), initial(100), handshake(200, False)], down).write(tmp_path)
    assert value(view, "initial_cwnd") == 12


def test_probes_of_the_path_mtu_are_not_the_full_size(tmp_path: Path) -> None:
    exchange = download(
        [data(151, 1406), *(data(152 + i) for i in range(9))], [data(260, 1444), *(data(261 + i) for i in range(20))]
    )
    view = exchange.write(tmp_path)
    assert value(view, "initial_cwnd") == pytest.approx((1406 + 9 * 1200) / 1200)
    observation = only(view, "path_mtu_discovery")
    assert observation is not None and observation.value == "on"
    assert "1,406 B in 1-RTT datagram 1, 1,444 B at most, after 1,200 B" in observation.source


def test_what_else_may_end_the_first_flight(tmp_path: Path) -> None:
    flight = [data(151 + i) for i in range(90)]
    packets = [data(270 + i) for i in range(100)]
    assert "at least, for little more was asked for" in str(
        only(download(flight).write(tmp_path / "a"), "initial_cwnd")
    )
    view = download(flight, packets).write(tmp_path / "b", rate_bps=8_000_000)
    assert "at least, for the path carries 100,000 B in a round trip" in str(only(view, "initial_cwnd"))
    write_qlog(view, "server", parameters("remote", initial_max_data=9e6, initial_max_stream_data_bidi_local=110_000))
    observation = only(view, "initial_cwnd", source="capture")
    assert observation is not None
    assert observation.source.endswith(
        "at least, for the client's flow control allowed 110,000 B and the path carries 100,000 B in a round trip"
    )


def test_no_flight_without_full_datagrams(tmp_path: Path) -> None:
    view = download([data(151, 900)]).write(tmp_path / "a")
    assert [value(view, name) for name in ("initial_cwnd", "pacing", "path_mtu_discovery")] == [None] * 3
    for number, down in enumerate(([initial(50, True), data(51)], [])):
        view = Exchange([initial(0)], down).write(tmp_path / str(number))
        assert value(view, "initial_cwnd") is None


@pytest.mark.parametrize(
    ("gaps_us", "expected"), [([], 1), ([49, 49, 50, 49, 0, 1], 4), ([50, 50], 1), ([1, 1, 50], 3)]
)
def test_bursts(tmp_path: Path, gaps_us: list[int], expected: int) -> None:
    times = np.cumsum([0, *gaps_us]) / 1000
    view = Exchange([initial(0)], [data(150 + t) for t in times]).write(tmp_path)
    assert view.right is not None
    sent = view.right.select(view.right.to_client)
    assert longest_burst(sent) == expected
    assert longest_burst(sent.select(sent.t_ns < 0)) == 0


# Datagrams of the whole connection


def test_the_ack_ratio_in_bulk(tmp_path: Path) -> None:
    """Every fourth datagram answered in bulk; every one at both ends and in one stretch of recovery."""
    flight = [data(151 + i * 0.5) for i in range(4000)]
    answered = [i for i in range(4000) if i % 4 == 0 or i < 700 or i > 3300 or 1500 < i < 1700]
    acks = [data(151.1 + i * 0.5 + 50, 40, to_client=False) for i in answered]
    observation = only(download(flight, acks=acks).write(tmp_path), "ack_ratio", "client")
    assert observation is not None and observation.value == pytest.approx(4, rel=0.01)
    assert (
        "2,400 datagrams received for" in observation.source
        and "median of 12 parts; 0% of them came" in observation.source
    )


def test_too_few_datagrams_have_no_ratio(tmp_path: Path) -> None:
    acks = [data(202 + 4 * i, 40, to_client=False) for i in range(20)]
    few = download([data(151 + i) for i in range(80)], acks=acks)
    assert value(few.write(tmp_path / "a"), "ack_ratio", "client") is None
    unanswered = download([data(151 + i) for i in range(300)]).write(tmp_path / "b")
    assert value(unanswered, "ack_ratio", "client") is None
    assert value(Exchange([initial(0)], []).write(tmp_path / "c"), "ack_ratio", "client") is None


def test_the_largest_payload(tmp_path: Path) -> None:
    view = download([data(151 + i, 1350) for i in range(20)]).write(tmp_path)
    server, client = only(view, "max_udp_payload"), only(view, "max_udp_payload", "client")
    assert server is not None and (server.value, server.unit) == (1350, "bytes")
    assert "of 22 datagrams; 1,350 B with 1-RTT packets, most bytes in datagrams of 1,350 B" in server.source
    assert client is not None and client.value == 1200 and "1,000 B with 1-RTT packets" not in client.source


def test_no_discovery_of_the_path_mtu(tmp_path: Path) -> None:
    packets = [data(151 + i * 0.1, 1350) for i in range(1200)]
    acks = [data(210 + i, 40, to_client=False) for i in range(120)]
    view = download(packets, acks=acks).write(tmp_path / "a")
    server, client = only(view, "path_mtu_discovery"), only(view, "path_mtu_discovery", "client")
    assert server is not None and server.value == "off" and "none of 1,200 1-RTT" in server.source
    assert client is not None and client.value == "off" and "larger than 1,200 B" in client.source
    # Too few to tell; and so large that a larger one could not pass.
    assert value(download(packets[:800]).write(tmp_path / "b"), "path_mtu_discovery") is None
    large = [replace(packet, size=1470) for packet in packets]
    assert value(download(large).write(tmp_path / "c"), "path_mtu_discovery") is None
    # The client's own probes.
    acks[5] = replace(acks[5], size=1300)
    assert value(download(packets, acks=acks).write(tmp_path / "d"), "path_mtu_discovery", "client") == "on"


def test_ecn(tmp_path: Path) -> None:
    exchange = download([data(151 + i) for i in range(18)])
    exchange.traffic_class = {True: (0b10, 0b00, 0b01, 0b11, 0b10), False: (0xFC,)}
    view = exchange.write(tmp_path)
    server, client = only(view, "ecn"), only(view, "ecn", "client")
    assert server is not None and server.value == 0.6
    assert "ECT(0) on 8, ECT(1) on 4 of 20 datagrams; the last is number 20" in server.source
    assert client is not None and client.value == 0 and client.source.endswith("of 3 datagrams")


def test_the_traffic_class_in_both_versions(tmp_path: Path) -> None:
    four, six = bytearray(frame(short(1, 100, T0, True))), bytearray(frame(replace(short(2, 100, T0, True), ipv6=True)))
    four[15] = 0xB9
    six[14:16] = b"\x6b\x9f"
    (tmp_path / "a.pcap").write_bytes(pcap([(T0, bytes(four), 142), (T0 + 1, bytes(six), 162)]))
    ends = [Endpoint(addresses=both) for both in ((CLIENT, CLIENT6), (SERVER, SERVER6))]
    capture = read_capture(tmp_path / "a.pcap", [FlowAddresses(flow=0, client=ends[0], server=ends[1])])
    assert capture.traffic_class.tolist() == [0xB9, 0xB9] and capture.traffic_class.dtype == np.uint8


def test_early_data(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(repeat=True, packets=100, size=100_000))
    observation = only(RunView(tmp_path, run), "zero_rtt", "client")
    assert observation is not None and (observation.value, observation.unit) == (1, "datagrams")
    assert "second connection: 1 begin with a 0-RTT packet" in observation.source


@pytest.mark.parametrize(("padded", "expected"), [(False, 2), (True, 1)])
def test_early_data_behind_an_initial_packet(tmp_path: Path, padded: bool, expected: int) -> None:
    """A datagram larger than its Initial packet has something behind it, unless it always has."""
    first = initial(0, size=1300 if padded else 1042)
    again = initial(100_000, size=1300, connection=1)
    packet = Packet(again.t_ns + 1000, False, ZERO_RTT + b"x", 500)
    exchange = Exchange([first, again, packet], [initial(50, True), initial(100_050, True, connection=1)])
    exchange.write(tmp_path)
    assert value(RunView(tmp_path, exchange_run(2)), "zero_rtt", "client") == expected
    only_one = Exchange([first], [initial(50, True)]).write(tmp_path / "only")
    assert value(only_one, "zero_rtt", "client") == 0


# What a server remembers


def two_connections(first: Sequence[Packet], again: Sequence[Packet]) -> Exchange:
    """Handshakes of a round trip at 0 and 100 s, each with the server's data."""
    up = [initial(0), handshake(100, False), initial(100_000, connection=1), handshake(100_100, False)]
    down = [initial(50, True), *first, initial(100_050, True, connection=1), *again]
    return Exchange(up, down)


def rounds(start: float, *counts: int) -> list[Packet]:
    """So many full datagrams in each round trip from `start` ms on."""
    return [data(start + turn * RTT / MS + index / 10) for turn, count in enumerate(counts) for index in range(count)]


@pytest.mark.parametrize(
    ("again", "ratio"),
    [
        (rounds(100_151, 10, 20), 1.0),
        (rounds(100_151, 300, 20), 320 / 30),
        (rounds(100_051, 10, 290), 10.0),  # the answer to early data; it jumps once it has an RTT
        ([*rounds(100_051, 2), *rounds(100_151, 58, 2)], 2.0),  # two probes of the path MTU are no data
    ],
)
def test_a_second_connection_beside_the_first(tmp_path: Path, again: Sequence[Packet], ratio: float) -> None:
    two_connections(rounds(151, 10, 20, 999), [*again, data(100_500)]).write(tmp_path)
    observation = only(RunView(tmp_path, exchange_run(2)), "bdp_seed")
    assert observation is not None and observation.value == pytest.approx(ratio)
    assert "36,000 B in those of the first" in observation.source


def test_nothing_is_remembered_of_no_connection(tmp_path: Path) -> None:
    two_connections(rounds(151, 10), []).write(tmp_path)
    assert value(RunView(tmp_path, exchange_run(2)), "bdp_seed") is None
    assert value(RunView(tmp_path, exchange_run(1)), "bdp_seed") is None


def test_bdp_frames(tmp_path: Path) -> None:
    two_connections(rounds(151, 10), rounds(100_151, 10)).write(tmp_path)
    view = RunView(tmp_path, exchange_run(2))
    frames = [{"frame_type": "stream"}, {"frame_type": "BDP"}]
    sent = {"time": 1, "name": "transport:packet_sent", "data": {"frames": frames}}
    write_qlog(view, "client", parameters("local", max_ack_delay=1), sent, name="b", group=IDS[1])
    write_qlog(view, "client", parameters("local", max_ack_delay=1), name="a", group=IDS[0])
    assert value(view, "bdp_frames", "client") == 1
    assert value(view, "bdp_frames") is None  # the server wrote none


def phase(at: float, new: str, trigger: str = "") -> dict[str, Any]:
    state = {"pipesize": 24000, "first_unvalidated_packet": 0, "last_unvalidated_packet": 0}
    data = {"new": new, "state_data": state} | ({"trigger": trigger} if trigger else {})
    return {"time": at, "name": "recovery:careful_resume_phase_updated", "data": data}


def test_phases_of_careful_resume(tmp_path: Path) -> None:
    two_connections(rounds(151, 10), rounds(100_151, 10)).write(tmp_path)
    view = RunView(tmp_path, exchange_run(2))
    write_qlog(view, "server", phase(5, "normal"), name="a", group=IDS[0])
    assert value(view, "careful_resume") is None  # the first connection's phases are not the second's
    path = write_qlog(
        view, "server", phase(5, "reconnaissance"), phase(655, "unvalidated", "congestion_window_limited"),
        name="b", group=IDS[1],
    )  # fmt: skip
    observation = only(RunView(tmp_path, exchange_run(2)), "careful_resume")
    assert observation is not None and observation.value == "reconnaissance, unvalidated"
    assert "unvalidated after 650 ms (congestion_window_limited)" in observation.source
    assert [change.pipe for change in read_phases(path)] == [24000, 24000]


# What endpoints say


def parameters(owner: str, **values: object) -> dict[str, Any]:
    return {"time": 0, "name": "transport:parameters_set", "data": {"owner": owner, **values}}


def metrics(at: float, **values: object) -> dict[str, Any]:
    return {"time": at, "name": "recovery:metrics_updated", "data": values}


def write_qlog(view: RunView, role: str, *events: dict[str, Any], name: str = "a", group: bytes = b"") -> Path:
    folder = view.folder / f"flow0/{role}/qlog"
    folder.mkdir(parents=True, exist_ok=True)
    head = {"trace": {"common_fields": {"group_id": group.hex()}}}
    path = folder / f"{name}.sqlog"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in (head, *events)))
    return path


def small(folder: Path) -> RunView:
    acks = [data(210, 100, to_client=False)]
    return download([data(151 + i) for i in range(10)], [data(260 + i) for i in range(20)], acks).write(folder)


def test_transport_parameters_as_received(tmp_path: Path) -> None:
    view = small(tmp_path)
    write_qlog(
        view, "server",
        parameters("remote", max_ack_delay=40, ack_delay_exponent=5, min_ack_delay="1000", initial_max_data=1e6,
                   initial_max_stream_data_bidi_local=2e5, initial_max_stream_data_bidi_remote=3),
        parameters("local", max_ack_delay=26, initial_max_data=7e5, initial_max_stream_data_bidi_remote=5e5,
                   initial_max_stream_data_bidi_local=4),
    )  # fmt: skip
    names = ("max_ack_delay", "ack_delay_exponent", "min_ack_delay", "connection_window", "stream_window")
    client = {o.parameter: o for o in observe(view) if o.role == "client" and o.parameter in names}
    assert [client[name].value for name in names] == [0.04, 5, 0.001, 1e6, 2e5]
    assert [client[name].unit for name in names] == ["s", "1", "s", "bytes", "bytes"]
    assert {o.source for o in client.values()} == {"transport parameter as received, srv's qlog"}
    # The client writes no qlog: the server's own word counts.
    server = {o.parameter: o for o in observe(view) if o.role == "server" and o.parameter in names}
    assert {name: o.value for name, o in server.items()} == {
        "max_ack_delay": 0.026, "connection_window": 7e5, "stream_window": 5e5
    }  # fmt: skip
    assert "as sent, srv's own qlog" in server["stream_window"].source
    write_qlog(view, "client", parameters("remote", max_ack_delay=27))
    assert value(view, "max_ack_delay") == 0.027 and value(view, "connection_window") == 7e5


def test_the_initial_rtt(tmp_path: Path) -> None:
    view = small(tmp_path)
    early, late = metrics(0, smoothed_rtt=333), metrics(95, smoothed_rtt=100)
    for events, expected in (((early, late), 0.333), ((metrics(0, congestion_window=1), late), None), ((), None)):
        write_qlog(view, "server", *events)
        assert value(view, "initial_rtt") == expected
    recovery = {"time": 0, "name": "quic:recovery_parameters_set", "data": {"initial_rtt": 100.0}}
    write_qlog(view, "server", recovery, early)
    observation = only(view, "initial_rtt")
    assert observation is not None and (observation.value, observation.source) == (
        0.1,
        "recovery's initial_rtt, srv's qlog",
    )


def test_the_initial_window_by_the_endpoint_s_account(tmp_path: Path) -> None:
    view = small(tmp_path)
    write_qlog(view, "server", metrics(0, congestion_window=38400), metrics(99, congestion_window=50000))
    write_qlog(view, "client", metrics(0, congestion_window=13500))
    observation = only(view, "initial_cwnd", source="qlog")
    assert observation is not None and (observation.value, observation.unit) == (32, "packets")
    assert (
        observation.source == "first congestion_window, srv's qlog: 38,400 B in datagrams of 1,200 B (in its capture)"
    )
    client = only(view, "initial_cwnd_bytes", "client")
    assert client is not None and (client.value, client.unit) == (13500, "bytes")
    assert client.source == (
        "first congestion_window, cli's qlog: 13,500 B, no multiple of a size of datagrams in its capture"
    )
    recovery = {"initial_congestion_window": 14720, "max_datagram_size": 1472, "congestion_control": "cubic"}
    write_qlog(view, "client", {"time": 0, "name": "recovery:parameters_set", "data": recovery})
    assert value(view, "initial_cwnd", "client") == 10
    assert value(view, "congestion_control", "client") == "cubic"
    # After the first acknowledgements a window is not the initial one.
    write_qlog(view, "server", metrics(0), metrics(99, congestion_window=50000))
    assert value(view, "initial_cwnd", source="qlog") is None
    write_qlog(view, "server", metrics(0, congestion_window=14720))
    assert value(view, "initial_cwnd_bytes") == 14720 and value(view, "initial_cwnd", source="qlog") is None


def test_the_trace_of_the_first_connection(tmp_path: Path) -> None:
    up = [initial(0), initial(100_000, connection=1)]
    Exchange(up, [initial(50, True), initial(100_050, True, connection=1)]).write(tmp_path)
    view = RunView(tmp_path, exchange_run(2))
    write_qlog(view, "server", parameters("local", max_ack_delay=20), name="a", group=IDS[1])
    assert value(view, "max_ack_delay") is None  # of another connection
    write_qlog(view, "server", parameters("local", max_ack_delay=10), name="b", group=IDS[0])
    assert value(view, "max_ack_delay") == 0.01
    # A trace that names no connection belongs where it starts.
    for path in (tmp_path / "flow0").rglob("*.sqlog"):
        path.unlink()
    for name, start in (("a", 100_050), ("b", 60)):
        event = parameters("local", max_ack_delay=start / 1e3)
        write_qlog(view, "server", event | {"time": T0 / 1e6 + start}, name=name)
    assert value(view, "max_ack_delay") == pytest.approx(60e-6)


def test_the_answer_to_loss(tmp_path: Path) -> None:
    exchange = download([data(151 + i) for i in range(10)], [data(3000), data(5000), data(6000)])
    exchange.lost = frozenset({len(exchange.down) - 2})  # so late that it may be under way
    intact = exchange.write(tmp_path / "a")
    exchange.lost = frozenset({4})
    lossy = exchange.write(tmp_path / "b")
    lost = {"time": 2, "name": "recovery:packet_lost", "data": {}}
    for view in (intact, lossy):
        write_qlog(
            view,
            "server",
            metrics(1, congestion_window=2000, bytes_in_flight=1400),
            lost,
            metrics(3, congestion_window=980),
        )
    assert value(intact, "congestion_reaction") is None
    observation = only(lossy, "congestion_reaction")
    assert observation is not None and (observation.value, observation.unit) == (0.49, "1")
    assert observation.source == (
        "srv's qlog: congestion window from 2,000 B (1,400 B in flight) to 980 B, after a packet it names lost"
    )
    write_qlog(lossy, "server", *(metrics(i, congestion_window=window) for i, window in enumerate((900, 2000, 1400))))
    observation = only(lossy, "congestion_reaction")
    assert (
        observation is not None
        and observation.value == 0.7
        and observation.source.endswith("(it names no lost packets)")
    )
    (tmp_path / "b/sim/trace_node_left.pcap").unlink()
    blind = RunView(tmp_path / "b", lossy.run)
    assert [o.value for o in observe(blind) if o.parameter == "congestion_reaction"] == [0.7]


# A move of the client

#: The server's trace begins half a round trip after the client's first datagram, so that this is 150 ms in it.
MOVE = Move(at=Duration.parse("200 ms"), how="migrate", to="near")


def moving(view: RunView) -> RunView:
    """The same of a client that is told to move."""
    cell = view.run.cell
    flow = cell.scenario.flows[0].model_copy(update={"moves": (MOVE,)})
    scenario = cell.scenario.model_copy(update={"flows": (flow,)})
    return RunView(view.folder, view.run.model_copy(update={"cell": cell.model_copy(update={"scenario": scenario})}))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # Starts again, and doubles in the first round trip.
        (((151, 40_000), (190, 60_000), (225, 80_000), (240, 160_000)), 0.08),
        # Starts again, and knows the new round trip a moment later.
        (((160, 40_000), (185, 500_000), (300, 700_000)), 0.5),
        # Starts again as something else is told of the old window, at the same time.
        (((160, 1_000_001), (160, 40_000), (190, 60_000)), 0.06),
        # Stays; a loss long after is not the move's.
        (((160, 1_000_000), (330, 1_010_000), (360, 700_000)), 1.0),
    ],
)
def test_the_window_after_a_move(tmp_path: Path, after: tuple[tuple[float, int], ...], expected: float) -> None:
    view = small(tmp_path)
    before = ((0, 40_000), (100, 500_000), (140, 1_000_000))
    write_qlog(view, "server", *(metrics(at, congestion_window=window) for at, window in (*before, *after)))
    assert value(view, "migration_cwnd") is None, "nobody moves"
    observation = only(moving(view), "migration_cwnd")
    assert observation is not None and (observation.value, observation.unit) == (expected, "of the window before")
    assert observation.source.startswith("srv's qlog: 1,000,000 B before the move, ")


# The kernel's counters, and what is missing


def test_segmentation_offload(tmp_path: Path) -> None:
    view = small(tmp_path)
    assert value(view, "gso") is None
    (tmp_path / "sim/udp.json").write_text('{"server0": {"out_datagrams": 8}}')
    observation = only(view, "gso")
    assert observation is not None and (observation.value, observation.unit) == (4, "datagrams per send")
    assert value(view, "gso", "client") is None
    (tmp_path / "sim/udp.json").write_text('{"client0": {"out_datagrams": 4}}')
    assert value(view, "gso", "client") == 1
    (tmp_path / "sim/udp.json").write_text('{"client0": {}}')
    assert value(view, "gso", "client") is None


def test_damage_costs_only_what_it_damaged(tmp_path: Path) -> None:
    view = small(tmp_path)
    (tmp_path / "sim/udp.json").write_text("nonsense")
    assert {o.parameter for o in observe(view)} >= {"initial_cwnd", "pacing", "max_udp_payload"}
    assert [problem.split(":")[0] for problem in view.problems] == ["observed gso failed"]


def test_nothing_is_seen_in_nothing(tmp_path: Path) -> None:
    assert observe(RunView(tmp_path, make_run())) == ()
    view = RunView(tmp_path, exchange_run())
    assert observe(view) == () and all("missing" in problem for problem in view.problems)
    # Only one side's capture.
    small(tmp_path)
    (tmp_path / "sim/trace_node_right.pcap").unlink()
    names = {(o.role, o.parameter) for o in observe(RunView(tmp_path, exchange_run()))}
    assert names == {("client", "max_udp_payload"), ("client", "ecn"), ("client", "zero_rtt")}


def test_a_measured_run_has_its_observations(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe())
    measured = measure(tmp_path, run)
    assert measured.warnings == ()
    assert {o.parameter for o in measured.observed} == {
        "initial_cwnd", "pacing", "ack_ratio", "max_udp_payload", "path_mtu_discovery", "zero_rtt", "ecn",
    }  # fmt: skip
    assert MeasuredRun.model_validate_json(measured.model_dump_json(by_alias=True)) == measured

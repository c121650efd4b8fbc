"""HTTPS over TCP beside QUIC: who plays it with whom, what it is told, and what its segments show."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.arrival import TlsArrival, in_order_arrival, peak_in_flight, resent_flags, stream_offsets
from harness.analysis.delivery import FILE, SEGMENTS
from harness.analysis.metrics import measure
from harness.analysis.shared_flows import NOT_REPORTED
from harness.capture.capture import ACK, SYN, Capture, read_capture
from harness.check.parameters import TRIALS
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, MeasuredRun, Observation
from harness.planning.endpoint_config import UnsupportedError, application_protocol, configure_endpoints, lab_kind
from harness.scenario.parameters import ROLES, Role
from harness.store.records import read_run
from harness.topology import build_lab, lab_summary
from harness.topology.lab_file import Endpoint, FlowAddresses, LabFacts
from harness.topology.run_files import sim_plan
from tests.examples import ROOT, SIM, catalogue, images, implementation, scenario
from tests.measurements import by_name
from tests.unit.captures import CLIENT, SERVER, pcap
from tests.unit.shared_flows import Segment, segment_frame, write_two_flows

RECORDED = ROOT / "tests/replay/data/https"
HTTPS = {"protocols": ["h2"], "parameters": {}}


def cell(client: str = "https", server: str = "https", **overrides: object) -> Cell:
    implementations = {"https": implementation("https", **HTTPS), "alpha": implementation("alpha", parameters={})}
    tested_scenario = scenario(objectives=[], **overrides)
    request = Request([tested_scenario], [implementations[client]], [implementations[server]])
    return build_matrix(request, images("alpha", "https"), SIM, {})[0]


def test_a_pair_over_tcp_is_told_what_one_of_quic_is() -> None:
    """The same file by the same request; its packets are segments, which lab.json says."""
    https, quic = (build_lab(cell(name, name), 0) for name in ("https", "alpha"))
    client, other = (lab.host("client0").environment for lab in (https, quic))
    assert {name for name in client if client[name] != other[name]} == {"TESTCASE"}
    assert client["TESTCASE"] == "http2"
    assert (https.flows[0].kind, https.flows[0].file) == ("https", quic.flows[0].file)
    facts = LabFacts.model_validate(lab_summary(https)).flows[0]
    assert facts.over_tcp and not LabFacts.model_validate(lab_summary(quic)).flows[0].over_tcp
    # Its server answers the simulator's probe as one of QUIC does.
    assert sim_plan(https, https.simulators[0])["wait_for"] == sim_plan(quic, quic.simulators[0])["wait_for"]


def test_a_flow_that_is_cut_off_is_ended_by_the_engine() -> None:
    lab = build_lab(cell(flows=[{"stop": "5 s"}], milestones=[]), 0)
    assert lab.flows[0].kind == "https" and lab.flows[0].cut_off


@pytest.mark.parametrize(("client", "server"), [("https", "alpha"), ("alpha", "https")])
def test_who_speaks_no_quic_is_unsupported_with_who_speaks_nothing_else(client: str, server: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{client} and {server} share no application protocol"):
        configure_endpoints(cell(client, server), 0)


def test_a_scenario_may_name_the_protocol() -> None:
    assert application_protocol(cell(protocol="h2")) == "h2"
    with pytest.raises(UnsupportedError, match="https does not speak h3"):
        configure_endpoints(cell(protocol="h3"), 0)
    assert lab_kind(cell("alpha", "alpha"), 0) == "quic"


def test_early_data_is_refused_with_what_curl_lacks() -> None:
    implementations = {name: stack for name, (stack, _) in catalogue().implementations().items()}
    request = Request(
        [scenario(objectives=[])],
        [implementations["https"]],
        [implementations["https"]],
        parameters={"client.zero_rtt": "on"},
    )
    (tested_cell,) = build_matrix(request, images("https"), SIM, {})
    with pytest.raises(
        UnsupportedError, match=r"https cannot set zero_rtt as a client; it is off \(curl's --tls-earlydata"
    ):
        configure_endpoints(tested_cell, 0)


@pytest.mark.parametrize("how", ["nat-port", "nat-address"])
def test_a_move_is_refused(how: str) -> None:
    flow = {"download": "1 MB", "moves": [{"at": "1 s", "how": how}]}
    with pytest.raises(UnsupportedError, match="https is over TCP, whose connections end with their address"):
        configure_endpoints(cell(flows=[flow], milestones=[]), 0)


# --- segments


def capture(folder: Path, *segments: Segment) -> Capture:
    file = folder / "a.pcap"
    file.write_bytes(
        pcap((tcp_segment.t_ns, segment_frame(tcp_segment), tcp_segment.length) for tcp_segment in segments)
    )
    ends = {"client": Endpoint(addresses=(CLIENT,)), "server": Endpoint(addresses=(SERVER,))}
    return read_capture(file, [FlowAddresses(flow=0, kind="https", **ends)])


def segment(t_ns: int, start: int, size: int, flags: int = ACK) -> Segment:
    """Of a server whose first byte has the number 2^32 - 99, so that numbers go round behind 100 bytes."""
    return Segment(t_ns, True, b"", size, sequence=(2**32 - 99 + start - 1) % 2**32, flags=flags)


OPENING = segment(0, 0, 0, flags=SYN | ACK)


def test_bytes_are_counted_across_the_round_of_their_numbers(tmp_path: Path) -> None:
    sent = capture(tmp_path, OPENING, *(segment(n, 1 + 60 * (n - 1), 60) for n in (1, 2, 3)))
    assert stream_offsets(sent.sequence, int(sent.sequence[0])).tolist() == [-1, 0, 60, 120]


def test_bytes_have_come_once_there_is_no_gap(tmp_path: Path) -> None:
    late = [OPENING, segment(1, 1, 60), segment(2, 121, 60), segment(3, 61, 60), segment(4, 61, 60)]
    arrival = in_order_arrival(capture(tmp_path, *late))
    assert arrival is not None
    assert (arrival.t_ns.tolist(), arrival.contiguous.tolist()) == ([1, 2, 3, 4], [60, 60, 180, 180])
    assert in_order_arrival(capture(tmp_path, *late[1:])) is None


def test_what_went_again_is_known_by_its_bytes(tmp_path: Path) -> None:
    parts = [OPENING, segment(1, 1, 60), segment(2, 61, 60), segment(3, 61, 60), segment(4, 121, 60), segment(5, 1, 60)]
    # A second connection begins anew, with numbers of its own.
    second = [replace(tcp_segment, t_ns=tcp_segment.t_ns + 10, port=6000) for tcp_segment in parts[:3]]
    sent = capture(tmp_path, *parts, *second)
    expected = [False, False, False, True, False, True, False, False, False]
    assert resent_flags(sent, sent.destination_port).tolist() == expected


def test_what_is_in_flight_is_not_acknowledged_yet(tmp_path: Path) -> None:
    acks = [Segment(t, False, b"", 0, acknowledgement=(2**32 - 99 + come) % 2**32) for t, come in ((4, 60), (6, 180))]
    data = [OPENING, segment(1, 1, 60), segment(2, 61, 60), segment(5, 121, 60), segment(7, 181, 60)]
    both = capture(tmp_path, *sorted([*data, *acks], key=lambda tcp_segment: tcp_segment.t_ns))
    sent, acknowledging = both.select(both.to_client), both.select(~both.to_client)
    assert peak_in_flight(sent, acknowledging) == 120
    assert peak_in_flight(sent, acknowledging.select(acknowledging.t_ns > 9)) == 240
    assert peak_in_flight(sent.select(sent.t_ns > 9), acknowledging) == 0


def test_the_body_comes_between_its_own_bytes_and_all_that_is_beside_it(tmp_path: Path) -> None:
    parts = [OPENING, *(segment(n, 1 + 60 * (n - 1), 60) for n in range(1, 11))]
    stream = in_order_arrival(capture(tmp_path, *parts))
    assert stream is not None
    bounds = TlsArrival(stream, 100).time_of(240)
    assert (bounds.earliest_ns, bounds.latest_ns) == (4, 6)
    assert TlsArrival(stream, None).time_of(240).latest_ns is None
    assert TlsArrival(stream, 100).time_of(601).earliest_ns is None


# --- a check


@pytest.mark.parametrize("name", ["tcp_wmem_max", "tcp_rmem_max"])
def test_a_larger_buffer_lets_more_be_in_flight(name: str) -> None:
    role: Role = "server" if name == "tcp_wmem_max" else "client"

    def judge_windows(*most: float) -> tuple[str, str]:
        runs = [
            MeasuredRun(
                version=1,
                observed=(Observation(role=role, parameter=name, value=window, unit="bytes", source="right capture"),),
            )
            for window in most
        ]
        return TRIALS[name].judge(role, list(zip(("512 KiB", "8 MiB"), runs, strict=True)))

    assert judge_windows(4e5, 3e6)[0] == ""
    assert "allows no larger window" in judge_windows(4e5, 5e5)[0]


# --- a recorded download over IPv6, with random loss


def recorded(folder: Path, rows: list[str] | None = None) -> tuple[MeasuredRun, dict[str, str]]:
    """What is measured of it, and where each figure was seen. `rows`: of growth.csv, instead of its own."""
    shutil.copytree(RECORDED, folder / "run")
    if rows is not None:
        (folder / "run" / "growth.csv").write_text("\n".join(rows) + "\n")
    measured = measure(folder / "run", read_run((RECORDED / "run.json").read_bytes()))
    return measured, {measurement.name: measurement.vantage for measurement in measured.measurements}


def test_what_its_segments_show_is_what_the_path_did(tmp_path: Path) -> None:
    figures = by_name(recorded(tmp_path)[0])
    # A round trip for the connection, and one for TLS.
    assert 0.08 <= figures["handshake"] < 0.1
    assert 1 <= figures["ack_ratio"] < 3
    segments = figures["ack_ratio"] * figures["ack_packets"]
    lost = figures["queue_drops_to_client"] + figures["loss_drops_to_client"]
    assert figures["retransmitted_share"] * segments == pytest.approx(lost), "by the kernel's counters"


def test_where_the_file_grows_in_lumps_the_segments_tell(tmp_path: Path) -> None:
    plain, vantage = recorded(tmp_path / "plain")
    assert vantage["milestone_100kB"] == FILE["client"]
    header, first, *_, last = (RECORDED / "growth.csv").read_text().splitlines()
    measured, vantage = recorded(tmp_path / "lumps", [header, first, last])
    assert vantage["milestone_100kB"] == SEGMENTS["client"]
    assert by_name(measured)["milestone_100kB"] == pytest.approx(by_name(plain)["milestone_100kB"], abs=0.015)


def test_beside_other_flows_it_has_what_its_segments_show(tmp_path: Path) -> None:
    """No end of it tells what its kernel knows, which is said."""
    run = write_two_flows(tmp_path)
    facts = json.loads((tmp_path / "lab.json").read_text())
    facts["flows"][1]["kind"] = "https"
    (tmp_path / "lab.json").write_text(json.dumps(facts))
    measured = measure(tmp_path, run)
    figures = {
        measurement.name: (measurement.value, measurement.vantage)
        for measurement in measured.measurements
        if measurement.flow == 1
    }
    assert figures["retransmissions"] == (0, "right capture")
    why = {absence.metric: absence.why for absence in measured.absent if absence.flows == (1,)}
    assert why["mean_cwnd"] == why["timeouts"] == NOT_REPORTED


def test_all_are_those_of_quic() -> None:
    """In a matrix of everybody it would have no partner but itself."""
    real_catalogue = catalogue()
    for role in ROLES:
        assert "https" not in [stack.name for stack in real_catalogue.find_implementations("all", role)]
        assert [stack.name for stack in real_catalogue.find_implementations("https", role)] == ["https"]

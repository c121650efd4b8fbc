"""Files from the client to the server: who may, what both are told, where the files are, and how fast it could be."""

from __future__ import annotations

import pytest

from harness.engine.compose_file import compose_document
from harness.netem import ideal_time, slow_start_time
from harness.netem.mobility import flow_timeline
from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError, application_protocol, effective_parameters
from harness.scenario.schema import Scenario
from harness.topology import build_lab
from harness.units import Size
from tests.examples import cell, implementation, link, path, scenario

UPLOAD = {"upload": "10 MB"}
PATH = path(forward=link("50 Mbit/s", delay="300 ms"), **{"return": link("10 Mbit/s", delay="100 ms")})


def upload(**overrides: object) -> Scenario:
    return scenario(flows=[UPLOAD], objectives=[], **overrides)


def uploading_cell(client: tuple[str, ...] = ("h3",), server: tuple[str, ...] = ("h3",), **overrides: object) -> Cell:
    window = {"connection_window": {"flag": "--connection-window={bytes}"}}
    ends = (("alpha", client), ("beta", server))
    return cell(
        upload(**overrides), *(implementation(name, uploads=uploads, parameters=window) for name, uploads in ends)
    )


def test_both_ends_are_told_and_the_sender_has_the_file() -> None:
    lab = build_lab(uploading_cell(), 0)
    client, server = lab.host("client0"), lab.host("server0")
    assert client.environment["DIRECTION"] == server.environment["DIRECTION"] == "to_server"
    assert client.environment["REQUESTS"] == "https://server4:443/10MB.bin"
    assert lab.flows[0].uploads and lab.flows[0].file == "10MB.bin" and lab.flows[0].size == 10_000_000
    services = compose_document(lab)["services"]
    places = {name: [volume.split(":")[-2 if volume.endswith(":ro") else -1] for volume in services[name]["volumes"]]
              for name in ("client0", "server0")}  # fmt: skip
    assert places["client0"] == ["/logs", "/certs", "/www"]
    assert places["server0"] == ["/logs", "/certs", "/www", "/uploads"]


def test_a_download_is_what_it_was() -> None:
    lab = build_lab(cell(scenario(flows=[{"download": "10 MB"}], objectives=[])), 0)
    assert all("DIRECTION" not in host.environment for host in lab.hosts)
    assert not lab.flows[0].uploads
    services = compose_document(lab)["services"]
    assert any(volume.endswith(":/downloads") for volume in services["client0"]["volumes"])
    assert not any("/uploads" in volume for volume in services["server0"]["volumes"])


@pytest.mark.parametrize(
    ("client", "server", "role", "words"),
    [
        ((), ("h3",), "client", "alpha sends no files"),
        (("h3",), (), "server", "beta takes no files from alpha"),
        (("h3",), ("hq-interop",), "server", "beta takes no files from alpha"),
    ],
)
def test_who_cannot_is_unsupported_by_name(
    client: tuple[str, ...], server: tuple[str, ...], role: str, words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        application_protocol(uploading_cell(client, server), 0)
    assert (caught.value.role, caught.value.reason) == (role, "uploads")


def test_the_protocol_is_one_that_both_upload_over() -> None:
    assert application_protocol(uploading_cell(("h3", "hq-interop"), ("hq-interop",)), 0) == "hq-interop"
    assert (
        build_lab(uploading_cell(("hq-interop",), ("hq-interop",)), 0).host("client0").environment["TESTCASE"]
        == "transfer"
    )


def test_the_receiver_s_window_never_limits_the_path() -> None:
    # Twice the sum of 500 kB of BDP and the queue's bytes: 16 MiB are the least.
    parameters = effective_parameters(uploading_cell(path=PATH), 0)
    assert parameters["server.connection_window"] == "16 MiB"
    assert "client.connection_window" not in parameters
    fast = path(forward=link("1 Mbit/s"), **{"return": link("250 Mbit/s")})
    assert effective_parameters(uploading_cell(path=fast), 0)["server.connection_window"] == "128 MiB"


def test_an_upload_begins_after_one_round_trip_and_has_the_rate_of_its_direction() -> None:
    course = flow_timeline(upload(path=PATH))
    # A round trip for the handshake (0.4 s), 10 MB at 10 Mbit/s (8 s), and 0.1 s on the way.
    assert ideal_time(course, Size(10_000_000)) == pytest.approx(0.4 + 8 + 0.1)
    # 12 kB in the first round trip, 24 kB in the second, 0.4 s later.
    assert slow_start_time(course, Size(36_000)) == pytest.approx(0.4 + 0.4 + 24_000 * 8 / 1e7 + 0.1)
    download = flow_timeline(scenario(flows=[{"download": "10 MB"}], objectives=[], path=PATH))
    assert ideal_time(download, Size(10_000_000)) == pytest.approx(0.8 + 1.6)


def test_changes_of_the_way_back_are_those_of_an_upload() -> None:
    changing = path(
        forward=link("50 Mbit/s", delay="300 ms"),
        **{"return": link("10 Mbit/s", delay="100 ms")},
        changes=[{"at": "4.4 s", "return": {"rate": "5 Mbit/s"}}],
    )
    # Half of it at 10 Mbit/s, half at 5.
    assert ideal_time(flow_timeline(upload(path=changing)), Size(10_000_000)) == pytest.approx(0.4 + 4 + 8 + 0.1)

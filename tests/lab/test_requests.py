"""Pages, small requests and videos by several stacks: what their clients log, beside what the captures show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.analysis.run_view import RunView
from harness.capture.connections import find_connections
from harness.store.records import read_measured, read_run
from tests.lab.conftest import Harness
from tests.measurements import by_name

VIRTUAL = ("--engine", "virtual", "--repeat", "1")
PATH = {
    "forward": {"rate": "20 Mbit/s", "delay": "25 ms", "queue": "10 BDP"},
    "return": {"rate": "20 Mbit/s", "delay": "25 ms", "queue": "10 BDP"},
}
PAGE = [
    {"name": "html", "type": "document", "size": "30 kB", "priority": "u=0"},
    {"name": "style", "type": "style", "size": "20 kB", "count": 4, "after": "html", "priority": "u=1"},
    {"name": "font", "type": "font", "size": "20 kB", "after": "style", "priority": "u=1"},
    {"name": "image", "type": "image", "size": "20 kB", "count": 20, "after": "html", "priority": "u=5, i"},
]


def _figures(harness: Harness, name: str, flow: dict[str, Any], client: str, server: str) -> dict[str, float]:
    case = harness.scenario(name, path=PATH, flows=[flow], milestones=[], timeout="60 s")
    cell = harness.cell(case, "--clients", client, "--servers", server, *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    return by_name(read_measured((Path(cell["evidence"][0]) / "measured.json").read_bytes()))


@pytest.mark.parametrize(
    ("client", "server"),
    [
        ("quic-go", "ngtcp2"),
        ("aioquic", "aioquic"),
        ("go-x-net", "s2n-quic"),
        ("quinn", "quiche"),
        ("go-https", "https"),
    ],
)
def test_a_client_s_log_of_a_page_is_what_the_capture_shows(
    warm: Harness, harness: Harness, client: str, server: str
) -> None:
    figures = _figures(harness, "page", {"page": PAGE}, client, server)
    # The capture is at the client's side of the path, and programs write files in the same instant of virtual time.
    assert figures["page_load"] == pytest.approx(figures["completion"], abs=0.002)
    _is_plausible(figures)


def _is_plausible(figures: dict[str, float]) -> None:
    """What holds of the page, whoever loads it."""
    assert figures["loaded_html"] + 0.05 < figures["loaded_style"] < figures["loaded_font"] <= figures["page_load"]
    assert figures["page_load"] == max(value for name, value in figures.items() if name.startswith("loaded_"))
    # Three round trips and 530 kB at 20 Mbit/s at least; TCP and its TLS take one more.
    assert figures["page_load"] > 3 * 0.05 + 530_000 * 8 / 20e6
    assert figures["loaded_html"] < figures["byte_index"] < figures["page_load"]


@pytest.mark.parametrize("browser", ["chromium", "firefox"])
def test_a_browser_finds_the_objects_in_the_document_and_its_styles(
    warm: Harness, harness: Harness, browser: str
) -> None:
    _is_plausible(_figures(harness, "page", {"page": PAGE}, browser, "quic-go"))


def test_a_browser_is_unsupported_where_no_document_says_what_comes_when(warm: Harness, harness: Harness) -> None:
    flow = {"requests": {"size": "1 kB", "every": "100 ms", "count": 3}}
    case = harness.scenario("requests", path=PATH, flows=[flow], milestones=[], timeout="60 s")
    cell = harness.cell(case, "--clients", "chromium", "--servers", "quic-go", *VIRTUAL)
    assert cell["outcomes"] == {"unsupported": 1}
    assert "chromium is a browser" in cell["sentence"]


def test_small_requests_over_an_idle_path_take_its_round_trip(warm: Harness, harness: Harness) -> None:
    flow = {"requests": {"size": "1 kB", "every": "100 ms", "count": 20}}
    figures = _figures(harness, "requests", flow, "quic-go", "quic-go")
    assert figures["response_time_p50"] == pytest.approx(50, rel=0.02)
    assert figures["responses_per_minute"] == pytest.approx(60 / 0.05, rel=0.02)
    assert figures["unanswered_requests"] == 0


def test_a_video_faster_than_its_path_stalls(warm: Harness, harness: Harness) -> None:
    flow = {"video": {"segment": "1 s", "rate": "30 Mbit/s", "count": 4}}
    figures = _figures(harness, "video", flow, "go-x-net", "go-x-net")
    # Each segment takes at least half as long as it plays, beyond its play time.
    assert figures["stalls"] == 3 and figures["stalled_time"] > 3 * 0.5


@pytest.mark.parametrize(("client", "server"), [("quic-go", "quinn"), ("aioquic", "aioquic"), ("noq", "quic-go")])
def test_datagrams_take_the_delay_of_an_idle_path(warm: Harness, harness: Harness, client: str, server: str) -> None:
    flow = {"datagrams": {"size": "160 B", "every": "20 ms", "packets": 2, "count": 50}}
    figures = _figures(harness, "call", flow, client, server)
    assert figures["datagram_loss"] == 0
    assert figures["datagram_delay_p50"] == pytest.approx(25, abs=1)
    assert figures["datagram_jitter"] < 1


def test_several_connections_of_a_client_share_its_files(warm: Harness, harness: Harness) -> None:
    case = harness.scenario(
        "connections", path=PATH, flows=[{"files": [{"count": 3, "size": "500 kB"}], "connections": 3}], timeout="60 s"
    )
    cell = harness.cell(case, "--clients", "quic-go", "--servers", "quinn", *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    folder = Path(cell["evidence"][0])
    run = read_run((folder / "run.json").read_bytes())
    capture = RunView(folder, run).left
    assert capture is not None and len(find_connections(capture)) == 3
    figures = by_name(read_measured((folder / "measured.json").read_bytes()))
    assert figures["completion"] > 1_500_000 * 8 / 20e6


def test_who_honours_priorities_is_told_from_who_does_not(warm: Harness, harness: Harness) -> None:
    flow = {
        "page": [
            {"name": "html", "size": "20 kB"},
            {"name": "patient", "size": "500 kB", "after": "html", "priority": "u=6"},
            {"name": "urgent", "size": "500 kB", "after": "html", "priority": "u=1"},
        ]
    }
    figures = {name: _figures(harness, "urgent", flow, "quic-go", name) for name in ("ngtcp2", "quiche", "aioquic")}
    for name in ("ngtcp2", "quiche"):
        assert figures[name]["loaded_urgent"] + 0.1 < figures[name]["loaded_patient"]
    assert figures["aioquic"]["loaded_urgent"] + 0.1 > figures["aioquic"]["loaded_patient"]

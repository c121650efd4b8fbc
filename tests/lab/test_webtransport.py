"""WebTransport for real: every test case of the interop runner, in virtual time and one in real time."""

from __future__ import annotations

from harness.analysis.interop.registry import WEBTRANSPORT_CASES, WEBTRANSPORT_FOLDER
from tests.lab.conftest import Harness

NAMES = ("--clients", "webtransport-go", "--servers", "webtransport-go", "--repeat", "1")


def test_every_test_case_over_webtransport_passes(warm: Harness, harness: Harness) -> None:
    scenarios = [f"{WEBTRANSPORT_FOLDER}{name}" for name in WEBTRANSPORT_CASES]
    cells = harness.cells(*scenarios, *NAMES, "--engine", "virtual")
    assert {cell["scenario"]: cell["verdict"] for cell in cells} == dict.fromkeys(scenarios, "pass"), [
        cell["sentence"] for cell in cells
    ]


def test_a_browser_gets_its_files_over_webtransport(warm: Harness, harness: Harness) -> None:
    cell = harness.cell(
        f"{WEBTRANSPORT_FOLDER}transfer-datagram-receive", "--clients", "chromium-webtransport",
        "--servers", "webtransport-go", "--repeat", "1", "--engine", "virtual",
    )  # fmt: skip
    assert cell["verdict"] == "pass", cell["sentence"]


def test_files_go_both_ways_in_real_time(warm: Harness, harness: Harness) -> None:
    scenarios = [f"{WEBTRANSPORT_FOLDER}transfer-bidirectional-{way}" for way in ("receive", "send")]
    cells = harness.cells(*scenarios, *NAMES, "--engine", "compose")
    assert [cell["outcomes"] for cell in cells] == [{"completed": 1}] * 2, [cell["sentence"] for cell in cells]


def test_who_speaks_no_webtransport_is_unsupported(warm: Harness, harness: Harness) -> None:
    (cell,) = harness.cells(
        f"{WEBTRANSPORT_FOLDER}handshake", "--clients", "webtransport-go", "--servers", "quic-go", "--engine", "virtual"
    )
    assert cell["verdict"] == "unsupported"
    assert cell["sentence"] == "Quic-go does not speak webtransport."

"""Files from the client to the server, by three stacks: milestones, where the time went, runs that repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.analysis.delivery import FILE, PACKETS
from harness.outcome import MeasuredRun, Run
from harness.planning.endpoint_config import application_protocol
from harness.store.records import read_measured, read_run
from tests.lab.conftest import Harness

#: A client and a server of each stack that uploads over HTTP/3, and of two that do over HTTP/0.9.
PAIRS = (("quic-go", "aioquic", "h3"), ("aioquic", "quic-go", "h3"), ("go-x-net", "quic-go", "hq-interop"))
VIRTUAL = ("--engine", "virtual", "--repeat", "1")
#: The data go up the slower direction. Its queue never fills: a loss between 1 and 5 MB would part the two.
PATH = {
    "forward": {"rate": "50 Mbit/s", "delay": "50 ms", "queue": "1 BDP"},
    "return": {"rate": "10 Mbit/s", "delay": "50 ms", "queue": "20 BDP"},
}


def _records(cell: dict[str, Any]) -> tuple[Run, MeasuredRun]:
    folder = Path(cell["evidence"][0])
    return read_run((folder / "run.json").read_bytes()), read_measured((folder / "measured.json").read_bytes())


def _cell(harness: Harness, client: str, server: str, size: int, *words: str) -> dict[str, Any]:
    case = harness.scenario(
        f"upload-{size}", path=PATH, flows=[{"upload": f"{size} MB"}], milestones=["1 MB", "4 MB"], timeout="90 s"
    )
    return harness.cell(case, "--clients", client, "--servers", server, *(words or VIRTUAL))


@pytest.mark.parametrize(("client", "server", "protocol"), PAIRS)
def test_a_milestone_of_an_upload_is_the_time_of_an_upload_of_that_size(
    warm: Harness, harness: Harness, client: str, server: str, protocol: str
) -> None:
    large = _cell(harness, client, server, 5)
    assert large["outcomes"] == {"completed": 1}, large["sentence"]
    alone = _cell(harness, client, server, 1)
    milestone, whole = large["measurements"]["milestone_1MB"], alone["measurements"]["completion"]
    assert milestone["median"] == pytest.approx(whole["median"], rel=0.01)
    run, measured = _records(large)
    assert run.transfers[0].intact and run.transfers[0].received == 5_000_000
    assert application_protocol(run.cell, 0) == protocol
    by_name = {item.name: item for item in measured.measurements}
    assert by_name["milestone_4MB"].vantage in (FILE["server"], PACKETS["server"])
    # Nearly all the bytes went to the server.
    assert by_name["wire_to_server"].value > 5_000_000 > 10 * by_name["wire_to_client"].value
    (attribution,) = measured.attributed.transfers if measured.attributed is not None else ()
    assert sum(part.seconds for part in attribution.parts) == pytest.approx(by_name["completion"].value, rel=0.01)
    # Whoever looks at the client's qlog sees its window, not the server's.
    assert {item.role for item in measured.observed if item.parameter == "initial_cwnd"} >= {"client"}


def test_an_upload_repeats_to_the_byte_and_who_cannot_is_named(warm: Harness, harness: Harness) -> None:
    words = ("--engine", "virtual", "--repeat", "1", "--fresh")
    captures = [_records(_cell(harness, "quic-go", "aioquic", 1, *words))[0].captures for _ in range(2)]
    assert captures[0] == captures[1]
    unable = _cell(harness, "quiche", "quic-go", 1)
    assert unable["outcomes"] == {"unsupported": 1}
    assert "quiche sends no files" in unable["sentence"]


@pytest.mark.alone
def test_containers_upload_too(warm: Harness, harness: Harness) -> None:
    cell = _cell(harness, "aioquic", "quic-go", 1, "--engine", "compose", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    run, _ = _records(cell)
    assert run.transfers[0].intact
    virtual = _cell(harness, "aioquic", "quic-go", 1)
    medians = [item["measurements"]["completion"]["median"] for item in (cell, virtual)]
    assert medians[0] == pytest.approx(medians[1], rel=0.1)

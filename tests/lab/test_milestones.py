"""Milestones of a large transfer against transfers of those sizes, and the client's file against its packets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.analysis.arrival import BodyArrival, body_arrival
from harness.analysis.delivery import Delivery
from harness.analysis.run_view import RunView
from harness.capture.counters import Moment
from harness.store.records import read_run
from tests.lab.conftest import Harness

#: Losses are those of the seed, packet for packet, whatever the size of the file.
LOSSY = {
    "forward": {"rate": "50 Mbit/s", "delay": "325 ms", "loss": "0.5 %", "queue": "1 BDP"},
    "return": {"rate": "10 Mbit/s", "delay": "325 ms", "loss": "0.5 %", "queue": "1 BDP"},
}
VIRTUAL = ("--engine", "virtual", "--repeat", "1")
SIZES = (2, 10)
#: How far the end of a transfer may be from the same bytes of a larger one, as a part of it. A transfer that ends knows
#: a little less of its losses (no packets follow that tell of them), or sends its tail again unasked (picoquic).
BOUNDS = {"quiche": 0.01, "picoquic": 0.10}


def transfer(harness: Harness, stack: str, size: int) -> dict[str, Any]:
    case = harness.scenario(
        f"of-{size}", path=LOSSY, flows=[{"download": f"{size} MB"}], milestones=["2 MB", "10 MB"], timeout="300 s"
    )
    cell = harness.cell(case, "--clients", stack, "--servers", stack, *VIRTUAL)
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    return cell


@pytest.mark.parametrize("stack", BOUNDS)
def test_a_milestone_is_the_time_of_a_transfer_of_that_size(warm: Harness, harness: Harness, stack: str) -> None:
    large = transfer(harness, stack, 12)
    for size in SIZES:
        alone = transfer(harness, stack, size)["measurements"]["completion"]["median"]
        assert large["measurements"][f"milestone_{size}MB"]["median"] == pytest.approx(alone, rel=BOUNDS[stack])
    folder = Path(large["evidence"][0])
    view = RunView(folder, read_run((folder / "run.json").read_bytes()))
    (window,) = view.windows
    body = body_arrival(view, window)
    assert isinstance(body, BodyArrival), body
    assert body.stream.missing_bytes == 0, "the servers' qlog tells what the capture cut off"
    for size in SIZES:
        written, bounds = Delivery(view, window).file_time_of(size * 10**6), body.time_of(size * 10**6)
        assert isinstance(written, Moment) and bounds.earliest_ns is not None and bounds.latest_ns is not None
        # The client writes at once what has come without a gap, and nothing before.
        assert bounds.earliest_ns <= written.before_ns
        assert written.after_ns <= bounds.latest_ns + 1_000_000

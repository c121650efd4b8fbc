"""`harness why`: what is removed is what the transfer saves, and a second command runs nothing."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.examples import ROOT
from tests.lab.conftest import Harness

#: 100 ms and 20 Mbit/s, with a queue that has room for the whole file.
PATH: dict[str, Any] = {
    "forward": {"rate": "20 Mbit/s", "delay": "50 ms", "queue": "16 BDP"},
    "return": {"rate": "5 Mbit/s", "delay": "50 ms", "queue": "1 BDP"},
}


def _why(harness: Harness, *words: str) -> subprocess.CompletedProcess[str]:
    command = harness.command("why", *words)
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900, check=False)


def test_a_window_that_is_removed_saves_what_was_attributed_to_it(harness: Harness) -> None:
    case = harness.scenario(
        "why", path=PATH, flows=[{"download": "3 MB"}], milestones=["3 MB"], timeout="60 s",
        parameters={"client.stream_window": "128 kB"},
    )  # fmt: skip
    (cell,) = harness.cells(
        case, "--clients", "quiche", "--servers", "quiche", "--repeat", "1", "--engine", "virtual"
    )  # fmt: skip
    first = _why(harness, cell["key"], "--json", "--jobs", "1")
    assert first.returncode == 0, first.stderr
    (shown,) = json.loads(first.stdout)["cells"]
    removed = {item["cause"]: item for item in shown["removed"]}
    windows = removed["flow-control windows"]
    assert windows["settings"]["client.stream_window"] == "4 MiB" and windows["outcomes"] == {"completed": 1}
    assert windows["attributed"] > 1
    # Slow start, which the small window cut short, comes back with a large one: a tenth of a second a round trip.
    assert windows["measured"] == pytest.approx(windows["attributed"], rel=0.3)
    assert windows["seconds"] == pytest.approx(shown["seconds"] - windows["measured"], abs=1e-6)
    again = _why(harness, cell["key"], "--json", "--jobs", "1")
    assert json.loads(again.stdout) == json.loads(first.stdout) and "all 3 runs are stored" in again.stderr

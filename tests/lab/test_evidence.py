"""What runs keep of the files that they were measured from, and that the rest can be made again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lab.conftest import Harness

pytestmark = pytest.mark.lab


def _stored(harness: Harness) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    """The record of the store's only current run, its figures, and the names in its folder."""
    [file] = harness.store.glob("runs/*/0/run.json")
    measured = json.loads((file.parent / "measured.json").read_text())
    return json.loads(file.read_text()), measured, {path.name for path in file.parent.rglob("*")}


def test_a_run_that_kept_figures_is_made_again_to_the_same_bytes(warm: Harness, harness: Harness) -> None:
    words = (
        harness.scenario("evidence"), "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1", "--engine", "virtual",
    )  # fmt: skip
    runs = {}
    for evidence in ("figures", "captures", "full"):
        # Each keeps more than what is stored, so the run is made again.
        process = harness.run(*words, "--no-figures", "--evidence", evidence)
        assert process.returncode == 0, process.stderr
        runs[evidence] = _stored(harness)
    records = [record for record, _, _ in runs.values()]
    assert [record["evidence"] for record in records] == ["figures", "captures", "full"]
    assert all(record["captures"] == records[0]["captures"] != {} for record in records)
    assert all(record["artefacts"] == records[0]["artefacts"] for record in records)
    assert all(measured["measurements"] == runs["full"][1]["measurements"] for _, measured, _ in runs.values())
    names = {evidence: kept for evidence, (_, _, kept) in runs.items()}
    assert "sim" not in names["figures"] and "qlog" not in names["captures"]
    assert "sim" in names["captures"] and {"sim", "qlog"} <= names["full"]
    # What is there suffices for less.
    process = harness.run(*words, "--no-figures", "--evidence", "figures", "--json")
    assert process.returncode == 0 and _stored(harness)[0] == records[2]

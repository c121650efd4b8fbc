"""Small recorded runs of the real thing, from `measure` on. `make golden` renews the figures; read the diff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from harness.analysis.delivery import FILE, PACKETS
from harness.analysis.metrics import measure
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.outcome import MeasuredRun, Run, proven_outcome
from harness.report.markdown import render_markdown
from harness.report.results import results_document
from harness.store.records import read_run
from tests.measurements import by_name

DATA = Path(__file__).parent / "data"
RUNS = sorted(folder.name for folder in DATA.iterdir())


def _read(name: str) -> tuple[Run, MeasuredRun]:
    run = read_run((DATA / name / "run.json").read_bytes())
    return run, measure(DATA / name, run)


def _rounded(value: Any) -> Any:
    """Figures to six digits: the last ones differ between builds of the numerical libraries."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_measures_as_it_did(name: str, snapshot: SnapshotAssertion) -> None:
    _, measured = _read(name)
    assert _rounded(measured.model_dump(mode="json", exclude={"version"})) == snapshot


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_is_consistent(name: str) -> None:
    run, measured = _read(name)
    values = by_name(measured)
    assert proven_outcome(run, measured).status == "completed"
    assert values["handshake"] <= values["first_byte"] <= values["milestone_100kB"] <= values["milestone_500kB"]
    assert values["milestone_500kB"] == values["completion"]
    assert values["goodput"] == pytest.approx(8 * 0.5 / values["completion"])
    # What went over the wire is at least the file, and what was lost or sent twice is less than two thirds of it.
    assert 500_000 < values["wire_to_client"] < 500_000 * 5 / 3
    assert measured.link is not None
    assert measured.link.to_client.unasked_drops == 0


def test_the_recorded_loss_is_told_from_the_queue_s() -> None:
    _, measured = _read("lossy")
    values = by_name(measured)
    assert values["loss_drops_to_client"] > 0
    assert values["retransmitted_share"] > 0


def test_the_recorded_change_took_effect() -> None:
    _, measured = _read("change-and-repeat")
    assert measured.link is not None
    assert len(measured.link.changes_late_ms) == 1
    assert {"repeat_completion", "repeat_zero_rtt"} <= set(by_name(measured))


@pytest.mark.parametrize("name", RUNS)
def test_reports_of_a_recorded_run(name: str, snapshot: SnapshotAssertion) -> None:
    run, measured = _read(name)
    verdict = judge(run.cell.scenario, [(run, measured)], ["runs/recorded/0"])
    result = CellResult(run.cell, ((run, measured),), verdict, (Path("runs/recorded/0"),))
    document = results_document([result])
    assert _rounded(dict(document.data)) == snapshot(name="json")
    assert render_markdown(document) == snapshot(name="markdown")


def test_the_recorded_lumps_are_told_apart_by_packets() -> None:
    """Half of the file comes at once, with a packet that was lost before; what the client had is known all the same."""
    _, measured = _read("lumps")
    vantages = {item.name: item.vantage for item in measured.measurements}
    assert vantages["milestone_100kB"] == PACKETS["client"]
    assert vantages["completion"] == FILE["client"]
    # The client keeps nothing back, so that its file and the packets tell the same: half a sample's gap apart.
    assert measured.value("milestone_100kB", 0) == pytest.approx(4.9031, abs=0.005)

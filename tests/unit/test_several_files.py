"""Times of a transfer of several files: protected packets with a stream each, captured, and opened again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.analysis.delivery import PACKETS
from harness.analysis.metric_registry import find_metric
from harness.analysis.metrics import measure
from harness.evaluation.cell_result import CellResult, unreached_value
from harness.evaluation.ranking import headline_metrics
from harness.evaluation.verdict import judge
from harness.outcome import LinkProof, MeasuredRun, Outcome, Run
from harness.report.column_selection import columns
from harness.scenario.schema import Flow
from tests.examples import cell, scenario
from tests.unit.packet_protection import stream_frame
from tests.unit.test_metrics_delivery import LUMPS, PART, SIZE, Server, recorded

FILES = 5
EACH = SIZE // FILES
SEVERAL = {"flows": [{"files": [{"count": FILES, "size": "500 kB"}]}], "testcase": "transfer", "milestones": []}


@dataclass
class Several(Server):
    """A server of five files, each on a stream of its own, one behind the other."""

    answered: int = FILES

    def frame(self, data: bytes, start: int, end: int) -> bytes:
        frames = b""
        while start < end:
            number, offset = divmod(start, EACH)
            stop = min(end, (number + 1) * EACH)
            if number < self.answered:
                frames += stream_frame(4 * number, offset, data[start:stop], stop == (number + 1) * EACH)
            else:
                frames += b"\x01" * (stop - start)
            start = stop
        return frames


def _run(folder: Path, server: Server) -> tuple[Run, int]:
    run, zero_ns = recorded(folder, server, replace(LUMPS, scenario=SEVERAL))
    # Nobody samples the sizes of several files.
    (folder / "growth.csv").unlink()
    return run, zero_ns


def test_completion_is_that_of_the_last_file(tmp_path: Path) -> None:
    server = Several()
    server.write_keys(tmp_path)
    run, zero_ns = _run(tmp_path, server)
    measurements = {
        measurement.name: measurement for measurement in measure(tmp_path, run).measurements if measurement.flow == 0
    }
    truth = server.truth(SIZE, zero_ns)
    assert measurements["completion"].value == pytest.approx(truth, abs=0.002)
    assert measurements["completion"].vantage == PACKETS["client"]
    assert measurements["goodput"].value == pytest.approx(8 * SIZE / truth / 1e6, rel=0.01)
    assert measurements["first_byte"].value == pytest.approx((min(server.arrived.values()) - zero_ns) / 1e9, abs=0.002)
    assert "handshake" in measurements


def test_without_keys_it_says_why_there_are_none(tmp_path: Path) -> None:
    run, _ = _run(tmp_path, Several())
    measured = measure(tmp_path, run)
    why = {absence.metric: absence.why for absence in measured.absent}
    assert why["completion"] == why["first_byte"] == "neither endpoint wrote down its TLS secrets"
    assert measured.value("completion", 0) is None


def test_answers_that_are_missing_are_counted(tmp_path: Path) -> None:
    server = Several(answered=3)
    server.write_keys(tmp_path)
    run, _ = _run(tmp_path, server)
    why = {absence.metric: absence.why for absence in measure(tmp_path, run).absent}
    assert why["completion"] == "the captured packets show data on 3 streams, of 5 files"


def test_what_did_not_come_whole_has_no_completion(tmp_path: Path) -> None:
    server = Several()
    server.write_keys(tmp_path)
    run, _ = _run(tmp_path, server)
    part = run.transfers[0].model_copy(update={"intact": False, "received": SIZE - PART})
    measured = measure(tmp_path, run.model_copy(update={"transfers": (part,)}))
    assert measured.value("completion", 0) is None
    assert measured.value("first_byte", 0) is not None


def test_tables_show_their_times_and_rank_by_them() -> None:
    tested_scenario = scenario(flows=[Flow.model_validate(SEVERAL["flows"][0])], objectives=[], milestones=[])
    assert [name.metric for name, _ in columns(tested_scenario)] == ["first_byte", "completion"]
    assert all(find_metric(name.metric) is not None for name, _ in columns(tested_scenario))
    assert headline_metrics(tested_scenario) == (columns(tested_scenario)[1][0],)
    run = Run(cell=cell(tested_scenario), repetition=0, outcome=Outcome(status="timed_out"), started_at="")
    assert unreached_value(run, columns(tested_scenario)[1][0], failed=True) == float("inf")
    measured = MeasuredRun(version=1, link=LinkProof(valid=True))
    pairs = ((run, measured),)
    assert CellResult(run.cell, pairs, judge(tested_scenario, pairs), (Path(),)).values("completion", 0, "first") == [
        float("inf")
    ]

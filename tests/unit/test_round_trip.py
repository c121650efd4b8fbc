"""Whatever the model admits is the same again when it has been stored."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel

from harness.outcome import MeasuredRun, Run
from harness.scenario.schema import Implementation, Scenario
from harness.store.parquet.tables import Rows, StoredRun, read_cell, read_measured, read_run
from harness.store.records import read_measured as measured_of
from harness.store.records import read_run as run_of
from tests.strategies import MEASURED, RUNS


@given(RUNS, MEASURED)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_run_is_the_same_when_it_was_stored_and_when_it_was_kept_in_columns(run: Run, measured: MeasuredRun) -> None:
    assert run_of(run.model_dump_json(by_alias=True, indent=1).encode()) == run
    assert measured_of(measured.model_dump_json(by_alias=True, indent=1).encode()) == measured
    rows = Rows()
    rows.add(StoredRun(run, measured))
    frames = {name: frame.to_dicts() for name, frame in rows.frames()}
    models: dict[str, type[BaseModel]] = {"scenario": Scenario, "implementation": Implementation}
    base_models = {
        row["hash"]: models[row["kind"]].model_validate_json(row["content"]) for row in frames["definitions"]
    }
    cell = read_cell(frames["cells"][0], base_models)
    assert read_run(frames["runs"][0], cell, frames["transfers"]) == run
    kept = [frames[name] for name in ("measurements", "observations", "links")]
    assert read_measured(frames["runs"][0], *kept) == measured

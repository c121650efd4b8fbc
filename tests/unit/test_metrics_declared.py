"""Every metric is declared once, and everything that is measured or shown of it is as declared."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from harness import derived
from harness.analysis import metric_registry
from harness.analysis.metric_registry import declare, declared_metrics, find_metric, measuring_functions
from harness.analysis.metrics import measure
from harness.derived import DerivedValues
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.outcome import LinkProof, MeasuredRun, Measurement, Run
from harness.report.markdown import render_markdown
from harness.report.metrics import metrics_document
from tests.unit.shared_flows import write_counters, write_three_flows

#: What a run of that kind cannot have: a file, a repeat, a queue that marks, segments in a row, or what only a QUIC
#: client, two phases, a phase of more than two seconds, or real time would show.
NEVER = re.compile(
    r"completion|goodput|milestone_\*|first_byte|handshake|zero_rtt|ack_\w+|retransmitted_share|cpu_\w+|udp_\w+"
    r"|size_drops_\w+|mtu_recovery_time|ecn_marks_\w+|waiting_\w+|pressure_\w+|steal|\w+_in_\*|change_recovery\w*"
    r"|page_load|loaded_\*|first_byte_of_\*|byte_index|response_time_\w+|responses_per_minute|unanswered_requests"
    r"|startup_time|stalls|stalled_time|datagram_\w+|queue_delay_\w+_to_server"
    r"|settled_drop_rate|unrecovered_changes|ect1?_share_\w+|ecn_(?:stop|ack|counted)_\w+|ce_counted_\w+"
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, MeasuredRun]:
    """Three flows, one of UDP and two of TCP, before a queue that is RED."""
    folder = tmp_path_factory.mktemp("run")
    run = write_three_flows(folder)
    shutil.copytree(folder / "flow1", folder / "flow2")
    lab = json.loads((folder / "lab.json").read_text())
    lab["links"]["to_client"]["discipline"] = "red"
    (folder / "lab.json").write_text(json.dumps(lab))
    write_counters(folder, {0.6: 5}, early=3, pdrop=2)
    return run, measure(folder, run).model_copy(update={"link": LinkProof(valid=True)})


@pytest.mark.parametrize("name", declared_metrics())
def test_a_metric_says_what_it_is(name: str) -> None:
    metric = declared_metrics()[name]
    assert metric.unit and metric.title and metric.formula and metric.source
    assert not metric.title.endswith(".")
    assert find_metric(name.replace("*", "2MB")) == metric


def test_what_is_measured_is_declared(measured: tuple[Run, MeasuredRun]) -> None:
    measurements = {measurement.name: measurement for measurement in measured[1].measurements}
    for measurement in measurements.values():
        metric = find_metric(measurement.name)
        assert metric is not None, measurement.name
        assert re.sub(r"\^\d+$", "^n", measurement.unit) == metric.unit
        assert measurement.direction == metric.better or measurement.name == "flow_completion_time"
        assert (measurement.flow is not None) == (metric.layer == "flow"), measurement.name
    wanted = {name for name, declared in declared_metrics().items() if declared.layer != "move"}
    missing = {name for name in wanted if name not in measurements and not NEVER.fullmatch(name)}
    assert missing == set()


def test_absences_are_of_declared_metrics(measured: tuple[Run, MeasuredRun]) -> None:
    assert all(find_metric(absence.metric) is not None for absence in measured[1].absent)


def test_tables_and_measured_json_agree(measured: tuple[Run, MeasuredRun], tmp_path: Path) -> None:
    run, measured_run = measured
    result = CellResult(run.cell, ((run, measured_run),), judge(run.cell.scenario, [measured]), (tmp_path,))
    units = {measurement.name: measurement.unit for measurement in measured_run.measurements}
    rows = [
        row
        for table in metrics_document([result]).data["cells"][0]["tables"]
        if table["title"] != "Throughput by phase"
        for row in table["rows"]
    ]
    assert {row["metric"]: row["unit"] for row in rows} == {
        name: units[name] for name in (row["metric"] for row in rows)
    }
    assert {"retransmissions", "queue_drops_to_client", "utility_pf", "product_means"} <= {
        row["metric"] for row in rows
    }
    text = render_markdown(metrics_document([result]))
    assert "| `retransmissions` | packets |" in text and "| `timeouts` |  |" in text


def test_an_older_run_is_shown_in_the_declared_unit(measured: tuple[Run, MeasuredRun], tmp_path: Path) -> None:
    run, measured_run = measured
    old = Measurement(name="retransmissions", value=4, unit="1", flow=1)
    pair = run, measured_run.model_copy(update={"measurements": (old,)})
    result = CellResult(run.cell, (pair,), judge(run.cell.scenario, [pair]), (tmp_path,))
    assert "| `retransmissions` | packets |" in render_markdown(metrics_document([result]))


def test_kept_declarations_are_those_of_the_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = declared_metrics()
    monkeypatch.setattr(derived, "_SETTLED", -60.0)
    for kept in range(2):
        values = DerivedValues()
        values.keep_in(tmp_path / "derived.json")
        monkeypatch.setattr(metric_registry, "DERIVED", values)
        if kept:
            # As in a process that has imported none of the modules.
            monkeypatch.setattr(metric_registry, "_DECLARED", {})
            monkeypatch.setattr(metric_registry, "_import_all", lambda: pytest.fail("the modules are imported"))
        metric_registry._kept_metrics.cache_clear()
        assert list(declared_metrics().items()) == list(every.items())
        values._write()
    metric_registry._kept_metrics.cache_clear()


def test_no_name_is_declared_twice() -> None:
    assert measuring_functions()
    with pytest.raises(ValueError, match="the metric goodput is declared twice"):
        declare("goodput", layer="flow", unit="s", better="lower", title="x", formula="x", source="x")

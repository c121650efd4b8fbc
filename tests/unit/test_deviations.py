"""Where a run shows something else than what was set: a warning, or no run of its cell at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.metrics import VERSION, measure
from harness.evaluation.cell_result import CellResult
from harness.evaluation.missing_metrics import run_warnings
from harness.evaluation.regression.accepted_changes import AllowedDecision, AppliedAllowances
from harness.evaluation.regression.decision import CellPair, Decision
from harness.evaluation.verdict import judge
from harness.outcome import LinkProof, MeasuredRun, Observation, Outcome, Run, proven_outcome
from harness.outcome.deviations import deviation_sentences, find_deviations
from harness.report import gate as view
from harness.report.gate import CellReport, GateReport, junit_decisions
from harness.report.markdown import render_markdown
from harness.report.site.cell import cell_page
from harness.report.tile import build_tile
from harness.scenario.parameters import PARAMETERS, Role
from tests.examples import cell, implementation, scenario
from tests.rendering import printed
from tests.unit.shared_flows import write_two_flows

WINDOW = 16 * 2**20


def seen(role: Role, parameter: str, value: float | str, unit: str = "bytes") -> Observation:
    return Observation(role=role, parameter=parameter, value=value, unit=unit, source="somewhere")


def result(
    *observed: tuple[Observation, ...], parameters: dict[str, Any] | None = None, **overrides: Any
) -> CellResult:
    """A cell with a run for each set of observations, the harness's own windows among what was set."""
    tested_cell = cell(scenario(objectives=[], **overrides), parameters=parameters or {})
    runs: list[tuple[Run, MeasuredRun | None]] = []
    for number, observations in enumerate(observed):
        run = Run(
            cell=tested_cell, repetition=number, outcome=Outcome(status="completed"), started_at="",
            effective={"client.connection_window": "16 MiB", **(parameters or {})},
        )  # fmt: skip
        runs.append((run, MeasuredRun(version=VERSION, link=LinkProof(valid=True), observed=observations)))
    folders = tuple(Path("/store/runs") / tested_cell.key / str(run.repetition) for run, _ in runs)
    return CellResult(tested_cell, tuple(runs), judge(tested_cell.scenario, runs, []), folders)


def test_a_window_that_is_another_one_is_a_warning() -> None:
    cell_result = result(
        (seen("client", "connection_window", 524_288),), (seen("client", "connection_window", WINDOW),)
    )
    text = "client.connection_window was set to 16 MiB, and 524,288 bytes were seen in 1 of 2 runs"
    assert deviation_sentences(cell_result.runs) == [text]
    assert text in run_warnings(cell_result.runs, flows_too=False)
    assert deviation_sentences(result((seen("client", "connection_window", WINDOW),)).runs) == []


def test_one_kind_of_evidence_that_agrees_is_enough() -> None:
    both = (seen("server", "initial_cwnd", 3.7, "packets"), seen("server", "initial_cwnd", 10, "packets"))
    asked = {"server.initial_cwnd": 10}
    server = implementation("beta", parameters={"initial_cwnd": {"flag": "--window={value}"}})
    assert not find_deviations(*_run(server, asked, *both))
    (deviation,) = find_deviations(*_run(server, asked, both[0]))
    assert (deviation.name, deviation.value, deviation.seen.value) == ("server.initial_cwnd", 10, 3.7)


def _run(server: Any, asked: dict[str, Any], *observed: Observation) -> tuple[Run, MeasuredRun]:
    run = Run(
        cell=cell(server=server, parameters=asked), repetition=0, outcome=Outcome(status="completed"), started_at=""
    )
    return run, MeasuredRun(version=VERSION, link=LinkProof(valid=True), observed=observed)


@pytest.mark.parametrize("name", [name for name, parameter in PARAMETERS.items() if parameter.near is not None])
def test_every_number_that_is_compared_departs_where_it_is_far_off(name: str) -> None:
    parameter = PARAMETERS[name]
    value = parameter.canonical({"size": "1300 B", "duration": "20 ms", "count": 10}[parameter.kind])
    wanted = parameter.number(value)
    assert wanted is not None
    # Whether the server takes it is of no account to what was seen.
    for multiple, count in ((1.0, 0), (7.0, 1)):
        run, measured = _run(None, {f"server.{name}": value}, seen("server", name, multiple * wanted))
        assert len(find_deviations(run, measured)) == count


@pytest.mark.parametrize(
    ("value", "word", "departs"), [("reno", "NewReno", False), ("reno", "new_reno", False), ("reno", "cubic", True)]
)
def test_words_are_compared_as_stacks_write_them(value: str, word: str, departs: bool) -> None:
    run, measured = _run(None, {"server.congestion_control": value}, seen("server", "congestion_control", word, ""))
    assert bool(find_deviations(run, measured)) is departs


# --- a record against its label


def labelled(folder: Path, record: object, **overrides: object) -> tuple[Run, MeasuredRun]:
    """A run of UDP and of TCP that is told Reno, whose generator's report says something of it."""
    run = write_two_flows(folder)
    file = folder / "flow1/server/iperf3.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "end": record}))
    flows = [flow.model_dump(mode="json", by_alias=True) for flow in run.cell.scenario.flows]
    flows[1]["parameters"] = {"server.congestion_control": "reno"}
    changed = type(run.cell.scenario).model_validate(
        {**run.cell.scenario.model_dump(mode="json", by_alias=True), "flows": flows}
    )
    linux = implementation(
        "linux",
        protocols=("tcp", "udp"),
        parameters={"congestion_control": {"flag": "--congestion-control={value}", "values": ["reno", "cubic"]}},
    )
    tested_cell = run.cell.model_copy(update={"scenario": changed, "client": linux, "server": linux, **overrides})
    run = run.model_copy(update={"cell": tested_cell, "effective": {"flow1.server.congestion_control": "reno"}})
    return run, measure(folder, run)


def test_a_report_that_says_another_congestion_control_spoils_the_run(tmp_path: Path) -> None:
    run, measured = labelled(tmp_path, {"sender_tcp_congestion": "cubic", "receiver_tcp_congestion": "cubic"})
    (text,) = measured.contradicted
    assert text == (
        "flow 1: flow1.server.congestion_control was set to reno, and iperf3's report at its sender says cubic"
    )
    outcome = proven_outcome(run, measured)
    assert (outcome.status, outcome.role, outcome.reason, outcome.detail) == (
        "infrastructure", "harness", "contradicted", text
    )  # fmt: skip
    assert judge(run.cell.scenario, [(run, measured)], []).status == "error"


@pytest.mark.parametrize("record", [{"sender_tcp_congestion": "reno"}, {}, None, {"sender_tcp_congestion": 7}, []])
def test_a_report_that_agrees_or_says_nothing_spoils_nothing(tmp_path: Path, record: object) -> None:
    _, measured = labelled(tmp_path, record)
    assert measured.contradicted == ()


def test_a_qlog_that_names_another_algorithm_of_the_endpoint_s_spoils_the_run() -> None:
    from harness.outcome.deviations import contradiction_sentences

    run, _ = _run(None, {"server.congestion_control": "reno"})
    named = {word: contradiction_sentences(run, [seen("server", "congestion_control", word, "")]) for word in
             ("CUBIC", "NewReno", "cubic-with-hystart")}  # fmt: skip
    assert named["CUBIC"] == ("flow 0: server.congestion_control was set to reno, and somewhere says CUBIC",)
    # The last may be what the endpoint calls what it was told: that is a warning.
    assert not named["NewReno"] and not named["cubic-with-hystart"]


# --- who says so


def passage(base: CellResult | None, now: CellResult) -> GateReport:
    weighed = AllowedDecision(Decision(CellPair(base, now), "same" if base else "new"), ())
    return GateReport((CellReport(weighed, ()),), AppliedAllowances((weighed,), (), ()), 0.03)


def test_the_gate_names_what_departs_and_what_did_before() -> None:
    departing, as_set = (result((seen("client", "connection_window", value),)) for value in (524_288, WINDOW))
    departure = "client.connection_window was set to 16 MiB, and 524,288 bytes were seen in 1 of 1 run"
    assert f"not what was set: test/case alpha→beta: {departure}" in printed(
        view.gate_document(passage(as_set, departing))
    )
    assert departure in render_markdown(view.gate_document(passage(as_set, departing)))
    assert view.gate_document(passage(as_set, departing)).data["cells"][0]["departures"] == [departure]
    assert departure in junit_decisions(passage(as_set, departing))
    assert "not what was set, as in the baseline: test/case alpha→beta" in render_markdown(
        view.gate_document(passage(departing, departing))
    )
    assert "not what was set" not in render_markdown(view.gate_document(passage(as_set, as_set)))


def test_the_site_colours_what_departs() -> None:
    cell_result, as_set = (result((seen("client", "connection_window", value),)) for value in (524_288, WINDOW))
    pages = [cell_page(shown) for shown in (cell_result, as_set)]
    assert [[parameter_row.departs for parameter_row in page.parameters if parameter_row.asked] for page in pages] == [
        [True],
        [False],
    ]
    assert pages[0].departures == (
        "client.connection_window was set to 16 MiB, and 524,288 bytes were seen in 1 of 1 run",
    )
    assert set(pages[0].departures) <= set(pages[0].warnings) and not pages[1].departures
    assert (build_tile(cell_result).departs, build_tile(as_set).departs) == (True, False)


def test_a_flow_s_own_parameter_stands_beside_what_was_seen_of_it() -> None:
    cell_result = result(
        (seen("server", "initial_cwnd", 3, "packets"),),
        flows=[{"download": "10 MB", "parameters": {"server.initial_cwnd": 32}}],
    )
    run = cell_result.runs[0][0].model_copy(update={"effective": {"flow0.server.initial_cwnd": 32}})
    page = cell_page(
        CellResult(cell_result.cell, ((run, cell_result.runs[0][1]),), cell_result.verdict, cell_result.folders)
    )
    (line,) = [line for line in page.parameters if line.asked]
    assert (line.role, line.name, line.asked, line.departs) == ("flow0.server", "initial_cwnd", "32", True)
    assert [value for value, _ in line.seen] == ["3 packets"]

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from harness.analysis.metrics import VERSION
from harness.cli.entry import cli
from harness.cli.signals import FAILED, NOTHING
from harness.engine.images.contents import Contents
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.accepted_changes import Allowance, AllowedNames, apply_allowances, read_allowances
from harness.evaluation.regression.decision import (
    OUTCOME,
    CellPair,
    Decision,
    MetricChange,
    decide,
    differing_parameters,
    gate_metrics,
    match_cells,
    version_differences,
)
from harness.evaluation.verdict import judge
from harness.execution import Options
from harness.execution.measured_store import StoredResults
from harness.execution.more_repetitions import repeat_until
from harness.outcome import (
    Attributed,
    Attribution,
    Cell,
    InteropCheck,
    LinkProof,
    MeasuredRun,
    Measurement,
    Outcome,
    Run,
    StateShare,
)
from harness.planning.sampling import is_random
from harness.report import gate as view
from harness.report.gate import junit_decisions, junit_verdicts
from harness.report.markdown import render_markdown
from harness.store.identity import Ledger
from harness.store.parquet import ColumnStore
from harness.store.results import Store
from tests.examples import ROOT, catalogue, cell, implementation, scenario

TODAY = datetime.date(2026, 11, 23)


def nothing_known(digest: str) -> Contents | None:
    return None


def result(
    times: Sequence[float],
    *,
    where: Cell | None = None,
    ends: Sequence[str] = (),
    contents: dict[str, str] | None = None,
) -> CellResult:
    """A cell with a run for each completion time, s; `ends`: outcomes in place of 'completed'."""
    tested_cell = where or cell(engine="virtual")
    runs = []
    for number, seconds in enumerate(times):
        status = ends[number] if number < len(ends) else "completed"
        run = Run(
            cell=tested_cell, repetition=number, outcome=Outcome.model_validate({"status": status}), started_at="",
            contents=contents or {},
        )  # fmt: skip
        figure = Measurement(name="completion", value=seconds, unit="s", flow=0, transfer="first")
        runs.append((run, MeasuredRun(version=VERSION, link=LinkProof(valid=True), measurements=(figure,))))
    return CellResult(tested_cell, tuple(runs), judge(tested_cell.scenario, runs, []), tuple(Path("x") for _ in runs))


def other_bits(compared_cell: Cell) -> Cell:
    return compared_cell.model_copy(update={"key": "f" * 16, "engine_code": "other"})


def lossy() -> Cell:
    link = {"rate": "10 Mbit/s", "delay": "10 ms", "loss": "1 %"}
    return cell(scenario(path={"forward": link, "return": {**link, "loss": "0 %"}}, objectives=[]), engine="virtual")


def beside(
    base: Sequence[float],
    now: Sequence[float],
    where: Cell | None = None,
    within: float = 0.03,
    **overrides: Sequence[str],
) -> Decision:
    tested_cell = where or cell(engine="virtual")
    cell_pairs = match_cells(
        [result(base, where=tested_cell)], [result(now, where=other_bits(tested_cell), ends=overrides.get("ends", ()))]
    )
    (decided,) = decide(cell_pairs, within=within)
    return decided


# --- who stands beside whom


def test_cells_are_paired_by_what_they_are_and_not_by_their_bits() -> None:
    tested_cell = cell(engine="virtual")
    gone = tested_cell.model_copy(update={"seed": 7})
    new = tested_cell.model_copy(update={"seed": 8})
    cell_pairs = match_cells([result([1], where=tested_cell), result([1], where=gone)],
                  [result([1], where=other_bits(tested_cell)), result([1], where=new)])  # fmt: skip
    assert [(pair.base is None, pair.current is None) for pair in cell_pairs] == [
        (False, False), (True, False), (False, True)
    ]  # fmt: skip
    assert [decision.status for decision in decide(cell_pairs, within=0.03)] == ["same", "new", "gone"]


def _windowed(size: str, seconds: float = 2.0) -> CellResult:
    tested_cell = other_bits(cell(engine="virtual"))
    return result([seconds], where=tested_cell.model_copy(update={"parameters": {"client.connection_window": size}}))


def test_cells_that_differ_in_a_named_parameter_are_compared_across_it() -> None:
    base, now = [result([2.0])], [_windowed("512 KiB", 4.0)]
    apart = match_cells(base, now)
    assert [decision.status for decision in decide(apart, within=0.03)] == ["new", "gone"]
    assert differing_parameters(apart) == ["client.connection_window"]
    across = match_cells(base, now, ("client.connection_window",))
    assert [decision.status for decision in decide(across, within=0.03)] == ["worse"]
    assert differing_parameters(across) == []
    # Of two values in one store nobody knows which to compare.
    with pytest.raises(InputError, match="differ in it alone"):
        match_cells(base, [*now, _windowed("1 MiB")], ("client.connection_window",))


def test_where_nothing_is_compared_the_gate_is_not_open() -> None:
    applied = apply_allowances(decide(match_cells([result([2.0])], [_windowed("512 KiB")]), within=0.03), [], TODAY)
    passage = view.GateReport(tuple(view.CellReport(decision, ()) for decision in applied.cells), applied, 0.03)
    assert view.sentence(passage) == "2 cells: 1 gone, 1 new: nothing was compared, so that the gate is not open"
    assert dict(view.gate_document(passage).data)["open"] is False
    text = render_markdown(view.gate_document(passage))
    assert "--across client.connection_window compares them" in text


def test_the_command_compares_across_a_parameter_and_refuses_what_is_none(tmp_path: Path) -> None:
    for name, cell_result in (("base", result([2.0])), ("now", _windowed("512 KiB", 4.0))):
        store = Store(tmp_path / name)
        for run, measured in cell_result.runs:
            store.finish(store.begin(run.cell.key, run.repetition), run, measured)
    words = ["gate", "--baseline", str(tmp_path / "base"), "--store", str(tmp_path / "now")]
    assert CliRunner().invoke(cli, words).exit_code == NOTHING
    shut = CliRunner().invoke(cli, [*words, "--across", "connection_window"])
    assert shut.exit_code == FAILED and "the gate is shut by 1 cell" in shut.stdout, shut.output
    wrong = CliRunner().invoke(cli, [*words, "--across", "client.conection_window"])
    assert isinstance(wrong.exception, InputError) and "client.connection_window" in wrong.exception.hint


def test_the_bits_that_differ_are_named() -> None:
    tested_cell = cell(engine="virtual")
    stack = tested_cell.server.model_copy(update={"extensions": ("ack_frequency",), "colour": "#000000"})
    two = other_bits(tested_cell).model_copy(update={"server": stack})
    known = {
        "d1": Contents("d1", {"openssl": "3.5.1"}, {}),
        "d2": Contents("d2", {"openssl": "3.5.2"}, {}),
    }
    pair = CellPair(
        result([1], where=tested_cell, contents={"server0": "d1"}), result([1], where=two, contents={"server0": "d2"})
    )  # fmt: skip
    differences = version_differences(pair, (known.get, known.get), Ledger())
    assert differences == [
        "the engine's code", f"the manifest of {tested_cell.server.name} (extensions)", "openssl 3.5.1 → 3.5.2 in server0",
    ]  # fmt: skip


def test_a_note_on_a_parameter_makes_no_other_manifest() -> None:
    def noted(note: str, window: int) -> Cell:
        setting = {"server": {"flag": "-w={value}", "default": window, "note": note}}
        server = implementation("beta", parameters={"initial_cwnd": setting})
        return cell(engine="virtual", server=server)

    def differences(*cells: Cell) -> list[str]:
        before, now = (result([1], where=where) for where in cells)
        return version_differences(CellPair(before, now), (nothing_known, nothing_known), Ledger())

    assert differences(noted("packets", 10), noted("in packets", 10)) == []
    assert differences(noted("packets", 10), noted("packets", 32)) == ["the manifest of beta (initial_cwnd)"]


# --- the same bits


def test_the_same_bits_in_virtual_time_give_the_same_figures_to_the_last_digit() -> None:
    (decision,) = decide([CellPair(result([2.0]), result([2.0]))], within=0.03)
    assert (decision.status, decision.exact, decision.figures) == ("same", True, ())
    (other,) = decide([CellPair(result([2.0, 3.0]), result([2.0, 3.0000001]))], within=0.5)
    assert (other.status, [figure.name for figure in other.figures]) == ("differs", ["completion"])
    assert other.figures[0].why == "repetition 1; the bits are the same"


def test_an_end_of_another_kind_with_the_same_bits_differs() -> None:
    (decision,) = decide([CellPair(result([2.0]), result([2.0], ends=["crashed"]))], within=0.03)
    assert decision.figures[0].why == "repetition 0: completed before, crashed now; the bits are the same"


def test_an_image_of_one_recipe_with_other_packages_is_of_other_bits() -> None:
    pair = CellPair(result([2.0], contents={"sim": "a"}), result([2.01], contents={"sim": "b"}))
    (decision,) = decide([pair], within=0.03)
    assert (decision.exact, decision.status) == (False, "same")


# --- other bits


@pytest.mark.parametrize(
    ("base", "now", "standing"),
    [
        ([2.0], [2.05], "same"),
        ([2.0], [2.07], "worse"),
        ([2.0], [1.9], "better"),
        ([2.0, 2.01], [2.5, 2.6], "worse"),
        ([2.0, 2.6], [2.5, 2.6], "cannot tell"),
        ([2.0, 2.6], [2.2, 2.4], "same"),  # the factor of the middle
    ],
)
def test_without_chance_every_value_has_to_be_off(base: list[float], now: list[float], standing: str) -> None:
    assert beside(base, now).status == standing


@pytest.mark.parametrize(
    ("base", "now", "standing"),
    [
        ([2.0], [9.0], "cannot tell"),
        ([2.0, 2.1, 2.2], [9.0, 9.1, 9.2], "cannot tell"),  # no p of 3 beside 3 is below 0.1
        ([2.0, 2.1, 2.2, 2.3, 2.4, 2.5], [9.0, 9.1, 9.2, 9.3, 9.4, 9.5], "worse"),
        ([9.0, 9.1, 9.2, 9.3, 9.4, 9.5], [2.0, 2.1, 2.2, 2.3, 2.4, 2.5], "better"),
        ([2.0, 2.01, 2.02, 2.0, 2.01, 2.02], [2.0, 2.01, 2.02, 2.0, 2.01, 2.03], "same"),
        (
            [2.0, 2.001, 2.002, 2.003, 2.004, 2.005],
            [2.01, 2.011, 2.012, 2.013, 2.014, 2.015],
            "same",
        ),  # it shows, and is small
        ([2.0, 2.1, 2.2, 2.3, 2.4, 2.5], [2.05, 2.6, 2.2, 2.3, 2.4, 2.8], "cannot tell"),
    ],
)
def test_with_chance_a_test_decides(base: list[float], now: list[float], standing: str) -> None:
    assert beside(base, now, lossy()).status == standing


def test_one_difference_among_many_tests_has_to_be_larger() -> None:
    base, now = [1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]
    assert beside(base, now, lossy()).status == "worse"  # p = 2/252
    others = [(lossy().model_copy(update={"seed": seed}), base) for seed in range(2, 12)]
    matrix = [(lossy(), now), *others]
    cell_pairs = match_cells([result(base, where=tested_cell) for tested_cell, _ in matrix],
                  [result(values, where=other_bits(tested_cell)) for tested_cell, values in matrix])  # fmt: skip
    decided = decide(cell_pairs, within=0.03)
    assert decided[0].status == "cannot tell"
    assert {decision.status for decision in decided[1:]} == {"cannot tell"}


def test_each_look_at_a_matrix_has_its_share() -> None:
    base, now = [1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]
    cell_pairs = match_cells([result(base, where=lossy())], [result(now, where=other_bits(lossy()))])
    assert [decide(cell_pairs, within=0.03, looks=looks)[0].status for looks in (1, 6, 7)] == [
        "worse", "worse", "cannot tell",  # p = 2/252 each
    ]  # fmt: skip


def test_what_cannot_be_told_is_repeated_until_it_can() -> None:
    asked: list[tuple[int, int]] = []
    runs = {"a": 1, "b": 1}

    class Checkout:
        def current_cell(self, planned_cell: Cell) -> Cell:
            return planned_cell if planned_cell.key != "c" else planned_cell.model_copy(update={"key": "d"})

        def run_cells(self, cells: list[Cell], target: int, options: Options, listen: object) -> None:
            asked.append((len(cells), target))
            runs.update({tested_cell.key: target for tested_cell in cells})

    def undecided() -> list[CellResult]:
        tested_cells = {key: lossy().model_copy(update={"key": key}) for key in "abc"}
        results = [result([1.0] * runs["a"], where=tested_cells["a"])]
        results += [result([1.0] * runs["b"], where=tested_cells["b"])] if runs["b"] < 9 else []
        return [*results, result([1.0], where=tested_cells["c"])]

    events: list[object] = []
    repeat_until(Checkout(), undecided, 12, Options(), events.append)  # type: ignore[arg-type]
    assert asked == [(2, 6), (2, 9), (1, 12)]
    assert len(events) == 1 and "no longer those of its runs" in str(events[0])


def test_more_is_better_where_the_metric_says_so() -> None:
    tested_cell = lossy()
    flow = tested_cell.scenario.flows[0].model_copy(update={"download": None, "stop": tested_cell.scenario.timeout})
    tested_cell = tested_cell.model_copy(
        update={"scenario": tested_cell.scenario.model_copy(update={"flows": (flow,)})}
    )
    assert [name.metric for name in gate_metrics(tested_cell.scenario)] == ["mean_throughput"]


@pytest.mark.parametrize(
    ("where", "ends", "standing"),
    [
        ("exact", ["crashed"], "worse"),
        ("chance", ["crashed", "completed", "completed"], "cannot tell"),
        ("chance", ["crashed", "crashed", "crashed"], "worse"),
        ("chance", ["infrastructure", "infrastructure", "infrastructure"], "cannot tell"),
    ],
)
def test_runs_that_fail(where: str, ends: list[str], standing: str) -> None:
    values = [2.0] * len(ends)
    decision = beside(values, values, cell(engine="virtual") if where == "exact" else lossy(), ends=ends)
    (ended,) = [figure for figure in decision.figures if figure.name == OUTCOME]
    assert ended.status == standing


def test_a_run_in_which_a_check_failed_has_failed() -> None:
    base = result([2.0])
    failed = InteropCheck(check="retry", asked=True, status="failed", sentence="no Retry packet was seen")
    run, measured = base.runs[0]
    assert measured is not None
    now = replace(base, cell=other_bits(base.cell), runs=((run, measured.model_copy(update={"checks": (failed,)})),))
    (decision,) = decide([CellPair(base, now)], within=0.03)
    assert decision.status == "worse" and decision.figures[0].name == OUTCOME


def test_chance_is_read_off_the_scenario() -> None:
    real_catalogue = catalogue()

    def of(name: str) -> bool:
        return is_random(
            cell(engine="virtual").model_copy(update={"scenario": real_catalogue.find_scenarios([name])[0]})
        )

    assert not of("satellite/medium")
    chancy = [
        "satellite/large-lossy",
        "queue/red-low-bdp",
        "dumbbell/fairness",
        "picoquic/satellite-jitter",
        "interop/handshakeloss",
        "interop/transfercorruption",
    ]
    assert all(map(of, chancy))
    assert is_random(cell(engine="compose"))


def test_what_was_asked_for_is_looked_at_once() -> None:
    tested_scenario = catalogue().find_scenarios(["satellite/medium"])[0]
    names = [name.text(1) for name in gate_metrics(tested_scenario)]
    assert names == ["milestone_2MB", "milestone_10MB", "milestone_100MB", "completion", "repeat_completion"]


# --- the rate of false alarms


def test_where_nothing_changed_one_gate_in_twenty_alarms_at_most() -> None:
    """The stored repetitions of each cell with chance in it, dealt in two: whatever differs is chance."""
    stored = StoredResults(ColumnStore(ROOT / "results" / "reference"), None)
    cells = [
        cell_result
        for cell_result in stored.find(is_random)
        if len(cell_result.measurements) and len(cell_result.runs) >= 8
    ]
    gates: list[set[str]] = []
    for cell_result in cells:
        for seed in range(5):
            # A deal of its own: repetitions of one number share their seed over cells.
            runs = random.Random(f"{cell_result.cell.key} {seed}").sample(cell_result.runs, len(cell_result.runs))
            base, now = (replace(cell_result, runs=tuple(runs[half::2])) for half in (0, 1))
            pair = CellPair(base, replace(now, cell=other_bits(now.cell)))
            (decision,) = decide([pair], within=0.0)
            gates.append({figure.status for figure in decision.figures})
    assert len(gates) >= 150
    changed = sum(bool({"worse", "better"} & standings) for standings in gates)
    # Of 150 gates 7.5 alarm where the rate is as high as it may be; more than a tenth one time in 1000.
    assert changed <= len(gates) / 10


# --- what is accepted


def _allowed(**overrides: object) -> Allowance:
    given = {"scenario": "test", "reason": "known", "until": "2026-12-31", **overrides}
    return Allowance.model_validate(given)


def test_an_accepted_change_opens_the_gate_until_its_day() -> None:
    worse = beside([2.0], [3.0])
    name = worse.pair.cell.scenario.name
    for allowance, alarm in [
        (_allowed(scenario=name), False),
        (_allowed(scenario=name.partition("/")[0]), False),
        (_allowed(scenario=name, until="2026-11-23"), False),
        (_allowed(scenario=name, until="2026-11-22"), True),
        (_allowed(scenario=name, metric="completion"), False),
        (_allowed(scenario=name, metric="outcome"), True),
        (_allowed(scenario=name, client="nobody"), True),
        (_allowed(scenario=name, engine="compose"), True),
    ]:
        applied = apply_allowances([worse], [allowance], TODAY)
        assert applied.cells[0].alarm is alarm
        assert len(applied.expired) + len(applied.unused) == alarm


def test_a_file_of_accepted_changes_names_its_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "allow.yaml"
    file.write_text("schema: 1\nallow:\n  - {scenario: satellite/medium, reason: slower pacing, until: 2026-12-31}\n")
    allowed_names = AllowedNames({"satellite/medium", "satellite/low/one"}, {"ngtcp2", "quiche"})
    (allowance,) = read_allowances(file, allowed_names)
    assert (allowance.scenario, allowance.client, allowance.until) == (
        "satellite/medium",
        "all",
        datetime.date(2026, 12, 31),
    )
    file.write_text("schema: 1\nallow:\n  - {scenario: satellite/medium, until: soon}\n")
    with pytest.raises(InputError, match=r"allow\.yaml:3:\d+"):
        read_allowances(file, allowed_names)
    for words, says, hint in [
        (
            "scenario: satellite/mediun, reason: r",
            "allow.0.scenario: no scenario is called 'satellite/mediun'",
            "medium",
        ),
        ("scenario: satellite/low, reason: r, client: ngtcp", "allow.0.client: nobody is called 'ngtcp'", "'ngtcp2'"),
        ("scenario: satellite, reason: r, server: nobody", "allow.0.server: nobody is called 'nobody'", "quiche"),
        ("scenario: satellite, reason: r, metric: complition", "there is no metric 'complition'", "'completion'"),
        ("scenario: satellite, reason: '  '", "a blank reason is none", "say why"),
    ]:
        file.write_text(f"schema: 1\nallow:\n  - {{{words}, until: 2026-12-31}}\n")
        with pytest.raises(InputError, match=r"allow\.yaml:3:\d+") as wrong:
            read_allowances(file, allowed_names)
        assert says in wrong.value.message and hint in wrong.value.hint
    for words in (
        "scenario: satellite/, reason: r, metric: outcome",
        "scenario: satellite/low, reason: r, client: all",
    ):
        file.write_text(f"schema: 1\nallow:\n  - {{{words}, until: 2026-12-31}}\n")
        assert len(read_allowances(file, allowed_names)) == 1


# --- what is printed


def _passage() -> view.GateReport:
    worse, decision, undecided = beside([2.0], [3.0]), beside([2.0], [2.0]), beside([2.0], [9.0], lossy())
    applied = apply_allowances([worse, decision, undecided], [_allowed(scenario="elsewhere")], TODAY)
    return view.GateReport(
        tuple(view.CellReport(allowed_decision, ("the engine's code",)) for allowed_decision in applied.cells),
        applied,
        0.03,
    )


def test_the_gate_says_what_shuts_it() -> None:
    passage = _passage()
    assert view.sentence(passage) == "3 cells: 1 worse, 1 cannot tell, 1 same: the gate is shut by 1 cell"
    content = dict(view.gate_document(passage).data)
    assert content["open"] is False and content["counts"] == {"worse": 1, "cannot tell": 1, "same": 1}
    json.dumps(content, allow_nan=False)
    text = render_markdown(view.gate_document(passage))
    assert "completion 2 → 3 s (× 1.5), n = 1 and 1" in text and "accepted, and not needed: elsewhere" in text
    (command,) = view.workflow_commands(passage)
    assert command.startswith("::error file=scenarios/") and "completion 2 → 3 s" in command


def _attributed(cell_result: CellResult, flow_control: float) -> CellResult:
    """The same runs, of which flow control took so long, and the line's rate two seconds."""
    parts = (StateShare(state="line_rate", seconds=2.0), StateShare(state="flow_control", seconds=flow_control))
    attribution = Attribution(flow=0, transfer="first", size=10**7, seconds=2.0 + flow_control, parts=parts)
    attributed = Attributed(version=1, transfers=(attribution,))
    runs = tuple((run, m and m.model_copy(update={"attributed": attributed})) for run, m in cell_result.runs)
    return replace(cell_result, runs=runs)


def test_the_gate_says_where_the_time_of_a_changed_cell_went() -> None:
    tested_cell = cell(engine="virtual")
    base = _attributed(result([2.0], where=tested_cell), 0.0)
    now = _attributed(result([82.2], where=other_bits(tested_cell)), 80.2)
    applied = apply_allowances(decide(match_cells([base], [now]), within=0.03), [], TODAY)
    passage = view.GateReport(tuple(view.CellReport(decision, ()) for decision in applied.cells), applied, 0.03)
    assert view.cause_text(passage.cells[0]) == "flow control 0 → 80.2 s"
    assert "because: flow control 0 → 80.2 s" in render_markdown(view.gate_document(passage))
    assert "because: flow control 0 → 80.2 s" in view.workflow_commands(passage)[0]
    (cell_entry,) = dict(view.gate_document(passage).data)["cells"]
    assert cell_entry["because"] == "flow control 0 → 80.2 s"
    # A cell that is the same has no cause.
    same = apply_allowances(decide(match_cells([base], [base]), within=0.03), [], TODAY)
    assert view.cause_text(view.CellReport(same.cells[0], ())) == ""


def test_junit_is_xml_with_a_case_a_cell() -> None:
    root = ElementTree.fromstring(junit_decisions(_passage()))
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    named = implementation("strange", title="a\x00b")
    odd = result([2.0], where=cell(server=named, engine="virtual"))
    root = ElementTree.fromstring(junit_verdicts([odd, result([2.0], ends=["crashed"])]))
    assert [case.get("classname") for case in root.iter("testcase")] == [odd.cell.scenario.name] * 2


def test_the_first_night_is_a_suite_without_failures_and_has_the_names_of_the_next(tmp_path: Path) -> None:
    """A missed objective of the first night is no regression."""
    missing = cell(scenario(objectives=[{"metric": "completion", "at_most": "1 s"}]), engine="virtual")
    store, junit = Store(tmp_path / "night"), tmp_path / "junit.xml"
    for run, measured in result([2.0], where=missing).runs:
        store.finish(store.begin(run.cell.key, run.repetition), run.model_copy(update={"wall": 1.5}), measured)
    suites = []
    for _ in range(2):
        words = ["--baseline", str(tmp_path / "base"), "--store", str(tmp_path / "night"), "--junit", str(junit)]
        done = CliRunner().invoke(cli, ["gate", *words, "--update-baseline"])
        assert done.exit_code == 0, done.output
        suites.append(ElementTree.parse(junit).getroot().findall("testsuite"))
    for (suite,) in suites:
        assert (suite.get("name"), suite.get("failures"), suite.get("time")) == ("gate", "0", "1.500")
    assert len({tuple(case.get("name") for case in suite) for (suite,) in suites}) == 1


def test_the_largest_change_is_named_first() -> None:
    figures = tuple(
        MetricChange(name, "s", (1.0,), (factor,), "worse", "", factor)
        for name, factor in (("milestone_2MB", 1.1), ("completion", 3.0), ("goodput", 0.2))
    )
    pair = CellPair(result([1.0]), result([3.0]))
    applied = apply_allowances([Decision(pair, "worse", figures)], [], TODAY)
    cell_report = view.CellReport(applied.cells[0], ())
    assert [figure.name for figure in cell_report.telling] == ["goodput", "completion", "milestone_2MB"]


def test_the_command_on_a_store_beside_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "one")
    for run, measured in result([2.0, 2.1]).runs:
        store.finish(store.begin(run.cell.key, run.repetition), run, measured)
    words = ["gate", "--baseline", str(tmp_path / "one"), "--store", str(tmp_path / "one")]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["counts"] == {"same": 1}
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.markdown"
    written = CliRunner().invoke(cli, [*words, "--junit", str(junit), "--summary", str(summary)])
    assert written.exit_code == 0 and "the gate is open" in written.stdout, written.output
    assert [suite.get("tests") for suite in ElementTree.parse(junit).getroot()] == ["1"]
    assert summary.read_text().index("## Since the baseline") < summary.read_text().index("## Verdicts")
    nowhere = CliRunner().invoke(cli, [*words, "--junit", str(tmp_path / "nowhere" / "junit.xml")])
    assert isinstance(nowhere.exception, InputError) and "nowhere" in str(nowhere.exception)
    absent = CliRunner().invoke(cli, ["gate", "--baseline", str(tmp_path / "none"), "--store", str(tmp_path / "one")])
    assert absent.exit_code != 0


def test_the_first_runs_become_the_baseline_and_an_open_gate_takes_runs_into_it(tmp_path: Path) -> None:
    def stored(name: str, seconds: list[float]) -> Path:
        store = Store(tmp_path / name)
        for run, measured in result(seconds).runs:
            store.finish(store.begin(run.cell.key, run.repetition), run, measured)
        return tmp_path / name

    baseline, summary = tmp_path / "baseline", tmp_path / "summary.markdown"

    def gate(store: Path) -> Result:
        words = ["--baseline", str(baseline), "--store", str(store), "--update-baseline", "--summary", str(summary)]
        return CliRunner().invoke(cli, ["gate", *words])

    first = gate(stored("first", [2.0, 2.0]))
    assert first.exit_code == 0 and "There was no baseline; it is now these 1 cell" in first.stdout, first.output
    assert "## Verdicts" in summary.read_text() and "## Since the baseline" not in summary.read_text()
    before = {file.name: file.read_bytes() for file in baseline.iterdir()}

    worse = gate(stored("worse", [9.0, 9.0]))
    assert worse.exit_code == 1 and "the gate is shut" in worse.stdout, worse.output
    assert {file.name: file.read_bytes() for file in baseline.iterdir()} == before

    more = gate(stored("more", [2.0, 2.0, 2.0]))
    assert more.exit_code == 0 and "## Since the baseline" in summary.read_text(), more.output
    assert len(ColumnStore(baseline).entries()) == 3

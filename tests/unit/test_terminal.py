from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from harness.cli.consoles import table_console
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.outcome import MeasuredRun
from harness.report.catalogue import ListedImplementation, catalogue_document
from harness.report.column_selection import columns, flow_columns, parse_metrics, ranking_metrics
from harness.report.document import Column, Row, Table
from harness.report.grid import grid_blocks, verdict_grid_blocks
from harness.report.markdown import render_blocks, render_markdown
from harness.report.metrics import metrics_document
from harness.report.parameters import vocabulary_document
from harness.report.results import ReferenceLine, results_document, scenario_table
from harness.report.terminal import FittedTable
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import PARAMETERS
from harness.scenario.schema import Flow
from tests.engine_pairs import completions, result, run
from tests.examples import implementation, scenario
from tests.rendering import printed


def _printed(what: object, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(what)
    return out.getvalue()


def _words(text: str) -> str:
    """Without lines and spaces: what is folded is still there."""
    return re.sub(r"[\s│┃┡┩━┏┓┳╇├┼┤─└┘┴┻┗┛╰╯╭╮┠┨╂┯┷]+", "", text)


COLUMNS = [Column("client", identifies=True), Column("server", identifies=True)]
COLUMNS += [Column(f"figure{index} s", right=True) for index in range(6)]
ROWS = [Row([f"client-{row}", f"server-{row}", *(f"{row}.{index}" for index in range(6))]) for row in range(3)]


# --- one table


def test_a_table_that_has_room_is_one() -> None:
    text = _printed(FittedTable(Table(COLUMNS, ROWS, "title")), 120)
    assert "parts" not in text
    assert text.count("client-1") == 1


def test_one_that_has_not_is_stacked_and_says_so() -> None:
    text = _printed(FittedTable(Table(COLUMNS, ROWS, "title")), 60)
    assert "in 2 parts: it needs 95 columns, and here are 60 (COLUMNS=95" in text
    assert text.count("client-1") == 2
    assert "2.5" in text
    assert max(map(len, text.splitlines())) <= 60
    # It has what it said it needs.
    assert "parts" not in _printed(FittedTable(Table(COLUMNS, ROWS, "title")), 95)


def test_where_nothing_fits_rows_become_lines() -> None:
    text = _printed(FittedTable(Table(COLUMNS, ROWS, "title")), 24)
    assert "client: client-1\nserver: server-1\nfigure0 s: 1.0\n" in text


def test_what_people_wrote_is_no_markup() -> None:
    text = _printed(
        FittedTable(Table([Column("[/a]", identifies=True), Column("b")], [Row(["[/x]", "[b]"])], "[/nope] [red]")), 80
    )
    for word in ("[/nope] [red]", "[/a]", "[/x]", "[b]"):
        assert word in text


def test_reference_lines_are_told_from_rows() -> None:
    rows = [*ROWS, Row(["", "a line of words that is longer than any server's name", *["9"] * 6], reference=True)]
    wide = _printed(FittedTable(Table(COLUMNS, rows, "title")), 120)
    assert max(map(len, wide.splitlines())) <= 95
    assert "alineofwordsthatislongerthananyserver'sname" in _words(wide).replace("9", "") or "a line" in wide


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.text("abcdef", min_size=1, max_size=30), st.booleans()), min_size=1, max_size=9),
    st.integers(16, 120),
)
def test_no_width_drops_anything(heads: list[tuple[str, bool]], width: int) -> None:
    shown = [Column(name, identifies=identifies) for name, identifies in heads]
    rows = [Row([f"{name}{row}" for name, _ in heads]) for row in range(2)]
    text = _printed(FittedTable(Table(shown, rows, "t")), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for name, _ in heads:
        if len(name) + 1 <= 8:
            assert f"{name}0" in text and f"{name}1" in text


_TEXTS = st.text("ab de\u00e9\u4e16\u0301\t\n-", max_size=40)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(_TEXTS, st.booleans(), st.booleans(), st.integers(0, 12)), min_size=1, max_size=5).flatmap(
        lambda heads: st.tuples(
            st.just(heads),
            st.lists(st.tuples(st.lists(_TEXTS, min_size=len(heads), max_size=len(heads)), st.booleans()), max_size=4),
        )
    ),
    st.integers(20, 160),
)
def test_a_table_without_colours_is_what_one_with_colours_is(
    table_texts: tuple[list[tuple[str, bool, bool, int]], list[tuple[list[str], bool]]], width: int
) -> None:
    heads, texts = table_texts
    # Every column has a heading, and so a width.
    shown = [
        Column(f"h{name}", right=right, identifies=identifies, text=text) for name, right, identifies, text in heads
    ]
    table = FittedTable(Table(shown, [Row(cells, reference=reference) for cells, reference in texts], "t"))
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="truecolor").print(table)
    assert _printed(table, width) == re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


# --- how wide


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert table_console().width == 80
    monkeypatch.setenv("COLUMNS", "300")
    assert table_console().width == 300
    monkeypatch.delenv("COLUMNS")
    assert table_console().width == 180
    monkeypatch.setenv("COLUMNS", "wide")
    assert table_console().width == 180


# --- the tables of cells


def _sweep() -> list[CellResult]:
    return [
        completions(
            "virtual", 4.0, 5.0, definition=scenario(objectives=[]), client=implementation("a-client-named-well"),
            parameters={"server.congestion_control": name, "path.down.loss": loss},
        )
        for name in ("reno", "cubic")
        for loss in ("0 %", "1 %")
    ]  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 180])
def test_every_row_of_a_sweep_is_known_by_its_values(width: int) -> None:
    cells = _sweep()
    text = _words(printed([scenario_table(cells)], width))
    words = ("reno", "cubic", "a-client-named-well", "beta", "congestion_control", "loss")
    if width > 40:
        assert [word for word in words if word not in text] == []
        assert text.count("a-client-named-well") % 4 == 0
    assert "…" not in text
    assert "noobjectives" in text or "no_objectives" in text


def test_a_grid_of_many_servers_is_stacked() -> None:
    cells = [
        completions("virtual", 4.0, definition=scenario(objectives=[]), server=implementation(f"server-number-{index}"))
        for index in range(9)
    ]
    text = printed(grid_blocks(cells), 80)
    assert "parts" in text
    assert all(f"server-number-{index}" in text for index in range(9))


def test_who_met_nobody_but_itself_stands_below_the_grid() -> None:
    def met(client: str, server: str) -> CellResult:
        who = {"client": implementation(client), "server": implementation(server)}
        return completions("virtual", 4.0, definition=scenario(objectives=[]), **who)

    crowd = [met(client, server) for client in ("alpha", "beta") for server in ("alpha", "beta")]
    text = render_blocks(verdict_grid_blocks([*crowd, met("gamma", "gamma"), met("delta", "delta")]))
    assert "| | alpha | beta |\n" in text
    assert "| alpha | ● 4.00 | ● 4.00 |\n" in text
    assert text.endswith("\n\nOthers, each with itself: gamma ● 4.00, delta ● 4.00.\n")
    assert "Others" not in render_blocks(verdict_grid_blocks(crowd))
    assert "| | delta | gamma |" in render_blocks(verdict_grid_blocks([met("gamma", "gamma"), met("delta", "delta")]))
    # What else is known of servers stands below the clients.
    further = {"beside TCP": {"beta": "4.9", "gamma": "1.0"}}
    assert "| beside TCP | – | 4.9 |\n" in render_blocks(verdict_grid_blocks(crowd, further))


def _flows(count: int) -> CellResult:
    shared = scenario(flows=[Flow.model_validate({"stop": "5 s"})] * count, objectives=[])
    figures = {f"flow{flow}_mean_throughput": flow + 0.5 for flow in range(count)}
    figures |= {f"flow{flow}_mean_srtt": 50.0 + flow for flow in range(count)}
    return result("virtual", run(figures=figures, utilisation_shared=0.9, jain_shared=0.8), definition=shared)


def test_forty_flows_are_rows() -> None:
    cell_result = _flows(40)
    text = printed(results_document([cell_result]), 80)
    assert max(map(len, (line for line in text.splitlines() if "harness run" not in line))) <= 80
    for flow in (0, 17, 39):
        assert re.search(rf"│ {flow} beta[^│]*│ *{flow + 0.5:.3g} │", text) or f"{flow} " in text
    assert "39.5" in text
    metrics = metrics_document([cell_result])
    text = printed(metrics, 80)
    assert "39.5" in text and "89" in text
    assert len(text.splitlines()) < 150
    page = render_markdown(metrics)
    assert max(line.count("|") for line in page.splitlines()) < 20


def test_a_few_flows_stay_columns() -> None:
    cell_result = _flows(3)
    assert [heading for _, heading in columns(cell_result.cell.scenario)][:3] == [
        "flow0 Mbit/s",
        "flow1 Mbit/s",
        "flow2 Mbit/s",
    ]
    assert flow_columns(cell_result.cell.scenario) == []


def test_lists_keep_names_whole_at_80_columns() -> None:
    known = [implementation(f"implementation-number-{index}") for index in range(3)]
    absent = "its published image is not on this machine"
    listed = catalogue_document(
        [], [ListedImplementation(listed_implementation, False, absent) for listed_implementation in known]
    )
    text = printed(listed, 80) + printed(vocabulary_document(), 80)
    assert all(listed_implementation.name in text for listed_implementation in known)
    assert all(name in text for name in PARAMETERS)
    assert max(map(len, text.splitlines())) <= 80


def test_sentences_are_folded_before_a_table_is_stacked() -> None:
    columns = [Column("name", identifies=True), Column("said", text=12), Column("more", text=12)]
    text = _printed(
        FittedTable(Table(columns, [Row(["one", "many words in a row " * 5, "and others, too " * 5])], "t")), 60
    )
    assert "parts" not in text
    # What room there is goes to them.
    assert max(map(len, text.splitlines())) in (59, 60)


# --- metrics by name


def test_metrics_are_shown_when_asked() -> None:
    cells = [
        result(
            "virtual",
            run(completion=value, goodput=10 * value, path_loss=1.0),
            definition=scenario(objectives=[]),
            parameters=asked,
        )
        for value, asked in (
            (4.0, {"server.congestion_control": "reno"}),
            (5.0, {"server.congestion_control": "cubic"}),
        )
    ]
    asked = parse_metrics("goodput,completion", cells)
    assert asked == (MetricName("goodput"), MetricName("completion"))
    text = printed(results_document(cells, asked), 160)
    assert "goodput Mbit/s" in text and "completion s" in text and "2MB" not in text
    assert "goodput: ★ server cubic: 50 Mbit/s; reno: 40 Mbit/s, 1.25 times less" in text


def test_a_table_of_two_definitions_has_the_objectives_of_the_newer() -> None:
    def judged_cell(name: str, started_at: str, seconds: int) -> CellResult:
        stored, measured = run(completion=4.0)
        return result(
            "virtual",
            (stored.model_copy(update={"started_at": started_at}), measured),
            definition=scenario(title=name, objectives=[{"metric": "completion", "at_most": f"{seconds} s"}]),
            parameters={"server.congestion_control": "cubic" if name == "newer" else "bbr"},
        )

    older, newer = judged_cell("older", "2026-11-21T00:00:00Z", 30), judged_cell("newer", "2026-11-22T00:00:00Z", 20)
    for cells in ([older, newer], [newer, older]):
        text = printed(results_document(cells), 200)
        assert "newer (" in text and "older (" not in text
        [demanded] = [line for line in text.splitlines() if line.lstrip("│ ").startswith("objective")]
        assert re.search(r"\b20\b", demanded) and not re.search(r"\b30\b", demanded)


def test_a_flow_s_metric_is_of_each_flow_or_of_the_one_that_is_named() -> None:
    few, many = _flows(2).cell.scenario, _flows(12).cell.scenario
    name = MetricName("mean_srtt")
    assert [metric_name.flow for metric_name, _ in columns(few, [name])] == [0, 1]
    assert columns(many, [name]) == []
    assert flow_columns(many, [name]) == [(name, "mean_srtt ms")]
    assert [heading for _, heading in columns(many, [MetricName("mean_srtt", 3)])] == ["flow3_mean_srtt ms"]
    assert ranking_metrics(many, [name]) == []


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("mean_strt", "there is no metric 'mean_strt'", "mean_srtt"),
        ("goodput,completoin", "there is no metric 'completoin'", "completion"),
        ("flow7_goodput", "there is no flow 7", "flow1"),
        ("flow0_jain_shared", "jain_shared is not a flow's", "jain_shared"),
        ("repeat_completion", "no flow downloads again", "completion"),
    ],
)
def test_a_metric_that_cannot_be_is_an_error_with_a_hint(words: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_metrics(words, [_flows(2)])
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_metric_that_nobody_measured_is_a_dash() -> None:
    cell_result = completions("virtual", 4.0, definition=scenario(objectives=[]))
    text = printed([scenario_table([cell_result], parse_metrics("timeouts", [cell_result]))], 120)
    assert re.search(r"│ +– │ no_objectives", text)
    assert isinstance(cell_result.runs[0][1], MeasuredRun)


# --- what rows are held against


def test_a_reference_line_stands_in_the_columns_it_is_for() -> None:
    asked = {"path.down.rate": "10 Mbit/s", "server.initial_cwnd": "32"}
    line = ReferenceLine("ideal", asked, ["1.61"])
    assert line.placed(["path.down.rate", "seed"]) == (["10 Mbit/s", ""], "ideal, server.initial_cwnd 32")
    assert ReferenceLine("objective", {}, ["3"]).placed(["seed"]) == ([""], "objective")

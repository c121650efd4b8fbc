from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from harness.cli.run import draw_comparisons
from harness.cli.signals import exit_code
from harness.evaluation.cell_result import CellResult
from harness.evaluation.ranking import cell_labels, rank_cells
from harness.outcome import EngineName
from harness.report.markdown import render_blocks
from harness.report.plots.distribution import ranking_specification, write_ranking
from harness.report.ranking import ranking_lines, ranking_text
from harness.report.results import results_blocks, results_document
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Flow
from harness.units import Size
from tests.engine_pairs import completions, result, run
from tests.examples import implementation, scenario

BARE = scenario(objectives=[], timeout="60 s")


def _cells(*cells: tuple[dict[str, str], list[float]], engine: EngineName = "virtual") -> list[CellResult]:
    return [completions(engine, *seconds, definition=BARE, parameters=asked) for asked, seconds in cells]


def _cc(name: str, *seconds: float) -> tuple[dict[str, str], list[float]]:
    return {"server.congestion_control": name}, list(seconds)


FAST = (4.34, 4.39, 4.41, 4.41, 4.43, 4.44)
SLOW = (45.6, 50.1, 55.2, 56.2, 58.0, 61.1)


def _lines(results: list[CellResult], *metrics: MetricName) -> list[str]:
    return ranking_lines(rank_cells(results, metrics))


# --- sentences


def test_two_cells_are_one_sentence() -> None:
    assert _lines(_cells(_cc("cubic", *SLOW), _cc("bbr", *FAST))) == [
        "completion: ★ server bbr: 4.41 s [4.34, 4.44]; "
        "cubic: 55.7 s [45.6, 61.1], 12.7 times slower [10.5, 13.8] (p < 0.01, n = 6)"
    ]


def test_what_is_alike_is_no_difference() -> None:
    [line] = _lines(_cells(_cc("bbr", 4.1, 4.3, 4.5, 4.7), _cc("cubic", 4.2, 4.4, 4.6, 4.8)))
    assert line.endswith("cubic: 4.5 s [4.2, 4.8], no difference shown (p = 0.7, n = 4)")


def test_one_run_each_is_not_tested() -> None:
    [line] = _lines(_cells(_cc("bbr", 4.0), _cc("cubic", 8.0)))
    assert line == "completion: ★ server bbr: 4 s; cubic: 8 s, 2 times slower (n = 1: nothing can be tested)"


def test_too_few_runs_are_said_to_be_too_few() -> None:
    [line] = _lines(_cells(_cc("bbr", 4.0, 4.1, 4.2), _cc("cubic", 8.0, 8.1, 8.2)))
    assert "1.98 times slower [1.9, 2.05] in all runs (n = 3: too few to show a difference, 4 of each could)" in line


def test_too_few_runs_of_many_cells_are_explained_once() -> None:
    cells = _cells(_cc("bbr", 4.0, 4.1, 4.2), _cc("cubic", 8.0, 8.1, 8.2), _cc("reno", 9.0, 9.1, 9.2))
    _, _, cubic, reno, remedy = _lines(cells)
    assert cubic.endswith("in all runs (n = 3: too few)") and reno.endswith("in all runs (n = 3: too few)")
    assert remedy == "  too few: 5 runs of each cell could show a difference"


def test_of_many_cells_without_a_metric_some_are_named() -> None:
    crashed = [
        result("virtual", run(status="crashed"), definition=BARE, parameters={"server.initial_rtt": f"{rtt} ms"})
        for rtt in range(10, 20)
    ]
    bare = _cells(_cc("bbr", *FAST), _cc("cubic", *SLOW))
    [ranking] = rank_cells([*bare, *crashed])
    assert len(ranking.unranked) == 10
    assert ranking_text(ranking)[-1].endswith("server.initial_rtt 12 ms, 7 more")


def test_where_chance_plays_no_part_it_is_lines() -> None:
    [line] = _lines(_cells(_cc("bbr", 4.0, 4.0), _cc("cubic", 8.0, 8.0)))
    assert line.endswith("2 times slower (n = 2, each the same in every repetition)")
    [line] = _lines(_cells(_cc("bbr", 4.0, 4.0), _cc("cubic", 4.0, 4.0)))
    assert line.endswith("the same (n = 2, each the same in every repetition)")


def test_what_ran_out_of_time_counts_as_the_worst() -> None:
    late = [run(status="timed_out", received=5) for _ in range(4)]
    cubic = result(
        "virtual", *late, run(completion=50.0), run(completion=51.0), definition=BARE,
        parameters={"server.congestion_control": "cubic"},
    )  # fmt: skip
    [bbr] = _cells(_cc("bbr", *FAST))
    [line] = _lines([cubic, bbr])
    assert line.endswith("cubic: never [50, never], 4 of 6 timed out, slower (p < 0.01, n = 6)")
    json.dumps(dict(results_document([cubic, bbr]).data), allow_nan=False)
    [ranking] = rank_cells([cubic, bbr])
    assert math.isinf(ranking.cells[1].span.median)


def test_many_cells_are_ranked_and_share_one_level() -> None:
    cells = _cells(*(
        ({"server.initial_rtt": f"{rtt} ms"}, [4 + rtt / 1000 + step / 100 for step in range(6)])
        for rtt in (100, 200, 900)
    ))  # fmt: skip
    head, *rest = _lines(cells)
    assert head == ("completion: 3 cells, best first; by Mann and Whitney's test, 2 comparisons with the first (Holm)")
    assert [line.split(":")[0] for line in rest] == ["  ★ server.initial_rtt 100 ms", "  200 ms", "  900 ms"]
    assert all("(p < 0.01, n = 6)" in line for line in rest[1:])


def test_of_very_many_cells_the_first_and_the_last_are_told() -> None:
    cells = _cells(*(({"server.initial_rtt": f"{rtt} ms"}, [float(rtt)]) for rtt in range(10, 40)))
    lines = _lines(cells)
    assert len(lines) == 12
    assert lines[-2] == "  … 20 cells between them (--json has all)"
    assert lines[-1].startswith("  39 ms: 39 s")


def test_more_is_better_of_a_rate_and_nothing_is_of_what_is_neutral() -> None:
    fast, slow = (
        result("virtual", *(run(goodput=value, completion=1.0) for value in values), definition=BARE, parameters=asked)
        for asked, values in (_cc("bbr", 20, 21, 22, 23), _cc("cubic", 10, 10.5, 11, 11.5))
    )
    [line] = _lines([slow, fast], MetricName("goodput", 0))
    assert line.startswith("goodput: ★ server bbr: 21.5 Mbit/s [20, 23]; cubic: ")
    assert "2 times less [" in line


# --- which cells are compared


def test_contestants_are_compared_on_one_path_each() -> None:
    cells = [
        completions("virtual", *seconds, definition=BARE, parameters={"path.down.loss": loss, **asked})
        for loss in ("0 %", "1 %")
        for asked, seconds in (_cc("bbr", *FAST), _cc("cubic", *SLOW))
    ]
    rankings = rank_cells(cells)
    assert [ranking.path_label for ranking in rankings] == ["path.down.loss 0 %", "path.down.loss 1 %"]
    assert [len(ranking.cells) for ranking in rankings] == [2, 2]
    assert ranking_text(rankings[1])[0].startswith("completion (path.down.loss 1 %): ★ server bbr")


def test_of_many_paths_it_is_counted_who_comes_first() -> None:
    cells = [
        completions("virtual", *seconds, definition=BARE, parameters={"path.down.loss": f"{loss} %", **asked})
        for loss in range(8)
        for asked, seconds in (_cc("bbr", *FAST), _cc("cubic", *(SLOW if loss else (1.0, 1.1, 1.2))))
    ]
    assert _lines(cells) == [
        "completion on 8 paths (--json has each): which cell is first",
        "  server bbr on 7 paths",
        "  server cubic on 1 path",
        "  8 of 8 distances from the best are shown (Mann and Whitney, Holm on each path)",
    ]
    alone = [cell_result for loss in range(8) for cell_result in (
        completions("virtual", 1.0 + shift, definition=BARE, parameters={"path.down.loss": f"{loss} %", **_cc(name)[0]})
        for shift, name in enumerate(("bbr", "cubic"))
    )]  # fmt: skip
    assert _lines(alone)[1:] == ["  server bbr on 8 paths", "  no distance from the best can be tested"]


def test_small_distances_are_told_in_per_cent() -> None:
    [line] = _lines(_cells(_cc("bbr", 4.0, 4.01, 4.02, 4.03), _cc("cubic", 4.1, 4.11, 4.12, 4.13)))
    assert "cubic: 4.12 s [4.1, 4.13], 2.5 % slower [1.7, 3.2] (p < 0.05, n = 4)" in line
    [line] = _lines(_cells(_cc("bbr", 4.0), _cc("cubic", 4.0001)))
    assert "the same to a part in ten thousand (n = 1" in line


def test_where_only_the_path_varies_its_values_are_compared() -> None:
    cells = [
        completions("virtual", *seconds, definition=BARE, parameters={"path.down.loss": loss})
        for loss, seconds in (("0 %", FAST), ("1 %", SLOW))
    ]
    [line] = _lines(cells)
    assert line.startswith("completion: ★ path.down.loss 0 %: 4.41 s [4.34, 4.44]; 1 %: 55.7 s")


def test_pairs_are_called_by_who_plays() -> None:
    a, b = implementation("alpha"), implementation("beta")

    def name(*pairs: tuple[Any, Any]) -> list[str]:
        return cell_labels([completions("virtual", 1.0, definition=BARE, client=x, server=y) for x, y in pairs])

    assert name((a, a), (b, a)) == ["client alpha", "client beta"]
    assert name((a, a), (a, b)) == ["server alpha", "server beta"]
    assert name((a, a), (b, b)) == ["alpha→alpha", "beta→beta"]
    # Cells that differ in nothing a person can see are still told apart.
    assert len(set(name((a, a), (a, a)))) == 1 or "cell" in name((a, a), (a, a))[0]


def test_cells_of_another_seed_are_not_compared() -> None:
    def cells(seed: int) -> list[CellResult]:
        return [
            completions("virtual", *seconds, definition=BARE, parameters=asked, seed=seed)
            for asked, seconds in (_cc("bbr", *FAST), _cc("cubic", *SLOW))
        ]

    assert rank_cells([cells(1)[0], cells(2)[0]]) == []
    assert [ranking.path_label for ranking in rank_cells([*cells(1), *cells(2)])] == ["seed 1", "seed 2"]


def test_what_both_roles_have_is_said_once() -> None:
    cells = [
        completions(
            "virtual", 1.0, definition=BARE, parameters={f"{role}.initial_rtt": value for role in ("client", "server")}
        )
        for value in ("100 ms", "200 ms")
    ]
    assert cell_labels(cells) == ["initial_rtt 100 ms", "initial_rtt 200 ms"]


def test_one_cell_or_none_with_values_is_no_ranking() -> None:
    assert rank_cells([]) == []
    assert rank_cells(_cells(_cc("bbr", *FAST))) == []
    crashed = result(
        "virtual", run(status="crashed"), definition=BARE, parameters={"server.congestion_control": "cubic"}
    )
    assert rank_cells([*_cells(_cc("bbr", *FAST)), crashed]) == []
    [ranking] = rank_cells([*_cells(_cc("bbr", 1.0)), crashed, *_cells(_cc("reno", 2.0))])
    assert ranking.unranked == ("server cubic",)
    assert ranking_text(ranking)[-1] == "  without completion: server cubic"


@pytest.mark.parametrize(
    ("flows", "names"),
    [
        ([Flow(download=Size.parse("10 MB"))], ["completion"]),
        ([{"stop": "5 s"}], ["mean_throughput"]),
        ([{"stop": "5 s"}, {"stop": "5 s"}], ["utilisation_shared", "jain_shared"]),
        ([{"stop": "5 s"}, {"kind": "udp", "stop": "5 s", "traffic": {"model": "cbr", "rate": "1 Mbit/s"}}],
         ["utilisation_shared"]),
    ],
)  # fmt: skip
def test_what_a_scenario_is_ranked_by(flows: list[object], names: list[str]) -> None:
    from harness.evaluation.ranking import headline_metrics

    definition = scenario(flows=[Flow.model_validate(flow) for flow in flows], objectives=[])
    assert [name.text(len(flows)) for name in headline_metrics(definition)] == names


# --- pages, JSON, figure, exit code


def test_json_and_pages_have_the_ranking() -> None:
    cells = _cells(_cc("cubic", *SLOW), _cc("bbr", *FAST))
    content = results_document(cells).data
    assert content["schema"] == 2
    assert {cell_entry["verdict"] for cell_entry in content["cells"]} == {"measured"}
    [ranking] = content["rankings"]
    best, other = ranking["cells"]
    assert (ranking["metric"], ranking["unit"], ranking["better"]) == ("completion", "s", "lower")
    assert (best["label"], best["factor"], best["p"]) == ("server bbr", None, None)
    assert other["differs"] is True
    assert other["p"]["alone"] == other["p"]["adjusted"] < 0.01
    assert other["factor"]["low"] < other["factor"]["median"] < other["factor"]["high"]
    assert "\ncompletion: ★ server bbr: 4.41 s" in render_blocks(results_blocks(cells))


def test_the_figure_has_every_run_and_the_best_on_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # To draw takes seconds; what is drawn is what counts.
    monkeypatch.setattr("harness.report.plots.distribution.vl_convert.vegalite_to_svg", json.dumps)
    [ranking] = rank_cells(_cells(_cc("cubic", *SLOW), _cc("bbr", *FAST)))
    figure = ranking_specification(ranking)
    assert figure is not None
    assert max(len(rows) for rows in figure["datasets"].values()) == 12
    axis = figure["layer"][0]["encoding"]["y"]
    assert axis["sort"] == ["server bbr", "server cubic"]
    file = write_ranking(ranking, tmp_path)
    assert file is not None and file == tmp_path / "test/case/cells-completion-virtual.svg"
    assert "server bbr" in file.read_text()


def test_a_run_names_the_figure_of_its_cells_and_survives_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = _cells(_cc("cubic", *SLOW), _cc("bbr", *FAST))
    monkeypatch.setattr("harness.report.plots.distribution.vl_convert.vegalite_to_svg", json.dumps)
    draw_comparisons(cells, tmp_path)
    assert f"completion of 2 cells: {tmp_path / 'test/case/cells-completion-virtual.svg'}" in capsys.readouterr().err
    (tmp_path / "file").touch()
    draw_comparisons(cells, tmp_path / "file")
    assert "warning: no figure of the cells: " in capsys.readouterr().err
    draw_comparisons(cells[:1], tmp_path / "none")
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "none").exists()


def test_what_is_measured_is_fine() -> None:
    cells = _cells(_cc("bbr", *FAST))
    assert cells[0].verdict.status == "measured"
    assert exit_code(cells, strict=True) == 0


def test_a_figure_of_what_mostly_ran_out_of_time_has_its_words() -> None:
    late = [run(status="timed_out", received=5) for _ in range(8)]
    cells = [
        result("virtual", *late, run(completion=50.0), definition=BARE, parameters={"server.congestion_control": name})
        for name in ("reno", "cubic")
    ]
    [ranking] = rank_cells(cells)
    figure = ranking_specification(ranking)
    assert figure is not None
    assert "8 of 9 not in time" in json.dumps(figure, allow_nan=False)
    all_late = [
        result("virtual", *late, definition=BARE, parameters=cell_result.cell.parameters) for cell_result in cells
    ]
    [ranking] = rank_cells(all_late)
    assert ranking_specification(ranking) is None

"""The shipped studies, their page on made-up runs, and the search of a pair from its first set to its answer."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from syrupy.assertion import SnapshotAssertion

from harness.doe.effects import analyse_all
from harness.doe.effects.samples import group_profiles
from harness.doe.minimal_settings import factors_of, impossible_objective, stored_searches
from harness.doe.settings_search import run_searches
from harness.errors import EngineError, InputError
from harness.evaluation.cell_result import CellResult
from harness.execution import App, Options
from harness.execution.events import Listener
from harness.execution.matrix import Request
from harness.outcome import Cell
from harness.planning.design import design_for_pair
from harness.planning.sweep import Point, expand_points
from harness.report.designs import search_sentence, searches_document
from harness.report.markdown import render_markdown
from harness.report.plots.study import tornado
from harness.report.site import overview
from harness.report.site.implementation import implementation_page
from harness.report.site.study import study_pages
from harness.scenario.parameters import ParameterValue
from harness.scenario.schema import Scenario
from studies.game_changers.data import EFFECT_COLUMNS
from studies.game_changers.figures import DRAWINGS
from studies.game_changers.overview import profiles_table, worth_table
from studies.game_changers.page import (
    Tally,
    effects_data,
    every_effect,
    game_changers,
    profiles_data,
    times_data,
    verdict,
)
from tests.engine_pairs import result, run
from tests.examples import catalogue
from tests.study_results import configurable, of_study, results

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}
Asked = Mapping[str, ParameterValue]


def _scenario(name: str) -> Scenario:
    (definition,) = catalogue().find_scenarios([name])
    return definition


# --- what is shipped


def _shipped() -> list[str]:
    files = (catalogue().scenario(file) for file in catalogue().scenario_files())
    return [definition.name for definition in files if definition.study is not None]


def test_a_fraction_of_every_pair_tells_main_effects_from_two_factors_together() -> None:
    fractions = [name for name in _shipped() if "/fraction-" in name]
    assert len(fractions) == 6
    for name in fractions[:1]:
        study = _scenario(name)
        (point,) = expand_points(study, {}, {})
        designs = {
            server: design_for_pair(point, {"client": KNOWN["picoquic"], "server": KNOWN[server]})
            for server in study.servers
        }
        assert all(len(design.points) in (8, 16, 32) for design in designs.values()), name
        assert not any(design.aliases.of_main for design in designs.values())
        # picoquic's client honours four of the nine by itself.
        assert all(len(design.factors) >= 4 for design in designs.values())
        assert "server.pacing" in designs["msquic"].factors
        assert "quinn cannot set pacing" in designs["quinn"].unsupported["server.pacing"]


def test_document_004_s_columns_are_told_as_far_as_they_are_honoured() -> None:
    (point,) = expand_points(_scenario("studies/profiles-50-10"), {}, {})
    pair_design = design_for_pair(point, {"client": KNOWN["picoquic"], "server": KNOWN["quinn"]})
    assert pair_design.labels == (
        "its own parameters",
        "picoquic's parameters",
        "h2o's parameters",
        "curl's parameters",
    )
    assert pair_design.points[2].parameters["server.congestion_control"] == "reno"
    assert "h2o's parameters: server.ack_delay_exponent 10" in pair_design.unsupported


# --- the page


def _response(asked: Asked, repetition: int) -> float:
    return 8.0 - (2.0 if asked.get("server.initial_cwnd") == 100 else 0.0) + repetition / 100


def _studied() -> list[CellResult]:
    pair = {"client": KNOWN["picoquic"], "server": KNOWN["quinn"]}
    return [
        cell_result
        for name in ("studies/fraction-50-10", "studies/profiles-50-10")
        for cell_result in results(_scenario(name), _response, 2, **pair)  # type: ignore[arg-type]
    ]


def test_the_page(snapshot: SnapshotAssertion) -> None:
    stored = _studied()
    text = game_changers(stored)
    assert text == snapshot
    assert every_effect(stored) == snapshot
    largest = "| – | 10.0 s (10 → 100) | 100 MB, picoquic→quinn, `studies/fraction-50-10` |"
    assert f"| server.initial_cwnd | 1 of 1: quinn {largest}" in text
    drawn = {drawing.file for drawing in DRAWINGS if drawing.draw(stored) is not None}
    assert drawn == {"studies-effects-50-10-quinn.svg"}
    assert len({drawing.file for drawing in DRAWINGS}) == len(DRAWINGS)
    assert tornado([]) is None


def test_every_effect_is_data_with_the_numbers_of_the_page() -> None:
    stored = _studied()
    rows = list(csv.DictReader(io.StringIO(effects_data(stored))))
    assert tuple(rows[0]) == EFFECT_COLUMNS
    best = max((row for row in rows if row["time"] == "milestone_100MB"), key=lambda row: float(row["saved"]))
    assert (best["server"], best["factors"], best["worse"], best["better"]) == (
        "quinn",
        "server.initial_cwnd",
        "10",
        "100",
    )
    assert float(best["saved"]) == pytest.approx(10.0, rel=0.05) and best["shown"] == "yes"
    assert f"100 MB: {best['factors']} **10.0 s** (10 → 100)" in every_effect(stored)
    times = list(csv.DictReader(io.StringIO(times_data(stored))))
    assert {row["time"] for row in times} >= {row["time"] for row in rows} and all(row["effects"] for row in times)
    assert effects_data([]) == ",".join(EFFECT_COLUMNS) + "\n" and profiles_data([]).count("\n") == 1


def test_where_there_are_many_cells_the_site_has_a_designs_cells_on_the_studys_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = [*_studied(), result("virtual", run(completion=1.0))]
    assert overview.overview(stored).elsewhere == {}
    monkeypatch.setattr(overview, "MOST", len(stored) - 1)
    page = overview.overview(stored)
    assert (len(page.tiles), page.elsewhere) == (1, {"studies/game_changers.html": len(stored) - 1})
    assert study_pages(stored)[0].name == "game_changers"
    quinn = implementation_page(KNOWN["quinn"], stored)
    assert {(part.page, part.listed) for part in quinn.parts} == {("studies/game_changers.html", False)}


def test_a_page_without_runs_says_so_everywhere() -> None:
    text = game_changers([])
    # Four questions, two designs of six paths, seven sweeps, a heat map, profiles of six paths, searches of three, and
    # their settings alone.
    assert text.count("No runs are stored yet.") == 4 + 12 + 7 + 1 + 6 + 3 + 3
    assert "**50/10 Mbit/s, 20 ms, 10 MB** (`studies/levels-near-50-10`)" in text
    # Those of the details: two designs of six paths, a heat map, settings alone on three paths.
    assert every_effect([]).count("No runs are stored yet.") == 6 + 6 + 1 + 3


@pytest.mark.parametrize(
    ("changes", "answer"),
    [("abcd", "Yes, on half of the servers and more: `x`."), ("a", "On some: `x`."), ("", "No: `x`.")],
)
def test_an_answer_goes_by_how_many_servers_a_factor_changes_the_game_on(changes: str, answer: str) -> None:
    assert verdict([Tally("x", tuple("abcdefgh"), tuple(changes))]) == answer
    assert verdict([Tally("y", ("a",), ()), Tally("z", (), ())]) == "No: `y`. Not decided: `z`."


def test_what_a_search_was_told_nothing_in_may_be_stored_under_another_studys_name() -> None:
    pair = {"client": KNOWN["picoquic"], "server": KNOWN["quinn"]}
    tried = results(_scenario("studies/reach-50-10"), _response, 1, **pair)  # type: ignore[arg-type]
    told_some = [cell_result for cell_result in tried if cell_result.cell.parameters]
    other = results(_scenario("studies/profiles-50-10"), _response, 1, **pair)  # type: ignore[arg-type]
    assert game_changers(told_some).partition("What would it take?")[2].count("No runs are stored yet.") == 3
    with_it = game_changers([*told_some, *other]).partition("What would it take?")[2]
    assert with_it.count("No runs are stored yet.") == 2


def test_a_study_that_ran_once_says_what_that_is_worth() -> None:
    pair = {"client": KNOWN["picoquic"], "server": KNOWN["quinn"]}
    once, twice = (results(_scenario("studies/levels-50-10"), _response, n, **pair) for n in (1, 2))  # type: ignore[arg-type]
    (lossy,) = (results(_scenario("studies/levels-250-3-lossy"), _response, 1, **pair),)  # type: ignore[arg-type]
    for page in (game_changers, every_effect):
        assert "Every cell ran once" in page(once) and "Every cell ran once" not in page(twice)
        assert "Nothing on the path is random, so another run tells nothing new" in page(once)
        assert "Every cell ran once, and chance plays a part: nothing here is decided." in page(lossy)


def test_a_table_of_everybody_says_what_changes_the_game_and_what_hides_it() -> None:
    levels = {"server.initial_cwnd": [10, 100], "server.pacing": ["on", "off"], "client.ack_ratio": [2, 10]}
    study = of_study({"factors": levels, "design": "full"})

    def seconds(asked: Asked, repetition: int) -> float:
        # With few ACKs it takes a tenth of a second more, and without pacing what nobody would notice.
        slow = 12.0 * (asked.get("server.initial_cwnd") == 10)
        return 6.0 + slow + 0.1 * (asked.get("client.ack_ratio") == 2) + 0.01 * (asked.get("server.pacing") == "off")

    cell_results = [
        *results(study, seconds, 2, server=configurable("beta")),
        *results(study, seconds, 2, server=configurable("gamma", without=("initial_cwnd",))),
    ]
    head, _, beta, gamma = worth_table(analyse_all(cell_results))
    assert head == "| worth, seconds of 2 MB / 10 MB | `server.initial_cwnd` | `server.pacing` | `client.ack_ratio` |"
    assert beta == "| beta | **6.0** / **12.0** | · | 0.1 / 0.1 |"
    assert gamma == "| gamma | – | · | 0.05 / 0.1 |"
    short = of_study({"factors": levels, "design": "full"}, timeout="15 s")
    (_, _, cut) = worth_table(analyse_all(results(short, seconds, 2, server=configurable("beta"))))
    # The window is worth 8.9 s at least. Of the others both levels have as many late runs as not.
    assert cut == "| beta | **6.0** / ≥ **8.9** | · / ? | 0.1 / ? |"


def test_profiles_of_everybody_stand_beside_each_other() -> None:
    profiles = {
        "quick": {"server.initial_cwnd": 100},
        "like quick": {"server.initial_cwnd": 100, "server.pacing": "on"},
    }
    plain = of_study({"profiles": profiles}).model_dump(by_alias=True)
    study = Scenario.model_validate({**plain, "objectives": _objectives(4.0, 7.0)})

    def seconds(asked: Asked, repetition: int) -> float:
        return 6.0 if asked.get("server.initial_cwnd") == 100 else 400.0

    table = profiles_table(group_profiles(results(study, seconds, 2, server=configurable("beta", without=("pacing",)))))
    assert table == [
        "| seconds of 2 MB / 10 MB | its own parameters | quick | like quick |",
        "| --- | ---: | ---: | ---: |",
        "| beta | 200.00 / never ✕ | 3.00 / 6.00 ✓ | 3.00 / 6.00 ✓ |",
    ]


# --- the search of a pair

FACTORS = {"server.initial_cwnd": [10, 100], "server.pacing": ["on", "off"], "client.ack_ratio": [2, 10]}


class _Lab:
    """What `reach` needs of a checkout: cells, and what would come of them."""

    def __init__(self, seconds: Any) -> None:
        self.seconds, self.ran = seconds, dict[str, CellResult]()
        self.batches: list[int] = []

    def matrix(self, request: Request, listen: Listener, *, pull: bool, every: Sequence[Point]) -> list[Cell]:
        (definition,), (client,), (server,) = request.scenarios, request.clients, request.servers
        cell_results = results(definition, self.seconds, 1, client=client, server=server, every=every)
        self.results = {each.cell.key: each for each in cell_results}
        return [each.cell for each in cell_results]

    def run_cells(self, matrix: Sequence[Cell], *_: object) -> list[CellResult]:
        self.batches.append(sum(cell.key not in self.ran for cell in matrix))
        self.ran |= {cell.key: self.results[cell.key] for cell in matrix}
        return [self.ran[cell.key] for cell in matrix]


def _objectives(*demanded: float) -> list[dict[str, object]]:
    return [{"metric": f"milestone_{size}", "at_most": f"{time} s"} for size, time in zip(("2MB", "10MB"), demanded)]  # noqa: B905


def _reach(lab: _Lab, definition: Scenario, budget: int = 50) -> Any:
    request = Request([definition], [configurable("alpha")], [configurable("beta")], engine="virtual")
    lines: list[str] = []
    (search,) = run_searches(cast(App, lab), request, Options(jobs=2), budget, lambda event: None, lines.append)
    return search, lines


def _demanding(**more: object) -> Scenario:
    study = of_study({"factors": FACTORS, "design": "one-at-a-time"})
    return Scenario.model_validate({**study.model_dump(by_alias=True), "objectives": _objectives(4.0, 7.0), **more})


def _needs_two(asked: Asked, repetition: int) -> float:
    """10 MB in 6 s with a large window and few ACKs, else in 9 or 12 s."""
    return 12.0 - 3.0 * (asked.get("server.initial_cwnd") == 100) - 3.0 * (asked.get("client.ack_ratio") == 10)


def test_what_it_takes_is_searched_and_read_from_the_store_alone() -> None:
    lab, demanding = _Lab(_needs_two), _demanding()
    search, lines = _reach(lab, demanding)
    assert search_sentence(search) == (
        "alpha→beta: it takes client.ack_ratio 10 and server.initial_cwnd 100: every set of fewer settings was tried "
        "and fails (5 of 8 sets were tried)."
    )
    # In force untold are a window of 10, pacing, and a ratio of 2: to tell them is another name of nothing.
    assert dict(search.factors) == {"server.initial_cwnd": (100,), "server.pacing": ("off",), "client.ack_ratio": (10,)}
    assert lines[0] == "alpha→beta: as it is"
    assert sum(lab.batches) == 5
    # Once more: nothing is run anew.
    again, _ = _reach(lab, demanding)
    assert again == search
    assert sum(lab.batches) == 5
    # From what is stored; a cell that was told other things does not belong to it.
    stored = [*lab.ran.values()]
    (read,) = stored_searches(stored)
    assert read.result == search.result
    assert stored_searches(stored[1:]) == []
    # Cells of an older definition, with fewer levels, may come last.
    study = demanding.study
    assert study is not None
    fewer = study.model_copy(update={"factors": {"server.initial_cwnd": study.factors["server.initial_cwnd"]}})
    older = demanding.model_copy(update={"study": fewer})
    (run, measured), *_ = stored[0].runs
    older_run = (run.model_copy(update={"started_at": "2000-01-01"}), measured)
    kept = replace(stored[0], cell=stored[0].cell.model_copy(update={"scenario": older}), runs=(older_run,))
    assert stored_searches([*stored, kept]) == [read]
    assert "| alpha→beta | it takes client.ack_ratio 10 and" in render_markdown(searches_document([read]))
    assert searches_document([read]).data["searches"][0]["answer"] == "cheapest"


def test_a_smaller_budget_is_gone_on_from() -> None:
    lab, demanding = _Lab(_needs_two), _demanding()
    search, _ = _reach(lab, demanding, budget=3)
    assert "not decided: 3 of 8 sets were tried, and the best, " in search_sentence(search)
    assert sum(lab.batches) == 3
    search, _ = _reach(lab, demanding)
    assert search.result.answer == "cheapest"
    assert sum(lab.batches) == 5


def test_none_is_said_when_all_have_failed_or_the_line_is_too_slow() -> None:
    search, _ = _reach(_Lab(lambda asked, n: 30.0), _demanding())
    assert search_sentence(search) == (
        "alpha→beta: none of the 8 sets of settings meets all objectives: 7 were tried, and the best, as it is, takes "
        "4.29 times what is demanded. The others cannot: they begin with 10 packets at most, with which slow start takes "
        "5.33 s for 2MB, and 4 s are demanded."
    )
    # What is missed by little is displayed as missed.
    nearly, _ = _reach(_Lab(lambda asked, n: 7.02), _demanding())
    assert nearly.result.answer == "none" and "takes 1.003 times what is demanded" in search_sentence(nearly)
    by_chance = replace(nearly, result=replace(nearly.result, score=math.nextafter(1, 2)))
    assert "is within what is demanded in the median, and not in every run" in search_sentence(by_chance)
    slow = _demanding(objectives=_objectives(1.0, 7.0))
    assert impossible_objective(slow).startswith("milestone_2MB ≤ 1 s, and the line itself takes 1.")
    lab = _Lab(_needs_two)
    search, _ = _reach(lab, slow)
    assert "nothing that can be told meets milestone_2MB ≤ 1 s" in search_sentence(search)
    assert not lab.ran
    crashed, _ = _reach(_Lab(lambda asked, n: None), _demanding())
    assert "does not come to the end of what is timed" in search_sentence(crashed)


def test_what_is_searched_has_factors_and_objectives_and_a_ground_that_holds() -> None:
    with pytest.raises(InputError, match="no factors to search over"):
        _reach(_Lab(_needs_two), of_study({"factors": FACTORS}))

    class _Broken(_Lab):
        def run_cells(self, matrix: Sequence[Cell], *_: object) -> list[CellResult]:
            return [result("virtual", run("infrastructure"), of=cell) for cell in matrix]

    with pytest.raises(EngineError) as told_of:
        _reach(_Broken(_needs_two), _demanding())
    assert "goes on" in told_of.value.hint


def test_a_path_is_nothing_to_tell() -> None:
    study = of_study({"factors": {**FACTORS, "path.forward.loss": ["0 %", "1 %"]}})
    (point,) = expand_points(study, {}, {})
    assert "path.forward.loss" not in factors_of(point, {"client": configurable("alpha"), "server": configurable()})

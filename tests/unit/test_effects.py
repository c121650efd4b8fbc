"""What factors are worth: effects of responses that are known, what is not told apart, sentences, figures, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from harness.cli import main
from harness.doe.effects import Analysis, analyse_all, group_studies
from harness.doe.effects.samples import group_profiles
from harness.doe.effects.summary import conditional_effects, mean_surface, residual_text, summarise
from harness.evaluation.cell_result import CellResult
from harness.report.effects import effects_document
from harness.report.markdown import render_markdown
from harness.report.plots.study import heat_map, response_curves, study_figures, tornado, write_study_figures
from harness.scenario.parameters import ParameterValue
from harness.store.results import Store
from harness.units import Duration
from tests.study_results import configurable, of_study, results

THREE = {
    "server.initial_cwnd": [10, 32, 100],
    "server.pacing": ["on", "off"],
    "server.initial_rtt": ["100 ms", "600 ms"],
    "client.ack_ratio": [2, 10],
}
Asked = Mapping[str, ParameterValue]


def _response(asked: Asked, repetition: int) -> float:
    """10 MB: windows are worth 4 and 6 s, the RTT 2 s where packets are paced, the ratio nothing; a seed adds 0.01 s."""
    time = 20.0 - {10: 0, 32: 4, 100: 6}[int(asked["server.initial_cwnd"])]
    paced = asked.get("server.pacing", "on") == "on"
    time += 2.0 if paced and asked["server.initial_rtt"] == "600 ms" else 0.0
    return time + repetition * (0.01 if asked["server.initial_cwnd"] == 10 else 0.02)


@cache
def every() -> tuple[CellResult, ...]:
    return tuple(results(of_study({"factors": THREE}), _response))


def _of_10_mb(cell_results: Iterable[CellResult]) -> Analysis:
    (analysis,) = (analysis for analysis in analyse_all(cell_results) if analysis.metric == "milestone_10MB")
    return analysis


def _worth(analysis: Analysis) -> dict[str, float]:
    return {
        " × ".join(effect.factors): round(effect.saving.median, 3)
        for effect in (*analysis.main_effects, *analysis.interactions)
    }


def test_a_full_design_gives_back_what_it_was_made_of() -> None:
    analysis = _of_10_mb(every())
    assert [effect.factors[0] for effect in analysis.main_effects] == [
        "server.initial_cwnd", "server.initial_rtt", "server.pacing", "client.ack_ratio",
    ]  # fmt: skip
    window, rtt, pacing, ratio = analysis.main_effects
    assert (window.worse, window.better) == ((10,), (100,))
    # A repetition is the whole study once. Means are geometric: a little less than 6, 5.99 and 5.98 s.
    assert [round(value, 2) for value in (window.saving.low, window.saving.median, window.saving.high)] == [
        5.99,
        6.0,
        6.01,
    ]
    assert (window.saving.n, window.is_significant) == (3, True)
    assert window.ratio.median == pytest.approx(20.5 / 14.5, rel=0.01)
    assert rtt.saving.median == pytest.approx(1.0, abs=0.03)
    assert pacing.saving.median == pytest.approx(1.0, abs=0.03)
    assert ratio.saving.median == pytest.approx(0.0)
    assert not ratio.is_significant
    together = {effect.factors: effect for effect in analysis.interactions}
    assert together["server.pacing", "server.initial_rtt"].saving.median == pytest.approx(1.0, abs=0.03)
    assert analysis.dominant_interactions() == [together["server.pacing", "server.initial_rtt"]]
    assert together["server.initial_cwnd", "client.ack_ratio"].saving.median == pytest.approx(0.0)
    assert all(not effect.aliased for effect in (*analysis.main_effects, *analysis.interactions))
    (response,) = (each for each in analysis.responses if each.factor == "server.initial_cwnd")
    assert [round(span.median, 2) for span in response.seconds] == [20.49, 16.5, 14.5]


def test_the_sentence() -> None:
    analyses = analyse_all(every())
    assert summarise(analyses[1]) == (
        "10 MB (median 16.0 s): server.initial_cwnd is worth 6.0 s (10 → 100), server.initial_rtt 1.0 s "
        "(600 ms → 100 ms), server.pacing 1.0 s (on → off), client.ack_ratio less than 1% of it. "
        "The factor server.initial_rtt matters only with server.pacing on: 2.0 s there, 0.0 s otherwise."
    )
    assert [each.factor for each in conditional_effects(analyses[1])] == ["server.initial_rtt"]
    assert summarise(analyses[0]).startswith("2 MB (median 8.0 s): server.initial_cwnd is worth 3.0 s")


def test_a_fraction_says_what_it_cannot_tell_apart() -> None:
    two = {**THREE, "server.initial_cwnd": [10, 100]}
    analysis = _of_10_mb(results(of_study({"factors": two, "design": "fractional(4)"}), _response))
    assert len(analysis.sample.cells) == 8
    # Main effects are clear of interactions of two.
    assert _worth(analysis)["server.initial_rtt"] == pytest.approx(1.0, abs=0.03)
    (window, *_, ratio) = analysis.main_effects
    assert not window.aliased
    # Of resolution IV a fourth factor is an interaction of the three others, all of them worth more than it.
    assert ratio.aliased == (("server.initial_cwnd", "server.pacing", "server.initial_rtt"),)
    assert not ratio.is_identifiable
    pair = next(
        effect for effect in analysis.interactions if effect.aliased[0] == ("server.pacing", "server.initial_rtt")
    )
    assert pair.saving.median == pytest.approx(1.0, abs=0.03)
    # By the size of its factors the interaction has their name, whatever else it may be.
    (named,) = analysis.dominant_interactions()
    assert set(named.factors) == {"server.pacing", "server.initial_rtt"}
    # What another interaction may be behind supports no condition.
    assert not conditional_effects(analysis)


def test_one_at_a_time_holds_at_the_base() -> None:
    analysis = _of_10_mb(results(of_study({"factors": THREE, "design": "one-at-a-time"}), _response))
    assert _worth(analysis) == {
        "server.initial_cwnd": 5.99, "server.initial_rtt": 2.0, "server.pacing": 0.0, "client.ack_ratio": 0.0,
    }  # fmt: skip
    assert len(dict.fromkeys(analysis.main_effects[0].aliased)) == 3


def test_a_random_design_has_main_effects() -> None:
    analysis = _of_10_mb(results(of_study({"factors": THREE, "design": "random(12)"}), lambda asked, n: _response(
        {**asked, "server.pacing": "off"}, n)))  # fmt: skip
    assert _worth(analysis)["server.initial_cwnd"] == pytest.approx(5.99, abs=0.02)
    assert _worth(analysis)["client.ack_ratio"] == pytest.approx(0.0)


def test_only_what_a_pair_honours_is_there() -> None:
    study = of_study({"factors": THREE})
    server = configurable(without=("pacing",))
    analysis = _of_10_mb(results(study, _response, server=server))
    assert list(analysis.sample.factors) == ["server.initial_cwnd", "server.initial_rtt", "client.ack_ratio"]
    assert _worth(analysis)["server.initial_rtt"] == pytest.approx(2.0, abs=0.03)


def test_runs_whose_time_was_over_count_with_it() -> None:
    slow = of_study({"factors": THREE}, timeout=Duration.parse("21 s"))
    analysis = _of_10_mb(results(slow, _response))
    assert analysis.censored == 6
    assert analysis.main_effects[0].saving.median < 6
    assert "6 runs of 72 had not come so far in time and count as 21 s. This hides what is beyond." in summarise(
        analysis
    )
    # 2 MB all runs had.
    assert analyse_all(results(slow, _response))[0].censored == 0


def test_an_effect_that_one_run_makes_vanishes_without_it() -> None:
    """A run in a study of 32 that takes five times as long as its twin is a factor's effect by itself."""
    two = {**THREE, "server.initial_cwnd": [10, 100]}

    def seconds(asked: Asked, repetition: int) -> float:
        stalled = {"server.pacing": "off", "server.initial_rtt": "600 ms", "client.ack_ratio": 2}
        late = repetition == 1 and asked["server.initial_cwnd"] == 10 and stalled.items() <= asked.items()
        return (20.0 if asked["server.initial_cwnd"] == 10 else 14.0) * (5.0 if late else 1.0)

    analysis = _of_10_mb(results(of_study({"factors": two}), seconds, 2))
    window, *others = analysis.main_effects
    assert (window.factors, window.rests_on_one_run, window.is_significant) == (("server.initial_cwnd",), False, True)
    assert all(effect.rests_on_one_run and not effect.is_significant for effect in others)
    assert all(effect.ratio.median > 1.1 for effect in others)
    assert "client.ack_ratio 1.9 s [0.0, 3.7] (2 → 10), nothing without one run" in summarise(analysis)
    assert analysis.residual is not None
    assert analysis.residual.is_outlier
    assert (
        "10 MB: an outlier: repetition 1 with initial_cwnd 10, pacing off, initial_rtt 600 ms, ack_ratio 2 took 100.0 s"
        in (residual_text(analysis))
    )


LOSSY = {
    "path": {
        "forward": {"rate": "50 Mbit/s", "delay": "325 ms", "loss": "1 %"},
        "return": {"rate": "10 Mbit/s", "delay": "325 ms"},
    }
}


@pytest.mark.parametrize(("repetitions", "decided", "shown"), [(2, 0, 0), (5, 0, 0), (6, 1, 0), (8, 1, 1)])
def test_where_chance_plays_six_repetitions_decide(repetitions: int, decided: int, shown: int) -> None:
    def seconds(asked: Asked, repetition: int) -> float:
        return _response({"server.initial_rtt": "100 ms", **asked}, 0) * (1 + repetition / 10)

    lossy = of_study({"factors": {"server.initial_cwnd": [10, 100], "client.ack_ratio": [2, 10]}, "least": 2}, **LOSSY)
    analysis = _of_10_mb(results(lossy, seconds, repetitions))
    window, ratio = analysis.main_effects
    assert (analysis.chance, analysis.is_decided, window.is_significant) == (True, bool(decided), bool(shown))
    assert not ratio.is_significant
    assert (f"Chance plays a part, and {repetitions} repetitions of 6 decide nothing" in summarise(analysis)) != decided
    if decided:
        # All orders of two levels are counted: the window is worse in every repetition. Of two factors and two times
        # that are tested two are as improbable as that: six repetitions are too few for that many.
        assert window.p == pytest.approx(2 / 2**repetitions)
        assert window.adjusted_p == pytest.approx(2 * 2 / 2**repetitions)
        assert ("which the runs do not show (p = 0.06)" in summarise(analysis)) != shown


def test_cells_that_crashed_are_missed_by_name_and_the_others_tell() -> None:
    def crashing(asked: Asked, repetition: int) -> float | None:
        broken = asked["server.initial_cwnd"] == 100 or (asked["client.ack_ratio"] == 10 and repetition == 2)
        return None if broken else _response(asked, repetition)

    analysis = _of_10_mb(results(of_study({"factors": THREE}), crashing))
    assert analysis.sample.factors["server.initial_cwnd"] == (10, 32)
    assert len(analysis.cells_without_time) == 8
    assert "3 crashed" in analysis.cells_without_time[0][1]
    # The third repetition has one level of the ratio alone.
    assert {effect.saving.n for effect in analysis.main_effects} == {2}
    nothing = _of_10_mb(results(of_study({"factors": THREE}), lambda asked, n: None))
    assert nothing.problem == "no factor has two levels among the stored cells"
    assert "nothing can be said" in summarise(nothing)


def test_too_few_cells_tell_nothing() -> None:
    partial = [
        cell for cell in every()
        if (cell.cell.parameters["server.pacing"] == "on") == (cell.cell.parameters["client.ack_ratio"] == 2)
    ]  # fmt: skip
    assert _of_10_mb(partial).problem == "the 12 cells that have a time do not tell the factors apart"


def test_studies_are_told_apart_by_pair_and_by_what_else_was_asked() -> None:
    study = of_study({"factors": THREE})
    other = of_study({"factors": THREE}, parameters={"server.congestion_control": "bbr"})
    studies = group_studies([*every(), *results(study, _response, client="gamma"), *results(other, _response)])
    assert [(each.client, dict(each.fixed_parameters)) for each in studies] == [
        ("alpha", {}), ("alpha", {"server.congestion_control": "bbr"}), ("gamma", {}),
    ]  # fmt: skip


def test_two_factors_together() -> None:
    (of,) = group_studies(every())
    seconds = {
        (each.first, each.second): each
        for each in mean_surface(of, "milestone_10MB", "server.pacing", "server.initial_rtt")
    }
    assert seconds["on", "600 ms"].seconds - seconds["on", "100 ms"].seconds == pytest.approx(2.0)
    assert seconds["off", "600 ms"].seconds == pytest.approx(seconds["off", "100 ms"].seconds)
    assert {each.cells for each in seconds.values()} == {6}
    with pytest.raises(KeyError):
        mean_surface(of, "milestone_10MB", "server.pacing", "server.ecn")


PROFILES = {
    "swift's": {"server.congestion_control": "bbr", "server.initial_cwnd": 32, "client.ack_ratio": 10},
    "old's": {"server.congestion_control": "reno", "server.initial_rtt": "100 ms"},
}


def test_profiles_beside_each_other() -> None:
    def response(asked: Asked, repetition: int) -> float:
        return {"bbr": 8.0, "reno": 12.0}.get(str(asked.get("server.congestion_control")), 10.0) + repetition

    groups = group_profiles(
        results(of_study({"profiles": PROFILES}), response, server=configurable(without=("initial_cwnd",)))
    )
    (group,) = groups
    assert [(row.label, row.times["milestone_10MB"].median) for row in group.rows if row.times["milestone_10MB"]] == [
        ("its own parameters", 11.0), ("swift's", 9.0), ("old's", 13.0),
    ]  # fmt: skip
    assert group.rows[1].unsupported == ("server.initial_cwnd 32",)
    text = render_markdown(effects_document(([], groups)))
    assert "| swift's | 4.50 [4.00, 5.00] | 9.00 [8.00, 10.00] | measured | server.initial_cwnd 32 |" in text
    assert effects_document(([], groups)).data["profiles"][0]["rows"][1]["profile"] == "swift's"


def test_the_page_and_the_data(snapshot: SnapshotAssertion) -> None:
    analyses = analyse_all(every())
    assert render_markdown(effects_document((analyses, []))) == snapshot
    data = json.loads(json.dumps(dict(effects_document((analyses, [])).data), allow_nan=False))
    assert [study["metric"] for study in data["studies"]] == ["milestone_2MB", "milestone_10MB"]
    assert data["studies"][1]["main"][0]["saved"]["n"] == 3
    assert effects_document(([], [])).data == {"schema": 1, "studies": [], "profiles": []}


def test_figures(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    analyses = analyse_all(every())
    figures = study_figures(analyses, None, "")
    assert list(figures) == snapshot
    two = ("server.pacing", "client.ack_ratio")
    assert "studies/test-alpha-beta-milestone_2MB-server.pacing-client.ack_ratio" in study_figures(
        analyses, two, "client.ack_ratio"
    )
    drawn = write_study_figures({"a/b c": tornado(analyses), "none": None}, tmp_path)
    assert [file.name for file in drawn] == ["a-b-c.svg"]
    text = drawn[0].read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert "server.initial_cwnd × server.pacing" in text
    of = analyses[0].sample
    heat = heat_map(of, "milestone_10MB", "server.initial_cwnd", "server.initial_rtt")
    assert heat is not None
    assert "21.01" in write_study_figures({"heat": heat}, tmp_path)[0].read_text(encoding="utf-8")
    curve = response_curves(analyses, "server.initial_cwnd")
    assert curve is not None
    assert "10 MB" in json.dumps(curve)
    assert response_curves(analyses, "server.ecn") is None
    assert tornado([]) is None


# --- the command


def _stored(root: Path) -> Path:
    store = Store(root)
    for result in every():
        for run, measured in result.runs:
            store.finish(store.begin(run.cell.key, run.repetition), run, measured)
    return root


def _report_study(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[object, str, str]:
    monkeypatch.setattr("sys.argv", ["harness", "report", "study", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


def test_the_report_of_a_store(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = _stored(tmp_path / "store")
    code, out, err = _report_study(
        capsys, monkeypatch, "--json", "--store", str(root), "--figures", str(tmp_path / "drawn")
    )
    assert code == 0
    assert [study["sentence"] for study in json.loads(out)["studies"]] == [
        summarise(analysis) for analysis in analyse_all(every())
    ]
    assert len(list((tmp_path / "drawn").glob("*.svg"))) == len(err.splitlines()) == 4
    code, out, _ = _report_study(capsys, monkeypatch, "--store", str(root))
    assert "server.initial_cwnd is worth 6.0 s (10 → 100)" in out
    code, _, err = _report_study(
        capsys, monkeypatch, "--store", str(root), "--heat", "server.initial_cwn,server.pacing"
    )
    assert (code, "server.initial_cwnd" in err.partition("hint:")[2]) == (2, True)
    code, _, err = _report_study(capsys, monkeypatch, "--store", str(root), "--heat", "server.pacing")
    assert (code, "a heat map is of two factors" in err) == (2, True)

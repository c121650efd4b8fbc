"""What was observed of each parameter stands beside what was asked: in the report of studies, and on the site."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.doe.effects import analyse_all
from harness.doe.effects.samples import group_profiles
from harness.evaluation.cell_result import CellResult
from harness.outcome import Observation
from harness.report.effects import effects_document
from harness.report.markdown import render_markdown
from harness.report.observed import NOT_SEEN, observed_by_implementation, observed_levels, observed_text
from harness.report.site import build, study
from harness.report.studies import Study
from harness.scenario.parameters import ParameterValue
from harness.store.results import Store
from tests.packed_pages import page_with_lists
from tests.plot_runs import page_cache
from tests.study_results import of_study, results

FACTORS = {"server.congestion_control": ["cubic", "bbr"], "server.initial_cwnd": [10, 32]}
Asked = Mapping[str, ParameterValue]
Seen = Callable[[Asked], dict[str, float | str]]


def _seen(every: list[CellResult], seen: Seen) -> list[CellResult]:
    """The same cells, whose runs show so much of the server's parameters."""
    cells = []
    for result in every:
        observed = tuple(
            Observation(role="server", parameter=name, value=value, unit="", source="a test")
            for name, value in seen(result.cell.parameters).items()
        )
        runs = tuple(
            (run, measured.model_copy(update={"observed": observed}))
            for run, measured in result.runs
            if measured is not None
        )
        cells.append(CellResult(result.cell, runs, result.verdict, result.folders))
    return cells


def _swept(seen: Seen) -> list[CellResult]:
    return _seen(results(of_study({"factors": FACTORS}), lambda asked, repetition: 8.0 + repetition), seen)


def _deaf(asked: Asked) -> dict[str, float | str]:
    """A server that does cubic whatever it is told, and shows a window in one of two cells."""
    window = {"initial_cwnd": 9.8 if asked["server.initial_cwnd"] == 10 else 31.0}
    return {"congestion_control": "cubic", **(window if asked["server.congestion_control"] == "bbr" else {})}


def test_every_level_has_what_its_cells_show() -> None:
    cells = _swept(_deaf)
    levels = {(level.parameter, level.asked): level for level in observed_levels(cells)}
    bbr = levels["server.congestion_control", "bbr"]
    assert (bbr.text, bbr.cells, bbr.deviating) == ("cubic", 2, 2)
    assert levels["server.congestion_control", "cubic"].deviating == 0
    assert dict(levels["server.initial_cwnd", 10].observed) == {NOT_SEEN: 1, "9.8": 1}
    assert levels["server.initial_cwnd", 32].text == f"{NOT_SEEN} in 1, 31 in 1"


def test_numbers_of_several_cells_are_a_range() -> None:
    cells = _swept(lambda asked: {"initial_cwnd": 10.0 if asked["server.congestion_control"] == "bbr" else 11.0})
    (level,) = [level for level in observed_levels(cells, ["server.initial_cwnd"]) if level.asked == 10]
    assert (level.text, level.cells) == ("10 to 11", 2)


def test_what_agrees_is_shown_where_files_differ() -> None:
    (cell, *_) = _swept(lambda asked: {})
    run, measured = cell.runs[-1]
    assert measured is not None
    observed = tuple(
        Observation(role="server", parameter="initial_cwnd", value=value, unit="", source=f"file {value}")
        for value in (3.0, 10.0)
    )
    pair = run, measured.model_copy(update={"observed": observed})
    both = CellResult(cell.cell, (pair,), cell.verdict, cell.folders[-1:])
    assert observed_text(both, ["server.initial_cwnd"]) == "server.initial_cwnd 10"


def test_the_report_of_a_study_has_what_was_observed_beside_what_was_asked() -> None:
    document = effects_document((analyse_all(_swept(_deaf)), []))
    text = render_markdown(document)
    assert text.index("worth") < text.index("Asked of the endpoints, and observed:")
    assert "| `server.congestion_control` | bbr | cubic | 2 | 2 |" in text
    assert "| `server.initial_cwnd` | 10 | not seen in 1, 9.8 in 1 | 2 | 0 |" in text
    data = json.loads(json.dumps(dict(document.data)))
    assert {
        "parameter": "server.congestion_control", "asked": "bbr", "cells": 2, "observed": {"cubic": 2}, "deviating": 2,
    } in data["studies"][0]["observed"]  # fmt: skip


def test_a_sweep_of_the_path_alone_has_no_such_table() -> None:
    definition = of_study({"factors": {"path.forward.loss": ["0 %", "1 %"]}})
    text = render_markdown(effects_document((analyse_all(results(definition, lambda asked, repetition: 8.0)), [])))
    assert "worth" in text and "Asked of the endpoints" not in text


def test_profiles_have_a_column() -> None:
    definition = of_study({"profiles": {"swift's": {"server.congestion_control": "bbr"}}})
    profiles = group_profiles(
        _seen(results(definition, lambda asked, repetition: 8.0), lambda asked: {"congestion_control": "reno"})
    )
    document = effects_document(([], profiles))
    text = render_markdown(document)
    assert re.search(r"\| swift's \|.*\| server.congestion_control reno \|", text)
    assert document.data["profiles"][0]["rows"][1]["observed"][0]["deviating"] == 1


def test_the_site_has_it_on_the_page_of_a_study_and_in_the_table_of_all_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = _swept(_deaf)
    shown = Study(source="a paper", text=lambda every: "## A study\n\nIt says.\n", scenarios=("studies/test",), place=1)
    monkeypatch.setattr(study, "installed_studies", lambda: {"shown": shown})
    build.render_site(tmp_path / "site", cells, Store(tmp_path / "store"), lambda wanted: [], page_cache())
    page = (tmp_path / "site" / "studies" / "shown.html").read_text()
    assert [(name, level.asked) for name, level in observed_by_implementation(cells)][:2] == [
        ("beta", "cubic"), ("beta", "bbr"),
    ]  # fmt: skip
    assert re.search(
        r">server.congestion_control</th><td>beta</td><td class=\"r\">bbr</td><td class=\"departs\">cubic<", page
    )
    table = page_with_lists(tmp_path / "site" / "index.html")
    assert 'data-sort="observed"' in table
    asked = r"server.congestion_control=bbr, server.initial_cwnd=32</td>"
    seen = r'<td class="wrap departs" title="[^"]*">server.congestion_control cubic, server.initial_cwnd 31</td>'
    assert re.search(asked + seen, table)

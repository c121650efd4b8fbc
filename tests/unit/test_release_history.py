"""Histories and searches over releases: what is the same, what changed, and how few runs tell."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalogue import Catalogue
from harness.cli.releases import require_one_cell_each, require_place
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_bisection import bisect
from harness.evaluation.release_history import (
    Criterion,
    ReleaseResult,
    ScenarioHistory,
    change_between,
    differ,
    has_release,
    stored_histories,
)
from harness.evaluation.verdict import judge
from harness.outcome import (
    Attributed,
    Attribution,
    LinkProof,
    MeasuredRun,
    Measurement,
    Outcome,
    Run,
    StateShare,
    Verdict,
    VerdictStatus,
)
from harness.report.history import bisection_document, change_sentence, history_document
from harness.report.plots.releases import history_figure
from harness.report.site import build
from harness.report.site.cell import cell_address
from harness.report.site.releases import release_sections
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Release, Version
from harness.store.results import Store
from tests.examples import catalogue, cell, implementation, scenario
from tests.packed_pages import cells_of
from tests.plot_runs import page_cache
from tests.rendering import printed
from tools.reference.histories_page import histories_page, history_figures

COMPLETION = MetricName("completion", 0, "first")


def release(
    version: str,
    seconds: float | None = None,
    *,
    slow_start: float = 1.0,
    capture: str = "",
    problem: str = "",
    day: int = 1,
    client: str = "",
) -> ReleaseResult:
    """A release whose only download took so long, with so much of it in slow start; from itself, or by a client.

    It timed out where it took for ever.
    """
    published = Release(version=Version(version), date=datetime.date(2026, 1, day))
    name = f"mine@{version}"
    if seconds is None:
        return ReleaseResult(name, published, None, problem)
    played = cell(
        scenario(objectives=[], milestones=[]),
        implementation(client or name, version=version, title=f"Mine {version}", image="example/mine:1"),
        implementation(name, version=version, title=f"Mine {version}", image="example/mine:1"),
    )
    ended = math.isfinite(seconds)
    measured = MeasuredRun(
        version=1,
        link=LinkProof(valid=True),
        measurements=() if not ended else (
            Measurement(
                name="completion", flow=0, transfer="first", value=seconds, unit="s", direction="lower", source="client file"
            ),
        ),
        attributed=None if not ended else Attributed(
            version=1,
            transfers=(
                Attribution(
                    flow=0, transfer="first", size=10**7, seconds=seconds,
                    parts=(
                        StateShare(state="slow_start", seconds=slow_start),
                        StateShare(state="line_rate", seconds=seconds - slow_start),
                    ),
                ),
            ),
        ),
    )  # fmt: skip
    run = Run(
        cell=played, repetition=0, outcome=Outcome(status="completed" if ended else "timed_out"), started_at="",
        captures={"left": capture or version, "right": capture or version},
    )  # fmt: skip
    runs = ((run, measured),)
    return ReleaseResult(name, published, CellResult(played, runs, judge(played.scenario, runs), (Path(),)))


def test_the_same_captures_are_the_same_release() -> None:
    change = change_between(release("1.0.0", 5, capture="x"), release("1.1.0", 5, capture="x"), [COMPLETION])
    assert change.identical and change_sentence(change) == "same bytes as 1.0.0"


def test_a_change_names_the_figures_and_the_parts_of_the_time() -> None:
    change = change_between(release("1.0.0", 8, slow_start=3), release("1.1.0", 6, slow_start=1), [COMPLETION])
    assert change.figures == {"completion": (8, 6)}
    assert change_sentence(change) == "completion 8 → 6 (-25%): slow start 2 s less"


def test_other_bytes_with_the_same_figures_are_no_change_of_figures() -> None:
    change = change_between(release("1.0.0", 8), release("1.1.0", 8.01), [COMPLETION])
    assert not change.identical and not change.figures
    assert change_sentence(change) == "other bytes than 1.0.0, the same figures"


def test_of_runs_without_packets_nothing_is_said() -> None:
    def without_packets(item: ReleaseResult) -> ReleaseResult:
        assert item.result is not None
        runs = tuple((run.model_copy(update={"captures": {}}), None) for run, _ in item.result.runs)
        return replace(item, result=replace(item.result, runs=runs))

    before, after = (without_packets(release(version, math.inf)) for version in ("1.0.0", "1.1.0"))
    assert change_sentence(change_between(before, after, [COMPLETION])) == "no packets to compare"


def test_runs_that_end_otherwise_are_a_change_without_figures() -> None:
    change = change_between(release("1.0.0", 8), release("1.1.0", math.inf), [])
    assert change_sentence(change) == "runs end otherwise: 1 timed out; 1 completed before"
    assert change_between(release("1.0.0", 8), release("1.1.0", 7), []).endings is None


def test_a_release_without_runs_is_passed_over_and_says_why() -> None:
    results = (release("1.0.0", 8), release("1.1.0", problem="could not be built: no such crate"), release("1.2.0", 6))
    history = ScenarioHistory(scenario(objectives=[], milestones=[]), results)
    assert history.changes["mine@1.2.0"].before.name == "mine@1.0.0"
    text = printed(history_document("mine", [history]))
    assert "could not be built: no such crate" in text and "completion 8 → 6" in text
    data = history_document("mine", [history]).data["scenarios"][0]["releases"]
    assert [item["problem"] != "" for item in data] == [False, True, False]
    assert data[2]["change"]["before"] == "mine@1.0.0" and data[1]["medians"] == {"completion": None}


@pytest.mark.parametrize(
    ("better", "improves", "earlier", "later", "changed"),
    [
        ("lower", False, 10, 10.3, True),
        ("lower", False, 10, 10.1, False),
        ("lower", False, 10, 8, False),
        ("lower", True, 10, 8, True),
        ("lower", False, 10, math.inf, True),
        ("lower", True, math.inf, 8, True),
        ("lower", False, math.inf, math.inf, False),
        ("higher", False, 10, 8, True),
        ("higher", True, 10, 8, False),
        ("neutral", False, 10, 12, True),
        ("neutral", False, 10, 8, True),
    ],
)
def test_what_counts_as_a_change(better: str, improves: bool, earlier: float, later: float, changed: bool) -> None:
    criterion = Criterion(COMPLETION, better, 0.02, improves)  # type: ignore[arg-type]
    before, after = release("1.0.0", 1), release("1.1.0", 1)
    figures = {before.name: earlier, after.name: later}

    class Fixed(ReleaseResult):
        def median(self, metric: MetricName) -> float | None:
            return figures[self.name]

    pair = [Fixed(item.name, item.release, item.result) for item in (before, after)]
    assert criterion.is_changed(*pair) is changed


@pytest.mark.parametrize(
    ("before", "after", "share", "differing"),
    [(8, 8.03, 0.005, False), (8, 8.05, 0.005, True), (math.inf, 6, 0.02, True), (6, math.inf, 0.02, True),
     (math.inf, math.inf, 0.02, False), (0, 0, 0, False), (0, 1, 0.5, True)],
)  # fmt: skip
def test_which_figures_differ(before: float, after: float, share: float, differing: bool) -> None:
    assert differ(before, after, share) is differing


def test_any_other_byte_is_a_change() -> None:
    criterion = Criterion(None)
    assert criterion.is_changed(release("1.0.0", 5, capture="x"), release("1.1.0", 5, capture="y"))
    assert not criterion.is_changed(release("1.0.0", 5, capture="x"), release("1.1.0", 5, capture="x"))


@given(st.integers(1, 200), st.data())
def test_the_first_changed_release_is_found(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))
    tried = list[int]()

    def is_changed(index: int) -> bool:
        tried.append(index)
        return index >= first

    bisection = bisect(count, is_changed)
    assert bisection.first_changed == (first if first < count else None)
    assert bisection.last_before == first - 1 and not bisection.skipped
    # The oldest has run already. Each further run halves what is left, 'none' included.
    assert len(tried) <= math.ceil(math.log2(count)) and len(set(tried)) == len(tried)


def test_sixteen_releases_need_five_runs() -> None:
    for first in range(1, 17):
        tried = [0]
        bisect(16, lambda index, first=first, tried=tried: tried.append(index) or index >= first)  # type: ignore[misc]
        assert len(tried) <= 5


@given(st.integers(2, 60), st.data())
def test_releases_that_cannot_be_run_are_named(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))
    broken = data.draw(st.sets(st.integers(1, count - 1)))
    bisection = bisect(count, lambda index: None if index in broken else index >= first)
    working = [index for index in range(1, count) if index not in broken]
    assert bisection.first_changed == next((index for index in working if index >= first), None)
    assert bisection.last_before == max([0, *(index for index in working if index < first)])
    end = count if bisection.first_changed is None else bisection.first_changed
    assert set(bisection.skipped) == {index for index in broken if bisection.last_before < index < end}


def test_what_a_search_found() -> None:
    results = {
        0: release("1.0.0", 8, slow_start=3),
        1: release("1.1.0", 8, slow_start=3),
        2: release("1.2.0", 9, slow_start=4),
    }
    bisection = bisect(3, lambda index: bool(index == 2))
    document = bisection_document(Criterion(COMPLETION, "lower", 0.02), results, bisection, None)
    assert document.data["first"] == "mine@1.2.0" and document.data["before"] == "mine@1.1.0"
    text = printed(document)
    assert "mine@1.2.0 of 2026-01-01 is the first: completion worse by more than 2 %." in text
    assert "Against 1.1.0: completion 8 → 9 (+12%): slow start 1 s more." in text
    nothing = bisection_document(Criterion(COMPLETION, "lower", 0.5), results, bisect(3, lambda index: False), None)
    assert nothing.data["first"] is None and "No release from 1.0.0 to 1.2.0 is changed" in printed(nothing)


def test_a_scenario_has_one_cell_for_each_release() -> None:
    fits = cell(scenario(name="one"), server=implementation("mine"))
    require_one_cell_each([fits], "server")
    require_place([fits.scenario], "mine", "server")
    with pytest.raises(InputError, match="one has 2 cells for each release") as raised:
        rates = ("10 Mbit/s", "20 Mbit/s")
        swept = [cell(scenario(name="one"), parameters={"path.forward.rate": rate}) for rate in rates]
        require_one_cell_each(swept, "server")
    assert "--set path.forward.rate" in raised.value.hint
    with pytest.raises(InputError, match="names its servers"):
        named = scenario(objectives=[], flows=[{"download": "1 MB", "server": "beta"}])
        require_place([named], "mine", "server")


def test_stored_cells_of_releases_with_themselves_make_a_history() -> None:
    releases = [release("1.0.0", 8), release("1.1.0", problem="unknown"), release("1.2.0", 6, day=3)]
    stored = [item.result for item in releases if item.result is not None]
    with_peer = release("1.0.0", 7, client="peer").result
    assert with_peer is not None and has_release(with_peer)
    alone = replace(with_peer, cell=cell(scenario(), server=implementation("mine")))
    assert not has_release(alone)
    histories = stored_histories([*stored, with_peer, alone], {"mine": [item.release for item in releases]}.__getitem__)
    history, *others = histories["mine"]
    assert [other.peer for other in others] == ["peer"]
    assert [(item.name, item.result is not None, item.problem) for item in history.results] == [
        ("mine@1.0.0", True, ""),
        ("mine@1.1.0", False, "was not run"),
        ("mine@1.2.0", True, ""),
    ]
    assert history.results[0].median(COMPLETION) == 8, "the cell with a peer is of another history"


def test_the_figure_has_a_point_for_each_release_and_thick_lines_between_the_same() -> None:
    results = (
        release("1.0.0", 8, capture="x"),
        release("1.1.0", 8, capture="x", day=2),
        release("1.2.0", math.inf, day=3),
        release("1.3.0", 6, day=4),
    )
    history = ScenarioHistory(scenario(name="path", objectives=[], milestones=[]), results)
    figure = history_figure(implementation("mine", colour="#123456"), [history])
    assert figure is not None
    tables = [rows for rows in figure["datasets"].values() if "version" in rows[0]]
    points = {row["version"]: row for rows in tables for row in rows}
    assert {version: row["date"] for version, row in points.items()} == {
        "1.0.0": "2026-01-01", "1.1.0": "2026-01-02", "1.2.0": "2026-01-03", "1.3.0": "2026-01-04",
    }  # fmt: skip
    assert [version for version, row in points.items() if row["never"]] == ["1.2.0"]
    assert {version for version, row in points.items() if row["changed"]} == {"1.2.0", "1.3.0"}
    assert points["1.2.0"]["value"] > points["1.0.0"]["value"], "what is never reached stands above the rest"
    lines = [rows for rows in figure["datasets"].values() if "same" in rows[0]]
    assert sorted((len(rows), rows[0]["same"]) for rows in lines) == [(2, True), (4, False)]
    assert history_figure(implementation("mine"), [ScenarioHistory(history.scenario, results[:0])]) is None


def history_of_case(case: str, words: Mapping[str, VerdictStatus]) -> ScenarioHistory:
    """The history of a test case: version → verdict."""
    (definition,) = catalogue().find_scenarios([f"interop/{case}"])
    results = []
    for version, status in words.items():
        item = release(version, 1)
        assert item.result is not None
        verdict = Verdict(status=status, reason="", sentence="So it is.")
        results.append(replace(item, result=replace(item.result, verdict=verdict)))
    return ScenarioHistory(definition, tuple(results))


def test_test_cases_are_one_grid_which_says_since_when() -> None:
    histories = [
        history_of_case("retry", {"1.0.0": "pass", "1.1.0": "pass", "1.2.0": "fail"}),
        history_of_case("handshake", {"1.0.0": "unsupported", "1.1.0": "pass", "1.2.0": "pass"}),
    ]
    text = printed(history_document("mine", histories))
    rows = {line.split()[1]: line.replace("│", " ").split()[1:] for line in text.splitlines() if "mine@" in line}
    assert rows == {"mine@1.0.0": ["–", "✓"], "mine@1.1.0": ["✓", "✓"], "mine@1.2.0": ["✓", "✗"]}
    assert "handshake: succeeded since 1.1.0, unsupported before." in text
    assert "retry: failed since 1.2.0, succeeded before." in text
    data = history_document("mine", histories).data["scenarios"]
    assert [(item["testcase"], [release_entry["result"] for release_entry in item["releases"]]) for item in data] == [
        ("retry", ["succeeded", "succeeded", "failed"]),
        ("handshake", ["unsupported", "succeeded", "succeeded"]),
    ]
    assert history_figure(implementation("mine"), histories) is None


def test_releases_with_the_same_results_share_a_row_of_the_grid() -> None:
    words: dict[str, VerdictStatus] = {"1.0.0": "pass", "1.1.0": "pass", "1.2.0": "fail", "1.3.0": "pass"}
    text = printed(history_document("mine", [history_of_case("retry", words)]))
    rows = [line.replace("│", " ").split() for line in text.splitlines() if "mine@" in line]
    assert rows == [["mine@1.0.0..1.1.0", "✓"], ["mine@1.2.0", "✗"], ["mine@1.3.0", "✓"]]


def test_releases_with_a_peer_have_histories_of_their_own() -> None:
    known = [release("1.0.0").release, release("1.1.0").release]
    itself = [release("1.0.0", 8).result, release("1.1.0", 6).result]
    as_server = [release("1.0.0", 9, client="quinn").result, release("1.1.0", 7, client="quinn").result]
    results = [item for item in (*itself, *as_server) if item is not None]
    older, newer = (item.cell.server for item in results[:2])
    swapped = [replace(item, cell=cell(item.cell.scenario, item.cell.server, item.cell.client)) for item in results[2:]]
    two_releases = replace(results[0], cell=cell(results[0].cell.scenario, newer, older))
    histories = stored_histories([*results, *swapped, two_releases], lambda name: known)["mine"]
    scenario_name = results[0].cell.scenario.name
    assert [history.title for history in histories] == [
        scenario_name,
        f"{scenario_name}, with quinn as the server",
        f"{scenario_name}, with quinn as the client",
    ]
    assert [[item.median(COMPLETION) for item in history.results] for history in histories] == [[8, 6], [9, 7], [9, 7]]
    assert history_document("mine", histories).data["scenarios"][1]["peer"] == "quinn"


def test_a_grid_says_who_is_at_the_other_end() -> None:
    history = history_of_case("retry", {"1.0.0": "pass"})
    with_peer = replace(history, peer="quinn", role="client")
    text = printed(history_document("mine", [history, with_peer]))
    assert "test cases of the interop runner:" in text
    assert "test cases of the interop runner, with quinn as the server:" in text


def test_the_site_has_a_page_of_releases(tmp_path: Path) -> None:
    releases = [release("1.0.0", 8), release("1.2.0", 6, day=3)]
    # A run without artefacts.
    folders = (tmp_path / "run",)
    results = [replace(item.result, folders=folders) for item in releases if item.result is not None]
    current = replace(results[0], cell=cell(scenario(), implementation("mine"), implementation("mine")))
    known = {"mine": [item.release for item in releases]}
    build.render_site(
        tmp_path / "site",
        [*results, current],
        Store(tmp_path / "store"),
        lambda wanted: [],
        page_cache(),
        known.__getitem__,
    )
    page = (tmp_path / "site" / "releases.html").read_text()
    assert "completion 8 → 6 (-25%)" in page and '<h2 id="mine">Mine</h2>' in page
    assert all(f'href="{cell_address(result.cell)}"' in page for result in results)
    index = (tmp_path / "site" / "index.html").read_text()
    assert 'href="releases.html"' in index
    assert {file.name for file in (tmp_path / "site" / "implementations").iterdir()} == {"mine.html", "index.html"}
    cells = cells_of(tmp_path / "site" / "cells" / "test-case.js")
    assert 'href="releases.html#mine"' in cells[results[0].cell.key]["page"]
    assert 'href="implementations/mine.html"' in cells[current.cell.key]["page"]
    build.render_site(tmp_path / "without", results, Store(tmp_path / "store"), lambda wanted: [], page_cache())
    assert not (tmp_path / "without" / "releases.html").exists()


def test_a_section_is_of_the_releases_and_not_of_their_peer() -> None:
    played = release("1.0.0", 8).result
    assert played is not None
    mine, peer = played.cell.server, implementation("peer", title="Peer")
    result = replace(played, cell=cell(played.cell.scenario, mine, peer))
    (section,) = release_sections([result], lambda name: [release("1.0.0").release])
    assert (section.name, section.title) == ("mine", "Mine")
    assert "with peer as the server" in section.text


def test_the_page_of_histories_leads_with_what_changed_most(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "mine"
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / "image.yaml").write_text(
        "schema: 1\nname: mine\ntitle: Mine\nversion: 1.3.0\nbuild: .\n"
        "versions: {from: crates, package: mine, least: 1.0.0}\n"
    )
    days = {"1.0.0": 1, "1.1.0": 2, "1.2.0": 3, "1.3.0": 4}
    note = ", note: Its notes name a larger window."
    (folder / "releases.yaml").write_text(
        "schema: 1\nreleases:\n"
        + "".join(
            f'  - {{version: "{version}", date: "2026-01-0{day}"{note if day == 2 else ""}}}\n'
            for version, day in days.items()
        )
    )
    for version in days:
        (folder / "releases" / version).mkdir(parents=True)
    times = {"1.0.0": 8.0, "1.1.0": 7.0, "1.2.0": 6.99, "1.3.0": 3.0}
    results = [
        item.result for version, day in days.items() if (item := release(version, times[version], day=day)).result
    ]
    page = histories_page(Catalogue(tmp_path), results, ["history-mine.svg"])
    opening, _, rest = page.partition("## What changed most")
    assert [line for line in opening.splitlines() if line.startswith("* ")] == [
        "* 4 releases of 1 stack have runs. 2 of 3 steps to the next release change a figure by 2% or more.",
        "* The largest improvement is mine 1.3.0 in test/case, completion 6.99 → 3.",
    ]  # fmt: skip
    findings = [line for line in rest.splitlines() if line.startswith("* ")]
    assert [line.partition(":")[0] for line in findings] == [
        "* **mine 1.3.0** (2026-01-04), test/case", "* **mine 1.1.0** (2026-01-02), test/case",
    ]  # fmt: skip
    assert findings[1].endswith("completion 8 → 7 (-12%): line rate 1 s less. Its notes name a larger window.")
    assert "## Mine: 4 releases" in page and page.count("](figures/history-mine.svg)") == 1
    # The figure of the largest change stands in the opening.
    assert "](figures/history-mine.svg)\n\nEach release downloads" in opening
    assert [file for file, _ in history_figures(Catalogue(tmp_path), results)] == ["history-mine.svg"]
    for few in ([], results[:1]):
        page = histories_page(Catalogue(tmp_path), few, [])
        assert "* " not in page.partition("*Against")[0] and "No runs are stored." in page
    assert "## " not in histories_page(Catalogue(tmp_path), [], [])

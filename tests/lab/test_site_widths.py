"""The site of a night in a real browser at three widths: Debian's Chromium in a container, without a network."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engine.images.build import Build, Images
from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.accepted_changes import apply_allowances
from harness.evaluation.regression.decision import decide, match_cells
from harness.execution import App, CheckoutPaths
from harness.report.gate import CellReport, GateReport
from harness.report.site.build import NightContext, render_site
from harness.report.site.cell import cell_address
from harness.report.trend import Night
from tests.examples import ROOT
from tests.lab.conftest import CACHE

#: Where the screenshots of the last look stay.
SHOTS = ROOT / ".state" / "site-widths"
#: A phone, a tablet, a desk; pixels.
WIDTHS = (390, 800, 1400)
#: Scenarios whose reference runs have series, and so charts: several flows, a pair of queues, a path of segments.
CHARTS = ("dumbbell/link-sharing", "queue/droptail-high-bdp", "in-sequence/quic-medium")


def _slower(result: CellResult, factor: float) -> CellResult:
    """The same cell with other bits, and times that are so much longer."""
    cell = result.cell.model_copy(update={"key": result.cell.key[::-1], "engine_code": "other"})
    runs = []
    for run, measured in result.runs:
        assert measured is not None
        slower = tuple(
            one.model_copy(update={"value": one.value * factor}) if one.unit == "s" else one
            for one in measured.measurements
        )
        runs.append((run.model_copy(update={"cell": cell}), measured.model_copy(update={"measurements": slower})))
    return replace(result, cell=cell, runs=tuple(runs))


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What did not fit, by page and width."""
    app = App(CheckoutPaths(ROOT, ROOT / "results" / "reference", ROOT / ".state", CACHE))
    base = app.results.find(lambda cell: cell.scenario.name in ("satellite/medium", *CHARTS))
    measured = [
        result
        for result in base
        if result.cell.scenario.name not in CHARTS
        and result.cell.virtual_time
        and all(run_measured is not None for _, run_measured in result.runs)
    ]
    slower = _slower(measured[0], 1.9)
    now = [slower, *(result for result in base if result is not measured[0])]
    decided = apply_allowances(decide(match_cells(base, now), within=0.03), (), datetime.date(2026, 11, 28))
    causes = ("the engine's code", "libngtcp2-16 1.15.0-1 → 1.16.0-1 in quic-lab/ngtcp2:8f2d1c0a9b3e")
    gate_report = GateReport(tuple(CellReport(one, causes) for one in decided.cells), decided, 0.03)
    nights = [
        Night(f"2026-11-{day}", f"2026-11-{day}T00:00:00Z", [_slower(result, 1 + day / 100) for result in measured])
        for day in range(10, 22)
    ]
    with_series = [result for result in base if app.stored_runs.series(result.cell.key, 0) is not None]
    charts = {result.cell.scenario.name: result for result in with_series}
    ground = tmp_path_factory.mktemp("widths")
    site = render_site(
        ground / "site", now, app.stored_runs, app.results.find, app.paths.cache, app.catalogue.releases,
        NightContext(gate_report, nights),
    )  # fmt: skip
    assert site.index.is_file() and charts.keys() == set(CHARTS)

    images = Images(ROOT / "images", ROOT / ".state")
    build = Build("browser", ROOT / "tests" / "browser" / "image", 120)
    images.make(build, lambda name, seconds: None)
    shutil.rmtree(SHOTS, ignore_errors=True)
    SHOTS.mkdir(parents=True)
    pages = {
        "overview": "index.html", "table": "index.html#view=table", "changes": "changes.html", "trend": "trend.html",
        "cell": cell_address(slower.cell), "implementation": "implementations/picoquic.html",
        **{name.rpartition("/")[2]: cell_address(result.cell) for name, result in charts.items()},
    }  # fmt: skip
    plan = json.dumps({"site": "/tour/site", "pages": pages, "widths": WIDTHS})
    process = subprocess.run(
        ["docker", "run", "--rm", "--init", "--network", "none", "--shm-size", "256m", "--volume", f"{ground}:/tour:ro",
         "--volume", f"{SHOTS}:/out", "--volume", f"{ROOT / 'tests/browser'}:/tests/browser:ro", "--workdir", "/", build.reference,
         "python3", "-m", "tests.browser.widths", plan, "/out"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-4000:]
    looked: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return {**looked, "pages": pages, "slower": slower}


def test_every_page_fits_a_phone_a_tablet_and_a_desk(looked: dict[str, Any]) -> None:
    seen = {place: what for place, what in looked["seen"].items() if place != "badges"}
    assert len(seen) == len(WIDTHS) * len(looked["pages"])
    assert {place: what for place, what in seen.items() if what} == {}
    assert looked["console"] == []
    assert len(list(Path(SHOTS).glob("*.png"))) == len(seen)


def test_a_changed_cell_has_its_badge_wherever_it_is_shown(looked: dict[str, Any]) -> None:
    badges = looked["seen"]["badges"]
    for width in WIDTHS:
        for page in ("overview", "table", "changes", "cell"):
            assert any(badge.startswith("▼") for badge in badges[f"{page} at {width}"]), (page, width)

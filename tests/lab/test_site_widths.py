"""The site of a night in a real browser at three widths: Debian's Chromium in a container, without a network."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.engine.images.build import Build, Images
from harness.execution import App, CheckoutPaths
from harness.report.site.build import render_site
from harness.report.site.cell import cell_address
from tests.examples import ROOT
from tests.lab.conftest import CACHE
from tests.nights import make_night, measured_cells

#: Where the screenshots of the last look stay.
SHOTS = ROOT / ".state" / "site-widths"
#: A phone, a tablet, a desk; pixels.
WIDTHS = (390, 800, 1400)
#: Scenarios whose reference runs have series, and so charts: several flows, a pair of queues, a path of segments.
CHARTS = ("dumbbell/link-sharing", "queue/droptail-high-bdp", "in-sequence/quic-medium")


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What did not fit, by page and width."""
    app = App(CheckoutPaths(ROOT, ROOT / "results" / "reference", ROOT / ".state", CACHE))
    base = app.results.find(lambda cell: cell.scenario.name in ("satellite/medium", *CHARTS))
    night = make_night(base, measured_cells([result for result in base if result.cell.scenario.name not in CHARTS]))
    with_series = [result for result in base if app.stored_runs.series(result.cell.key, 0) is not None]
    charts = {result.cell.scenario.name: result for result in with_series}
    ground = tmp_path_factory.mktemp("widths")
    site = render_site(
        ground / "site", night.now, app.stored_runs, app.results.find, app.paths.cache, app.catalogue.releases,
        night.context,
    )  # fmt: skip
    assert site.index.is_file() and charts.keys() == set(CHARTS)

    images = Images(ROOT / "images", ROOT / ".state")
    build = Build("browser", ROOT / "tests" / "browser" / "image", 120)
    images.make(build, lambda name, seconds: None)
    shutil.rmtree(SHOTS, ignore_errors=True)
    SHOTS.mkdir(parents=True)
    pages = {
        "overview": "index.html", "table": "index.html#view=table", "changes": "changes.html", "trend": "trend.html",
        "cell": cell_address(night.slower.cell), "implementation": "implementations/picoquic.html",
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
    return {**looked, "pages": pages, "slower": night.slower}


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

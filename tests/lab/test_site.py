"""The site of the reference in a real browser, without a network: Debian's Chromium in a container of its own."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.engine.images.build import Build, Images
from harness.execution import App, CheckoutPaths
from harness.outcome import Cell
from harness.report.site.build import render_site
from harness.report.site.cell import cell_address
from harness.store.results import Store
from tests.examples import ROOT
from tests.lab.conftest import CACHE
from tests.nights import make_night, measured_cells
from tests.plot_runs import download_run

#: Where the screenshots of the last tour stay.
SHOTS = ROOT / ".state" / "site"
#: The picture of the site in docs/site.md: the tour's `readme.png`, taken over by hand when the site has changed.
PICTURE = ROOT / "docs" / "figures" / "site.png"
#: Of test cases the pairs of these implementations are in the tour's site, and these studies.
TOURED_PAIRS = {"ngtcp2", "picoquic", "quic-go", "quiche"}
TOURED_STUDIES = ("start", "initial-window", "connection-window", "levels-50-10", "profiles-50-10", "ack-ratio-50-10")
#: Bytes that a site has whatever its number of cells (series, charts of studies, the program that draws them), and bytes
#: for each page of a cell: such pages share what they have in common.
SHARED_BYTES, BYTES_PER_PAGE = 7_500_000, 800


def _stored(folder: Path) -> Store:
    """A store with a made-up run that has its folder and a qlog of either side."""
    drawn, store = download_run(), Store(folder)
    place = store.begin(drawn.run.cell.key, 0)
    for role in ("client", "server"):
        (place / "flow0" / role).mkdir(parents=True)
        events = [
            {"time": n, "name": "transport:packet_sent" if n % 3 else "recovery:packet_lost", "data": {"number": n}}
            for n in range(300)
        ]
        text = "".join(f"\x1e{json.dumps(record)}\n" for record in ({"qlog_format": "JSON-SEQ"}, *events))
        (place / "flow0" / role / "trace.sqlog").write_text(text)
    store.finish(place, drawn.run, drawn.measured, drawn.series)
    return store


def _is_toured(cell: Cell) -> bool:
    """A third of the reference: all but most pairs of test cases, and most studies, whose pages are alike."""
    family, _, name = cell.scenario.name.partition("/")
    if family == "interop" and name != "medium-10mb":
        return {cell.client.name, cell.server.name} <= TOURED_PAIRS
    return family != "studies" or name in TOURED_STUDIES


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the tour saw, and how large the site is."""
    images = Images(ROOT / "images", ROOT / ".state")
    build = Build("browser", ROOT / "tests" / "browser" / "image", 120)
    images.make(build, lambda name, seconds: None)

    ground = tmp_path_factory.mktemp("tour")
    app = App(CheckoutPaths(ROOT, ROOT / "results" / "reference", ROOT / ".state", CACHE))
    results = app.results.find(_is_toured)
    site = render_site(ground / "site", results, app.stored_runs, app.results.find, app.paths.cache)
    store = _stored(ground / "store")
    own = App(CheckoutPaths(ROOT, store.root, ROOT / ".state", CACHE))
    render_site(
        ground / "site" / "stored", own.results.find(lambda cell: True), store, own.results.find, app.paths.cache
    )

    shown = [result for result in results if result.cell.scenario.name == "satellite/medium"]
    night = make_night(shown, measured_cells(shown))
    render_site(
        ground / "site" / "night", night.now, app.stored_runs, app.results.find, app.paths.cache, lambda name: [],
        night.context,
    )  # fmt: skip

    series = {result.cell.key for result in results if app.stored_runs.series(result.cell.key, 0) is not None}
    cells: dict[str, str] = {result.verdict.status: cell_address(result.cell) for result in results}
    cells["series"] = next(cell_address(result.cell) for result in results if result.cell.key == min(series))
    shutil.rmtree(SHOTS, ignore_errors=True)
    SHOTS.mkdir(parents=True)
    plan = json.dumps({"site": "/tour/site", "cells": cells})
    process = subprocess.run(
        ["docker", "run", "--rm", "--init", "--network", "none", "--shm-size", "256m", "--volume", f"{ground}:/tour:ro",
         "--volume", f"{SHOTS}:/out", "--volume", f"{ROOT / 'tests/browser/tour.py'}:/tour.py:ro", build.reference,
         "python3", "/tour.py", plan, "/out"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-4000:]
    seen: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    (SHOTS / "seen.json").write_text(json.dumps(seen, indent=1))
    print(json.dumps({name: seen[name] for name in ("first_view_ms", "spent", "axe")}), site)
    return {**seen, "site": site}


def test_the_first_view_waits_for_nothing_and_the_site_is_small(tour: dict[str, Any]) -> None:
    # A page that waits for nothing is there sooner, also where somebody else wants every core.
    assert tour["first_view_ms"] <= 3000
    # It grows with the reference: each cell has a page with its evidence.
    assert tour["site"].size <= SHARED_BYTES + BYTES_PER_PAGE * tour["site"].pages
    assert tour["title"] == "Results · quic-lab"


def test_nothing_is_asked_of_anybody_and_the_browser_has_nothing_to_complain_of(tour: dict[str, Any]) -> None:
    assert (
        tour["requests"]
        and [request for request in tour["requests"] if not request.startswith(("file:///tour/", "data:"))] == []
    )
    assert tour["console"] == []


def test_filters_show_what_they_say_and_their_address_shows_it_again(tour: dict[str, Any]) -> None:
    every, chosen = tour["count"]
    assert every == tour["reset"] and int(every.split()[0]) > 700
    assert 0 < int(chosen.split()[0]) == tour["tiles"] < 20
    assert tour["maps"] == ["satellite/medium virtual time"]
    assert 0 < int(tour["passing"].split()[0]) <= int(chosen.split()[0])
    assert all(part in tour["address"] for part in ("scenario=satellite/medium", "server=picoquic", "verdict=pass"))
    assert tour["reloaded"] == [tour["passing"], tour["address"]]
    count, maps = tour["parameter"]
    assert 0 < int(count.split()[0]) < 100 and "studies/start virtual time" in maps


def test_rows_of_a_map_and_lines_of_the_table_are_put_in_order(tour: dict[str, Any]) -> None:
    named, ordered = tour["rows"]
    assert len(named) > 1 and ordered == sorted(named) != named
    up, down = ([float(text) for text in texts if text[0].isdigit()] for texts in tour["sorted"])
    assert len(up) > 10 and up == sorted(up) and down == sorted(down, reverse=True)
    assert tour["aria_sort"] == "descending" and "sort=figure.down" in tour["sort_address"]


def test_a_cell_opens_and_leads_to_its_evidence(tour: dict[str, Any]) -> None:
    name, verdict, scales = tour["cell"]
    assert "picoquic" in name and verdict.endswith("pass") and scales == 3
    assert tour["metrics"] > 30
    title, visible, runs = tour["evidence"]
    assert title.startswith("Runs") and visible and runs >= 1
    assert tour["kept"][0] == "all of it" and "qlog of flow0 server, in the viewer" in tour["kept"]
    assert '"outcome": {' in tour["record"]
    assert tour["qlog"] == ["qlog of flow0 server", "300 of 300 events"]
    assert tour["qlog_kind"][0] == "100 of 300 events" and "packet_lost" in tour["qlog_kind"][1]


def test_figures_are_drawn(tour: dict[str, Any]) -> None:
    assert tour["figures"] > 5 and tour["curves"] > 20


def test_the_interop_matrix_shows_one_case_alone_and_leads_to_its_cells(tour: dict[str, Any]) -> None:
    every, chosen = tour["interop"]
    assert 0 < len(chosen) < every and {text.split()[1] for text in chosen} == {"S"}
    assert "interop/retry" in tour["interop_cell"][0]


def test_the_keyboard_reaches_everything_in_order(tour: dict[str, Any]) -> None:
    reached = tour["keyboard"]
    assert reached[0] == "To the content" and reached.index("scenario") < reached.index("server")
    assert tour["by_keyboard"] == "cell.html"


def test_axe_finds_no_serious_fault_and_no_page_scrolls_sideways(tour: dict[str, Any]) -> None:
    assert tour["looked_at"] == 21
    assert tour["faults"] == {}
    assert tour["wide"] == []


def test_the_readme_shows_what_the_tour_saw(tour: dict[str, Any]) -> None:
    sizes = [struct.unpack(">II", file.read_bytes()[16:24]) for file in (PICTURE, SHOTS / "readme.png")]
    assert sizes[0] == sizes[1]
    assert PICTURE.stat().st_size <= 200_000
    assert "figures/site.png" in (ROOT / "docs" / "site.md").read_text()

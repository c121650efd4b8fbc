"""Pages that open with what was found, and its figure, whatever the store has."""

from __future__ import annotations

from collections.abc import Callable

import altair as alt
import pytest

from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.outcome import Outcome
from harness.stats.intervals import interval
from studies import FIGURE, extremes_text
from studies.charts import Axis, Mark, draw_rows
from studies.media.page import media
from studies.web.page import web
from tests.unit.study_results import results_of
from tools.reference.study_pages import studies, study_page

#: Study → its scenario, client, server and flows.
STORED: dict[str, tuple[tuple[str, str, str], list[dict[str, float]]]] = {
    "coexistence": (("dumbbell/beside-tcp", "quinn", "picoquic"), [{"mean_throughput": 8.6}, {"mean_throughput": 1.0}]),
    "web": (("web/geo", "quic-go", "quiche"), [{"page_load": 2.0, "loaded_style": 1.0}]),
    "media": (("media/video-sd", "quic-go", "quiche"), [{"startup_time": 5.0, "stalls": 0.0, "stalled_time": 0.0}]),
    "uploads": (("upload/geo", "quic-go", "quic-go"), [{"completion": 88.0, "milestone_2MB": 5.0}]),
    "response": (("loss/response-100ms", "quinn", "quinn"), [{"packets_to_client": 36_600.0}]),
    "queues": (("links/queues", "quinn", "quiche"), [{"mean_throughput": 9.0}, {"mean_throughput": 9.0}]),
    "reordering": (("reordering/neighbours", "quiche", "quiche"), [{"completion": 9.0, "spurious_losses": 3.0}]),
    "picoquic_bounds": (("picoquic/satellite-loss", "picoquic", "picoquic"), [{"completion": 9.0}]),
    "published": (("picoquic/satellite-loss", "picoquic", "picoquic"), [{"completion": 9.0}]),
    "remembered": (("remembered/same-50-10mb", "quinn", "quinn"), [{"completion": 9.0}]),
}


def failed(result: CellResult) -> CellResult:
    """The same cell, whose transfers never ended."""
    outcome = Outcome(status="timed_out", role="client", reason="timed_out", detail="it did not end")
    runs = tuple(
        (run.model_copy(update={"outcome": outcome}), measured and measured.model_copy(update={"measurements": ()}))
        for run, measured in result.runs
    )
    return CellResult(result.cell, runs, judge(result.cell.scenario, runs, []), result.folders)


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", [lambda _: None, lambda result: result, failed], ids=["none", "one server", "failed"])
def test_a_poor_store_makes_a_page(name: str, kind: Callable[[CellResult], CellResult | None]) -> None:
    study = studies()[name]
    asked, flows = STORED[name]
    cells = [cell for result in results_of(*asked, *flows) if (cell := kind(result)) is not None]
    drawn = [drawing.file for drawing in study.drawings if drawing.draw(cells) is not None]
    page = study_page(study.page, cells, drawn)
    assert page.startswith("# ") and FIGURE not in page
    assert [page.count(file) for file in drawn] == [1] * len(drawn)


def test_a_page_opens_with_the_first_of_its_drawings() -> None:
    first = {study.page: study for study in reversed(studies().values())}
    for study in first.values():
        if study.drawings:
            assert FIGURE in study.text([]).partition("\n## ")[0], study.page


def test_extremes_are_named_once() -> None:
    spans = {name: interval([value]) for name, value in zip("abc", (3.0, 2.0, 5.0), strict=True)}
    assert extremes_text(spans) == "2 (b) to 5 (c)"
    assert extremes_text({"a": spans["a"]}, "{} s by {}") == "3 s by a"


def test_a_row_without_an_end_says_so() -> None:
    axis, inf = Axis("s", alt.Scale()), float("inf")
    marks = [Mark("a", "up", interval([4.0, inf, inf])), Mark("b", "up", interval([1.0, 2.0, inf]))]
    drawn = draw_rows(marks, axis, "T", [])
    assert drawn is not None
    rows = [row for rows in drawn["datasets"].values() for row in rows]
    assert {"row": "a", "text": "never ends: up"} in rows
    assert all(row["row"] == "b" and row["high"] <= 2.0 for row in rows if "high" in row)
    assert draw_rows([], axis, "T", []) is None


def test_videos_and_calls_are_found() -> None:
    page = media(
        [
            *results_of("media/video-sd", "quic-go", "quiche", {"startup_time": 5.0, "stalls": 0.0}),
            *results_of("media/video-sd", "quic-go", "quinn", {"startup_time": 6.0, "stalls": 1.0}),
            *results_of("media/call-alone", "quinn", "quinn", {"datagram_delay_p95": 10.0}),
        ]
    )
    assert "1 of 2 play 2.5 Mbit/s." in page
    assert "At 2.5 Mbit/s a video starts after 5 s (quic-go → quiche, h3) to 6 s (quic-go → quinn, h3)." in page
    assert "95 % of a call's datagrams come within 10 ms (idle), in the middle of the pairs." in page


def test_pages_loaded_over_quic_stand_beside_tcp() -> None:
    loads = [
        *results_of("web/geo", "quic-go", "quiche", {"page_load": 2.0, "loaded_style": 1.0}),
        *results_of("web/geo", "quic-go", "quinn", {"page_load": 4.0, "loaded_style": 3.0}),
        *results_of("web/geo", "go-https", "https", {"page_load": 3.0, "loaded_style": 2.0}),
    ]
    page = web(loads)
    assert (
        "the fastest pair, quic-go → quiche, takes 2 s, HTTPS over TCP takes 3 s and 1 of 2 pairs of QUIC are" in page
    )
    # One server with priorities and one without cannot tell.
    assert "* Priorities:" not in page
    more = results_of("web/geo", "quic-go", "s2n-quic", {"page_load": 4.0, "loaded_style": 5.0})
    assert "1 server with them and 2 without differ by a factor of" in web([*loads, *more])

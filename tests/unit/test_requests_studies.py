"""What the pages about a page load, about small requests and about a video make of runs."""

from __future__ import annotations

from harness.evaluation.cell_result import CellResult
from studies.latency.claims import IDLE, LOADED
from studies.latency.figures import response_times
from studies.latency.page import latency
from studies.media.page import media
from studies.web.claims import SPLIT
from studies.web.figures import page_loads
from studies.web.page import web
from tests.unit.study_results import results_of, table_cells


def loaded(scenario: str, client: str, server: str, seconds: float) -> list[CellResult]:
    figures = {"page_load": seconds, "byte_index": seconds - 1, "loaded_style": seconds / 2}
    return results_of(scenario, client, server, figures)


LOADS = [
    *loaded("web/geo", "quic-go", "ngtcp2", 5.5),
    *loaded("web/geo", "quic-go", "aioquic", 7),
    *loaded("web/geo", "go-https", "https", 6.6),
    *loaded(SPLIT, "go-https", "https", 5),
]


def test_page_loads_are_told_by_path_and_beside_tcp() -> None:
    page = web(LOADS)
    assert table_cells(page, "quic-go → ngtcp2") == ["quic-go → ngtcp2", "h3", "1", "5.5", "4.5", "2.75", "yes"]
    assert table_cells(page, "quic-go → aioquic")[-1] == "no"
    assert table_cells(page, "go-https → https, proxies with 100 packets")[3] == "5"
    assert (
        "* GEO, 50/10 Mbit/s and 650 ms: the fastest pair, quic-go → ngtcp2, takes 5.5 s, HTTPS over TCP takes 6.6 s "
        "(5 s with proxies) and 1 of 2 pairs of QUIC are faster.\n"
    ) in page
    # Of the other four paths, and of several connections.
    assert page.count("No runs are stored.") == 5


def test_several_connections_are_told_beside_tcp() -> None:
    page = web(results_of("dumbbell/connections-6", "quic-go", "quinn", {"completion": 15.5}))
    assert table_cells(page, "quic-go → quinn")[1:] == ["–", "–", "–", "–", "15.5", "–"]


def test_the_figure_of_page_loads_has_a_mark_for_each_pair() -> None:
    drawing = page_loads(LOADS)
    assert drawing is not None and page_loads([]) is None
    marks = next(rows for rows in drawing["datasets"].values() if "kind" in rows[0])
    assert {row["kind"] for row in marks} == {"QUIC", "TCP", "TCP with proxies"}


def answered(milliseconds: float) -> dict[str, float]:
    return {
        "response_time_p50": milliseconds, "response_time_p95": 1.5 * milliseconds,
        "responses_per_minute": 60_000 / milliseconds, "unanswered_requests": 0,
    }  # fmt: skip


REQUESTS = [
    *results_of(IDLE, "quic-go", "quic-go", answered(20)),
    *(
        result
        for milliseconds, queue in ((90, "4 BDP"), (21, "cake"))
        for result in results_of(LOADED, "quic-go", "quic-go", answered(milliseconds))
        if result.cell.parameters["path.forward.queue"] == queue
    ),
]


def test_response_times_are_told_by_queue() -> None:
    page = latency(REQUESTS)
    assert table_cells(page, "idle")[1:] == ["quic-go → quic-go", "20", "30", "3,000", "0"]
    assert page.index("| idle |") < page.index("| 4 BDP |") < page.index("| cake |")
    assert "* A request takes 20 ms alone, in the middle of the pairs.\n" in page
    assert "* A load beside it makes that 90 ms with 4 BDP and 21 ms with cake.\n" in page
    assert "No runs are stored." in latency([])


def test_the_figure_of_response_times_has_a_row_for_each_queue() -> None:
    drawing = response_times(REQUESTS)
    assert drawing is not None and response_times([]) is None
    (rows,) = drawing["datasets"].values()
    assert [row["queue"] for row in rows] == ["idle", "4 BDP", "cake"]


def played(stalls: float) -> dict[str, float]:
    return {"startup_time": 2.5, "stalls": stalls, "stalled_time": 3 * stalls}


def test_a_video_has_the_highest_rung_without_a_stall() -> None:
    page = media(
        [
            *results_of("media/video-sd", "quic-go", "aioquic", played(0)),
            *results_of("media/video-hd", "quic-go", "aioquic", played(0)),
            *results_of("media/video-uhd", "quic-go", "aioquic", played(2)),
            *results_of("media/video-sd", "aioquic", "aioquic", played(1)),
        ]
    )
    assert table_cells(page, "quic-go → aioquic, h3")[-4:] == ["2.5", "2", "6", "5 Mbit/s"]
    assert table_cells(page, "aioquic → aioquic, h3")[1:] == ["2.5", "1", "3", *["–"] * 6, "none"]
    assert media([]).count("No runs are stored.") == 3


def test_bursts_have_their_response_times() -> None:
    figures = {"response_time_p50": 1470, "response_time_p95": 3900, "response_time_max": 3900}
    page = media(results_of("media/on-off", "quic-go", "aioquic", figures))
    assert table_cells(page, "1 MB every 4 s")[1:] == ["quic-go → aioquic, h3", "1,470", "3,900", "3,900"]


def test_a_call_has_its_loss_and_its_delay_by_queue() -> None:
    figures = {"datagram_loss": 0.01, "datagram_delay_p50": 40, "datagram_delay_p95": 60, "datagram_jitter": 2}
    page = media(
        [
            *results_of("media/call-alone", "quic-go", "aioquic", {**figures, "datagram_loss": 0}),
            *results_of("media/call", "quic-go", "aioquic", figures)[:1],
        ]
    )
    assert table_cells(page, "idle")[2:] == ["0", "40", "60", "2"]
    assert table_cells(page, "4 BDP")[2:] == ["0.01", "40", "60", "2"]

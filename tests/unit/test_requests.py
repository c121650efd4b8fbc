"""Schedules of requests: what may be written, what a client is told, and what its log of them says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.analysis.metrics import measure
from harness.analysis.metrics.requests import stall_times
from harness.errors import InputError
from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError, application_protocol
from harness.scenario.loader import load
from harness.scenario.schema import Flow, Scenario, ScheduledRequest
from harness.topology import build_lab
from harness.topology.build import schedule_text
from harness.units import Duration, Size
from tests.examples import cell, implementation, scenario
from tests.measurements import by_name
from tests.unit.captures import T0, Recipe, write_run

PAGE: dict[str, Any] = {
    "page": [
        {"name": "html", "size": "40 kB", "priority": "u=0"},
        {"name": "style", "size": "20 kB", "count": 3, "after": "html"},
        {"name": "font", "size": "30 kB", "after": ["html", "style"], "wait": "50 ms", "priority": "u=5, i"},
    ]
}
REQUESTS: dict[str, Any] = {"requests": {"size": "1 kB", "every": "100 ms", "count": 4}}
VIDEO: dict[str, Any] = {"video": {"segment": "4 s", "rate": "5 Mbit/s", "count": 4, "ahead": "6 s"}}


def flow(definition: dict[str, Any]) -> Flow:
    return Flow.model_validate(definition)


def requesting_cell(definition: dict[str, Any], schedules: tuple[str, ...] = ("h3",)) -> Cell:
    ends = (implementation("alpha", schedules=schedules), implementation("beta"))
    return cell(scenario(flows=[definition], objectives=[], milestones=[]), *ends)


# --- What is written.


def test_a_page_is_asked_for_by_its_objects() -> None:
    page = flow(PAGE)
    assert [(request.name, request.size.bytes, request.after) for request in page.schedule] == [
        ("html", 40_000, ()),
        ("style", 20_000, (0,)),
        ("style", 20_000, (0,)),
        ("style", 20_000, (0,)),
        ("font", 30_000, (0, 1, 2, 3)),
    ]
    assert page.carried == Size(130_000)


def test_requests_come_at_equal_times_and_segments_one_after_the_other() -> None:
    assert [request.at.seconds for request in flow(REQUESTS).schedule] == pytest.approx([0, 0.1, 0.2, 0.3])
    segments = flow(VIDEO).schedule
    assert [(request.at.seconds, request.after) for request in segments] == [(0, ()), (0, (0,)), (2, (1,)), (6, (2,))]
    # 4 s at 5 Mbit/s.
    assert {request.size.bytes for request in segments} == {2_500_000}


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ({"page": []}, "a page has an object"),
        ({"page": [{"name": "html", "size": "0 B"}]}, "html has at least one byte"),
        ({"page": [{"name": "a", "size": "1 B"}, {"name": "a", "size": "1 B"}]}, "two objects are called a"),
        ({"page": [{"name": "a", "size": "1 B", "after": "b"}, {"name": "b", "size": "1 B"}]}, "does not stand above"),
        ({"page": [{"name": "a", "size": "1 B", "count": 5000}, {"name": "b", "size": "1 B"}]}, "5001 objects"),
        ({**PAGE, **VIDEO}, "page and video of one flow"),
        ({**PAGE, "download": "1 MB"}, "page has no other size"),
        ({**VIDEO, "stop": "5 s"}, "video has no other size"),
        ({**PAGE, "kind": "tcp"}, "a flow of tcp transfers no files"),
        ({**PAGE, "direction": "to_server"}, "page asks the server for files"),
        ({"requests": {"size": "1 kB", "every": "0 s", "count": 3}}, "a time between them"),
        ({"requests": {"size": "0 B", "every": "1 s", "count": 3}}, "at least one byte"),
        ({"video": {"segment": "0 s", "rate": "1 Mbit/s", "count": 3}}, "a play time and a rate"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(definition: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        flow(definition)


@pytest.mark.parametrize("priority", ["u=8", "u=-1", "i, u=2", "urgent", "u=2,i"])
def test_a_priority_is_one_of_rfc_9218(priority: str) -> None:
    with pytest.raises(ValidationError, match="String should match"):
        flow({"page": [{"name": "html", "size": "1 kB", "priority": priority}]})


HAR = {
    "log": {
        "entries": [
            {"response": {"bodySize": 3000, "content": {"size": 9000}}},
            {"response": {"bodySize": -1, "content": {"size": 700}}},
            {"response": {"bodySize": 0, "content": {"size": 0}}},
            {"response": {"bodySize": 0, "content": {"size": 500}}},
        ]
    }
}
HAR_SCENARIO = """\
schema: 1
title: A recorded page
path:
  forward: {rate: 50 Mbit/s, delay: 10 ms}
  return: {rate: 10 Mbit/s, delay: 10 ms}
flows:
  - {page: {har: page.har}}
"""


def _from_har(folder: Path, content: str) -> Flow:
    (folder / "page.har").write_text(content)
    (folder / "recorded.yaml").write_text(HAR_SCENARIO)
    return load(folder / "recorded.yaml", Scenario, {"name": "recorded"}).flows[0]


def test_a_page_has_the_sizes_and_the_order_of_a_har_file(tmp_path: Path) -> None:
    page = _from_har(tmp_path, json.dumps(HAR))
    # What came from the cache has no body of its own, and counts with its content.
    assert [(request.size.bytes, request.after) for request in page.schedule] == [(3000, ()), (700, (0,)), (500, (0,))]
    # A stored scenario has the objects, and needs the file no more.
    assert Flow.model_validate(page.model_dump(mode="json")) == page


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "page.har is no HAR file"),
        ('{"log": {"entries": {}}}', "page.har is no HAR file"),
        ('{"log": {"entries": [{}]}}', "page.har is no HAR file"),
        ('{"log": {"entries": []}}', "page.har has no response with a body"),
    ],
)
def test_what_is_no_har_file_is_refused_with_its_name(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _from_har(tmp_path, content)


# --- What a client is told.


def test_a_client_is_told_the_urls_and_when_to_ask_for_each() -> None:
    client = build_lab(requesting_cell(PAGE), 0).host("client0")
    assert client.environment["SCHEDULE"] == "0,0,,u=0;0,0,0,;0,0,0,;0,0,0,;0,0.05,0-3,u=5,i"
    assert len(client.environment["REQUESTS"].split()) == 5
    assert "SCHEDULE" not in build_lab(requesting_cell(PAGE), 0).host("server0").environment
    assert "SCHEDULE" not in build_lab(requesting_cell({"download": "1 MB"}), 0).host("client0").environment


@given(st.lists(st.sets(st.integers(0, 30)).map(sorted), max_size=5))
def test_numbers_of_requests_are_written_as_ranges_that_mean_them(lists: list[list[int]]) -> None:
    text = schedule_text(ScheduledRequest(Size(1), after=tuple(numbers)) for numbers in lists)
    for entry, numbers in zip(text.split(";") if lists else [], lists, strict=True):
        ranges = [part.split("-") for part in entry.split(",")[2].split("+") if part]
        assert [n for part in ranges for n in range(int(part[0]), int(part[-1]) + 1)] == numbers


def test_who_follows_no_schedule_is_unsupported_by_name() -> None:
    with pytest.raises(UnsupportedError, match="alpha asks for all files at once") as caught:
        application_protocol(requesting_cell(PAGE, ()), 0)
    assert (caught.value.role, caught.value.reason) == ("client", "schedules")
    assert application_protocol(requesting_cell(PAGE, ("hq-interop",)), 0) == "hq-interop"


# --- What the log of a client says.


def measured(folder: Path, definition: dict[str, Any], rows: list[tuple[float | None, ...]]) -> dict[str, float]:
    """The figures of a run whose client logged these times: asked, first byte, complete; s after its first datagram."""
    run = write_run(folder, Recipe(scenario={"flows": [definition], "milestones": []}))
    logged = [
        f"{number}," + ",".join("" if at is None else str(T0 + round(at * 1e9)) for at in row)
        for number, row in enumerate(rows)
    ]
    (folder / "flow0/client").mkdir(parents=True)
    text = "\n".join(["request,asked_ns,first_byte_ns,complete_ns", *logged])
    (folder / "flow0/client/requests.csv").write_text(text + "\n")
    return by_name(measure(folder, run))


PAGE_TIMES: list[tuple[float | None, ...]] = [
    (0.1, 0.2, 0.3), (0.3, 0.4, 0.5), (0.3, 0.41, 0.8), (0.3, 0.45, 0.6), (0.85, 0.95, 1.0),
]  # fmt: skip


def test_a_page_load_is_the_arithmetic_of_its_objects(tmp_path: Path) -> None:
    figures = measured(tmp_path, PAGE, PAGE_TIMES)
    assert figures["page_load"] == pytest.approx(1.0)
    assert (figures["loaded_html"], figures["loaded_style"], figures["loaded_font"]) == pytest.approx((0.3, 0.8, 1.0))
    assert figures["first_byte_of_style"] == pytest.approx(0.11)
    # (40 · 0.3 + 20 · (0.5 + 0.8 + 0.6) + 30 · 1.0) / 130.
    assert figures["byte_index"] == pytest.approx(80 / 130)


def test_a_page_without_an_object_is_not_loaded(tmp_path: Path) -> None:
    figures = measured(tmp_path, PAGE, [*PAGE_TIMES[:-1], (0.85, None, None)])
    assert "page_load" not in figures and "byte_index" not in figures
    assert figures["loaded_style"] == pytest.approx(0.8)


def test_response_times_count_what_was_never_answered(tmp_path: Path) -> None:
    figures = measured(tmp_path, REQUESTS, [(0, 0.02, 0.02), (0.1, 0.13, 0.13), (0.2, 0.24, 0.25), (0.3, None, None)])
    assert figures["unanswered_requests"] == 1
    # Of 20, 30, 50 ms and never.
    assert figures["response_time_p50"] == pytest.approx(50)
    assert figures["responses_per_minute"] == pytest.approx(60 / 0.05)
    assert "response_time_p95" not in figures and "response_time_max" not in figures


def test_a_video_stalls_where_a_segment_is_late(tmp_path: Path) -> None:
    # It begins at 1 s, needs the second at 5 s, the third (late by 2 s) at 9 s and the fourth at 15 s.
    figures = measured(tmp_path, VIDEO, [(0.1, 0.2, 1), (1, 1.1, 4), (4, 4.1, 11), (11, 11.1, 14)])
    assert (figures["startup_time"], figures["stalls"], figures["stalled_time"]) == pytest.approx((1, 1, 2))


@given(st.lists(st.floats(0.1, 60), min_size=2, max_size=20), st.floats(0.5, 10))
def test_a_video_ends_as_late_as_its_play_and_its_stalls(gaps: list[float], segment: float) -> None:
    complete = np.cumsum(gaps)
    stalls = stall_times(complete, segment)
    starts = complete[0] + segment * np.arange(1, len(complete)) + np.cumsum(stalls)
    assert (starts >= complete[1:] - 1e-9).all() and (stalls >= 0).all()


def test_a_client_without_a_log_has_no_figures_and_a_reason(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(scenario={"flows": [VIDEO], "milestones": []}))
    absent = {item.metric: item.why for item in measure(tmp_path, run).absent}
    assert absent["stalls"] == "the client left no log of its requests"


# --- Datagrams.


CALL: dict[str, Any] = {"datagrams": {"size": "160 B", "every": "20 ms", "packets": 2, "count": 3}}


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ({"datagrams": {"size": "15 B", "every": "20 ms", "count": 3}}, "16 to 1100 B"),
        ({"datagrams": {"size": "1200 B", "every": "20 ms", "count": 3}}, "16 to 1100 B"),
        ({"datagrams": {"size": "160 B", "every": "0 s", "count": 3}}, "a time between them"),
        ({**CALL, "kind": "tcp"}, "a flow of tcp sends no datagrams of QUIC"),
        ({**CALL, "stop": "5 s"}, "datagrams has no other size"),
        ({**CALL, "direction": "to_server"}, "datagrams are the server's"),
    ],
)
def test_datagrams_that_cannot_be_are_refused(definition: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        flow(definition)


def test_both_ends_are_told_of_datagrams() -> None:
    able = (implementation(name, datagrams=True) for name in ("alpha", "beta"))
    lab = build_lab(cell(scenario(flows=[CALL], objectives=[], milestones=[]), *able), 0)
    assert {lab.host(name).environment["DATAGRAMS"] for name in ("client0", "server0")} == {"0.02,2,160,3"}
    assert lab.host("client0").environment["TESTCASE"] == "transfer"
    with pytest.raises(UnsupportedError, match="alpha sends and logs no datagrams"):
        application_protocol(requesting_cell(CALL), 0)


def test_loss_delay_and_jitter_of_datagrams_are_those_of_the_log(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(scenario={"flows": [CALL], "milestones": []}))
    (tmp_path / "flow0/client").mkdir(parents=True)
    # Delays of 10, 12, 12 and 20 ms; the last one came twice, and two of six never did.
    rows = [(0, 0, 10), (1, 0, 12), (3, 20, 32), (2, 20, 40), (2, 20, 41)]
    lines = [f"{sequence},{T0 + sent * 10**6},{T0 + came * 10**6}" for sequence, sent, came in rows]
    (tmp_path / "flow0/client/datagrams.csv").write_text("\n".join(["sequence,sent_ns,received_ns", *lines, ""]))
    figures = by_name(measure(tmp_path, run))
    assert figures["datagram_loss"] == pytest.approx(2 / 6)
    assert (figures["datagram_delay_p50"], figures["datagram_delay_max"]) == pytest.approx((12, 20))
    # RFC 3550: differences of 2, 0 and 8 ms.
    jitter = 0.0
    for difference in (2.0, 0.0, 8.0):
        jitter += (difference - jitter) / 16
    assert figures["datagram_jitter"] == pytest.approx(jitter)


def test_waits_are_durations() -> None:
    assert (
        schedule_text([ScheduledRequest(Size(1), at=Duration(1_500_000), wait=Duration(250_000))]) == "0.0015,0.00025,,"
    )

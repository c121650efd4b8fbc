"""What decides the medium case: the sentences say what the runs say, and the textbook is the textbook."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from harness.evaluation.cell_result import CellResult
from studies.medium_case.claims import CONNECTION_WINDOW, CONTROLLERS, INITIAL_RTT, INITIAL_WINDOW, LOSSY, NEIGHBOURS
from studies.medium_case.compared import connection_windows, initial_windows, textbook
from studies.medium_case.figures import initial_windows as figure
from studies.medium_case.page import medium_case
from tests.unit.study_results import results_of, table_cells
from tests.unit.test_stored_studies import stored


def _timed(scenario: str, server: str, times: Iterable[tuple[str, object, float]]) -> list[CellResult]:
    """The cells with these values of a parameter; 2 MB take the seconds, 10 MB two more and 100 MB seventeen."""
    selected = []
    for name, value, seconds in times:
        figures = {"milestone_2MB": seconds, "milestone_10MB": seconds + 2, "milestone_100MB": seconds + 17}
        results = results_of(scenario, "picoquic" if "connection" in scenario else "ngtcp2", server, figures)
        selected += [result for result in results if str(result.cell.parameters[name]) == str(value)]
    return selected


WINDOWS = [
    *_timed(INITIAL_WINDOW, "quiche", [("server.initial_cwnd", 10, 5.9), ("server.initial_cwnd", 400, 2.7)]),
    *_timed(INITIAL_WINDOW, "quinn", [("server.initial_cwnd", 10, 6.1), ("server.initial_cwnd", 400, 3.3)]),
]
CONNECTION = _timed(
    CONNECTION_WINDOW,
    "quinn",
    [
        ("client.connection_window", size, time)
        for size, time in (("2.03125 MB", 30.0), ("4.0625 MB", 9.0), ("8.125 MB", 6.0))
    ],
)


def test_the_answers_come_first() -> None:
    page = medium_case([*WINDOWS, *CONNECTION])
    assert (
        "1. **The initial window decides.** 2 MB / 10 MB / 100 MB take 6 / 8 / 23 s with 10 packets, and 3 / 5 / 20 s with "
        "400 (the median of 2 servers)."
    ) in page
    assert (
        "2. **Servers need different windows to meet all three objectives.** The client is ngtcp2. 400 packets are "
        "enough for quiche. None of these windows is enough for quinn (by 0.3 s)."
    ) in page
    assert "100 MB take 47 s with 0.5, 26 s with 1, 23 s with 2" in page
    assert "grant 2 bandwidth-delay products and more: 0.5 costs 24 s of 100 MB" in page
    assert table_cells(page, "quiche")[1:] == ["5.9 / 7.9 / 22.9", "**2.7 / 4.7 / 19.7**"]
    assert page.index("1. **") < page.index("Do this:") < page.index("## Initial windows")


def test_without_runs_nothing_is_claimed() -> None:
    page = medium_case([])
    assert "1. " not in page and "Do this" not in page
    assert figure([]) is None


def test_settings_are_read_from_cells() -> None:
    assert [(row.server, row.setting, row.passes) for row in initial_windows(WINDOWS)] == [
        ("quiche", 10, False),
        ("quiche", 400, True),
        ("quinn", 10, False),
        ("quinn", 400, False),
    ]
    assert [row.setting for row in connection_windows(CONNECTION)] == [0.5, 1, 2]


def test_the_textbook_doubles_each_round_trip() -> None:
    """By hand: 5.9 / 7.8 / 22.2 s from 12,000 bytes, and 4.7 / 6.6 / 21.0 s from 40,960."""
    (result, *_) = WINDOWS
    assert textbook(result.cell.scenario, 10) == pytest.approx((5.9, 7.8, 22.2), abs=0.1)
    assert textbook(result.cell.scenario, 40_960 / 1200) == pytest.approx((4.7, 6.6, 21.0), abs=0.1)


def test_loss_is_told_by_controller() -> None:
    classic = results_of(LOSSY, "quinn", "quinn", {"milestone_10MB": 90.0})
    others = results_of(LOSSY, "picoquic", "picoquic", {"milestone_10MB": 4.5})
    page = medium_case([*classic, *others])
    assert "Reno and CUBIC are out.**" in page
    assert "10 MB take 90 s at the soonest with either (1 cell). They take 4.5 s with others." in page
    assert "Reno and CUBIC are out" not in medium_case(classic)


def test_a_server_whose_cubic_keeps_up_at_loss_is_named() -> None:
    page = medium_case(list(stored(LOSSY, CONTROLLERS)))
    assert "Reno and CUBIC are out, picoquic's CUBIC aside.**" in page
    # Its other runs with Reno take as long as those of other servers.
    assert "picoquic's CUBIC takes 5.57 s at the median." in page and "picoquic's Reno" not in page


def test_runs_that_do_not_decide_are_no_miss() -> None:
    page = medium_case(list(stored(NEIGHBOURS)))
    assert "It misses one" not in page and "Its runs do not decide it with loss 0.1 %." in page
    assert table_cells(page, "path.forward.loss 0.1 %")[-1] == "not decided"


def test_every_server_with_bbr_is_held_against_initial_round_trip_times() -> None:
    (advice,) = (line for line in medium_case(list(stored(INITIAL_RTT))).splitlines() if "round-trip time" in line)
    assert "tquic takes 28.7 s for 10 MB, and 7.12 s else. It costs msquic, ngtcp2," in advice
    assert advice.endswith("of the time at most.")


def test_the_figure_has_a_line_for_each_server_and_size() -> None:
    drawn = figure(WINDOWS)
    assert drawn is not None
    values = [row for rows in drawn["datasets"].values() for row in rows]
    assert {row["server"] for row in values} == {"quiche", "quinn", "textbook", "objective"}

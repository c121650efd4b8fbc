"""What the page of uploads makes of runs: by pair, by the end that sends, beside a download."""

from __future__ import annotations

import pytest

from studies.uploads.claims import BOTH_WAYS, DOWNLOAD, MEDIUM, SERVER_AT_TERMINAL, SMALL
from studies.uploads.figures import slowdowns
from studies.uploads.page import uploads
from tests.unit.study_results import results_of, table_cells


def times(seconds: float) -> dict[str, float]:
    return {"milestone_2MB": 3, "milestone_10MB": 9.5, "milestone_100MB": seconds, "completion": seconds}


def test_without_runs_each_part_says_so() -> None:
    assert uploads([]).count("No runs are stored.") == 4


def test_pairs_are_in_order_of_their_times_below_what_the_line_rate_allows() -> None:
    page = uploads(
        [*results_of(MEDIUM, "quic-go", "aioquic", times(89)), *results_of(MEDIUM, "aioquic", "quic-go", times(88))]
    )
    # A round trip for the handshake, the bytes at 10 Mbit/s, half a round trip on the way: 0.65 + 80 + 0.325.
    assert table_cells(page, "*line rate at once*")[3] == "81"
    assert page.index("*line rate at once*") < page.index("| aioquic → quic-go, h3") < page.index("| quic-go → aioquic")
    assert table_cells(page, "quic-go → aioquic, h3")[1:4] == ["3", "9.5", "89"]
    assert "650 ms: 88 s (aioquic → quic-go, h3) to 89 s (quic-go → aioquic, h3); the line rate allows 81 s." in page


def test_the_figure_is_in_units_of_what_the_line_rate_allows() -> None:
    drawn = slowdowns(results_of(MEDIUM, "quic-go", "aioquic", times(89)))
    assert drawn is not None
    rows = {row["case"]: row["value"] for rows in drawn["datasets"].values() for row in rows if "case" in row}
    assert rows["100 MB"] == pytest.approx(89 / 80.975, rel=0.01)


def test_the_same_bytes_from_both_ends() -> None:
    page = uploads(
        [
            *results_of(SMALL, "quic-go", "quic-go", {"completion": 411}),
            *results_of(SMALL, "aioquic", "aioquic", {"completion": 412}),
            *results_of(SERVER_AT_TERMINAL, "quic-go", "quic-go", {"completion": 410}),
        ]
    )
    assert table_cells(page, "quic-go") == ["quic-go", "411", "410"]
    assert table_cells(page, "aioquic") == ["aioquic", "412", "–"]


def test_a_download_and_an_upload_alone_and_together() -> None:
    page = uploads(
        [
            *results_of(BOTH_WAYS, "quic-go", "quic-go", {"completion": 30}, {"completion": 95}),
            *results_of(DOWNLOAD, "quic-go", "quic-go", {"completion": 22}),
            *results_of(MEDIUM, "quic-go", "quic-go", {"completion": 88}),
        ]
    )
    beside = page[page.index("## An upload beside a download") :]
    assert table_cells(beside, "quic-go → quic-go, h3")[1:] == ["22", "30", "88", "95"]
    assert "A download beside an upload takes 1.36 (quic-go → quic-go, h3) times as long as alone" in page


def test_runs_in_real_time_are_left_out() -> None:
    page = uploads(results_of(MEDIUM, "quic-go", "aioquic", times(89), engine="compose"))
    assert "quic-go → aioquic" not in page

"""Senders beside TCP: shares, and what TCP has as a part of what it has beside itself."""

from __future__ import annotations

from studies.coexistence.page import coexistence
from tests.unit.study_results import results_of, table_cells


def test_who_takes_tcp_s_part_is_named() -> None:
    runs = [
        *results_of("dumbbell/beside-tcp", "quinn", "picoquic", {"mean_throughput": 8.6}, {"mean_throughput": 1.0}),
        *results_of("dumbbell/beside-tcp", "https", "https", {"mean_throughput": 4.6}, {"mean_throughput": 5.0}),
    ]
    page = coexistence(runs)
    assert table_cells(page, "picoquic") == ["picoquic", "bbr", "8.6", "1", "90%", "–", "**20%**", "–"]
    assert table_cells(page, "https")[4:7] == ["48%", "–", "100%"]
    assert page.index("| picoquic |") < page.index("| https |")
    # The path over a satellite has no runs.
    assert page.count("No runs are stored.") == 1
    assert coexistence([]).count("No runs are stored.") == 2

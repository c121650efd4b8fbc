"""Senders beside TCP: shares, and what TCP has as a part of what it has beside itself."""

from __future__ import annotations

from studies.coexistence.figures import tcp_shares
from studies.coexistence.page import coexistence
from tests.unit.study_results import results_of, table_cells
from tests.unit.test_stored_studies import stored


def test_who_takes_tcp_s_part_is_named() -> None:
    runs = [
        *results_of("dumbbell/beside-tcp", "quinn", "picoquic", {"mean_throughput": 8.6}, {"mean_throughput": 1.0}),
        *results_of("dumbbell/beside-tcp", "https", "https", {"mean_throughput": 4.6}, {"mean_throughput": 5.0}),
    ]
    page = coexistence(runs)
    assert table_cells(page, "picoquic") == ["picoquic", "bbr", "8.6", "1", "90%", "–", "**20%**", "–"]
    assert table_cells(page, "https")[4:7] == ["48%", "–", "100%"]
    assert page.index("| picoquic |") < page.index("| https |")
    assert (
        "10 Mbit/s, 20 ms, DropTail of 1 BDP: 1 of 1 senders leave TCP less than 80% of what it has beside another TCP. It has 20% beside picoquic"
        in page
    )
    drawn = tcp_shares(runs)
    assert drawn is not None
    assert [row["value"] for rows in drawn["datasets"].values() for row in rows if "case" in row] == [0.2]
    # The path over a satellite has no runs.
    assert page.count("No runs are stored.") == 1
    assert coexistence([]).count("No runs are stored.") == 2


def test_runs_that_end_early_say_nothing_of_how_flows_share() -> None:
    """quinn's client closes the connection to quinn's server after 10 s of 120, when TCP has hardly begun."""
    runs = stored("satellite/beside-tcp")
    (failed,) = (result for result in runs if result.cell.server.name == "quinn")
    assert failed.outcomes.get("completed", 0) == 0 and failed.interval("mean_throughput", 1) is not None
    page = coexistence(runs)
    assert "| picoquic | bbr |" in page and "| quinn |" not in page
    assert f"\n* quinn→quinn: {failed.shortfall}.\n\nquinn closes a connection whose" in page
    # A path on which no sender completes has runs, too.
    assert f"No sender completed its runs.\n\n* quinn→quinn: {failed.shortfall}." in coexistence([failed])

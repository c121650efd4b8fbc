"""Published figures: each has ours beside it, from runs and not from text."""

from __future__ import annotations

import pytest

from studies.published.claims import FIGURES
from studies.published.compared import ours
from studies.published.page import published
from tests.unit.study_results import results_of

RUNS = [
    *results_of("satellite/fau-satl", "picoquic", "picoquic", {"completion": 8.3}),
    *results_of("interop/goodput", "quiche", "quic-go", {"goodput": 9.1}),
    *results_of("interop/goodput", "quiche", "quiche", {"goodput": 9.3}),
    *results_of("web/geo", "quic-go", "picoquic", {"page_load": 6.0}),
    *results_of("web/geo-split", "go-https", "https", {"page_load": 4.0}),
    *results_of("dumbbell/beside-tcp", "quinn", "quiche", {"mean_throughput": 6.0}, {"mean_throughput": 2.0}),
    *results_of("satellite/large-lossy", "quinn", "quinn", {"milestone_2MB": 20.0}),
]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("satl", "8.3 s"),
        ("satl-deep", ""),
        ("goodput", "9.2 Mbit/s (9.1 to 9.3 over 2 pairs)"),
        ("page-split", "1.5 times (1.5 to 1.5)"),
        ("share", "1.5 times; at most 1.5 (quiche)"),
        ("lossy-cubic", "0 of 1 pairs with CUBIC have no run that ends within"),
        ("satl-timeouts", "0 of 1"),
    ],
)
def test_ours_comes_from_runs(key: str, text: str) -> None:
    assert ours(RUNS, key).startswith(text)
    assert bool(ours(RUNS, key)) is bool(text)


def test_every_figure_has_a_row_and_says_when_there_is_no_run() -> None:
    page = published([])
    assert page.count("| no run yet |") == len(FIGURES)
    assert all(figure.theirs in page for figure in FIGURES)


def test_ratios_of_acknowledgement_are_held_against_each_other() -> None:
    runs = [
        result
        for ratio, seconds, packets in ((1, 23.0, 70_000), (10, 23.5, 7_000))
        for result in results_of(
            "studies/ack-ratio-50-10", "quinn", "quinn", {"milestone_100MB": seconds, "ack_packets": packets}
        )
        if result.cell.parameters["client.ack_ratio"] == ratio
    ]
    assert ours(runs, "ack-packets") == "quinn: 23.5 s instead of 23 with 10% of the packets"

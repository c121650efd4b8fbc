"""The page with picoquic's own bounds, on made-up measurements."""

from __future__ import annotations

import math

from syrupy.assertion import SnapshotAssertion

from studies.picoquic_bounds.page import bounds
from tests.bounds import results, scenario


def test_the_page(snapshot: SnapshotAssertion) -> None:
    figures = {"first_byte": 1.2, "packets_to_client": 72_000.0, "loss_drops_to_client": 1_100.0}
    cell_results = [
        *results(
            scenario("satellite-basic"),
            [6.0, 6.1, 5.9],
            [5.7, 5.7, 5.7],
            figures={**figures, "loss_drops_to_client": 0},
        ),
        *results(scenario("satellite-cubic-loss"), [15.5], [14.7], figures=figures),
        *results(scenario("satellite-jitter"), [math.inf], [math.inf]),
        *results(scenario("satellite-seeded"), [4.8], [4.5], figures={"repeat_first_byte": 0.6}, start=5.02),
        *results(scenario("bdp-reno"), [7.0], [6.9]),
    ]
    assert bounds(cell_results) == snapshot

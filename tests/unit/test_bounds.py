"""picoquic's own bounds: the scenarios that state them, and what is said of runs that meet or miss them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from harness.cli.environment import REFERENCE, open_app
from harness.evaluation.cell_result import CellResult
from harness.scenario.schema import Scenario
from harness.units import Rate
from studies.picoquic_bounds.claims import NOTES
from studies.picoquic_bounds.page import FOLDER, bounds, held, row, simulated_rate, times_per_bound
from tests.bounds import results, scenario
from tests.examples import catalogue

ALL = catalogue().find_scenarios([FOLDER])
BOUND, HERE, HOLDS, ALIKE, ALIKE_HOLDS, START, LINE, QUEUE, LOSS, WHY = range(3, 13)


@pytest.mark.parametrize(("mbps", "microseconds"), [(250, 43), (50, 219), (40, 274), (20, 549), (10, 1098), (2, 5493)])
def test_frames_as_fast_as_in_upstream_s_simulator(mbps: int, microseconds: int) -> None:
    """A frame of 14 + 20 + 8 + 1440 bytes in whole microseconds."""
    assert simulated_rate(Rate(mbps * 10**6)) == pytest.approx(1482 * 8e6 / microseconds)


@pytest.mark.parametrize("definition", ALL, ids=lambda definition: definition.name)
def test_a_scenario_is_its_test(definition: Scenario) -> None:
    test = definition.name.removeprefix(FOLDER).replace("-", "_")
    assert definition.clients == definition.servers == ("picoquic",)
    assert "server.congestion_control" in definition.parameters
    (objective,) = definition.objectives
    assert (
        f"Upstream's {test}_test" in definition.description
        and f"within {objective.bound:g} s" in definition.description
    )
    assert any(f"{test}_test" in reference for reference in definition.references)
    size = definition.flows[0].download
    assert size is not None and objective.metric.endswith(f"milestone_{size.label()}")
    assert objective.metric.startswith("repeat_") == (definition.flows[0].repeat_after is not None)
    rates = [Rate.parse(str(value)) for value in definition.vary.get("path.down.rate", ())]
    if rates:
        named, fast = rates
        assert named == definition.path.to_client.rate
        assert fast.value == pytest.approx(simulated_rate(named), rel=1e-3)


def only(cell_results: Sequence[CellResult]) -> list[str]:
    """The row of the one test."""
    (bound_test,) = held(cell_results)
    return row(bound_test)


def basic(named: Sequence[float], fast: Sequence[float], **figures: float) -> list[str]:
    return only(results(scenario("satellite-basic"), named, fast, figures=figures))


def test_a_bound_that_holds_needs_no_reason() -> None:
    cells = basic([5.4, 5.3, 5.45], [5.1])
    assert cells[HERE:ALIKE] == ["5.40 [5.30, 5.45]", "holds"]
    assert cells[ALIKE:START] == ["4.80", "holds"] and cells[WHY] == ""


def test_what_the_link_and_the_start_explain() -> None:
    cells = basic([6.0], [5.7])
    assert cells[HOLDS] == "does not hold" and cells[ALIKE:START] == ["5.40", "holds"]
    assert cells[WHY] == "frames as fast as upstream's save 0.30 s, and upstream's sender begins 0.30 s earlier"
    # The faster link need not help.
    assert basic([5.6], [5.7])[WHY] == "upstream's sender begins 0.30 s earlier"
    assert basic([5.4, 5.6], [5.7])[HOLDS] == "holds in some runs"


def test_what_nothing_explains_says_so() -> None:
    cells = basic([6.5], [6.2])
    assert cells[ALIKE:START] == ["5.90", "does not hold"] and cells[WHY] == "not explained"
    # It holds only on the slower link.
    assert basic([5.4], [6.2])[WHY] == "not explained"


def test_the_count() -> None:
    cell_results = [
        *results(scenario("satellite-basic"), [6.0], [5.7]),
        *results(scenario("satellite-bbr1"), [6.9], [6.6]),
        *results(scenario("satellite-cubic"), [6.9], [6.9]),
    ]
    assert "1 of 3 bounds hold as they stand, and 2 hold like for like.\n" in bounds(cell_results)
    assert "No runs are stored." in bounds([]) and "hold as they stand" not in bounds([])


def test_the_page_s_figure_has_the_nearest_to_its_bound_last() -> None:
    loss, cubic = scenario("satellite-loss"), scenario("satellite-cubic")
    drawn = times_per_bound([*results(loss, [4.0, 4.4, 4.0]), *results(cubic, [6.5], [5.5])])
    assert drawn is not None and times_per_bound([]) is None
    rows = (row for rows in drawn["datasets"].values() for row in rows if "case" in row)
    marks = [(row["row"], row["case"], row["value"]) for row in rows]
    assert [mark for mark in marks if mark[1] == "at the rate named"] == [
        ("satellite_loss", "at the rate named", 0.5), ("satellite_cubic", "at the rate named", 1.0),
    ]  # fmt: skip
    # A sender that begins half a round trip sooner, on frames as fast as upstream's.
    assert ("satellite_cubic", "like for like", pytest.approx((5.5 - 0.3) / 6.5)) in marks


def test_the_figures() -> None:
    cells = basic(
        [5.2], [5.0], first_byte=1.2, packets_to_client=1000, queue_drops_to_client=38, loss_drops_to_client=1
    )
    assert cells[LINE:WHY] == ["80%", "3.8%", "0.1%"]  # 100 MB in 4 s are 200 Mbit/s


LOST = {"packets_to_client": 72_000.0, "loss_drops_to_client": 1_125.0, "first_byte": 1.2}


@pytest.mark.parametrize(
    ("name", "seconds", "figures", "fits"),
    [
        ("satellite-cubic-loss", 15.5, LOST, True),
        ("satellite-cubic-loss", 15.5, {**LOST, "queue_drops_to_client": 500.0}, False),
        ("satellite-cubic-loss", 15.5, {**LOST, "loss_drops_to_client": 9.0}, False),
        ("satellite-cubic-loss", 8.5, LOST, False),  # too little for it
        ("satellite-jitter", math.inf, {"packets_to_client": 9_000.0}, True),
        ("satellite-jitter", math.inf, {"packets_to_client": 9_000.0, "queue_drops_to_client": 9.0}, False),
        ("satellite-jitter", 8.0, {"packets_to_client": 72_000.0}, False),
    ],
)
def test_a_note_stands_only_with_its_figures(
    name: str, seconds: float, figures: Mapping[str, float], fits: bool
) -> None:
    note = NOTES[name.replace("-", "_")]
    cells = only(results(scenario(name), [seconds], [seconds], figures=figures))
    assert cells[WHY] == (note.text if fits else "not explained")
    assert cells[HERE].startswith("not in 60 s") is math.isinf(seconds)


def test_a_note_explains_the_runs_that_stray() -> None:
    cells = only(results(scenario("satellite-cubic-loss"), [7.1, 9.8, 7.2], [6.8, 6.8, 9.0], figures=LOST))
    assert cells[HOLDS] == "holds in some runs" and cells[ALIKE_HOLDS] == "holds"
    assert cells[WHY] == NOTES["satellite_cubic_loss"].text


def test_a_note_goes_when_its_test_holds() -> None:
    cells = only(results(scenario("satellite-cubic-loss"), [7.0], [6.8], figures=LOST))
    assert cells[WHY] == ""


def test_a_connection_after_a_change_is_reckoned() -> None:
    """The rate is another one after the change: there is no second cell."""
    figures = {"repeat_wire_to_client": 10.6e6, "repeat_first_byte": 0.2}
    cells = only(results(scenario("bdp-short-hi"), [4.66], figures=figures))
    saved = 8 * 10.6e6 * (1 / 20e6 - 549e-6 / (1482 * 8))
    assert cells[ALIKE] == f"{4.66 - saved:.2f}"
    assert cells[WHY] == f"frames as fast as upstream's save {saved:.2f} s (reckoned)"
    assert cells[HERE] == "4.66 †"


def test_how_the_second_connection_starts() -> None:
    assert [only(results(scenario("satellite-seeded"), [4.8], start=start))[START] for start in (5.02, None)] == [
        "× 5.0",
        "",
    ]
    # The bound is not on it.
    assert basic([5.0], [4.9])[START] == ""


def test_the_paths_are_told() -> None:
    words = {tested_scenario.name: only(results(tested_scenario, [1.0]))[1] for tested_scenario in ALL}
    assert words["picoquic/satellite-small-up"] == "2/10 Mbit/s, 600 ms"
    assert words["picoquic/satellite-loss"] == "250/3 Mbit/s, 600 ms, 1.56% lost"
    assert words["picoquic/blackhole"] == "10/10 Mbit/s, 30 ms, nothing passes from 5 s"
    assert words["picoquic/bdp-rtt"] == "20/20 Mbit/s, 600 ms, then 100 ms"
    assert words["picoquic/bdp-short-hi"] == "40/40 Mbit/s, 200 ms, then 20 Mbit/s"
    assert words["picoquic/satellite-jitter"] == "250/3 Mbit/s, 606 ms, jitter ± 3 ms"


def test_no_note_outlives_its_reason() -> None:
    """Every note stands on the page that is made from the reference runs, where they have its test."""
    assert {FOLDER + test.replace("_", "-") for test in NOTES} <= {tested_scenario.name for tested_scenario in ALL}
    stored = open_app(REFERENCE).results.find(lambda cell: cell.scenario.name.startswith(FOLDER))
    for bound_test in held(stored):
        if bound_test.test in NOTES:
            assert row(bound_test)[WHY] == NOTES[bound_test.test].text, (
                f"the note on {bound_test.test} explains nothing: take it out"
            )

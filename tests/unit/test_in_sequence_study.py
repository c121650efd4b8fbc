"""What the study of paths in sequence makes of runs: rows, both clocks, verdicts, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.judge import judge
from harness.metrics import VERSION
from harness.outcome import LinkProof, MeasuredRun, Measurement, Outcome, Run
from harness.plan import Request, cells, named, points_of
from harness.results import CellResult
from harness.studies.in_sequence.claims import MEDIUM, PROXIES, SIZES
from harness.studies.in_sequence.compared import bounds, met, rows
from harness.studies.in_sequence.figures import bars
from harness.studies.in_sequence.page import in_sequence
from tests.examples import SIM, catalogue, images

KNOWN = {name: one for name, (one, _) in catalogue().implementations().items()}
FIRST = 1.3


def _results(scenario: str, times: Mapping[str, Sequence[float]]) -> list[CellResult]:
    """Cells of a scenario with times for 2, 10 and 100 MB, by what tells one from the others."""
    one = catalogue().find_scenarios([scenario])[0]
    request = Request([one], [KNOWN["picoquic"], KNOWN["ngtcp2"]], [KNOWN["picoquic"]], engine="virtual")
    made = []
    for cell in cells(request, images("picoquic", "ngtcp2", *named(points_of(request))), SIM, KNOWN):
        found = next((each for name, each in times.items() if name in _told(cell.parameters, cell.client.name)), None)
        if found is None:
            continue
        figures = {
            "first_byte": FIRST,
            **{f"milestone_{size}": value for size, value in zip(SIZES, found, strict=False)},
        }
        run = Run(cell=cell, repetition=0, outcome=Outcome(status="completed"), started_at="2026-11-22")
        measured = MeasuredRun(
            version=VERSION, link=LinkProof(valid=True),
            measurements=tuple(
                Measurement(name=name, value=value, unit="s", flow=0, transfer="first") for name, value in figures.items()
            ),
        )  # fmt: skip
        runs = ((run, measured),)
        made.append(CellResult(cell, runs, judge(cell.scenario, runs, []), (Path("x"),)))
    return made


def _told(parameters: Mapping[str, object], client: str) -> list[str]:
    return [client, *(f"{name.rpartition('.')[2]}={value}" for name, value in parameters.items())]


def _medium() -> list[CellResult]:
    return [
        *_results(MEDIUM.end_to_end, {"congestion_control=cubic": (5.9, 8.0, 31.0)}),
        *_results(MEDIUM.split, {"initial_cwnd=100": (4.2, 6.2, 21.2), "initial_cwnd=10": (5.9, 7.5, 22.0)}),
        *_results(MEDIUM.quic, {"picoquic": (2.0, 4.0, 19.0), "ngtcp2": (4.0, 6.0, 25.0)}),
    ]


def test_rows_are_tcp_then_each_proxy_then_quic() -> None:
    assert [row.name for row in rows(_medium(), MEDIUM)] == [
        "TCP, no proxy (cubic)", *(f"TCP, proxies {name}" for name in PROXIES), "picoquic → picoquic",
        "ngtcp2 → picoquic",
    ]  # fmt: skip


def test_the_second_clock_starts_with_the_data() -> None:
    row = next(row for row in rows(_medium(), MEDIUM) if row.name == "TCP, proxies D")
    assert bounds(row) == {"2MB": 3, "10MB": 5, "100MB": 20}
    whole, since = ({size: clock(size) for size in SIZES} for clock in (row.seconds, row.since_data))
    assert met(row, whole) == []
    assert met(row, since) == ["2MB", "10MB", "100MB"]


def test_the_page_says_who_meets_the_objectives_and_what_becomes_of_the_claims() -> None:
    page = in_sequence(_medium())
    assert (
        "TCP behind proxies meets all three: none from the first packet on, proxies B, proxies D from the first" in page
    )
    assert "QUIC meets all three: picoquic → picoquic from the first packet on." in page
    assert "| 50/10 Mbit/s | proxies D are where the objectives come from | 2.9, 4.9, 19.9 s | borne out |" in page
    assert (
        "| 50/10 Mbit/s | proxies C are where the objectives come from | 4.6, 6.2, 20.7 s | within for no size |"
        in page
    )
    assert "| only picoquic with picoquic meets the objectives | picoquic → picoquic | borne out |" in page
    assert "2 MB: 5.9 → 4.2 s" in page
    assert page.count("No runs are stored.") == 2


def test_the_only_pair_is_contradicted_by_another_that_meets_them() -> None:
    page = in_sequence(_results(MEDIUM.quic, {"picoquic": (2.0, 4.0, 19.0), "ngtcp2": (2.0, 4.0, 19.0)}))
    assert "picoquic → picoquic, ngtcp2 → picoquic | contradicted |" in page


def test_the_figure_has_a_panel_a_size_with_its_objective() -> None:
    drawn = bars(MEDIUM)(_medium())
    assert drawn is not None
    assert [panel["layer"][0]["encoding"]["x"]["title"] for panel in drawn["hconcat"]] == [
        "2 MB, s",
        "10 MB, s",
        "100 MB, s",
    ]
    assert bars(MEDIUM)([]) is None

"""What the study of paths in sequence makes of runs: rows, both clocks, verdicts, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.objective_claim import OnlyClaim, judge_claim
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix, named_implementations, swept_points
from harness.outcome import LinkProof, MeasuredRun, Measurement, Outcome, Run
from harness.planning.sampling import has_random_path
from studies.in_sequence.claims import LARGE_LOSSY, MEDIUM, PROXIES, SIZES
from studies.in_sequence.compared import bounds, met, rows, seeds
from studies.in_sequence.figures import bars
from studies.in_sequence.page import in_sequence
from tests.examples import SIM, catalogue, images, scenario

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}
FIRST = 1.3


def _results(scenario: str, times: Mapping[str, Sequence[float]]) -> list[CellResult]:
    """Cells of a scenario with times for 2, 10 and 100 MB, by what tells one from the others."""
    tested_scenario = catalogue().find_scenarios([scenario])[0]
    request = Request([tested_scenario], [KNOWN["picoquic"], KNOWN["ngtcp2"]], [KNOWN["picoquic"]], engine="virtual")
    results = []
    for cell in build_matrix(
        request, images("picoquic", "ngtcp2", *named_implementations(swept_points(request))), SIM, KNOWN
    ):
        cell_times = next(
            (each for name, each in times.items() if name in _labels(cell.parameters, cell.client.name)), None
        )
        if cell_times is None:
            continue
        figures = {
            "first_byte": FIRST,
            **{f"milestone_{size}": value for size, value in zip(SIZES, cell_times, strict=False)},
        }
        run = Run(cell=cell, repetition=0, outcome=Outcome(status="completed"), started_at="2026-11-22")
        measured = MeasuredRun(
            version=VERSION, link=LinkProof(valid=True),
            measurements=tuple(
                Measurement(name=name, value=value, unit="s", flow=0, transfer="first") for name, value in figures.items()
            ),
        )  # fmt: skip
        runs = ((run, measured),)
        results.append(CellResult(cell, runs, judge(cell.scenario, runs, []), (Path("x"),)))
    return results


def _labels(parameters: Mapping[str, object], client: str) -> list[str]:
    return [client, *(f"{name.rpartition('.')[2]}={value}" for name, value in parameters.items())]


def _medium() -> list[CellResult]:
    return [
        *_results(MEDIUM.https, {"congestion_control=cubic": (7.0, 9.0, 33.0)}),
        *_results(MEDIUM.https_split, {"initial_cwnd=100": (4.9, 6.9, 22.2)}),
        *_results(MEDIUM.tcp_settings, {"initial_cwnd=100": (4.5, 6.5, 30.0)}),
        *_results(MEDIUM.tcp, {"congestion_control=cubic": (5.9, 8.0, 31.0)}),
        *_results(MEDIUM.tcp_split, {"initial_cwnd=100": (4.2, 6.2, 21.2), "initial_cwnd=10": (5.9, 7.5, 22.0)}),
        *_results(MEDIUM.quic, {"picoquic": (2.0, 4.0, 19.0), "ngtcp2": (4.0, 6.0, 25.0)}),
    ]


def test_rows_are_tcp_then_each_proxy_then_quic() -> None:
    assert [row.name for row in rows(_medium(), MEDIUM)] == [
        "TCP, no proxy (cubic)", "TCP, no proxy, set as B", "TCP, no proxy, set as D",
        *(f"TCP, proxies {name}" for name in PROXIES),
        "HTTPS, no proxy (cubic)", "HTTPS, proxies B", "HTTPS, proxies D", "picoquic → picoquic", "ngtcp2 → picoquic",
    ]  # fmt: skip


def test_the_second_clock_starts_with_the_data() -> None:
    row = next(row for row in rows(_medium(), MEDIUM) if row.name == "TCP, proxies D")
    assert bounds(row) == {"2MB": 3, "10MB": 5, "100MB": 20}
    whole, since = ({size: clock(size) for size in SIZES} for clock in (row.seconds, row.since_data))
    assert met(row, whole) == []
    assert met(row, since) == ["2MB", "10MB", "100MB"]


def test_the_page_says_who_meets_the_objectives_and_what_becomes_of_the_claims() -> None:
    page = in_sequence(_medium())
    assert "* TCP behind proxies: none from the first packet on, proxies B, proxies D from the first byte on." in page
    assert "* QUIC: picoquic → picoquic from the first packet on." in page
    assert [line for line in page.partition("## ")[0].splitlines() if line.startswith("* ")] == [
        "* 50/10 Mbit/s: QUIC meets all three objectives with picoquic → picoquic; TCP meets them from the first byte on "
        "with proxies B, proxies D."
    ]
    assert "| 50/10 Mbit/s | proxies D are where the objectives come from | 2.9, 4.9, 19.9 s | borne out |" in page
    assert (
        "| 50/10 Mbit/s | proxies C are where the objectives come from | 4.6, 6.2, 20.7 s | within for no size |"
        in page
    )
    meets = "picoquic → picoquic: 1 of 1 run within all 3 objectives"
    assert f"| only picoquic with picoquic meets the objectives | {meets} | borne out |" in page
    assert "transmission is faster with proxies (TCP, D) | 2 MB: 5.9 → 4.2 s" in page
    assert "transmission is faster with proxies (HTTPS, D) | 2 MB: 7 → 4.9 s" in page
    assert "* HTTPS without a proxy: none from the first packet on, none from the first byte on." in page
    assert page.count("No runs are stored.") == 2


def test_the_only_pair_is_contradicted_by_another_of_the_claim_that_meets_them() -> None:
    both = _results(MEDIUM.quic, {"picoquic": (2.0, 4.0, 19.0), "ngtcp2": (2.0, 4.0, 19.0)})
    # The document has no client of ngtcp2: what its client meets contradicts nothing.
    assert "| borne out |" in in_sequence(both)
    claim = OnlyClaim((MEDIUM.quic,), ("picoquic", "picoquic"), (("ngtcp2", "picoquic"),))
    assert judge_claim(claim, both).status == "contradicted"
    slow = _results(MEDIUM.quic, {"picoquic": (3.1, 4.0, 19.0), "ngtcp2": (4.0, 6.0, 25.0)})
    assert judge_claim(claim, slow).text == (
        "contradicted: picoquic → picoquic: 0 of 1 run within 2 MB's objective; "
        "ngtcp2 → picoquic: 0 of 1 run within 2 MB's objective"
    )
    assert judge_claim(claim, []).status == "not run"


def test_where_chance_plays_one_run_that_meets_them_decides_nothing() -> None:
    page = in_sequence(_results(LARGE_LOSSY.quic, {"picoquic": (2.0, 4.0, 9.0)}))
    assert "* QUIC: none from the first packet on." in page
    assert page.count("Not decided: picoquic → picoquic (1 of 1 run within all 3 objectives).") == 2


@pytest.mark.parametrize(
    ("scenario", "times", "count", "shown"),
    [
        (MEDIUM.tcp, (2.0, 2.0), "2, deterministic", "| 2 |"),
        (MEDIUM.tcp, (2.0, 2.4), "2", "| 2.2 [2, 2.4] |"),
        (MEDIUM.tcp, (2.0,), "1, nothing at random", "| 2 |"),
        (LARGE_LOSSY.tcp, (2.0, 2.0), "2", "| 2 |"),
        (LARGE_LOSSY.tcp, tuple(2 + n / 10 for n in range(6)), "6", "| 2.25 [2, 2.5] |"),
    ],
)
def test_seeds_are_counted_and_said_to_be_enough_where_nothing_is_random(
    scenario: str, times: tuple[float, ...], count: str, shown: str
) -> None:
    (result,) = _results(scenario, {"congestion_control=cubic": (2.0, 8.0, 31.0)})
    (run, measured) = result.runs[0]
    assert measured is not None
    runs = tuple(
        (
            run.model_copy(update={"repetition": number}),
            measured.model_copy(
                update={
                    "measurements": tuple(
                        measurement.model_copy(update={"value": seconds})
                        if measurement.name == "milestone_2MB"
                        else measurement
                        for measurement in measured.measurements
                    )
                }
            ),
        )
        for number, seconds in enumerate(times)
    )
    results = [replace(result, runs=runs)]
    (row,) = rows(results, MEDIUM if scenario == MEDIUM.tcp else LARGE_LOSSY)
    assert seeds(row) == count
    (table_row,) = [each for each in in_sequence(results).splitlines() if each.startswith("| TCP, no proxy (cubic)")]
    assert shown in table_row and table_row.endswith(f"| {count} |")


def test_what_is_random_on_a_path() -> None:
    plain, link = catalogue().find_scenarios([MEDIUM.quic])[0], {"rate": "10 Mbit/s", "delay": "10 ms"}
    assert not has_random_path(plain)
    for more in (
        {"loss": "1 %"}, {"jitter": "1 ms"}, {"queue": "RED 1 BDP"}, {"service": {"process": "poisson"}, "queue": "20 packets"},
    ):  # fmt: skip
        assert has_random_path(scenario(path={"forward": link, "return": {**link, **more}}))
    assert has_random_path(
        scenario(path={"forward": link, "return": link, "changes": [{"at": "1 s", "forward": {"loss": "1 %"}}]})
    )
    assert has_random_path(
        scenario(path={"forward": link, "return": link}, draw={"path.forward.rate": ["5 Mbit/s", "9 Mbit/s"]})
    )


def test_the_figure_has_a_panel_a_size_with_its_objective() -> None:
    is_random = bars(MEDIUM)(_medium())
    assert is_random is not None
    assert [panel["layer"][0]["encoding"]["x"]["title"] for panel in is_random["hconcat"]] == [
        "2 MB, s",
        "10 MB, s",
        "100 MB, s",
    ]
    assert bars(MEDIUM)([]) is None

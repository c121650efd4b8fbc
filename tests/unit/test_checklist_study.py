"""The checklist: every claim of five documents has a verdict from stored runs, and other runs have another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType

import pytest
from syrupy.assertion import SnapshotAssertion

from harness.cli.environment import REFERENCE, open_app
from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_history import has_release
from harness.outcome import Interval
from harness.report.migration import rows
from studies.checklist import STUDY, migration, red, satellite, sharing, udp
from studies.checklist.page import DOCUMENTS, checklist, judge
from studies.checklist.verdicts import Claim, Results, Spread, Verdict, faster, within
from tests.measurements import measurement
from tests.unit.study_results import results_of


@cache
def stored() -> tuple[CellResult, ...]:
    """What the reference has of the checklist's scenarios, releases aside."""

    def is_of(name: str) -> bool:
        return any(name == scenario or name.startswith(f"{scenario}/") for scenario in STUDY.scenarios)

    cell_results = open_app(REFERENCE).results.find(lambda cell: is_of(cell.scenario.name))
    return tuple(result for result in cell_results if not has_release(result))


def test_every_claim_has_its_verdict_on_stored_runs(snapshot: SnapshotAssertion) -> None:
    judged = {document.source: judge(document, stored()) for document in DOCUMENTS}
    missing = [claim.says for rows in judged.values() for claim, verdict in rows if verdict.status == "missing"]
    assert missing == []
    lines = [f"{claim.where} | {claim.says} | {verdict.status}" for rows in judged.values() for claim, verdict in rows]
    assert "\n".join(lines) == snapshot


def test_what_is_not_reproduced_says_why() -> None:
    for document in DOCUMENTS:
        for claim, verdict in judge(document, stored()):
            assert verdict.status == "reproduced" or verdict.why, claim
            assert verdict.status == "not applicable" or verdict.here, claim


def test_without_runs_a_claim_is_missing_or_no_claim_about_runs() -> None:
    for document in DOCUMENTS:
        statuses = {verdict.status for _, verdict in judge(document, [])}
        assert statuses == {"missing", "not applicable"}, document.source
    page = checklist([])
    assert page.count("**missing**") > 100
    assert "**reproduced**" not in page


def verdict_on(document: ModuleType, text: str, results: Results) -> Verdict:
    """The verdict on the first claim of a document that begins so."""
    claims: list[Claim] = list(document.claims(results))
    return next(claim for claim in claims if claim.says.startswith(text)).judge(results)


def phased(server: str, values: Mapping[str, float]) -> list[CellResult]:
    """A run of the showcase with figures by the names that people write."""
    (cell_result,) = results_of(sharing.SHARING, "ngtcp2", server)
    ((run, measured),) = cell_result.runs
    assert measured is not None
    measurements = tuple(measurement(name, value) for name, value in values.items())
    return [replace(cell_result, runs=((run, measured.model_copy(update={"measurements": measurements})),))]


@pytest.mark.parametrize(
    ("onset", "status"), [((0.05, 0.04), "reproduced"), ((0.05, 0.005), "in part"), ((0.01, 0.005), "contradicted")]
)
def test_a_spike_is_more_drops_at_the_start_than_afterwards(onset: tuple[float, float], status: str) -> None:
    runs = []
    for server, rate in zip(("ngtcp2", "quiche"), onset, strict=True):
        runs += phased(server, {"phase2_onset_drop_rate": rate, "phase2_settled_drop_rate": 0.02})
    assert verdict_on(sharing, "a spike when the second", runs).status == status
    assert verdict_on(sharing, "a spike when the first", runs).status == "missing"


def test_flows_converge_where_they_do_within_their_phase_and_quickly_within_half_a_second() -> None:
    def runs(seconds: float) -> list[CellResult]:
        return phased("quinn", {"phase2_convergence_time": 0.1, "phase3_convergence_time": seconds})

    assert verdict_on(sharing, "flows converge", runs(0.9)).status == "reproduced"
    assert verdict_on(sharing, "flows converge", runs(10.0)).status == "in part"
    quick = verdict_on(sharing, "bandwidth is quickly redistributed when flows join", runs(0.9))
    assert (quick.status, quick.why) == ("in part", "longer than 0.5 s: quinn 0.9 s after 20 s")
    assert verdict_on(sharing, "bandwidth is quickly redistributed when flows join", runs(0.4)).status == "reproduced"


def test_shares_overshoot_drops_and_the_background_are_held_against_the_showcase() -> None:
    figures = {f"phase2_flow{flow}_throughput": rate for flow, rate in enumerate((4.7, 4.6))}
    assert verdict_on(sharing, "10-20s: two flows have about 5", phased("quinn", figures)).status == "reproduced"
    assert verdict_on(
        sharing, "10-20s: two flows have about 5", phased("quinn", {**figures, "phase2_flow1_throughput": 2.0})
    ).status == ("contradicted")
    for rate, status in ((13.0, "reproduced"), (9.7, "contradicted")):
        overshoot = phased("quinn", {"phase1_onset_peak_rate": rate})
        assert verdict_on(sharing, "the first sender overshoots", overshoot).status == status
    for rate, status in ((0.011, "reproduced"), (0.2, "contradicted")):
        assert verdict_on(sharing, "loss at the bottleneck", phased("quinn", {"drop_rate": rate})).status == status
    for rate, status in ((0.39, "reproduced"), (0.3, "contradicted")):
        udp_rates = {"phase1_flow3_throughput": 0.4, "phase2_flow3_throughput": rate}
        assert verdict_on(sharing, "UDP's rate", phased("quinn", udp_rates)).status == status


def _beside_tcp(server: str, own: float, tcp: float) -> list[CellResult]:
    runs = results_of(sharing.BESIDE_TCP, "quinn", server, {"mean_throughput": own}, {"mean_throughput": tcp})
    asked = {"server.congestion_control": "reno"}
    return [replace(result, cell=result.cell.model_copy(update={"parameters": asked})) for result in runs]


def test_a_sender_that_takes_tcp_s_part_is_named_with_its_reason() -> None:
    fair = verdict_on(sharing, "QUIC was made to coexist", _beside_tcp("ngtcp2", 5.0, 4.5))
    assert fair.status == "reproduced"
    taken = verdict_on(sharing, "QUIC was made to coexist", _beside_tcp("quic-go", 6.4, 3.2))
    assert taken.status == "contradicted"
    assert taken.why.startswith("not quic-go (more than TCP): it falls to 0.7 of its window")
    # Beside CUBIC, which is what others ran beside, it says nothing.
    beside_cubic = results_of(sharing.BESIDE_TCP, "quinn", "ngtcp2", {"mean_throughput": 5.0}, {"mean_throughput": 4.5})
    assert verdict_on(sharing, "QUIC was made to coexist", beside_cubic).status == "missing"


def _picoquic(scenario: str, figures: Mapping[str, float]) -> list[CellResult]:
    return results_of(scenario, "picoquic", "picoquic", figures)


def test_a_limit_is_contradicted_by_a_goodput_beyond_it() -> None:
    assert verdict_on(
        satellite, "picoquic with picoquic is limited", _picoquic(satellite.LOSSY, {"goodput": 50.0})
    ).status == ("reproduced")
    beyond = _picoquic(satellite.LOSSY, {"goodput": 110.0})
    small = [
        replace(result, cell=result.cell.model_copy(update={"parameters": {"client.connection_window": "4.0625 MB"}}))
        for result in _picoquic(satellite.LOSSY, {"goodput": 37.0})
    ]
    verdict = verdict_on(satellite, "picoquic with picoquic is limited", [*beyond, *small])
    assert verdict.status == "contradicted"
    assert verdict.here == "110 Mbit/s; 37 with a connection window of 4.0625 MB"


@pytest.mark.parametrize(("ratio", "status"), [(10.0, "reproduced"), (42.0, "contradicted")])
def test_packets_an_acknowledgement_stand_beside_what_comes_meanwhile(ratio: float, status: str) -> None:
    runs = _picoquic(satellite.CASE, {"ack_ratio": ratio, "goodput": 41.5})
    verdict = verdict_on(satellite, "picoquic begins with ratio 2:1", runs)
    assert verdict.status == status
    # 41.5 Mbit/s · 10 ms / (8 · 1482 B)
    assert ("35 on 50 Mbit/s" in verdict.why) == (status == "contradicted")


def test_servers_and_clients_are_compared_on_the_slides_paths() -> None:
    own = _picoquic(satellite.CASE, {"milestone_100MB": 19.3})
    for seconds, status in ((23.0, "reproduced"), (18.0, "contradicted")):
        other = results_of(satellite.CASE, "picoquic", "quiche", {"milestone_100MB": seconds})
        assert verdict_on(satellite, "picoquic's server performs better", [*own, *other]).status == status
    paths = ("in-sequence/quic-medium", "in-sequence/quic-large-lossy")
    for curl, status in ((10.0, "contradicted"), (8.0, "reproduced")):
        runs = [
            result
            for path, (of_curl, of_own) in zip(paths, ((22.0, 20.0), (curl, 8.0)), strict=True)
            for result in (
                *results_of(path, "curl", "picoquic", {"milestone_100MB": of_curl}),
                *results_of(path, "picoquic", "picoquic", {"milestone_100MB": of_own}),
            )
        ]
        assert verdict_on(satellite, "picoquic's and curl's client differ less", runs).status == status


def test_ccperf_s_figures_follow_the_study_s_rule() -> None:
    def runs(rate: float, delay: float) -> list[CellResult]:
        flow = {"mean_throughput": rate, "mean_one_way_delay": delay}
        return results_of(udp.BACKGROUND, "linux", "linux", *[flow] * 6)

    # (8.68 + 6.59 + 6.82) / 3 is 7.36.
    assert verdict_on(udp, "`mean_throughput_l4`: 8.68", runs(7.2, 19.0)).here == "7.2 Mbit/s (-2%)"
    assert verdict_on(udp, "`mean_throughput_l4`: 8.68", runs(7.2, 19.0)).status == "reproduced"
    assert verdict_on(udp, "`mean_throughput_l4`: 8.68", runs(5.0, 19.0)).status == "contradicted"
    verdict = verdict_on(udp, "`mean_one_way_delay_l7`: 2,678", runs(7.2, 19.0))
    assert verdict.status == "contradicted"
    assert "send buffer" in verdict.why


def test_the_rule_s_gain_is_held_against_the_reset() -> None:
    assert verdict_on(migration, "the rule is a significant improvement", []).status == "missing"
    verdict = verdict_on(migration, "throughput of the first 100 ms nearly doubled", stored())
    assert verdict.status == "contradicted"
    assert "the new path's bandwidth-delay product is 32 to 88 kB, about the window of a reset, 38 kB" in verdict.why


def test_moves_are_the_rows_of_the_page_of_moves() -> None:
    """A pair whose server crashed after the move has moved, and is a row of docs/handover.md."""
    shown = [row for row in rows(stored()) if row.scenario.name == migration.MIGRATE and row.result.cell.virtual_time]
    assert len(shown) == 38
    verdict = verdict_on(migration, "TCP ends where an address changes", stored())
    assert verdict.here == (
        "30 of 33 pairs of QUIC end their transfer after the server saw the new address; "
        "4 of these got no data there; 5 more pairs show no move"
    )
    assert verdict.why == "not ngtcp2 → tquic, picoquic → tquic, quic-go → tquic"
    # So have their windows, which the page says were kept or were not.
    kept = verdict_on(migration, "a change of the port (NAT) keeps", stored())
    assert (kept.here, kept.why) == ("5 of 10 servers do", "not picoquic, quic-go, quiche, s2n-quic, tquic")
    reset = verdict_on(migration, "a change of the IP address starts", stored())
    assert (reset.here, reset.why) == ("5 of 9 servers do", "not aioquic, picoquic, quiche, tquic")


def test_the_notebook_s_mislabelled_runs_contradict_nobody() -> None:
    verdicts = {
        (claim.where, claim.says): verdict.status for claim, verdict in ((c, c.judge(stored())) for c in red.claims([]))
    }
    beside = {status for (where, _), status in verdicts.items() if " beside " in where}
    assert beside == {"not applicable"}
    assert verdicts["high BDP, CUBIC", "throughput 15.66 → 36.92 kB/s (+136%)"] == "contradicted"


def _span(low: float, high: float) -> Interval:
    return Interval(n=6, median=(low + high) / 2, low=low, high=high, coverage=0.95)


def test_a_time_falls_where_the_intervals_do_not_touch() -> None:
    assert faster(_span(5, 6), _span(3, 4)).status == "reproduced"
    assert faster(_span(3, 4), _span(5, 6), why="slower").why == "slower"
    assert faster(_span(3, 5), _span(4, 6)).status == "not decided"
    assert faster(None, _span(4, 6)).status == "missing"


def test_stacks_within_bounds_are_counted() -> None:
    two = Spread(1.5, 1.0, 2.0, (1.0, 2.0))
    assert within(two, "s", 0, 3).status == "reproduced"
    assert within(two, "s", 0, 1.5, "one is late") == Verdict("in part", "1.5 [1, 2] s over 2 stacks", "one is late")
    assert within(two, "s", 5, 6).status == "contradicted"
    assert within(None, "s", 5, 6).status == "missing"

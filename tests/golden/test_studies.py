"""The page that holds documents against stored runs, and the tables of flows, on made-up measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix, named_implementations, swept_points
from harness.outcome import Absence, LinkProof, MeasuredRun, Outcome, Run
from harness.report.markdown import render_markdown, table_row
from harness.report.metrics import absences, metrics_document
from harness.report.studies import SHARED_PAGE
from studies.in_sequence_satellite.page import claim, satellite
from studies.red_droptail.page import queues
from tests.examples import ROOT, SIM, catalogue, images
from tests.measurements import measurement
from tools.reference.study_pages import figures, studies, study_pages

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}


def results(
    scenario: str, server: str, values: Mapping[str, Sequence[float]], client: str = "ngtcp2", **asked: str
) -> list[CellResult]:
    """A scenario's cells that were asked for these parameters, with as many runs as there are values."""
    scenario_definition = catalogue().find_scenarios([scenario])[0]
    request = Request([scenario_definition], [KNOWN[client]], [KNOWN[server]], engine="virtual")
    names = {*named_implementations(swept_points(request)), client, server}
    wanted = {name.replace("__", "."): value for name, value in asked.items()}
    cell_results = []
    for cell in build_matrix(request, images(*names), SIM, KNOWN):
        if any(cell.parameters.get(name) != value for name, value in wanted.items()):
            continue
        count = max(map(len, values.values()))
        runs = tuple(
            (
                Run(cell=cell, repetition=number, outcome=Outcome(status="completed"), started_at="2026-11-21"),
                MeasuredRun(
                    version=VERSION,
                    link=LinkProof(valid=True),
                    measurements=tuple(measurement(name, row[number]) for name, row in values.items()),
                    absent=(Absence(metric="mean_srtt", flows=(0,), why="nothing shows it"),)[: number == 0],
                ),
            )
            for number in range(count)
        )
        cell_results.append(CellResult(cell, runs, judge(cell.scenario, runs, []), tuple(Path("x") for _ in runs)))
    return cell_results


def sharing() -> list[CellResult]:
    phases = {
        f"phase{phase}_flow{flow}_throughput": [share]
        for phase, shares in enumerate(((9.0,), (4.4, 4.8), (3.0, 3.2, 3.1), (None, 4.4, 4.7), (None, None, 9.0)), 1)
        for flow, share in enumerate(shares)
        if share is not None
    }
    more = {"jain_shared": [0.999], "mean_queue_delay": [11.1], "drop_rate": [0.0113]}
    return results("dumbbell/link-sharing", "ngtcp2", {**phases, **more})


def medium(server: str, *times: float, client: str = "ngtcp2") -> list[CellResult]:
    sizes = ("2MB", "10MB", "100MB")
    values = {f"milestone_{size}": [time] * 3 for size, time in zip(sizes, times, strict=True)}
    return results("satellite/medium", server, values, client)


def unfair() -> list[CellResult]:
    shares = {f"phase3_flow{flow}_throughput": [share] for flow, share in enumerate((5.0, 4.0, 0.3))}
    return results("dumbbell/sharing-bbr", "quinn", {**shares, "jain_shared": [0.68], "drop_rate": [0.72]})


def background() -> list[CellResult]:
    tcp = {f"flow{flow}_mean_throughput": [7.0 + flow / 10, 8.0] for flow in range(3)}
    udp = {f"flow{flow}_mean_throughput": [7.9, 7.8] for flow in range(3, 6)}
    return results("dumbbell/udp-background", "ngtcp2", {**tcp, **udp, "mean_queue_delay": [21.9, 21.6]})


def queue(discipline: str, rates: Sequence[float]) -> list[CellResult]:
    values = {"mean_throughput": rates, "mean_srtt": [600.0] * len(rates), "mean_queue_delay": [50.0] * len(rates)}
    return results(f"queue/{discipline}-high-bdp", "ngtcp2", values, server__congestion_control="cubic")


def eight_flows(discipline: str, rate: float) -> list[CellResult]:
    values = {"agg_throughput": [rate] * 6, "jain_means": [0.9] * 6, "mean_queue_delay": [60.0] * 6}
    return results(f"queue/{discipline}-high-bdp-eight", "ngtcp2", values, server__congestion_control="cubic")


def quic_background() -> list[CellResult]:
    rates = {f"flow{flow}_mean_throughput": [7.2, 7.3 + flow / 10] for flow in range(6)}
    figures = {f"flow{flow}_retransmissions": [100.0, 130.0] for flow in range(3)}
    asked = {"server__congestion_control": "bbr"}
    return results("dumbbell/udp-background-quic", "quinn", {**rates, **figures, "drop_rate": [0.2, 0.21]}, **asked)


def alone(server: str) -> list[CellResult]:
    asked = {"flow0__server": server, "flow0__server__congestion_control": "cubic"}
    return results("dumbbell/alone", "ngtcp2", {"mean_throughput": [9.2]}, **asked)


def pair(first: str, second: str, rate: float) -> list[CellResult]:
    asked = {f"flow{flow}__server": name for flow, name in enumerate((first, second))}
    asked |= {f"{name}__congestion_control": "cubic" for name in asked}
    values = {"flow0_mean_throughput": [rate, rate], "jain_shared": [0.85, 0.87]}
    return results("dumbbell/fairness", "ngtcp2", values, **asked)


def links() -> list[CellResult]:
    values = {"flow0_mean_throughput": [3.0], "flow1_mean_throughput": [6.0], "jain_shared": [0.9]}
    return results("dumbbell/fairness-links", "ngtcp2", values, path__forward__queue="RED 4 BDP")


def test_the_page(snapshot: SnapshotAssertion) -> None:
    droptail = [*queue("droptail", [4.0, 4.1, 4.2, 4.3, 4.4, 4.5]), *eight_flows("droptail", 4.9)]
    red = [*queue("red", [4.5, 4.6, 4.7, 4.8, 4.9, 5.0]), *eight_flows("red", 5.2)]
    fair = [*pair("quiche", "ngtcp2", 3.0), *pair("quiche", "quiche", 4.6), *pair("ngtcp2", "quiche", 4.5)]
    pages = study_pages(
        [
            *medium("picoquic", 2.2, 3.8, 19.3),
            *medium("quiche", 5.9, 7.7, 24.6),
            *sharing(),
            *unfair(),
            *background(),
            *quic_background(),
            *droptail,
            *red,
            *alone("quiche"),
            *fair,
            *links(),
        ],
        {"link-sharing-ngtcp2-reno-drop_rate.svg"},
    )
    page = pages[SHARED_PAGE]
    assert page == snapshot
    assert pages["checklist.md"] == snapshot
    assert "RED has more" in page
    # The notebook's round-trip times, and its gain, beside ours; eight flows together.
    assert "| 444 → 468 |" in page and "| +136% |" in page
    assert "throughput together, Mbit/s" in page
    # 0.3 of 9.3, times three.
    assert "quinn with bbr: the last to come has 0.1 times a third" in page
    # (9.2 - 3.0) / 9.2 is more than 1.25 times (9.2 - 4.6) / 9.2; of ngtcp2 alone nothing is known.
    assert table_row(["quiche cubic", "**0.67**", "0.50"]) in page
    assert table_row(["ngtcp2 cubic", "–", "–"]) in page


def test_the_claim_stands_beside_the_pairs_that_meet_the_objectives() -> None:
    met, missed = medium("picoquic", 2.2, 3.8, 19.3), medium("quiche", 5.9, 7.7, 24.6)
    own = medium("picoquic", 2.2, 3.8, 19.3, client="picoquic")
    assert "On 50/10 Mbit/s that is borne out: picoquic → picoquic: 3 of 3 runs within all 3" in claim([*own, *missed])
    assert "; ngtcp2 → picoquic meets them too, beside the claim's pairs." in claim([*own, *met])
    assert claim(missed) == claim([]) == ""
    row = next(line for line in satellite([*met, *missed]).splitlines() if line.startswith("| `satellite/medium`"))
    assert row.endswith("| 2 | ngtcp2 → picoquic (2.20 / 3.80 / 19.30 s) | none | 1 |")
    assert "| 1 | none | none | 1 |" in satellite(missed)


@pytest.mark.parametrize(
    ("red", "verdict"),
    [
        ([4.1, 3.9, 4.3, 4.1, 4.4, 4.2], "no difference that these runs can tell"),
        ([3.9, 4.0, 4.1, 4.2, 4.2, 4.4], "RED has less"),
    ],
)
def test_a_verdict_is_what_the_runs_support(red: Sequence[float], verdict: str) -> None:
    """In pairs of one seed: a small difference that every pair has is one, although the values overlap."""
    text = queues([*queue("droptail", [4.0, 4.1, 4.2, 4.3, 4.4, 4.5]), *queue("red", red)])
    row = next(line for line in text.splitlines() if "throughput" in line and line.startswith("| high"))
    assert verdict in row


def test_one_run_tells_nothing() -> None:
    assert "one run tells nothing" in queues([*queue("droptail", [4.0]), *queue("red", [5.0])])


def test_a_study_is_a_folder_with_its_source() -> None:
    folders = {file.parent.name for file in (ROOT / "studies").glob("*/__init__.py")}
    assert set(studies()) == folders
    assert all(study.source for study in studies().values())
    assert {study.page for study in studies().values()} == {
        SHARED_PAGE,
        "checklist.md",
        "coexistence.md",
        "ecn.md",
        "picoquic.md",
        "published.md",
        "queues.md",
        "reordering.md",
        "handover.md",
        "in-sequence.md",
        "latency.md",
        "leo.md",
        "media.md",
        "path-mtu.md",
        "remembered.md",
        "response.md",
        "studies.md",
        "uploads.md",
        "web.md",
    }
    assert {page for study in studies().values() for page in study.beside} == {
        "effects.md", "data/effects.csv", "data/times.csv", "data/profiles.csv"
    }  # fmt: skip


def test_figures_are_named_after_what_they_show() -> None:
    files = [figure.file for figure in figures()]
    assert len(set(files)) == len(files)
    first, second = (figure.file for figure in studies()["link_sharing"].figures[:2])
    shown = study_pages([], {first, second})[SHARED_PAGE]
    assert shown.count("](figures/") == 2
    # The first figure of all opens the page, and the others stand in their parts.
    assert shown.index("No runs are stored.") < shown.index(first) < shown.index("## QUIC over a GEO satellite")
    assert shown.index("## Bandwidth sharing") < shown.index(second) < shown.index("## UDP background")


def finding(name: str, cell_results: Sequence[CellResult]) -> str:
    text = studies()[name].finding
    assert text is not None and text([]) == ""
    return text(cell_results)


def test_pairs_that_meet_the_objectives_are_counted_once() -> None:
    lossy = results("satellite/large-lossy", "picoquic", {"milestone_2MB": [2.0], "milestone_10MB": [3.0]}, "picoquic")
    met, missed = medium("picoquic", 2.2, 3.8, 19.3), medium("quiche", 5.9, 7.7, 24.6)
    assert finding("in_sequence_satellite", [*met, *met, *missed, *lossy]) == (
        "N. Kuhn says that only picoquic with picoquic meets the satellite objectives; here 1 of 2 pairs do on 50/10 Mbit/s "
        "and 0 of 1 (1 not decided) on 250/3 Mbit/s with 1 % loss."
    )


def test_shares_have_the_least_index_first() -> None:
    values = {"jain_shared": [0.98, 0.99, 0.97], "drop_rate": [0.01] * 3}
    cubic = [results("dumbbell/sharing-cubic", name, values) for name in ("quinn", "ngtcp2")]
    better = results("dumbbell/sharing-cubic", "quiche", {"jain_shared": [0.999]})
    # Stacks that are mixed are no controller's.
    mixed = results("dumbbell/sharing-mixed", "quinn", {"jain_shared": [0.5]})
    assert finding("link_sharing", [*sharing(), *cubic[0], *better, *mixed]) == (
        "INET's three flows share fairly; here Jain's index is 0.999 (ngtcp2) with NewReno and "
        "0.98 [0.97, 0.99] (quinn) to 0.999 with CUBIC."
    )


def test_figures_near_the_document_s_are_counted() -> None:
    near = "CCPerf has 3 figures of TCP beside UDP, and 2 of ours are within a tenth of them"
    assert finding("udp_background", background()) == f"{near}."
    left = "; QUIC leaves UDP 7.45 [7.2, 7.7] (quinn, bbr) Mbit/s."
    assert finding("udp_background", [*background(), *quic_background()]) == near + left


def test_rows_in_which_red_has_less_are_counted() -> None:
    droptail = [*queue("droptail", [4.0, 4.1, 4.2, 4.3, 4.4, 4.5]), *eight_flows("droptail", 4.9)]
    red = [*queue("red", [3.9, 4.0, 4.1, 4.2, 4.2, 4.4]), *eight_flows("red", 5.2)]
    assert finding("red_droptail", [*droptail, *red]) == (
        "S. Shanks sees 5% to 136% more throughput with RED; here RED has less in 1 of 2 rows and more in 1, with changes "
        "of -2.4% to +6.1%."
    )
    # One run tells nothing.
    assert finding("red_droptail", [*queue("droptail", [4.0]), *queue("red", [5.0])]) == ""


def test_contests_of_two_stacks_are_held_against_a_stack_s_own() -> None:
    own = [*alone("quiche"), *pair("quiche", "quiche", 4.6)]
    shared = {"flow0_mean_throughput": [3.0, 2.0], "flow1_mean_throughput": [6.0, 6.0]}
    asked = {"flow0__server": "quiche", "flow1__server": "ngtcp2"}
    asked |= {f"{name}__congestion_control": "cubic" for name in asked}
    assert finding("fairness", [*own, *results("dumbbell/fairness", "ngtcp2", shared, **asked)]) == (
        "R. Ware et al. accept the harm that a sender does to itself; other stacks do over 1.25 times that in 1 of 1 "
        "contest. The least share is 29% [25%, 33%] (quiche cubic beside ngtcp2 cubic)."
    )
    # Nothing is known of what a stack has alone.
    assert finding("fairness", [*own[:1], *pair("quiche", "ngtcp2", 3.0)]) == ""


def test_a_figure_says_whose_client_it_shows() -> None:
    (figure,) = studies()["in_sequence"].figures
    assert figure.file == "quic-medium-picoquic-picoquic-ack_ratio.svg"
    cells = [
        build_matrix(Request(catalogue().find_scenarios([figure.scenario]), [KNOWN[client]], [KNOWN["picoquic"]],
                      engine="virtual"), images(client, "picoquic"), SIM, KNOWN)[0]
        for client in ("picoquic", "ngtcp2")
    ]  # fmt: skip
    cell_results = [CellResult(cell, (), judge(cell.scenario, (), []), ()) for cell in cells]
    assert [figure.is_of(result) for result in cell_results] == [True, False]


def test_tables_of_flows(snapshot: SnapshotAssertion) -> None:
    cell_results = [*background(), *sharing()]
    document = metrics_document(cell_results)
    assert render_markdown(document) == snapshot
    content = document.data
    assert content["schema"] == 1
    # It was so in the first run of each.
    why = "mean_srtt of flow 0: left out, nothing shows it"
    assert [absences(result) for result in cell_results] == [[f"{why} (1 of 2 runs)"], [why]]

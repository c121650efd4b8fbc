"""The page on queues old and new, on made-up measurements."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.metrics import VERSION
from harness.catalogue import load
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, LinkProof, MeasuredRun, Measurement, Outcome, Run
from harness.scenario.metric_names import TransferName
from studies.queues import STUDY
from studies.queues.claims import ALONE, BESIDE, CLIENT, FAIR, QUEUES, USUAL
from studies.queues.compared import Contestant, contestants, queues_of
from studies.queues.figures import planes, shares
from studies.queues.page import queues, sentences
from tests.examples import ROOT, SIM, catalogue, images
from tools.reference.campaign import CAMPAIGN, Requests

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}


def results(
    scenario: str, server: str, queue: str, *runs: tuple[float, ...], control: str = "", client: str = CLIENT
) -> list[CellResult]:
    """The cell of a server behind a queue. A run alone: goodput, Mbit/s, mean delay and tail, ms; beside: goodputs."""
    tested = catalogue().find_scenarios([scenario])[0]
    vary = {"path.forward.queue": (queue,)} | ({"flow0.server.congestion_control": (control,)} if control else {})
    request = Request([tested], [KNOWN[client]], [KNOWN[server]], engine="virtual", vary=vary)
    (cell,) = build_matrix(request, images(client, server, "linux"), SIM, KNOWN)
    measured_runs = tuple(_run(cell, number, values) for number, values in enumerate(runs))
    return [
        CellResult(
            cell, measured_runs, judge(cell.scenario, measured_runs, []), tuple(Path("x") for _ in measured_runs)
        )
    ]


def _run(cell: Cell, number: int, values: tuple[float, ...]) -> tuple[Run, MeasuredRun]:
    names: list[tuple[str, int | None, TransferName | None]] = [("mean_throughput_l7", 0, None)]
    names += (
        [("mean_throughput_l7", 1, None)]
        if cell.scenario.name == BESIDE
        else [("mean_queue_delay", None, None), ("queue_delay_p95_to_client", 0, "first")]
    )
    measured = MeasuredRun(
        version=VERSION, link=LinkProof(valid=True),
        measurements=tuple(
            Measurement(name=name, value=value, unit="1", flow=flow, transfer=transfer)
            for (name, flow, transfer), value in zip(names, values, strict=True)
        ),
    )  # fmt: skip
    return Run(cell=cell, repetition=number, outcome=Outcome(status="completed"), started_at="2026-11-27"), measured


def study_results() -> list[CellResult]:
    """quiche and picoquic behind three queues; picoquic with another congestion control, too."""
    return [
        *results(ALONE, "quiche", "1 BDP", (18.0, 30.0, 40.0)),
        *results(ALONE, "quiche", "codel", (17.0, 6.0, 9.0)),
        *results(ALONE, "picoquic", "1 BDP", (18.4, 1.0, 6.0), control="bbr"),
        *results(ALONE, "picoquic", "1 BDP", (19.0, 33.0, 41.0), control="dcubic"),
        *results(ALONE, "picoquic", "codel", (12.0, 2.0, 3.0), control="dcubic"),
        # Another client is another study.
        *results(ALONE, "quiche", "1 BDP", (1.0, 1.0, 1.0), client="ngtcp2"),
        *results(BESIDE, "quiche", "1 BDP", (9.0, 9.0), (12.0, 6.0), (6.0, 12.0)),
        *results(BESIDE, "quiche", "fq_codel", (9.0, 9.2)),
        *results(BESIDE, "picoquic", "1 BDP", (15.0, 3.0), control="bbr"),
        *results(BESIDE, "picoquic", "1 BDP", (0.0, 0.0), control="dcubic"),
    ]  # fmt: skip


def test_a_contestant_is_a_server_with_a_congestion_control() -> None:
    by_contestant = contestants(study_results())
    assert [(item.title, item.family, item.is_default) for item in by_contestant] == [
        ("picoquic bbr", "BBR", True), ("picoquic dcubic", "another", False), ("quiche cubic", "CUBIC", True),
    ]  # fmt: skip
    assert queues_of(by_contestant) == ["1 BDP", "codel", "fq_codel"]
    quiche = by_contestant[Contestant("quiche", "cubic", True)]
    assert quiche["1 BDP"].goodput is not None and quiche["1 BDP"].goodput.median == 18.0
    share = quiche["1 BDP"].share
    assert share is not None and (share.n, share.median) == (3, 0.5)
    assert (share.low, share.high) == pytest.approx((1 / 3, 2 / 3))
    # Where nothing came nothing was shared.
    assert by_contestant[Contestant("picoquic", "dcubic", False)]["1 BDP"].share is None


def test_what_is_asked_outright_is_the_default_all_the_same() -> None:
    outright = contestants(results(ALONE, "quiche", "1 BDP", (18.0, 30.0, 40.0), control="cubic"))
    assert list(outright) == [Contestant("quiche", "cubic", True)]


def test_four_texts() -> None:
    goodputs, costs, delays, fair = sentences(contestants(study_results()))
    assert goodputs == (
        "Alone, the median goodput is 14.5 Mbit/s behind CoDel to 18.4 Mbit/s behind DropTail of 1 BDP. picoquic dcubic has the least of all: 12 Mbit/s behind CoDel."
    )
    # 12 of 19 Mbit/s, and 17 of 18: what early queues cost is counted, not said.
    assert costs == (
        "Queues that drop or mark before they are full leave the median sender 0.788 times its goodput behind DropTail of 1 BDP: "
        "0.632 (picoquic dcubic behind CoDel) to 0.944 (quiche cubic behind CoDel). In 1 of 2 pairs of sender and queue it loses more than 10%."
    )
    assert delays == (
        "The median of the senders' mean queue delays is 4 ms behind CoDel to 30 ms behind DropTail of 1 BDP. "
        "Behind DropTail of 1 BDP, picoquic bbr waits least: 1 ms."
    )
    assert fair == (
        "Beside TCP CUBIC over 20 Mbit/s with a round trip of 40 ms, behind DropTail of 1 BDP, picoquic bbr has 83% of the goodput, and quiche cubic has 50% [33%, 67%]. Where "
        "each flow has a queue of its own, the share furthest from half is 49%."
    )


def test_the_page_has_a_row_for_each_and_says_so_where_there_is_none() -> None:
    page = queues(study_results())
    assert "| **quiche cubic** | 18.0 / 30 / 40 | 17.0 / 6 / 9 | – |" in page
    assert "| **quiche cubic** | 50% [33%, 67%] | – | 49% |" in page
    assert "| picoquic dcubic | 19.0 / 33 / 41 | 12.0 / 2 / 3 | – |" in page
    assert "No runs are stored." in queues([])


def test_figures_have_a_panel_for_each_queue_and_a_row_for_each_contestant() -> None:
    plane, shared = planes(study_results()), shares(study_results())
    assert plane is not None and shared is not None
    panels = [panel for row in plane["vconcat"] for panel in row["hconcat"]]
    assert [panel["title"]["text"] for panel in panels] == ["DropTail, 1 BDP", "CoDel"]
    assert [len(_data(plane, panel, 0)) for panel in panels] == [3, 2]
    assert [row["name"] for panel in panels for row in _data(plane, panel, 1)] == ["quiche cubic", "picoquic dcubic"]
    assert {(row["name"], row["text"]) for row in shared["datasets"][shared["data"]["name"]]} == {
        ("picoquic bbr", "83%"), ("quiche cubic", "50%"), ("quiche cubic", "49%"),
    }  # fmt: skip
    assert planes([]) is None and shares([]) is None
    assert set(STUDY.scenarios) == {ALONE, BESIDE} and len(STUDY.drawings) == 2


def test_the_scenarios_have_the_queues_of_the_page_and_its_client() -> None:
    for scenario in catalogue().find_scenarios([ALONE, BESIDE]):
        assert set(map(str, scenario.vary["path.forward.queue"])) == set(QUEUES) >= {USUAL, *FAIR}
        assert scenario.clients == (CLIENT,)


def test_the_campaign_asks_for_each_congestion_control_that_a_server_offers() -> None:
    asked: dict[str, dict[str, set[str]]] = {ALONE: defaultdict(set), BESIDE: defaultdict(set)}
    for request in load(ROOT / "results" / "reference" / CAMPAIGN, Requests).requests:
        for scenario in asked.keys() & set(request.scenarios):
            assert request.clients == CLIENT and set(request.vary["path.forward.queue"]) <= set(QUEUES)
            for server in request.servers.split(","):
                asked[scenario][server] |= set(request.vary.get("flow0.server.congestion_control", ()))
    assert asked[ALONE] == asked[BESIDE]
    for server, controls in asked[ALONE].items():
        setting = KNOWN[server].setting("server", "congestion_control")
        offered = set(setting.values or ()) if setting is not None and setting.settable else set()
        # Its page says so.
        assert controls == (set() if server == "haproxy" else offered), server


def _data(spec: dict[str, Any], panel: dict[str, Any], layer: int) -> list[dict[str, Any]]:
    return list(spec["datasets"][panel["layer"][layer]["data"]["name"]])

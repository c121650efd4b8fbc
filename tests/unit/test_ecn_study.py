"""What the study of ECN makes of runs: how each stack marks on each path, six sentences, two figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import LinkProof, MeasuredRun, Measurement, Outcome, Run
from studies.ecn import STUDY
from studies.ecn.claims import ALL_MARKED, BLEACHED, CASES, DROPPED, MARKED, UNMARKED, Case
from studies.ecn.compared import Stack, stacks
from studies.ecn.figures import grid, reactions
from studies.ecn.page import ecn, sentences
from tests.examples import SIM, catalogue, images

KNOWN = {name: implementation for name, (implementation, _) in catalogue().implementations().items()}
#: Metrics of the run, and not of its flow.
_OF_THE_RUN = ("ecn_marks_to_client", "queue_drops_to_client")


def result(
    case: Case,
    stack: str,
    runs: Sequence[dict[str, float]],
    *,
    valid: bool = True,
    asked: Mapping[str, str] | None = None,
) -> CellResult:
    """A cell of the study; each run has its metrics, and has ended if one of them is its completion."""
    (definition,) = catalogue().find_scenarios([case.scenario])
    given = {f"server.{name}": value for name, value in (asked or {}).items()}
    request = Request([definition], [KNOWN[stack]], [KNOWN[stack]], engine="virtual", parameters=given)
    (cell,) = build_matrix(request, images(*KNOWN), SIM, KNOWN)
    measured_runs = tuple(
        (
            Run(
                cell=cell, repetition=number, started_at="2026-11-27",
                outcome=Outcome(status="completed" if "completion" in metrics else "timed_out"),
            ),
            MeasuredRun(
                version=VERSION, link=LinkProof(valid=valid),
                measurements=tuple(
                    Measurement(
                        name=name, value=value, unit="1", flow=None if name in _OF_THE_RUN else 0, transfer="first"
                    )
                    for name, value in metrics.items()
                ),
            ),
        )
        for number, metrics in enumerate(runs)
    )  # fmt: skip
    return CellResult(
        cell, measured_runs, judge(cell.scenario, measured_runs, []), tuple(Path("x") for _ in measured_runs)
    )


def marks(share: float = 1.0, after: int | None = None, seconds: float | None = 4.5, **more: float) -> dict[str, float]:
    """The server's marking: to the end, or until it stopped after so many; None of a download that did not end."""
    stopped = {} if after is None else {"ecn_stop_datagrams_to_client": after, "ecn_stop_time_to_client": 0.04}
    ended = {} if seconds is None else {"completion": seconds}
    counted = {"ecn_ack_share_to_client": 1.0} if share else {}
    return {"ect_share_to_client": share, "ect_share_to_server": 0.0, **counted, **stopped, **ended, **more}


def cell_results() -> list[CellResult]:
    """quic-go validates and falls back; picoquic does neither, and msquic ignores marks; quiche has no ECN."""
    on = {"ecn": "on"}
    return [
        result(MARKED, "quic-go", [marks(queue_delay_p50_to_client=2, ecn_marks_to_client=16)] * 2),
        result(UNMARKED, "quic-go", [marks(queue_delay_p50_to_client=2.5, queue_drops_to_client=15)] * 2),
        result(BLEACHED, "quic-go", [marks(0.001, 10), marks(0.001, 12)]),
        result(ALL_MARKED, "quic-go", [marks(0.001, 10, 1.4)] * 2),
        result(DROPPED, "quic-go", [marks(0.001, 10, 9.8)] * 2),
        result(MARKED, "picoquic", [marks(queue_delay_p50_to_client=0.4, ecn_marks_to_client=3)]),
        result(UNMARKED, "picoquic", [marks(queue_delay_p50_to_client=0.4, queue_drops_to_client=3)]),
        result(BLEACHED, "picoquic", [marks()]),
        result(ALL_MARKED, "picoquic", [marks(seconds=15.0)]),
        # Its client's packets never come, so that the server sends nothing.
        result(DROPPED, "picoquic", [{"ect_share_to_server": 1.0}]),
        result(MARKED, "msquic", [marks(queue_delay_p50_to_client=40, ecn_marks_to_client=900)], asked=on),
        result(UNMARKED, "msquic", [marks(queue_delay_p50_to_client=3, queue_drops_to_client=20)], asked=on),
        result(BLEACHED, "msquic", [marks(0.5, 10), marks()], asked=on),
        result(MARKED, "quiche", [marks(0.0)]),
        result(BLEACHED, "quiche", [marks(0.0)]),
    ]


def by_name() -> dict[str, Stack]:
    return {stack.name: stack for stack in stacks(cell_results())}


def test_a_row_is_a_stack_with_what_it_was_told_and_those_with_ecn_come_first() -> None:
    assert [stack.name for stack in stacks(cell_results())] == ["msquic (ECN on)", "picoquic", "quic-go", "quiche"]


def test_a_sender_marks_or_stops_or_does_either() -> None:
    rows = by_name()
    for name, scenario, behaviour in (
        ("quic-go", MARKED, "always"), ("quic-go", BLEACHED, "stops"), ("picoquic", BLEACHED, "always"),
        ("msquic (ECN on)", BLEACHED, "sometimes"), ("quiche", MARKED, "never"),
    ):  # fmt: skip
        assert rows[name].behaves(scenario.scenario, "server", behaviour), name  # type: ignore[arg-type]
    stopped = rows["quic-go"].marking(BLEACHED.scenario, "server")
    assert stopped is not None and stopped.datagrams is not None and stopped.datagrams.median == 11
    assert rows["picoquic"].marking(DROPPED.scenario, "server") is None
    client = rows["picoquic"].marking(DROPPED.scenario, "client")
    assert client is not None and client.behaviour == "always"


def test_a_sender_reacts_where_marks_keep_the_queue_short() -> None:
    rows = by_name()
    assert rows["quic-go"].reacts and rows["picoquic"].reacts
    assert rows["msquic (ECN on)"].reacts is False
    assert rows["quiche"].reacts is None


def test_six_sentences() -> None:
    assert sentences(stacks(cell_results())) == [
        "3 of 4 servers mark their data to the end on a path that carries ECN; quiche marks nothing.",
        "1 of 3 stops on the path that clears the field; msquic (ECN on) and picoquic go on without validation.",
        "1 of 2 falls back and ends every download on the path that drops ECN-capable packets, in 9.8 s (quic-go).",
        "2 of 3 servers that were marked react: the median wait of their packets is 10 ms at most; msquic (ECN on) does "
        "not.",
        "1 server believes the marks on the path that marks every packet; quic-go stops marking.",
        "3 MB take 15 s (picoquic) there.",
    ]


def test_the_page_says_what_each_sender_did() -> None:
    page = ecn(cell_results())
    rows = [row for row in page.splitlines() if row.startswith("| picoquic |")]
    assert rows[0].endswith(
        "| marks with ECT(0) | marks with ECT(0) | – | marks with ECT(0) | sends nothing; 0 of 1 downloads end |"
    )
    assert "| stops after 11 [10, 12] (40 ms) |" in page
    assert "No runs are stored." in ecn([])


def test_runs_over_another_link_say_nothing() -> None:
    assert stacks([result(MARKED, "quic-go", [marks()], valid=False)]) == []


def test_figures() -> None:
    for draw, panels in ((grid, 2), (reactions, 3)):
        spec = draw(cell_results())
        assert spec is not None and len(spec["hconcat"]) == panels
        assert draw([]) is None
    assert reactions([result(MARKED, "quiche", [marks(0.0)])]) is None
    assert len(STUDY.drawings) == 2 and set(STUDY.scenarios) == {case.scenario for case in CASES}

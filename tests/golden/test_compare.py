"""The comparison of engines as people see it, letter by letter. `make golden` renews it; read the diff."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from harness.evaluation.cell_result import CellResult
from harness.report.compare import comparison_document, comparisons
from harness.report.markdown import render_markdown
from tests.engine_pairs import completions, repeating, result, run
from tests.examples import implementation
from tests.rendering import printed


def _results() -> list[CellResult]:
    gamma, delta = implementation("gamma"), implementation("delta")
    cubic = {"server.congestion_control": "cubic"}
    cpu = {"cpu_client": 4.0, "cpu_server": 19.0, "cpu_sim": 15.0}
    real = [run(milestone_2MB=5.9, completion=seconds, figures=cpu) for seconds in (22.0, 22.1, 22.3)]
    return [
        result("compose", *real),
        result("virtual", run(milestone_2MB=5.8, completion=19.5)),
        completions("compose", 20, 21, 24, client=gamma, parameters=cubic),
        completions("virtual", 22, 22, client=gamma, parameters=cubic),
        result("compose", run("timed_out", received=10), client=delta),
        completions("virtual", 20, client=delta),
        result("compose", run("crashed"), definition=repeating()),
        completions("virtual", 20, definition=repeating()),
        completions("virtual", 20, definition=repeating(), seed=2),
    ]


def test_terminal(snapshot: SnapshotAssertion) -> None:
    text = printed(comparison_document(comparisons(_results())), 180)
    assert "\n".join(line.rstrip() for line in text.splitlines()) == snapshot


def test_markdown(snapshot: SnapshotAssertion) -> None:
    assert render_markdown(comparison_document(comparisons(_results()))) == snapshot

"""Figures of the studies: what factors are worth, and two of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.doe.effects import StudySample, analyse, as_observed, group_studies, metrics_of
from harness.evaluation.cell_result import CellResult
from harness.report.plots.study import heat_map, tornado
from harness.report.studies import Drawing

Draw = Callable[[Sequence[CellResult]], dict[str, Any] | None]


def _samples(results: Sequence[CellResult], scenario: str) -> list[StudySample]:
    return as_observed(group_studies(result for result in results if result.cell.scenario.name == scenario))


def _effects(scenario: str, server: str) -> Draw:
    def draw(results: Sequence[CellResult]) -> dict[str, Any] | None:
        for of in _samples(results, scenario):
            if of.server == server and of.engine == "virtual":
                return tornado([analyse(of, metric) for metric in metrics_of(of.scenario)])
        return None

    return draw


def _heat(scenario: str, server: str, metric: str, one: str, other: str) -> Draw:
    def draw(results: Sequence[CellResult]) -> dict[str, Any] | None:
        for of in _samples(results, scenario):
            if of.server == server and of.engine == "virtual" and {one, other} <= of.factors.keys():
                return heat_map(of, metric, one, other)
        return None

    return draw


#: Whose effects are drawn: who honours most of the table.
_SHOWN = ("quinn", "picoquic", "msquic")

DRAWINGS = (
    *(
        Drawing(
            f"studies-effects-{path}-{server}.svg",
            f"What parameters are worth on {server}, {path}",
            _effects(f"studies/fraction-{path}", server),
        )
        for path in ("50-10", "near-50-10")
        for server in _SHOWN
    ),
    Drawing(
        "studies-start-quinn.svg",
        "Initial window × initial RTT on quinn: seconds of 2 MB",
        _heat("studies/start", "quinn", "milestone_2MB", "server.initial_rtt", "server.initial_cwnd"),
    ),
    Drawing(
        "studies-ack-ratio-initial-rtt-quinn.svg",
        "ACK ratio × initial RTT on quinn: seconds of 2 MB",
        _heat(
            "studies/ack-ratio-initial-rtt-50-10", "quinn", "milestone_2MB", "server.initial_rtt", "client.ack_ratio"
        ),
    ),
)

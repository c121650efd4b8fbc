"""Which cells have figures of their own: those whose flows share the path, or come and go on it."""

from __future__ import annotations

from collections.abc import Iterable

from harness.model import Scenario
from harness.results import CellResult


def is_shared(scenario: Scenario) -> bool:
    """Whether its runs have series (`metrics.view`): several flows, or one that is cut off.

    One download to its end has its milestones and times in the tables, and at most its mean operating point to draw.
    """
    return len(scenario.flows) > 1 or any(flow.stop is not None for flow in scenario.flows)


def with_figures(results: Iterable[CellResult]) -> list[CellResult]:
    """Those of these cells that `harness run` draws: shared, and with a stored run."""
    return [result for result in results if result.runs and is_shared(result.cell.scenario)]

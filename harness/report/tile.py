"""A cell in one figure: its headline, how good that is, and what it is compared with. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import relative_miss
from harness.outcome import Cell
from harness.outcome.deviations import find_deviations
from harness.report.column_selection import MetricColumn, columns
from harness.report.grid import METRIC, entry
from harness.report.numbers import number_text
from harness.report.observed import observed_text
from harness.report.results import SYMBOLS, reference_lines
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Scenario

#: Relative distance of a figure from its bound: far from this share on, and close below that share.
_FAR, _CLOSE = 0.5, 0.1


@dataclass(frozen=True)
class ReferenceFigures:
    """Figures to compare a cell's figure with; empty where there are none."""

    objective: str
    textbook: str
    ideal: str


@dataclass(frozen=True)
class Tile:
    """One cell on the overview."""

    result: CellResult
    symbol: str
    figure: str
    """The headline figure as text, or the reason why there is none."""
    value: float | None
    """The figure to sort by."""
    heat: int
    """1 to 3: how far the worst objective is from its bound, on either side."""
    beside: ReferenceFigures
    departs: bool
    """Whether a run has a parameter that was observed at another value than the one set."""
    observed: str
    """What was observed of the endpoint parameters that were set."""


def headline(scenario: Scenario) -> MetricColumn:
    """The headline column of a scenario: the last one with an objective, if any of these is a milestone; else the last
    milestone of the first transfer, else completion of a single flow, else fairness, else the last column.
    """
    candidates = columns(scenario)
    flows = len(scenario.flows)
    demanded = {item.metric for item in scenario.objectives}
    bounded = [column for column in candidates if column[0].text(flows) in demanded]
    if bounded and any(column[0].metric.startswith("milestone") for column in bounded):
        return bounded[-1]
    milestones = [
        column for column in candidates if column[0].metric.startswith("milestone") and column[0].transfer == "first"
    ]
    if milestones:
        return milestones[-1]
    if flows == 1 and scenario.flows[0].carried is not None:
        return METRIC, "completion s"
    fairness = [column for column in candidates if column[0].metric == "jain_shared"]
    return (fairness or candidates)[-1]


def build_tile(result: CellResult) -> Tile:
    """A cell for the overview."""
    metric, _ = headline(result.cell.scenario)
    span = result.interval(*metric)
    value = span.median if span is not None and math.isfinite(span.median) else None
    seconds = metric.metric.startswith(("milestone", "completion"))
    figure = entry(result, metric, "{:.2f}".format if seconds else number_text).replace("_", " ")
    symbol, departs = (
        SYMBOLS[result.verdict.status][0],
        any(find_deviations(run, measured) for run, measured in result.runs),
    )
    beside, observed = reference_figures(result.cell, metric), observed_text(result, list(result.cell.parameters))
    return Tile(result, symbol, figure, value, heat(result), beside, departs, observed)


def heat(result: CellResult) -> int:
    """1 for close to the bound, 3 for far from it, else 2; 2 also without objectives or measurements."""
    misses = [relative_miss(objective) for objective in result.verdict.objectives if objective.observed is not None]
    if not misses:
        return 2
    worst = abs(max(misses))
    return 1 if worst < _CLOSE else 2 if worst < _FAR else 3


def reference_figures(cell: Cell, metric: MetricName) -> ReferenceFigures:
    """The objective on a metric, and its limits by textbook slow start and by the line rate."""
    texts = {line.name: line.texts[0] for line in reference_lines(cell.scenario, [cell], [metric])}
    objective = texts.get("objective", "")
    return ReferenceFigures(
        "" if objective == "open" else objective, texts.get("textbook slow start", ""), texts.get("ideal", "")
    )

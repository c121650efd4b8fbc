"""What of a cell stands on the overview: its headline figure, how good that is, what it is held against. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import miss
from harness.outcome import Cell
from harness.outcome.deviations import departures
from harness.report.chosen import Headed, columns
from harness.report.grid import METRIC, entry
from harness.report.layout import number
from harness.report.table import SYMBOLS, reference_lines
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Scenario

#: From how much of the bound on a figure is far from it, and nearer than how much it is close.
_FAR, _CLOSE = 0.5, 0.1


@dataclass(frozen=True)
class Beside:
    """What a figure is held against; empty where there is nothing."""

    objective: str
    textbook: str
    ideal: str


@dataclass(frozen=True)
class Tile:
    """One cell, as the overview has it."""

    result: CellResult
    symbol: str
    figure: str
    """The headline figure, or the reason why there is none, in words."""
    value: float | None
    """The figure to sort by."""
    heat: int
    """1 to 3: how far the worst objective is from its bound, on either side."""
    beside: Beside
    departs: bool
    """Whether a run shows a parameter at another value than the one set."""


def headline(scenario: Scenario) -> Headed:
    """The one figure that stands for a cell: the last its objectives are about, else completion, else fairness."""
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


def tile(result: CellResult) -> Tile:
    """A cell for the overview."""
    metric, _ = headline(result.cell.scenario)
    span = result.interval(*metric)
    value = span.median if span is not None and math.isfinite(span.median) else None
    seconds = metric.metric.startswith(("milestone", "completion"))
    figure = entry(result, metric, "{:.2f}".format if seconds else number).replace("_", " ")
    symbol, departs = SYMBOLS[result.verdict.status][0], any(departures(run, measured) for run, measured in result.runs)
    return Tile(result, symbol, figure, value, heat(result), beside(result.cell, metric), departs)


def heat(result: CellResult) -> int:
    """1 for close to the bound, 3 for far from it; 2 where nothing was demanded or nothing is known."""
    misses = [miss(objective) for objective in result.verdict.objectives if objective.observed is not None]
    if not misses:
        return 2
    worst = abs(max(misses))
    return 1 if worst < _CLOSE else 2 if worst < _FAR else 3


def beside(cell: Cell, metric: MetricName) -> Beside:
    """What is demanded of a metric, and what textbook slow start and the line rate allow."""
    texts = {line.name: line.texts[0] for line in reference_lines([cell], [metric])}
    objective = texts.get("objective", "")
    return Beside(
        "" if objective == "open" else objective, texts.get("textbook slow start", ""), texts.get("ideal", "")
    )

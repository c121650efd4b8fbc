"""Whether an objective can be judged: its metric exists, the scenario has its flow, and its unit converts."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.metric_registry import Metric, declared_metrics, find_metric
from harness.catalogue import Mistake
from harness.errors import did_you_mean
from harness.netem.mobility import client_moves, path_rebindings
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Objective, Scenario

#: Units of one dimension: (from, to) → factor.
_SCALES = {("ms", "s"): 1e-3, ("s", "ms"): 1e3}
#: Units without negative values.
_NEVER_NEGATIVE = frozenset({"s", "ms", "Mbit/s", "packets", "B"})
#: The units among these in which 0 is a possible figure: packets lost, time without anything.
_MAY_BE_ZERO = frozenset({"packets", "B", "ms", "Mbit/s"})
#: Example of a bound in each unit that an objective can be written in.
_EXAMPLES = {"s": "3 s", "ms": "50 ms", "Mbit/s": "20 Mbit/s"}


def convert(value: float, unit: str, to: str) -> float | None:
    """A value in another unit; None if it does not convert. "1" stands for any unit that bounds cannot name."""
    if unit == to or (to == "1" and unit not in _EXAMPLES):
        return value
    scale = _SCALES.get((unit, to))
    return None if scale is None else value * scale


def mistakes(scenario: Scenario) -> Iterator[Mistake]:
    """The mistakes in a scenario's objectives, and in its checks."""
    if scenario.checks:
        from harness.analysis import interop

        yield from interop.mistakes(scenario)
    for index, objective in enumerate(scenario.objectives):
        at = ("objectives", index)
        name = MetricName.parse(objective.metric)
        metric = find_metric(name.metric)
        if metric is None:
            names = {
                candidate.name.replace("*", size)
                for candidate in declared_metrics().values()
                for size in _sizes(scenario, candidate)
            }
            yield Mistake((*at, "metric"), f"there is no metric '{name.metric}'", did_you_mean(name.metric, names))
            continue
        if mistake := _flow_mistake(name, metric, len(scenario.flows)) or _move_mistake(name, metric, scenario):
            yield Mistake((*at, "metric"), *mistake)
        bound = "at_most" if objective.at_most is not None else "at_least"
        if convert(0.0, metric.unit, objective.unit) is None:
            yield Mistake((*at, bound), *_unit_mistake(objective, metric))
        elif not objective.bound and metric.unit in _NEVER_NEGATIVE:
            if bound == "at_least":
                yield Mistake((*at, bound), f"{objective.metric} is never less than that", "write a greater bound")
            elif metric.unit not in _MAY_BE_ZERO:
                yield Mistake((*at, bound), f"{objective.metric} is never that little", "write a greater bound")


def _sizes(scenario: Scenario, metric: Metric) -> list[str]:
    """The texts for a * in a metric's name; one text for a name without."""
    return [size.label() for size in scenario.milestones_within()] if "*" in metric.name else [""]


def _flow_mistake(name: MetricName, metric: Metric, flows: int) -> tuple[str, str] | None:
    """A mistake in the flow that an objective names or omits, and a hint."""
    if metric.layer not in ("flow", "move"):
        return None if name.flow is None else (f"{name.metric} is not a flow's", f"write '{name.metric}'")
    if name.flow is None and flows > 1:
        return f"each of {flows} flows has its own {name.metric}", f"write '{name._replace(flow=0).text(flows)}'"
    if name.flow is not None and name.flow >= flows:
        return f"there is no flow {name.flow}", f"the last one is flow{flows - 1}"
    if name.flow is not None and flows == 1:
        return "the only flow is not named", f"write '{name._replace(flow=None).text(flows)}'"
    return None


def _move_mistake(name: MetricName, metric: Metric, scenario: Scenario) -> tuple[str, str] | None:
    """A mistake in the move that an objective names or omits, and a hint. Its flow exists."""
    count = len(scenario.flows)
    if metric.layer != "move":
        bare = name._replace(move=None).text(count)
        return None if name.move is None else (f"{name.metric} is not a move's", f"write '{bare}'")
    flow = scenario.flows[name.flow or 0]
    moves = len(client_moves(flow)) + len(path_rebindings(scenario, flow))
    if not moves:
        return f"no client moves, so there is no {name.metric}", "give the flow moves"
    if name.move is None:
        return f"each move has its own {name.metric}", f"write '{name._replace(move=1).text(count)}'"
    if not 1 <= name.move <= moves:
        return f"there is no move {name.move}", f"the first one is move1, the last one move{moves}"
    return None


def _unit_mistake(objective: Objective, metric: Metric) -> tuple[str, str]:
    """That a bound is in a unit that does not convert, and a hint."""
    value = objective.at_most if objective.at_most is not None else objective.at_least
    text = f"{value:g}" if isinstance(value, float) else str(value)
    example = _EXAMPLES.get(metric.unit)
    number = "a plain number" if metric.unit == "1" else f"a plain number, of {metric.unit}"
    return (
        f"{objective.metric} is in {metric.unit}, and '{text}' is not"
        if example
        else f"{objective.metric} is {number}, and '{text}' is not",
        f"write '{example}', say" if example else "write 0.9, say",
    )

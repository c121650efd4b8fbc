"""Which metrics a table of cells shows: those of its scenario, or those requested by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.analysis.metric_registry import Metric, declared_metrics, find_metric
from harness.errors import InputError, did_you_mean
from harness.evaluation.cell_result import CellResult
from harness.evaluation.ranking import schedule_metrics
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Scenario

#: A row has room for this many flows of one run. With more flows, each has a row of its own.
MOST_FLOWS = 6

MetricColumn = tuple[MetricName, str]
"""What a column shows, and its heading."""


def columns(scenario: Scenario, requested: Sequence[MetricName] = ()) -> list[MetricColumn]:
    """Columns of a scenario's cells: the requested metrics, else what the user of a schedule of requests notices,
    milestones, or metrics that its flows share.
    """
    if requested:
        return [_metric_column(column, scenario) for name in requested for column in _cell_metrics(name, scenario)]
    noticed = [_metric_column(name, scenario) for name in schedule_metrics(scenario)[: 2 * MOST_FLOWS]]
    if noticed:
        return noticed if len(scenario.flows) == 1 else [*noticed, *_shared_columns(scenario)]
    if len(scenario.flows) > 1 or scenario.flows[0].carried is None:
        return _shared_columns(scenario)
    if scenario.flows[0].groups:
        return [_metric_column(MetricName(name, 0, "first"), scenario) for name in ("first_byte", "completion")]
    milestones = [_milestone_column(size.label(), "first") for size in scenario.milestones_within()]
    if scenario.flows[0].carried not in scenario.milestones_within():
        # The metric that ranks the cells is always a column. A milestone of the whole file is the same.
        milestones.append(_metric_column(MetricName("completion", 0, "first"), scenario))
    if any(flow.repeat_after is not None for flow in scenario.flows):
        sizes = [size.label() for size in scenario.milestones_within()]
        unit = declared_metrics()["completion"].unit
        last = MetricName(f"milestone_{sizes[-1]}" if sizes else "completion", 0, "repeat")
        milestones.append((last, f"repeat {sizes[-1]} {unit}" if sizes else f"repeat {unit}"))
    return milestones


def flow_columns(scenario: Scenario, requested: Sequence[MetricName] = ()) -> list[MetricColumn]:
    """Columns of a table with a row per flow. Empty where the rows of cells show all flows.

    The metric names leave the flow open.
    """
    if len(scenario.flows) == 1:
        return []
    files = any(flow.amount is not None for flow in scenario.flows)
    if requested:
        return [
            _metric_column(name, scenario)
            for name in requested
            if len(scenario.flows) > MOST_FLOWS and _is_per_flow(name)
        ]
    if not files and len(scenario.flows) <= MOST_FLOWS:
        return []
    times = [_milestone_column(size.label(), "first", None) for size in scenario.milestones_within()]
    return [*times, (MetricName("mean_throughput"), f"throughput {declared_metrics()['mean_throughput'].unit}")]


def shows_goodput(scenario: Scenario, requested: Sequence[MetricName] = ()) -> bool:
    """Whether the table has a goodput column: with a single flow, and without requested metrics."""
    return len(scenario.flows) == 1 and not requested


def _milestone_column(size: str, transfer: str, flow: int | None = 0) -> MetricColumn:
    name = MetricName(f"milestone_{size}", flow, "first" if transfer == "first" else "repeat")
    return name, f"{size} {declared_metrics()['completion'].unit}"


def _shared_columns(scenario: Scenario) -> list[MetricColumn]:
    """Throughput of each flow, where a row has room for all; queue delay; fairness; utilisation."""
    flows, unit = scenario.flows, declared_metrics()["mean_throughput"].unit
    headed: list[MetricColumn] = []
    if not flow_columns(scenario):
        headed += [
            (MetricName("mean_throughput", flow), unit if len(flows) == 1 else f"flow{flow} {unit}")
            for flow in range(len(flows))
        ]
    headed.append((MetricName("mean_queue_delay"), f"queue {declared_metrics()['mean_queue_delay'].unit}"))
    if sum(flow.kind != "udp" for flow in flows) > 1:
        headed.append((MetricName("jain_shared"), "Jain"))
    return [*headed, (MetricName("utilisation_shared"), "utilisation")]


def _cell_metrics(name: MetricName, scenario: Scenario) -> list[MetricName]:
    """Metrics that rows of cells show for a name: one per flow, where the name leaves the flow open."""
    if not _is_per_flow(name):
        return [name]
    count = len(scenario.flows)
    return [name._replace(flow=flow) for flow in range(count)] if count <= MOST_FLOWS else []


def _is_per_flow(name: MetricName) -> bool:
    """Whether a name stands for a metric of each flow."""
    metric = find_metric(name.metric)
    return metric is not None and metric.layer in ("flow", "move") and name.flow is None


def _metric_column(name: MetricName, scenario: Scenario) -> MetricColumn:
    metric = find_metric(name.metric)
    unit = "" if metric is None or metric.unit == "1" else f" {metric.unit}"
    return name, name.text(len(scenario.flows)) + unit


def ranking_metrics(scenario: Scenario, requested: Sequence[MetricName]) -> list[MetricName]:
    """The requested metrics by which cells are ranked: those with one value per cell."""
    names = []
    for name in requested:
        if not _is_per_flow(name):
            names.append(name)
        elif len(scenario.flows) == 1:
            names.append(name._replace(flow=0))
    return names


# --- by name


def parse_metrics(words: str, results: Iterable[CellResult]) -> tuple[MetricName, ...]:
    """Parse a comma-separated list of metrics, named as in objectives: 'mean_srtt,flow1_goodput,repeat_completion'.

    Raises InputError for a name that is no metric, or that none of these cells can have.
    """
    cells = list(results)
    return tuple(_parse_metric(word.strip(), cells) for word in words.split(",") if word.strip())


def _parse_metric(word: str, results: Sequence[CellResult]) -> MetricName:
    name = MetricName.parse(word)
    metric = find_metric(name.metric)
    if metric is None:
        candidates = {declaration.name for declaration in declared_metrics().values() if "*" not in declaration.name}
        candidates |= {measured.metric for result in results for measured in result.measurements}
        raise InputError(f"--metrics {word}: there is no metric '{name.metric}'", did_you_mean(name.metric, candidates))
    if wrong := _scope_error(name, metric, [result.cell.scenario for result in results]):
        raise InputError(f"--metrics {word}: {wrong[0]}", wrong[1])
    return name


def _scope_error(name: MetricName, metric: Metric, scenarios: Sequence[Scenario]) -> tuple[str, str] | None:
    """The error in the flow or transfer of a name, and a hint. None where they are valid."""
    if metric.layer not in ("flow", "move") and (name.flow is not None or name.transfer is not None):
        return f"{name.metric} is not a flow's", f"write '{name.metric}'"
    if not scenarios:
        return None
    count = max(len(scenario.flows) for scenario in scenarios)
    if name.flow is not None and name.flow >= count:
        return f"there is no flow {name.flow}", f"the last one is flow{count - 1}"
    if name.transfer == "repeat" and not any(flow.repeat_after for scenario in scenarios for flow in scenario.flows):
        return "no flow downloads again", f"write '{name._replace(transfer=None).text(2)}'"
    return None

"""Ranks cells by a metric, and tests whether the others differ from the best. Pure.

Cells are compared on the same path and with the same seed. If only the path varies, its values are compared with each
other. The best cell has the best median. It is selected by the same values that the tests use, so all comparisons with
it share one significance level (Holm).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.analysis.metric_registry import find_metric
from harness.evaluation.cell_result import CellResult, current_scenario
from harness.outcome import FAILED_TRANSFER, Better, EngineName, Interval
from harness.planning.sweep import is_path_name
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import PARAMETERS, ROLES
from harness.scenario.schema import Scenario
from harness.stats.intervals import interval
from harness.stats.two_sample import ALPHA, Comparison, adjust_holm, compare, required_repetitions

#: Share of the best from which on a single run's difference is called one.
CLEAR_SHARE = 0.01
#: Parameters whose values need no name in a label.
_SELF_EXPLANATORY = frozenset({"congestion_control"})


@dataclass(frozen=True)
class RankedCell:
    """One cell of a ranking."""

    result: CellResult
    label: str
    """Unique label for people: 'server bbr', 'ngtcp2→quiche'."""
    values: tuple[float, ...]
    """One per run; infinitely bad if the transfer failed before it had a value."""
    span: Interval
    unfinished: int
    """Number of runs whose transfers failed before they reached the metric."""
    comparison: Comparison | None = None
    """Comparison with the best cell; None for the best itself."""
    p: float | None = None
    """p-value of the comparison, adjusted for the number of comparisons (Holm); None if nothing can be tested."""

    @property
    def ending(self) -> str:
        """How the failed transfers ended: 'timed out' if all did, else 'did not finish'."""
        failures = FAILED_TRANSFER - {"timed_out"}
        return "did not finish" if failures & self.result.outcomes.keys() else "timed out"

    @property
    def differs(self) -> bool:
        """Whether it differs from the best: by the test, or because both are deterministic and unequal."""
        if self.comparison is not None and self.comparison.constant:
            return self.comparison.factor != 1
        return self.p is not None and self.p <= ALPHA


@dataclass(frozen=True)
class Ranking:
    """Cells on one path, by one metric."""

    scenario: Scenario
    engine: EngineName
    metric: MetricName
    unit: str
    better: Better
    path_label: str
    """Label that distinguishes its path from those of the scenario's other rankings; may be empty."""
    cells: tuple[RankedCell, ...]
    """At least two, the best first; the smallest first for a metric without a better direction."""
    unranked: tuple[str, ...] = ()
    """Labels of cells that have no value."""

    @property
    def has_clear_best(self) -> bool:
        """Whether the first cell is better than the second by more than chance may do.

        The second differs by the test. Or nothing can be tested, and it is away by more than `CLEAR_SHARE`.
        """
        second = self.cells[1]
        if self.better == "neutral" or second.comparison is None:
            return False
        if second.differs:
            return True
        factor = second.comparison.factor
        apart = factor is None or factor <= 0 or max(factor, 1 / factor) > 1 + CLEAR_SHARE
        return second.p is None and second.comparison.factor != 1 and apart

    @property
    def name(self) -> str:
        """The metric, for people."""
        return self.metric.text(len(self.scenario.flows))

    @property
    def comparisons(self) -> int:
        """Number of comparisons with the best that can be tested."""
        return sum(cell.p is not None for cell in self.cells)

    @property
    def runs_needed(self) -> int:
        """Minimum runs of each cell for a significant difference to be possible."""
        return required_repetitions(max(1, len(self.cells) - 1))


def headline_metrics(scenario: Scenario) -> tuple[MetricName, ...]:
    """The metrics that rank the cells of a scenario by default.

    For a download: the time to the last byte. For a flow that is stopped: its throughput. For several flows: the
    utilisation of the bottleneck, and how evenly they share it. For a schedule of requests, what its user notices.
    """
    noticed = schedule_metrics(scenario)
    if noticed:
        return noticed[:1]
    if len(scenario.flows) == 1:
        ends = scenario.flows[0].carried is not None
        return (MetricName("completion", 0, "first") if ends else MetricName("mean_throughput", 0),)
    fair = sum(flow.kind != "udp" for flow in scenario.flows) > 1
    return (MetricName("utilisation_shared"), *([MetricName("jain_shared")] if fair else []))


def schedule_metrics(scenario: Scenario) -> tuple[MetricName, ...]:
    """What the user of each page, of repeated requests and of a video notices, the most telling first."""
    metrics = {
        "page": ("page_load", "byte_index"),
        "requests": ("response_time_p50", "response_time_p95"),
        "video": ("stalled_time", "startup_time"),
        "datagrams": ("datagram_loss", "datagram_delay_p95"),
    }
    return tuple(
        MetricName(metric, index, "first")
        for index, flow in enumerate(scenario.flows)
        for key, names in metrics.items()
        if getattr(flow, key) is not None
        for metric in names
    )


def rank_cells(results: Sequence[CellResult], metrics: Sequence[MetricName] = ()) -> list[Ranking]:
    """The rankings of cells of one scenario and engine, by these metrics, or by the scenario's headline.

    Empty if no path has two cells to compare.
    """
    if not results:
        return []
    seeds = sorted({result.cell.seed for result in results})
    ranked = []
    for seed in seeds:
        for path_label, group in _paths([result for result in results if result.cell.seed == seed]):
            context = ", ".join(part for part in (f"seed {seed}" if len(seeds) > 1 else "", path_label) if part)
            for metric in metrics or headline_metrics(current_scenario(results)):
                ranking = _ranking(group, metric, context)
                ranked += [ranking] if ranking is not None else []
    return ranked


def _ranking(results: Sequence[CellResult], metric: MetricName, context: str) -> Ranking | None:
    definition = find_metric(metric.metric)
    if definition is None:
        return None
    cells, without = list[RankedCell](), list[str]()
    for result, label in zip(results, cell_labels(results), strict=True):
        values, unfinished = result.values(*metric), len(result.failed_values(metric))
        if values:
            cells.append(RankedCell(result, label, tuple(values), interval(values), unfinished))
        else:
            without.append(label)
    if len(cells) < 2:
        return None
    sign = -1 if definition.better == "higher" else 1
    cells.sort(key=lambda cell: (sign * cell.span.median, sign * cell.span.low, sign * cell.span.high, cell.label))
    best, *rivals = cells
    comparisons = [compare(cell.values, best.values) for cell in rivals]
    adjusted = adjust_holm([comparison.p for comparison in comparisons])
    placed = [
        RankedCell(cell.result, cell.label, cell.values, cell.span, cell.unfinished, comparison, p)
        for cell, comparison, p in zip(rivals, comparisons, adjusted, strict=True)
    ]
    scenario, engine = current_scenario(results), results[0].cell.engine
    return Ranking(
        scenario, engine, metric, definition.unit, definition.better, context, (best, *placed), tuple(without)
    )


def _paths(results: Sequence[CellResult]) -> list[tuple[str, list[CellResult]]]:
    """(label of a path, its cells) for each path if one has several cells; else all cells together."""
    groups: dict[tuple[tuple[str, str], ...], list[CellResult]] = {}
    for result in results:
        groups.setdefault(tuple(_path_parameters(result)), []).append(result)
    if len(groups) == 1 or all(len(group) == 1 for group in groups.values()):
        return [("", list(results))]
    varied = {
        name
        for name in dict.fromkeys(name for path in groups for name, _ in path)
        if len({dict(path).get(name) for path in groups}) > 1
    }
    return [
        (", ".join(f"{name} {value}" for name, value in path if name in varied), group)
        for path, group in groups.items()
    ]


def _path_parameters(result: CellResult) -> list[tuple[str, str]]:
    parameters = sorted(result.cell.parameters.items())
    return [(name, str(value)) for name, value in parameters if is_path_name(name)]


def cell_labels(results: Sequence[CellResult]) -> list[str]:
    """A short, unique label for each cell, which says how it differs from the others."""
    cells = [result.cell for result in results]
    tables = [dict(cell.parameters) for cell in cells]
    varied = [
        name
        for name in dict.fromkeys(name for table in tables for name in table)
        if len({table.get(name) for table in tables}) > 1
    ]
    pairs = [(cell.client.name, cell.server.name) for cell in cells]
    texts = []
    for pair, table in zip(pairs, tables, strict=True):
        pair_label = _pair(pair, pairs)
        settings = _settings_text({name: str(table[name]) for name in varied if name in table})
        texts.append(", ".join(part for part in (pair_label, settings) if part) or "as it is")
    if len(set(texts)) < len(texts):
        # They differ in code or image versions.
        texts = [f"{label} (cell {cell.key})" for label, cell in zip(texts, cells, strict=True)]
    return texts


def _pair(pair: tuple[str, str], pairs: Iterable[tuple[str, str]]) -> str:
    """The client, the server or both, whichever differs between the cells."""
    clients, servers = (len(set(side)) > 1 for side in zip(*pairs, strict=True))
    if clients and servers:
        return "→".join(pair)
    return f"client {pair[0]}" if clients else f"server {pair[1]}" if servers else ""


def _settings_text(settings: Mapping[str, str]) -> str:
    """Parameters and their values: 'server bbr', 'initial_rtt 100 ms' where both roles have it, 'server.pacing off'."""
    parts = []
    for full, value in settings.items():
        role, _, name = full.partition(".")
        both = name in PARAMETERS and all(settings.get(f"{endpoint}.{name}") == value for endpoint in ROLES)
        if both and role != ROLES[0]:
            continue
        if name in _SELF_EXPLANATORY:
            parts.append(value if both else f"{role} {value}")
        else:
            parts.append(f"{name if both else full} {value}")
    return ", ".join(parts)

"""Metrics of flows, the bottleneck and the network, in tables laid out like CCPerf's (ccperf.net).

And docs/metrics.md: every metric as it is declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.metric_registry import Layer, Metric, declared_metrics, unit_of
from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.outcome import Interval
from harness.report.column_selection import MOST_FLOWS
from harness.report.document import Block, BulletList, Column, Document, Paragraph, Phrase, Row, Span, Table
from harness.report.markdown import table_row
from harness.report.numbers import span_text, unit_text
from harness.scenario.metric_names import MetricName
from harness.topology import flow_label

#: Order of the rows, as in CCPerf. Metrics that are not listed here follow.
ORDER = (
    "mean_throughput",
    "mean_throughput_l7",
    "mean_sending_rate",
    "mean_sending_rate_l7",
    "mean_delivery_rate",
    "flow_completion_time",
    "mean_cwnd",
    "mean_in_flight",
    "mean_srtt",
    "mean_est_queue_delay",
    "mean_one_way_delay",
    "mean_idt",
    "mean_recovery_time",
    "retransmissions",
    "timeouts",
    "cov_throughput",
    "cov_in_flight",
    "network_power",
    "utilisation_bandwidth",
    "utilisation_bdp",
    "utility_pf",
    "utility_mpdf",
    "mean_queue_length",
    "mean_queue_packets",
    "mean_queue_delay",
    "mean_link_rate",
    "queue_drops_to_client",
    "early_drops_to_client",
    "limit_drops_to_client",
    "ecn_marks_to_client",
    "drop_rate",
    "agg_throughput",
    "agg_sending_rate",
    "agg_in_flight",
    "agg_utilisation_bandwidth",
    "agg_utilisation_bdp",
    "agg_utility_pf",
    "agg_utility_mpdf",
    "jain_samples",
    "jain_means",
    "jain_samples_responsive",
    "jain_means_responsive",
    "entropy_samples",
    "entropy_means",
    "product_samples",
    "product_means",
    "jain_shared",
    "utilisation_shared",
)


@dataclass(frozen=True)
class MetricTable:
    """One table: a row per metric; the columns are flows, the link or the network."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[Interval | None, ...]], ...]
    """(metric, unit, one interval a column)."""


def tables(result: CellResult) -> list[MetricTable]:
    """The tables of a cell; those without rows are left out."""
    scenario = result.cell.scenario
    flows = range(len(scenario.flows))
    labels = tuple(f"{index} {flow_label(result.cell, index)}" for index in flows)
    metric_tables = [
        _table(result, "Flow metrics", labels, "flow", flows),
        _table(result, "Link metrics", ("bottleneck",), "link", [None]),
        _table(result, "Network metrics", ("network",), "network", [None]),
        _phases(result, labels),
    ]
    return [table for table in metric_tables if table.rows]


def _table(
    result: CellResult, title: str, columns: tuple[str, ...], layer: Layer, flows: Sequence[int | None]
) -> MetricTable:
    units = {
        name.metric: unit_of(measurements[0]) for name, measurements in result.measurements.items() if _has_row(name)
    }
    declarations = {
        name: metric for name, metric in declared_metrics().items() if metric.layer == layer and name in units
    }
    ordered, unordered = (
        (name for name in ORDER if name in declarations),
        (name for name in declarations if name not in ORDER),
    )
    rows = [
        (name, units[name], tuple(result.interval(name, flow) for flow in flows)) for name in (*ordered, *unordered)
    ]
    return MetricTable(title, columns, tuple(rows))


def _has_row(name: MetricName) -> bool:
    """Whether a metric is of a flow, the link or the network as a whole. Single transfers have tables of their own."""
    return name.phase is None and (name.transfer is None or name.metric in ORDER)


def _phases(result: CellResult, labels: tuple[str, ...]) -> MetricTable:
    """Throughput per phase, and Jain's index of it. In a phase the same congestion-controlled flows are active."""
    numbers = sorted({name.phase for name in result.measurements if name.phase is not None})
    rows = []
    for number in numbers:
        shares = [result.interval("throughput", flow, phase=number) for flow in range(len(labels))]
        rows.append(
            (f"phase {number}", declared_metrics()["throughput"].unit, (*shares, result.interval("jain", phase=number)))
        )
    return MetricTable("Throughput by phase", (*labels, "Jain"), tuple(rows))


def absences(result: CellResult) -> list[str]:
    """Reasons for missing metrics, a sentence each. A reason for some of the runs only has their number."""
    measured = sum(measured_run is not None for _, measured_run in result.runs)
    return [
        reason if count == measured else f"{reason} ({count} of {measured} runs)"
        for reason, count in result.absences.items()
    ]


def _title(result: CellResult) -> Phrase:
    completed, total = result.outcomes.get("completed", 0), len(result.runs)
    runs = (
        format_count(completed, "run")
        if completed == total
        else f"{completed} of {format_count(total, 'run')} completed"
    )
    parameters = "".join(f", {name} {value}" for name, value in result.cell.parameters.items())
    scenario = result.cell.scenario
    suffix = f", engine {result.cell.engine}{parameters}; {runs})"
    return Span(scenario.title, strong=True), " (", Span(scenario.name, code=True), suffix


def _lay_out(table: MetricTable) -> Table:
    """The table with a row per metric, or per flow where a row has no room for all flows. The title heads the rows."""
    if len(table.columns) <= MOST_FLOWS + 1:
        columns = [Column(table.title, identifies=True, code=True), Column("unit", identifies=True)]
        columns += [Column(name, right=True) for name in table.columns]
        return Table(
            columns, [Row([name, unit_text(unit), *map(span_text, spans)]) for name, unit, spans in table.rows]
        )
    columns = [Column(table.title, identifies=True)]
    columns += [Column(f"{name} {unit_text(unit)}".rstrip(), right=True) for name, unit, _ in table.rows]
    rows = [
        Row([name, *(span_text(spans[index]) for _, _, spans in table.rows)])
        for index, name in enumerate(table.columns)
    ]
    return Table(columns, rows)


def metrics_document(results: Sequence[CellResult]) -> Document:
    """All cells' tables. Numbers of the data are numbers."""
    blocks: list[Block] = []
    for result in results:
        if metric_tables := tables(result):
            blocks += [Paragraph(_title(result)), *map(_lay_out, metric_tables), BulletList(absences(result))]
    return Document({"schema": 1, "cells": [_cell_data(result) for result in results]}, blocks)


def _cell_data(result: CellResult) -> dict[str, Any]:
    return {
        "scenario": result.cell.scenario.name,
        "engine": result.cell.engine,
        "client": result.cell.client.name,
        "server": result.cell.server.name,
        "parameters": dict(result.cell.parameters),
        "tables": [
            {
                "title": table.title,
                "columns": list(table.columns),
                "rows": [
                    {
                        "metric": name,
                        "unit": unit,
                        "values": [None if span is None else span.model_dump(mode="json") for span in spans],
                    }
                    for name, unit, spans in table.rows
                ],
            }
            for table in tables(result)
        ],
        "absent": absences(result),
    }


# --- Every metric as it is declared.


_SECTIONS: tuple[tuple[Layer, str, str], ...] = (
    (
        "flow",
        "Flows and their transfers",
        "A download that is repeated has each for the first and for the second connection: `repeat_completion`. In a "
        "run of several flows each has its own: `flow1_mean_srtt`. `throughput` is of a phase: "
        "`phase2_flow0_throughput`.",
    ),
    (
        "move",
        "Moves of clients",
        "A flow's moves have each their own, numbered from 1 in order of time, the repetitions of `every` among them: "
        "`move1_handover_throughput`, `flow1_move2_delivery_gap`. The server's stack's answer to each is in "
        "`measured.json` as data (`moves`) and in the table of `harness report moves`.",
    ),
    ("link", "The link", "Over all flows."),
    ("network", "All flows together", "In runs of several flows. `jain` is of a phase: `phase2_jain`."),
)
_BETTER = {"higher": "↑", "lower": "↓", "neutral": ""}


def metrics_page() -> str:
    """The page."""
    lines = [
        "# Metrics",
        "",
        "Generated (`make generate`) from the declarations in",
        "[`harness/analysis/metrics`](../harness/analysis/metrics). Objectives, tables, JSON and `measured.json` use",
        "these names and units; 1 is a number or a share. ↑ higher is better, ↓ lower is.",
    ]
    for layer, title, text in _SECTIONS:
        lines += ["", f"## {title}", "", text, ""]
        lines += [table_row(["metric", "unit", "", "what it is", "formula", "source"]), table_row(["---"] * 6)]
        lines += [table_row(_row(metric)) for metric in declared_metrics().values() if metric.layer == layer]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> list[str]:
    name = f"`{metric.name.replace('*', 'SIZE')}`"
    return [name, metric.unit, _BETTER[metric.better], metric.title, metric.formula, metric.source]

"""Metrics of flows, the bottleneck and the network, in tables laid out like CCPerf's (ccperf.net)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from harness.analysis.metrics.registry import Layer, declared_metrics, unit_of
from harness.evaluation.cell_result import CellResult
from harness.formatting import escape_stored, format_count
from harness.outcome import Interval
from harness.report.chosen import MOST_FLOWS
from harness.report.layout import Column, FittedTable, Row, span_text, unit_text
from harness.report.markdown import table_row
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


def heading(result: CellResult) -> str:
    """Heading of a cell's tables."""
    completed, total = result.outcomes.get("completed", 0), len(result.runs)
    runs = (
        format_count(completed, "run")
        if completed == total
        else f"{completed} of {format_count(total, 'run')} completed"
    )
    parameters = "".join(f", {name} {value}" for name, value in result.cell.parameters.items())
    return (
        f"{result.cell.scenario.title} (`{result.cell.scenario.name}`, engine {result.cell.engine}{parameters}; {runs})"
    )


def _lay_out(table: MetricTable) -> tuple[list[str], int, list[list[str]]]:
    """Return (headings, number of label columns, rows).

    A row is a metric, or a flow where a row has no room for all flows.
    """
    if len(table.columns) <= MOST_FLOWS + 1:
        rows = [[name, unit_text(unit), *map(span_text, values)] for name, unit, values in table.rows]
        return ["metric", "unit", *table.columns], 2, rows
    headings = [f"{name} {unit_text(unit)}".rstrip() for name, unit, _ in table.rows]
    rows = [
        [column, *(span_text(values[index]) for _, _, values in table.rows)]
        for index, column in enumerate(table.columns)
    ]
    return ["flow", *headings], 1, rows


def markdown(results: Sequence[CellResult]) -> str:
    """All cells' tables."""
    lines: list[str] = []
    for result in results:
        metric_tables = tables(result)
        if metric_tables:
            lines += [f"**{escape_stored(heading(result))}**", ""]
        for table in metric_tables:
            headings, label_count, rows = _lay_out(table)
            lines += [
                table_row([table.title, *headings[1:]]),
                table_row([*["---"] * label_count, *["---:"] * (len(headings) - label_count)]),
                *(table_row([f"`{first}`" if label_count == 2 else first, *values]) for first, *values in rows),
                "",
            ]
        if metric_tables and (reasons := absences(result)):
            lines += [*(f"- {escape_stored(reason)}" for reason in reasons), ""]
    return "\n".join(lines)


def show(results: Sequence[CellResult], console: Console) -> None:
    """The same on a terminal."""
    for result in results:
        metric_tables = tables(result)
        if metric_tables:
            console.print(heading(result), markup=False)
        for table in metric_tables:
            headings, label_count, rows = _lay_out(table)
            columns = [
                Column(head, identifies=index < label_count, right=index >= label_count)
                for index, head in enumerate(headings)
            ]
            console.print(FittedTable(table.title, columns, [Row(row) for row in rows]))
        for reason in absences(result) if metric_tables else ():
            console.print(reason, markup=False)


def report(results: Sequence[CellResult]) -> dict[str, object]:
    """The same as plain data: numbers are numbers."""
    cells = [
        {
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
                            "values": [None if span is None else span.model_dump(mode="json") for span in values],
                        }
                        for name, unit, values in table.rows
                    ],
                }
                for table in tables(result)
            ],
            "absent": absences(result),
        }
        for result in results
    ]
    return {"schema": 1, "cells": cells}

"""The JSON contract: stable keys under a schema number; stdout carries it and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from harness.analysis.metrics.registry import unit_of
from harness.evaluation.cell_result import CellResult
from harness.evaluation.missing_metrics import run_warnings
from harness.evaluation.ranking import rank_cells
from harness.execution.matrix import PlannedRun, ShardSummary
from harness.outcome import LinkProof
from harness.report import because, group_by_scenario, unfinished
from harness.report.chosen import ranking_metrics
from harness.report.listing import ListedImplementation
from harness.report.ranking import json_number
from harness.report.ranking import report as ranking_report
from harness.report.resumed import seed_of
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Scenario

SCHEMA = 1
#: Schema of `report --json`. From 2 on, cells of scenarios without objectives are `measured`, and there are rankings.
REPORT_SCHEMA = 2


def _link(result: CellResult) -> dict[str, Any]:
    """Link proof of the last run on which the verdict rests: one with a valid link, if there is one."""
    all_proofs = [(run, measured.link) for run, measured in result.runs if measured is not None and measured.link]
    proofs = [(run, link) for run, link in all_proofs if link.valid] or all_proofs
    if not proofs:
        return {"valid": False, "kernel": "", "problems": ["no run reached the point where the link can be proven"]}
    proof: LinkProof = proofs[-1][1]
    content = proof.model_dump(mode="json")
    content["proven"], content["of"] = sum(link.valid for _, link in all_proofs), len(result.runs)
    content["kernel"] = content["kernel"] or proofs[-1][0].sim_kernel
    return content


def _cell(result: CellResult) -> dict[str, Any]:
    measurements: dict[str, Any] = {}
    for name, values in result.measurements_by_name.items():
        span = result.interval(*values[0].named)
        assert span is not None
        measurements[name] = {
            "unit": unit_of(values[0]),
            "direction": values[0].direction,
            "vantage": values[0].vantage,
            "values": [json_number(item.value) for item in values],
            "timed_out": len(result.failed_values(values[0].named)),
            **{part: json_number(getattr(span, part)) for part in ("median", "low", "high")},
            "coverage": span.coverage,
        }
    last = result.last
    return {
        "key": result.cell.key,
        "scenario": result.cell.scenario.name,
        "client": result.cell.client.name,
        "server": result.cell.server.name,
        "engine": result.cell.engine,
        "parameters": result.cell.parameters,
        "effective_parameters": last[0].effective if last else {},
        "repeat_seed": None if (seed := seed_of(result.cell)) is None else asdict(seed),
        "observed": [observation.model_dump(mode="json") for observation in last[1].observed]
        if last and last[1]
        else [],
        "repetitions": len(result.runs),
        "outcomes": result.outcomes,
        "shortfall": result.shortfall,
        "verdict": result.verdict.status,
        "reason": result.verdict.reason,
        "sentence": result.verdict.sentence,
        "objectives": [
            {
                "metric": item.metric,
                "demanded": item.demanded,
                "observed": json.loads(item.observed.model_dump_json()) if item.observed else None,
                "verdict": item.verdict,
            }
            for item in result.verdict.objectives
        ],
        **({"checks": checks} if (checks := _checks(result)) else {}),
        "measurements": measurements,
        "because": because.report(result),
        **({"unfinished": failed} if (failed := unfinished.report(result)) else {}),
        "link": _link(result),
        "warnings": run_warnings(result.runs, flows_too=True),
        "evidence": list(result.verdict.evidence),
        "reproduction": result.reproduction,
    }


def _checks(result: CellResult) -> list[dict[str, Any]]:
    """The results of a test case's checks in the last run."""
    measured = result.last[1] if result.last is not None else None
    return [] if measured is None else [check.model_dump(mode="json") for check in measured.checks]


def report(results: Iterable[CellResult], requested: Sequence[MetricName] = ()) -> dict[str, Any]:
    """What `report --json` and `run --json` print. `requested`: metrics to rank the cells by."""
    cell_results = list(results)
    ranked = [
        ranking
        for cells in group_by_scenario(cell_results)
        for ranking in rank_cells(cells, ranking_metrics(cells[0].cell.scenario, requested))
    ]
    return {
        "schema": REPORT_SCHEMA,
        "cells": [_cell(result) for result in cell_results],
        "rankings": [ranking_report(ranking) for ranking in ranked],
    }


def catalogue(scenarios: Sequence[Scenario], entries: Sequence[ListedImplementation]) -> dict[str, Any]:
    """What `list --json` prints."""
    return {
        "schema": SCHEMA,
        "scenarios": [{"name": item.name, "title": item.title, "repetitions": item.repetitions} for item in scenarios],
        "implementations": [
            {
                "name": entry.implementation.name,
                "title": entry.implementation.title,
                "version": entry.implementation.version,
                "licence": entry.implementation.licence,
                "tested": entry.implementation.tested,
                "roles": list(entry.implementation.roles),
                "protocols": list(entry.implementation.protocols),
                "source": entry.implementation.image or "built here",
                "parameters": {role: entry.settable(role) for role in entry.implementation.roles},
                "here": entry.here,
                "absent": entry.absent,
            }
            for entry in entries
        ],
    }


def plan(
    planned: Sequence[PlannedRun],
    stored: set[tuple[str, int]],
    seconds: float,
    disk: Mapping[str, int],
    shards: Sequence[ShardSummary] = (),
) -> dict[str, Any]:
    """What `plan --json` prints: every run, whether it is stored, and the estimates for the rest.

    `disk`, in bytes: what these runs leave at least (`least`) and at most (`stay`), what they take in addition while
    they go on (`meanwhile`), and what is free (`free`). With shards: the work of each, and the names of those that have
    work as the matrix of a job of GitHub Actions.
    """
    shared = {
        "shards": [asdict(shard) for shard in shards],
        "matrix": {"shard": [shard.shard for shard in shards if shard.runs]},
    }
    return {
        **(shared if shards else {}),
        "schema": SCHEMA,
        "seconds": round(seconds),
        "disk": dict(disk),
        "runs": [
            {
                "key": item.cell.key,
                "scenario": item.cell.scenario.name,
                "client": item.cell.client.name,
                "server": item.cell.server.name,
                "engine": item.cell.engine,
                "parameters": item.cell.parameters,
                "repetition": item.repetition,
                "stored": (item.cell.key, item.repetition) in stored,
            }
            for item in planned
        ],
    }

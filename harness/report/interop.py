"""The interop matrix: clients down, servers across, test cases by their abbreviations; what failed, and why."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from harness.analysis.interop.matrix import (
    Disagreement,
    Failure,
    InteropMatrix,
    Pair,
    TestcaseResult,
    disagreements,
    relabel_unsupported,
)
from harness.analysis.interop.registry import CASES, FOLDER, MEASUREMENTS, case_of
from harness.analysis.interop.runner_json import to_document
from harness.analysis.interop.verdict import ResultWord, run_result
from harness.capture.artefacts import last_log_lines
from harness.evaluation.cell_result import CellResult
from harness.formatting import escape_stored
from harness.outcome import VerdictStatus
from harness.report import interop_failures
from harness.report.layout import Column, FittedTable, Row
from harness.report.markdown import table_row

SCHEMA = 1
_WORDS: dict[VerdictStatus, ResultWord] = {"pass": "succeeded", "fail": "failed", "unsupported": "unsupported"}
_MARKS: dict[ResultWord, tuple[str, str]] = {
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "unsupported": ("–", "dim"),
    "inconclusive": ("?", "yellow"),
}
_LEGEND = "✓ succeeded, ✗ failed, – unsupported, ? inconclusive"


def testcase_cells(results: Sequence[CellResult]) -> list[CellResult]:
    """The cells of test cases and measurements, without parameters of their own."""
    names = {f"{FOLDER}{name}" for name in (*CASES, *MEASUREMENTS)}
    return [result for result in results if result.cell.scenario.name in names and not result.cell.parameters]


def empty_reason(results: Sequence[CellResult]) -> str:
    """Why cells make no matrix; empty where they make one."""
    if testcase_cells(results):
        return ""
    names = {f"{FOLDER}{name}" for name in (*CASES, *MEASUREMENTS)}
    scenarios = sorted({result.cell.scenario.name for result in results} - names)
    if len(scenarios) == 1:
        return f"{scenarios[0]} is none of the interop runner's test cases"
    if scenarios:
        return (
            f"none of {len(scenarios)} scenarios, {scenarios[0]} among them, is one of the interop runner's test cases"
        )
    return "all stored cells of these test cases have parameters of their own, and the runner asks for none"


def matrix_of(results: Sequence[CellResult]) -> InteropMatrix:
    """Build the matrix of the cells. A case that an implementation fails with everybody counts as unsupported."""
    cells = testcase_cells(results)
    pairs = [(result.cell.client.name, result.cell.server.name) for result in cells]
    entries: dict[tuple[Pair, str], TestcaseResult] = {}
    measured: dict[tuple[Pair, str], str] = {}
    for pair, result in zip(pairs, cells, strict=True):
        case = case_of(result.cell.scenario.name)
        if case is not None:
            verdict = result.verdict
            word = _WORDS.get(verdict.status, "inconclusive")
            entries[pair, case] = TestcaseResult(word, verdict.reason, verdict.sentence, failure=_failure(result))
        elif result.verdict.status == "pass" and (details := _details(result)):
            measured[pair, result.cell.scenario.name.removeprefix(FOLDER)] = details
    clients, servers = (tuple(sorted({pair[index] for pair in pairs})) for index in (0, 1))
    return relabel_unsupported(InteropMatrix(clients, servers, entries, measured))


def _failure(result: CellResult) -> Failure | None:
    """The failure in the first run that failed."""
    for (run, measured), folder in zip(result.runs, result.folders, strict=True):
        verdict = run_result(run, measured)
        if verdict.word == "failed":
            return Failure(run.name, verdict.check, last_log_lines(folder, run))
    return None


def _details(result: CellResult) -> str:
    """Goodput as the runner writes it: mean and deviation of the runs, kbit/s."""
    values = [value * 1000 for value in result.values("goodput", 0, "first")]
    if not values:
        return ""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.0f} (± {spread:.0f}) kbps"


def _cases_by_word(matrix: InteropMatrix, pair: Pair) -> Iterator[tuple[ResultWord, str]]:
    """(word, abbreviations) of a pair."""
    for word in _MARKS:
        if cases := [CASES[case] for case, entry in matrix.cases(pair) if entry.word == word]:
            yield word, " ".join(cases)


def _summary(matrix: InteropMatrix) -> str:
    return ", ".join(f"{count} {word}" for word, count in matrix.counts().items() if count)


def show(matrix: InteropMatrix, console: Console, published: InteropMatrix | None = None) -> None:
    """Print the grid, what failed, and where a published matrix disagrees."""
    _show_grid("Interop: " + _summary(matrix), matrix, console)
    console.print(_LEGEND)
    interop_failures.show(matrix, console)
    if published is not None:
        _show_grid("Published: " + _summary(published), published, console)
        mismatches = disagreements(matrix, published)
        columns = [
            Column("case"),
            Column("pair", identifies=True),
            Column("here"),
            Column("there"),
            Column("why", text=30),
        ]
        rows = [
            Row(
                [
                    CASES[mismatch.case],
                    " → ".join(mismatch.pair),
                    mismatch.ours.word,
                    mismatch.theirs.word,
                    mismatch.ours.sentence,
                ]
            )
            for mismatch in mismatches
        ]
        console.print(FittedTable(f"{len(mismatches)} disagreements", columns, rows))


def _show_grid(title: str, matrix: InteropMatrix, console: Console) -> None:
    columns = [Column("client ↓ server →", identifies=True), *(Column(name, text=12) for name in matrix.servers)]
    rows = []
    for client in matrix.clients:
        cells: list[str | Text] = [client]
        for server in matrix.servers:
            parts = [
                Text(f"{_MARKS[word][0]} {text}", style=_MARKS[word][1])
                for word, text in _cases_by_word(matrix, (client, server))
            ]
            cells.append(Text(" ").join(parts) if parts else "")
        rows.append(Row(cells))
    console.print(FittedTable(title, columns, rows))


def markdown(matrix: InteropMatrix, published: InteropMatrix | None = None) -> str:
    """The same for a page, with failures grouped by responsibility."""
    lines = [f"{_summary(matrix)}. {_LEGEND}.", "", table_row(["client ↓ server →", *matrix.servers])]
    lines.append(table_row(["---"] * (1 + len(matrix.servers))))
    for client in matrix.clients:
        cells = [
            "<br>".join(f"{_MARKS[word][0]} {text}" for word, text in _cases_by_word(matrix, (client, server)))
            for server in matrix.servers
        ]
        lines.append(table_row([client, *cells]))
    lines += interop_failures.markdown(matrix)
    if published is not None:
        mismatches = disagreements(matrix, published)
        lines += ["", f"{len(mismatches)} disagreements with the published matrix.", ""]
        lines += [table_row(["case", "pair", "here", "there", "why"]), table_row(["---"] * 5)]
        lines += [
            table_row(
                [
                    CASES[mismatch.case],
                    " → ".join(mismatch.pair),
                    mismatch.ours.word,
                    mismatch.theirs.word,
                    escape_stored(mismatch.ours.sentence),
                ]
            )
            for mismatch in mismatches
        ]
    return "\n".join(lines) + "\n"


def report(matrix: InteropMatrix, published: InteropMatrix | None = None) -> dict[str, Any]:
    """The same as data."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "clients": list(matrix.clients),
        "servers": list(matrix.servers),
        "counts": matrix.counts(),
        "entries": [_entry(pair, case, entry) for pair in matrix.pairs for case, entry in matrix.cases(pair)],
        "measurements": [
            {"client": client, "server": server, "measurement": name, "details": details}
            for ((client, server), name), details in matrix.measured.items()
        ],
    }
    if published is not None:
        document["disagreements"] = [_disagreement(mismatch) for mismatch in disagreements(matrix, published)]
    return document


def _entry(pair: Pair, case: str, entry: TestcaseResult) -> dict[str, Any]:
    return {
        "client": pair[0],
        "server": pair[1],
        "case": case,
        "abbreviation": CASES[case],
        "result": entry.word,
        "relabelled": entry.relabelled,
        "reason": entry.reason,
        "sentence": entry.sentence,
        **interop_failures.report(pair, case, entry),
    }


def _disagreement(mismatch: Disagreement) -> dict[str, Any]:
    return {
        "client": mismatch.pair[0],
        "server": mismatch.pair[1],
        "case": mismatch.case,
        "here": mismatch.ours.word,
        "there": mismatch.theirs.word,
        "sentence": mismatch.ours.sentence,
    }


def result_json(results: Sequence[CellResult], titles: Mapping[str, str], place: str) -> dict[str, Any]:
    """The runner's own document of the cells. `titles`: case → what it is; `place`: where the runs are kept."""
    cells = testcase_cells(results)
    urls = {
        implementation.name: implementation.project
        for cell in cells
        for implementation in (cell.cell.client, cell.cell.server)
    }
    start_times = [datetime.fromisoformat(run.started_at).timestamp() for cell in cells for run, _ in cell.runs]
    wall_times = [run.wall for cell in cells for run, _ in cell.runs]
    start = min(start_times, default=0.0)
    end = max((run_start + wall for run_start, wall in zip(start_times, wall_times, strict=True)), default=0.0)
    return to_document(matrix_of(results), titles, urls, start, end, place)

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
    relabelled,
)
from harness.analysis.interop.registry import CASES, FOLDER, MEASUREMENTS, case_of
from harness.analysis.interop.runner_json import written
from harness.analysis.interop.verdict import Word, run_result
from harness.capture.artefacts import last_words
from harness.evaluation.cell_result import CellResult
from harness.formatting import quoted
from harness.outcome import VerdictStatus
from harness.report import interop_failures
from harness.report.layout import Column, Fitted, Row
from harness.report.markdown import line

SCHEMA = 1
_WORDS: dict[VerdictStatus, Word] = {"pass": "succeeded", "fail": "failed", "unsupported": "unsupported"}
_MARKS: dict[Word, tuple[str, str]] = {
    "succeeded": ("✓", "green"), "failed": ("✗", "red"), "unsupported": ("–", "dim"), "inconclusive": ("?", "yellow"),
}  # fmt: skip
_LEGEND = "✓ succeeded, ✗ failed, – unsupported, ? inconclusive"


def chosen(results: Sequence[CellResult]) -> list[CellResult]:
    """The cells of test cases and measurements, without parameters of their own."""
    names = {f"{FOLDER}{name}" for name in (*CASES, *MEASUREMENTS)}
    return [one for one in results if one.cell.scenario.name in names and not one.cell.parameters]


def why_none(results: Sequence[CellResult]) -> str:
    """Why cells make no matrix; empty where they make one."""
    if chosen(results):
        return ""
    names = {f"{FOLDER}{name}" for name in (*CASES, *MEASUREMENTS)}
    others = sorted({one.cell.scenario.name for one in results} - names)
    if len(others) == 1:
        return f"{others[0]} is none of the interop runner's test cases"
    if others:
        return f"none of {len(others)} scenarios, {others[0]} among them, is one of the interop runner's test cases"
    return "all stored cells of these test cases have parameters of their own, and the runner asks for none"


def matrix_of(results: Sequence[CellResult]) -> InteropMatrix:
    """What the cells amount to, each implementation's failures with everybody called unsupported."""
    cells = chosen(results)
    pairs = [(one.cell.client.name, one.cell.server.name) for one in cells]
    entries: dict[tuple[Pair, str], TestcaseResult] = {}
    measured: dict[tuple[Pair, str], str] = {}
    for pair, one in zip(pairs, cells, strict=True):
        case = case_of(one.cell.scenario.name)
        if case is not None:
            verdict = one.verdict
            word = _WORDS.get(verdict.status, "inconclusive")
            entries[pair, case] = TestcaseResult(word, verdict.reason, verdict.sentence, failure=_failure(one))
        elif one.verdict.status == "pass" and (details := _details(one)):
            measured[pair, one.cell.scenario.name.removeprefix(FOLDER)] = details
    clients, servers = (tuple(sorted({pair[index] for pair in pairs})) for index in (0, 1))
    return relabelled(InteropMatrix(clients, servers, entries, measured))


def _failure(result: CellResult) -> Failure | None:
    """Where it shows that a cell failed: in the first run that did."""
    for (run, measured), folder in zip(result.runs, result.folders, strict=True):
        found = run_result(run, measured)
        if found.word == "failed":
            return Failure(run.name, found.check, last_words(folder, run))
    return None


def _details(result: CellResult) -> str:
    """Goodput as the runner writes it: mean and deviation of the runs, kbit/s."""
    values = [value * 1000 for value in result.values("goodput", 0, "first")]
    if not values:
        return ""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.0f} (± {spread:.0f}) kbps"


def _grouped(matrix: InteropMatrix, pair: Pair) -> Iterator[tuple[Word, str]]:
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
        found = disagreements(matrix, published)
        columns = [
            Column("case"),
            Column("pair", identifies=True),
            Column("here"),
            Column("there"),
            Column("why", text=30),
        ]
        disagreed = [
            Row([CASES[one.case], " → ".join(one.pair), one.ours.word, one.theirs.word, one.ours.sentence])
            for one in found
        ]
        console.print(Fitted(f"{len(found)} disagreements", columns, disagreed))


def _show_grid(title: str, matrix: InteropMatrix, console: Console) -> None:
    columns = [Column("client ↓ server →", identifies=True), *(Column(name, text=12) for name in matrix.servers)]
    rows = []
    for client in matrix.clients:
        cells: list[str | Text] = [client]
        for server in matrix.servers:
            parts = [Text(f"{_MARKS[word][0]} {text}", style=_MARKS[word][1])
                     for word, text in _grouped(matrix, (client, server))]  # fmt: skip
            cells.append(Text(" ").join(parts) if parts else "")
        rows.append(Row(cells))
    console.print(Fitted(title, columns, rows))


def markdown(matrix: InteropMatrix, published: InteropMatrix | None = None) -> str:
    """The same for a page, failures by whose they are."""
    lines = [f"{_summary(matrix)}. {_LEGEND}.", "", line(["client ↓ server →", *matrix.servers])]
    lines.append(line(["---"] * (1 + len(matrix.servers))))
    for client in matrix.clients:
        cells = [
            "<br>".join(f"{_MARKS[word][0]} {text}" for word, text in _grouped(matrix, (client, server)))
            for server in matrix.servers
        ]
        lines.append(line([client, *cells]))
    lines += interop_failures.markdown(matrix)
    if published is not None:
        found = disagreements(matrix, published)
        lines += ["", f"{len(found)} disagreements with the published matrix.", ""]
        lines += [line(["case", "pair", "here", "there", "why"]), line(["---"] * 5)]
        lines += [
            line([CASES[one.case], " → ".join(one.pair), one.ours.word, one.theirs.word, quoted(one.ours.sentence)])
            for one in found
        ]
    return "\n".join(lines) + "\n"


def report(matrix: InteropMatrix, published: InteropMatrix | None = None) -> dict[str, Any]:
    """The same as data."""
    made: dict[str, Any] = {
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
        made["disagreements"] = [_disagreement(one) for one in disagreements(matrix, published)]
    return made


def _entry(pair: Pair, case: str, entry: TestcaseResult) -> dict[str, Any]:
    return {
        "client": pair[0], "server": pair[1], "case": case, "abbreviation": CASES[case], "result": entry.word,
        "relabelled": entry.relabelled, "reason": entry.reason, "sentence": entry.sentence,
        **interop_failures.report(pair, case, entry),
    }  # fmt: skip


def _disagreement(one: Disagreement) -> dict[str, Any]:
    return {
        "client": one.pair[0], "server": one.pair[1], "case": one.case, "here": one.ours.word,
        "there": one.theirs.word, "sentence": one.ours.sentence,
    }  # fmt: skip


def result_json(results: Sequence[CellResult], titles: Mapping[str, str], place: str) -> dict[str, Any]:
    """The runner's own document of the cells. `titles`: case → what it is; `place`: where the runs are kept."""
    cells = chosen(results)
    urls = {one.name: one.project for cell in cells for one in (cell.cell.client, cell.cell.server)}
    times = [datetime.fromisoformat(run.started_at).timestamp() for cell in cells for run, _ in cell.runs]
    walls = [run.wall for cell in cells for run, _ in cell.runs]
    start = min(times, default=0.0)
    end = max((begun + wall for begun, wall in zip(times, walls, strict=True)), default=0.0)
    return written(matrix_of(results), titles, urls, start, end, place)

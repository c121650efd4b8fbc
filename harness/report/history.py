"""The history of an implementation: its releases as a table for each scenario, with what changed in words."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.analysis.interop.registry import CASES, case_of
from harness.analysis.interop.verdict import ResultWord
from harness.capture.divergence import Divergence
from harness.evaluation.release_bisection import Bisection
from harness.evaluation.release_history import Criterion, ReleaseChange, ReleaseResult, ScenarioHistory, change_between
from harness.outcome import Interval
from harness.report.diagnosis import STATE_NAMES
from harness.report.document import SENTENCE_WIDTH, Block, Column, Document, Heading, Paragraph, Row, Span, Table
from harness.report.interop import RESULT_LEGEND, RESULT_MARKS, result_word
from harness.report.numbers import json_number, number_text, span_text
from harness.report.reruns import divergence_document
from harness.scenario.metric_names import MetricName


def history_document(name: str, histories: Sequence[ScenarioHistory]) -> Document:
    """Every release in every scenario, oldest first."""
    data = {"schema": 1, "name": name, "scenarios": [_data(history) for history in histories]}
    blocks: list[Block] = [Heading(f"{name}: {len(histories[0].results) if histories else 0} releases")]
    return Document(data, [*blocks, *history_blocks(histories)])


def history_blocks(histories: Sequence[ScenarioHistory]) -> list[Block]:
    """A table for each scenario, and a grid with each peer for all test cases of the interop runner."""
    blocks = list[Block]()
    testcases = defaultdict[str, list[ScenarioHistory]](list)
    for history in histories:
        if case_of(history.scenario.name) is None:
            blocks += [_table(history), *_objectives(history)]
        else:
            testcases[history.beside].append(history)
    return [*blocks, *itertools.chain.from_iterable(map(_testcase_grid, testcases.values()))]


def _testcase_grid(histories: Sequence[ScenarioHistory]) -> list[Block]:
    """Releases down, test cases across in the runner's order; then what changed from one release to the next.

    Neighbours with the same results share a row.
    """
    by_case = {case: history for case in CASES for history in histories if case_of(history.scenario.name) == case}
    columns = [Column("release", identifies=True), *(Column(CASES[case]) for case in by_case)]
    words = {case: [_word(item) for item in history.results] for case, history in by_case.items()}
    by_release = zip(histories[0].results, zip(*words.values(), strict=True), strict=True)
    rows = []
    for results, group in itertools.groupby(by_release, key=lambda item: item[1]):
        first, *others = (item for item, _ in group)
        label = f"{first.name}..{others[-1].release.version}" if others else first.name
        rows.append(Row([label, *(Span(*RESULT_MARKS[word]) if word else "" for word in results)]))
    caption = f"test cases of the interop runner{histories[0].beside}: {RESULT_LEGEND}"
    blocks: list[Block] = [Table(columns, rows, caption)]
    sentences = []
    for case, history in by_case.items():
        ran = [(item, word) for item, word in zip(history.results, words[case], strict=True) if word is not None]
        sentences += [
            f"{case}: {after} since {item.release.version}, {before} before. {item.release.note}".rstrip()
            for (_, before), (item, after) in itertools.pairwise(ran)
            if before != after
        ]
    return [*blocks, *(Paragraph(sentence) for sentence in sentences)]


def _word(item: ReleaseResult) -> ResultWord | None:
    return None if item.result is None else result_word(item.result)


def change_sentence(change: ReleaseChange) -> str:
    """What is otherwise than in the release before, in words."""
    if change.identical:
        return f"same bytes as {change.before.release.version}"
    ended = ""
    if change.endings is not None:
        earlier, later = (", ".join(f"{count} {status}" for status, count in ends.items()) for ends in change.endings)
        ended = f"runs end otherwise: {later.replace('_', ' ')}; {earlier.replace('_', ' ')} before"
    figures = "; ".join(
        f"{metric} {number_text(before)} → {number_text(after)}{_share(before, after)}"
        for metric, (before, after) in change.figures.items()
    )
    parts = ", ".join(
        f"{STATE_NAMES[state]} {number_text(abs(seconds))} s {'more' if seconds > 0 else 'less'}"
        for state, seconds in change.parts.items()
    )
    if not (change.before.captures and change.after.captures) and not figures and not ended:
        return "no packets to compare"
    if not figures and not parts and not ended:
        return f"other bytes than {change.before.release.version}, the same figures"
    return "; ".join(text for text in (ended, ": ".join(text for text in (figures, parts) if text)) if text)


def bisection_document(
    criterion: Criterion, results: Mapping[int, ReleaseResult], bisection: Bisection, divergence: Divergence | None
) -> Document:
    """The release that a search found, what is otherwise in it, and what was run. `results`: by position."""
    oldest = results[0]
    scenario = oldest.result.cell.scenario if oldest.result is not None else None
    flows = len(scenario.flows) if scenario is not None else 1
    metrics = [criterion.metric] if criterion.metric is not None else []
    ran = [results[index] for index in sorted(results)]
    newest = ran[-1]
    blocks: list[Block] = []
    change = None
    if bisection.first_changed is None:
        sentence = (
            f"No release from {oldest.release.version} to {newest.release.version} is changed: {criterion.text(flows)}."
        )
    else:
        before, after = results[bisection.last_before], results[bisection.first_changed]
        change = change_between(before, after, metrics)
        or_else = f", or one of {len(bisection.skipped)} before it that could not be run," if bisection.skipped else ""
        published = after.release.date.isoformat()
        sentence = f"{after.name} of {published}{or_else} is the first: {criterion.text(flows)}."
    blocks.append(Paragraph(sentence))
    if change is not None:
        blocks.append(Paragraph(f"Against {change.before.release.version}: {change_sentence(change)}."))
    # That cells and images are others goes without saying.
    difference = divergence_document(replace(divergence, facts=()), 2) if divergence is not None else None
    if difference is not None:
        blocks += difference.blocks
    columns = [Column("run", identifies=True), Column("published"), *(Column(metric.text(flows)) for metric in metrics)]
    rows = [
        Row([item.name, item.release.date.isoformat(), *(span_text(_interval(item, metric)) for metric in metrics)])
        for item in ran
    ]
    data = {
        "schema": 1,
        "criterion": criterion.text(flows),
        "scenario": None if scenario is None else scenario.name,
        "first": None if bisection.first_changed is None else results[bisection.first_changed].name,
        "before": results[bisection.last_before].name,
        "change": None if change is None else _change_data(change),
        "divergence": None if difference is None else difference.data,
        "run": [item.name for item in ran],
    }
    return Document(data, [*blocks, Table(columns, rows, f"{len(ran)} releases were run")])


def _interval(item: ReleaseResult, metric: MetricName) -> Interval | None:
    return None if item.result is None else item.result.interval(*metric)


def _share(before: float, after: float) -> str:
    if not (math.isfinite(before) and math.isfinite(after)) or not before:
        return ""
    return f" ({(after - before) / before:+.0%})" if abs(after - before) >= 0.005 * abs(before) else ""


def _table(history: ScenarioHistory) -> Table:
    flows = len(history.scenario.flows)
    columns = [Column("release", identifies=True), Column("published"), Column("runs")]
    columns += [Column(metric.text(flows)) for metric in history.metrics]
    columns.append(Column("against the one before", text=SENTENCE_WIDTH))
    return Table(columns, [_row(history, item) for item in history.results], history.title)


def _row(history: ScenarioHistory, item: ReleaseResult) -> Row:
    cells = [item.name, item.release.date.isoformat()]
    if item.result is None:
        return Row([*cells, "–", *["–" for _ in history.metrics], item.problem])
    completed = item.result.outcomes.get("completed", 0)
    figures = [span_text(item.result.interval(*metric)) for metric in history.metrics]
    change = history.changes.get(item.name)
    return Row([*cells, f"{completed}/{len(item.result.runs)}", *figures, change_sentence(change) if change else ""])


def _objectives(history: ScenarioHistory) -> list[Block]:
    demanded = ", ".join(map(str, history.scenario.objectives))
    return [Paragraph(f"objectives: {demanded}")] if demanded else []


def _data(history: ScenarioHistory) -> dict[str, Any]:
    flows = len(history.scenario.flows)
    return {
        "scenario": history.scenario.name,
        "peer": history.peer or None,
        "testcase": case_of(history.scenario.name),
        "objectives": [str(objective) for objective in history.scenario.objectives],
        "releases": [
            {
                "name": item.name,
                "date": item.release.date.isoformat(),
                "problem": item.problem,
                "key": None if item.result is None else item.result.cell.key,
                "outcomes": {} if item.result is None else item.result.outcomes,
                "result": _word(item) if case_of(history.scenario.name) is not None else None,
                "medians": {metric.text(flows): _number(item.median(metric)) for metric in history.metrics},
                "change": _change_data(history.changes[item.name]) if item.name in history.changes else None,
            }
            for item in history.results
        ],
    }


def _change_data(change: ReleaseChange) -> dict[str, Any]:
    return {
        "before": change.before.name,
        "identical": change.identical,
        "figures": {name: [json_number(value) for value in pair] for name, pair in change.figures.items()},
        "parts": dict(change.parts),
        "endings": None if change.endings is None else [dict(ends) for ends in change.endings],
        "sentence": change_sentence(change),
    }


def _number(value: float | None) -> float | str | None:
    return None if value is None else json_number(value)

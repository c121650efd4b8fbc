"""What the gate decided: as a document, as JUnit XML, and as annotations of a CI job. The summary of a nightly run."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from harness.evaluation.cell_result import CellResult, state_changes
from harness.evaluation.regression.accepted_changes import Allowance, AllowedDecision, AppliedAllowances
from harness.evaluation.regression.decision import (
    ALARMS,
    OUTCOME,
    STATUS_ORDER,
    ChangeStatus,
    MetricChange,
    differing_parameters,
)
from harness.formatting import escape_controls, format_count
from harness.outcome.deviations import deviation_sentences, find_deviations
from harness.report.diagnosis import STATE_NAMES
from harness.report.document import SENTENCE_WIDTH, Column, Document, Heading, Paragraph, Row, Span, Table
from harness.report.numbers import json_number, number_text, unit_text
from harness.report.results import group_by_scenario, results_blocks, totals_blocks
from harness.stats.intervals import interval
from harness.stats.two_sample import ALPHA

#: Texts name this many differing figures of a cell, and give the number of the others.
_MAX_NAMED = 3
#: Standing → its symbol, and its colour on a terminal.
CHANGE_SYMBOLS: Mapping[ChangeStatus, tuple[str, str]] = {
    "same": ("=", "green"),
    "better": ("▲", "green"),
    "worse": ("▼", "red"),
    "differs": ("≠", "red"),
    "cannot tell": ("?", "yellow"),
    "new": ("+", "cyan"),
    "gone": ("−", "yellow"),
}


@dataclass(frozen=True)
class CellReport:
    """The gate's decision on a cell, with the code and image versions that differ."""

    weighed: AllowedDecision
    causes: tuple[str, ...]

    @property
    def departures(self) -> list[str]:
        """Parameters whose observed value in current runs is not the one that was set, a sentence each."""
        current = self.weighed.decision.pair.current
        return [] if current is None else deviation_sentences(current.runs)

    @property
    def departed_before(self) -> bool:
        """Whether the same parameters depart from their set values in the baseline's runs, too."""
        pair = self.weighed.decision.pair
        if pair.base is None or pair.current is None:
            return False
        before, after = (
            {departure.name for run in side.runs for departure in find_deviations(*run)}
            for side in (pair.base, pair.current)
        )
        return after <= before

    @property
    def telling(self) -> list[MetricChange]:
        """The figures that decide the cell's standing: how runs ended, then the largest changes first."""
        standing = self.weighed.decision.status
        figures = [figure for figure in self.weighed.decision.figures if figure.status == standing != "same"]
        return sorted(figures, key=lambda figure: (figure.name != OUTCOME, -_change(figure)))


@dataclass(frozen=True)
class GateReport:
    """The gate's decisions on a matrix."""

    cells: tuple[CellReport, ...]
    applied: AppliedAllowances
    within: float

    @property
    def counts(self) -> dict[ChangeStatus, int]:
        """Standing → number of cells, the gravest first, without zeros."""
        counts = Counter(cell.weighed.decision.status for cell in self.cells)
        return {standing: counts[standing] for standing in STATUS_ORDER if counts[standing]}

    @property
    def alarms(self) -> list[CellReport]:
        """Cells that keep the gate shut."""
        return [cell for cell in self.cells if cell.weighed.alarm]

    @property
    def open(self) -> bool:
        """Whether cells were compared, and none of them keeps it shut."""
        return not self.alarms and bool(self.counts.keys() - {"new", "gone"})

    @property
    def tests(self) -> int:
        """How many figures were tested."""
        return sum(figure.p is not None for cell in self.cells for figure in cell.weighed.decision.figures)


def _change(figure: MetricChange) -> float:
    """How far a figure is off, the same for twice and half of it; infinite where it came or went."""
    if figure.factor is None or figure.factor <= 0:
        return math.inf
    return abs(math.log(figure.factor))


def sentence(gate_report: GateReport) -> str:
    """Summary in one line."""
    counts = ", ".join(f"{count} {standing}" for standing, count in gate_report.counts.items())
    accepted = sum(bool(cell.weighed.accepted) for cell in gate_report.cells)
    acceptance = f"; {accepted} of them accepted" if accepted else ""
    if gate_report.alarms:
        conclusion = f"the gate is shut by {format_count(len(gate_report.alarms), 'cell')}"
    elif gate_report.open:
        conclusion = "the gate is open"
    else:
        conclusion = "nothing was compared, so that the gate is not open"
    return f"{format_count(len(gate_report.cells), 'cell')}: {counts or 'none'}{acceptance}: {conclusion}"


def false_alarm_text(gate_report: GateReport) -> str:
    """The probability of a false alarm, in sentences."""
    exact_cells = sum(cell.weighed.decision.exact for cell in gate_report.cells)
    texts = [f"A figure has changed when it is off by more than {100 * gate_report.within:.3g} %."]
    if exact_cells:
        texts.append(
            f"{format_count(exact_cells, 'cell')} of the same bits in virtual time had to be the same to "
            "the last digit."
        )
    if gate_report.tests:
        texts.append(
            f"{format_count(gate_report.tests, 'figure')} with chance in them tested together: were "
            "nothing changed, one "
            f"alarm or more would have a probability of {ALPHA:.0%} at most (Holm)."
        )
    return " ".join(texts)


def values_text(figure: MetricChange) -> str:
    """Before and now: '4.41 → 55.7 s (× 12.6)'."""
    if figure.name == OUTCOME:
        return figure.why
    before, after = (number_text(interval(side).median) for side in (figure.base, figure.current))
    unit = unit_text(figure.unit)
    factor = f" (× {figure.factor:.3g})" if figure.factor is not None and figure.factor != 1 else ""
    return f"{before} → {after}{' ' if unit else ''}{unit}{factor}"


def figure_text(figure: MetricChange) -> str:
    """A figure, its test, and the reason for its standing."""
    runs = f", n = {len(figure.base)} and {len(figure.current)}" if figure.name != OUTCOME else ""
    test = "" if figure.p is None else f", p = {figure.p:.2g}"
    why = f"; {figure.why}" if figure.why and figure.name != OUTCOME else ""
    return f"{figure.name} {values_text(figure)}{runs}{test}{why}"


def deciding_text(cell: CellReport) -> str:
    """The figures that decide a cell's standing: the first `_NAMED`, and the number of the others."""
    figures = [figure_text(figure) for figure in cell.telling]
    hidden = len(figures) - _MAX_NAMED
    return "; ".join([*figures[:_MAX_NAMED], *([f"{hidden} more"] if hidden > 0 else [])])


def cause_text(cell: CellReport) -> str:
    """Where the time of a changed cell went, before and now: 'flow control 0 → 80.2 s'. And which parameters are not
    what was set, if the baseline's are.
    """
    decision = cell.weighed.decision
    if decision.status in ("same", "new", "gone") or decision.pair.base is None or decision.pair.current is None:
        return ""
    changes = list(state_changes(decision.pair.base, decision.pair.current).items())
    parts = [
        f"{STATE_NAMES[state]} {number_text(before)} → {number_text(after)} s"
        for state, (before, after) in changes[:_MAX_NAMED]
    ]
    return "; ".join([*([", ".join(parts)] if parts else []), *([] if cell.departed_before else cell.departures)])


def changed_cells(gate_report: GateReport) -> list[CellReport]:
    """All cells that are not the same: alarms first, then by gravity."""
    changed = [cell for cell in gate_report.cells if cell.weighed.decision.status != "same"]
    return sorted(changed, key=lambda cell: (not cell.weighed.alarm, STATUS_ORDER.index(cell.weighed.decision.status)))


def acceptance_text(cell: CellReport) -> str:
    """By which accepted changes a cell shuts no gate; empty where there are none."""
    return "; ".join(
        dict.fromkeys(f"accepted until {allowance.until}: {allowance.reason}" for allowance in cell.weighed.accepted)
    )


def acceptance_notes(applied: AppliedAllowances) -> list[str]:
    """Notes on accepted changes that have expired or are not needed."""
    return [
        *(
            f"no longer accepted since {allowance.until}: {_allowance_label(allowance)} ({allowance.reason})"
            for allowance in applied.expired
        ),
        *(
            f"accepted, and not needed: {_allowance_label(allowance)} ({allowance.reason})"
            for allowance in applied.unused
        ),
    ]


def _allowance_label(allowance: Allowance) -> str:
    metric = f" {allowance.metric}" if allowance.metric else ""
    return f"{allowance.scenario} {allowance.client}→{allowance.server}{metric}"


def across_notes(gate_report: GateReport) -> list[str]:
    """The option that compares cells which differ in parameters alone."""
    names = differing_parameters([cell.weighed.decision.pair for cell in gate_report.cells])
    if not names:
        return []
    words = ",".join(names)
    return [f"cells that are gone and cells that are new differ in {words} alone: --across {words} compares them"]


def departure_notes(gate_report: GateReport) -> list[str]:
    """Notes on parameters whose observed value in current runs is not the one that was set.

    Cells whose baseline does not show the same come first, and all of them are named.
    """
    departed_cells = [(cell, departures) for cell in gate_report.cells if (departures := cell.departures)]
    new = [(cell, texts) for cell, texts in departed_cells if not cell.departed_before]
    old = [(cell, texts) for cell, texts in departed_cells if cell.departed_before]
    lines = [f"not what was set: {cell.weighed.decision.pair.name}: {'; '.join(texts)}" for cell, texts in new]
    if old:
        names = [cell.weighed.decision.pair.name for cell, _ in old[:_MAX_NAMED]]
        remainder = f" and {format_count(len(old) - _MAX_NAMED, 'more cell')}" if len(old) > _MAX_NAMED else ""
        lines.append(f"not what was set, as in the baseline: {'; '.join(names)}{remainder}")
    return lines


def gate_document(gate_report: GateReport) -> Document:
    """The cells that are not the same, notes, and a summary."""
    rows = []
    for cell in changed_cells(gate_report):
        standing = cell.weighed.decision.status
        symbol, colour = CHANGE_SYMBOLS[standing]
        word = f"{symbol} {standing}{' (accepted)' if cell.weighed.accepted else ''}"
        cause = cause_text(cell)
        why = "; ".join(filter(None, [deciding_text(cell), cause and f"because: {cause}", acceptance_text(cell)]))
        rows.append(Row([Span(word, style=colour), cell.weighed.decision.pair.name, why, ", ".join(cell.causes)]))
    columns = [
        Column("", identifies=True),
        Column("cell", identifies=True, text=SENTENCE_WIDTH),
        Column("before → now", text=SENTENCE_WIDTH),
        Column("what differs in the bits", text=SENTENCE_WIDTH),
    ]
    summary = sentence(gate_report)
    return Document(
        _data(gate_report),
        [
            Paragraph(Span(f"{summary[0].upper()}{summary[1:]}.", strong=True), medium="markdown"),
            Table(columns, rows),
            *(Paragraph(text, "yellow") for text in across_notes(gate_report)),
            *(Paragraph(text, "yellow") for text in departure_notes(gate_report)),
            *(Paragraph(text) for text in (*acceptance_notes(gate_report.applied), false_alarm_text(gate_report))),
            Paragraph(summary, medium="terminal"),
        ],
    )


def nightly_document(results: Sequence[CellResult], gate_report: GateReport | None = None) -> Document:
    """The summary of a CI job: what changed since the baseline, where there is one, then verdicts and tables."""
    change = [] if gate_report is None else [Heading("Since the baseline"), *gate_document(gate_report).blocks]
    return Document({}, [*change, Heading("Verdicts"), *totals_blocks(results), *results_blocks(results)])


def workflow_commands(gate_report: GateReport) -> list[str]:
    """Workflow commands of GitHub Actions: an error at the scenario's file per cell that shuts the gate."""
    commands = []
    for cell in gate_report.alarms:
        decided = cell.weighed.decision
        title = f"{decided.status}: {decided.pair.name}"
        cause = cause_text(cell)
        text = "; because: ".join(filter(None, [deciding_text(cell), cause]))
        text += f" (differs in {', '.join(cell.causes)})" if cell.causes else ""
        file = f"scenarios/{decided.pair.cell.scenario.name}.yaml"
        commands.append(f"::error file={_escape_property(file)},title={_escape_property(title)}::{_escape_data(text)}")
    return commands


def _escape_data(text: str) -> str:
    """Escape the text as the runner's workflow commands require."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def _data(gate_report: GateReport) -> dict[str, Any]:
    return {
        "schema": 1,
        "open": gate_report.open,
        "within": gate_report.within,
        "alpha": ALPHA,
        "tests": gate_report.tests,
        "counts": gate_report.counts,
        "cells": [_entry(cell) for cell in gate_report.cells],
        "expired": [allowance.model_dump(mode="json") for allowance in gate_report.applied.expired],
        "unused": [allowance.model_dump(mode="json") for allowance in gate_report.applied.unused],
    }


def _entry(cell_report: CellReport) -> dict[str, Any]:
    decided = cell_report.weighed.decision
    cell = decided.pair.cell
    return {
        "scenario": cell.scenario.name,
        "client": cell.client.name,
        "server": cell.server.name,
        "engine": cell.engine,
        "parameters": cell.parameters,
        "keys": {
            side: None if result is None else result.cell.key
            for side, result in (("baseline", decided.pair.base), ("now", decided.pair.current))
        },
        "standing": decided.status,
        "alarm": cell_report.weighed.alarm,
        "exact": decided.exact,
        "accepted": [allowance.reason for allowance in cell_report.weighed.accepted],
        "causes": list(cell_report.causes),
        "because": cause_text(cell_report),
        "departures": cell_report.departures,
        "figures": [_figure(figure) for figure in decided.figures],
    }


def _figure(figure: MetricChange) -> dict[str, Any]:
    return {
        "metric": figure.name,
        "unit": figure.unit,
        "standing": figure.status,
        "why": figure.why,
        "baseline": [json_number(value) for value in figure.base],
        "now": [json_number(value) for value in figure.current],
        "factor": figure.factor if figure.factor is None or math.isfinite(figure.factor) else None,
        "p": figure.p,
        "alarm": figure.status in ALARMS,
    }


# --- Verdicts, and decisions of the gate, as JUnit XML: what CI systems read test results from.
#
# The format has no standard; this is the part that Jenkins, GitLab and the common GitHub actions agree on.


#: Characters that XML 1.0 cannot represent, besides those that are never shown (`harness.formatting.escape_controls`).
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Verdict → element below a test case. Other verdicts have none: the case passed.
_ELEMENTS = {"fail": "failure", "error": "error", "inconclusive": "skipped", "unsupported": "skipped"}
_GATE_ELEMENTS: dict[ChangeStatus, str] = {
    "worse": "failure",
    "differs": "failure",
    "cannot tell": "skipped",
    "gone": "skipped",
}


def junit_verdicts(results: Sequence[CellResult]) -> str:
    """Render verdicts as JUnit XML: a suite per scenario and engine, a case per cell."""
    suites = []
    for cells in group_by_scenario(results):
        cell = cells[0].cell
        suites.append(_suite(f"{cell.scenario.name} ({cell.engine})", map(_case, cells)))
    return _document(suites)


def junit_decisions(gate_report: GateReport) -> str:
    """Render the gate's decisions as JUnit XML: one suite, a case per cell."""
    return _document([_suite("gate", map(_decision, gate_report.cells))])


def _case(result: CellResult) -> ElementTree.Element:
    verdict = result.verdict
    wall_time = sum(run.wall for run, _ in result.runs)
    case = _element("testcase", name=result.name, classname=result.cell.scenario.name, time=f"{wall_time:.3f}")
    if (kind := _ELEMENTS.get(verdict.status)) is not None:
        element = _element(kind, message=verdict.sentence or verdict.reason, type=verdict.reason or verdict.status)
        element.text = _xml_text("\n".join(filter(None, [verdict.sentence, result.shortfall, result.reproduction])))
        case.append(element)
    case.append(_system_out(f"cell {result.cell.key}, {len(result.runs)} runs\n{verdict.sentence}"))
    return case


def _decision(cell: CellReport) -> ElementTree.Element:
    decided = cell.weighed.decision
    runs = () if decided.pair.current is None else decided.pair.current.runs
    wall_time = math.fsum(run.wall for run, _ in runs)
    case = _element(
        "testcase",
        name=decided.pair.name,
        classname=f"gate.{decided.pair.cell.scenario.name}",
        time=f"{wall_time:.3f}",
    )
    kind = _GATE_ELEMENTS.get(decided.status)
    if cell.weighed.accepted:
        kind = "skipped"
    if kind is not None:
        element = _element(kind, message=deciding_text(cell) or decided.status, type=decided.status)
        element.text = _xml_text(
            "\n".join(
                [
                    *(f"differs in {cause}" for cause in cell.causes),
                    *(f"accepted: {allowance.reason}" for allowance in cell.weighed.accepted),
                ]
            )
        )
        case.append(element)
    figures = (f"{figure.status}: {figure_text(figure)}" for figure in decided.figures)
    cause = cause_text(cell)
    because = [f"because: {cause}"] if cause else []
    case.append(
        _system_out("\n".join([*figures, *because, *(f"not what was set: {text}" for text in cell.departures)]))
    )
    return case


def _suite(name: str, cases: Iterable[ElementTree.Element]) -> ElementTree.Element:
    suite = _element("testsuite", name=name)
    suite.extend(cases)
    kinds = {kind: len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "error", "skipped")}
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(kinds["failure"]))
    suite.set("errors", str(kinds["error"]))
    suite.set("skipped", str(kinds["skipped"]))
    seconds = [float(case.get("time", "0")) for case in suite]
    suite.set("time", f"{math.fsum(seconds):.3f}")
    return suite


def _document(suites: Sequence[ElementTree.Element]) -> str:
    root = _element("testsuites", name="quic-lab")
    root.extend(suites)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _system_out(text: str) -> ElementTree.Element:
    element = ElementTree.Element("system-out")
    element.text = _xml_text(text)
    return element


def _element(tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(tag, {key: _xml_text(value) for key, value in attributes.items()})


def _xml_text(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", escape_controls(text))

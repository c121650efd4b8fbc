"""What the gate decided: for people, as Markdown, as JSON, and as annotations of a CI job."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.accepted_changes import Allowance, Applied, Weighed
from harness.evaluation.regression.decision import ALARMS, GRAVITY, OUTCOME, MetricChange, Standing
from harness.formatting import counted, harmless, quoted
from harness.outcome.deviations import departures, sentences
from harness.report import by_scenario
from harness.report.layout import SENTENCE, Column, Fitted, Row, number, shown_unit
from harness.report.markdown import line
from harness.report.ranking import plain
from harness.stats.intervals import interval
from harness.stats.two_sample import ALPHA

#: Figures of a cell that differ and are named; of more only the number is said.
_NAMED = 3
_SYMBOLS: Mapping[Standing, tuple[str, str]] = {
    "same": ("=", "green"), "better": ("▲", "green"), "worse": ("▼", "red"), "differs": ("≠", "red"),
    "cannot tell": ("?", "yellow"), "new": ("+", "cyan"), "gone": ("−", "yellow"),
}  # fmt: skip


@dataclass(frozen=True)
class CellReport:
    """A cell that the gate decided on, with what of its bits is other."""

    weighed: Weighed
    causes: tuple[str, ...]

    @property
    def departures(self) -> list[str]:
        """Parameters that runs of now show at other values than they were set to, in a sentence each."""
        now = self.weighed.decided.pair.now
        return [] if now is None else sentences(now.runs)

    @property
    def departed_before(self) -> bool:
        """Whether the baseline's runs show the same parameters at other values, too."""
        pair = self.weighed.decided.pair
        if pair.base is None or pair.now is None:
            return False
        before, after = (
            {one.name for each in side.runs for one in departures(*each)} for side in (pair.base, pair.now)
        )
        return after <= before

    @property
    def telling(self) -> list[MetricChange]:
        """The figures that make the cell stand as it does."""
        standing = self.weighed.decided.standing
        return [figure for figure in self.weighed.decided.figures if figure.standing == standing != "same"]


@dataclass(frozen=True)
class GateReport:
    """What the gate says of a matrix."""

    cells: tuple[CellReport, ...]
    applied: Applied
    within: float

    @property
    def counts(self) -> dict[Standing, int]:
        """Standing → cells, the gravest first; only those that there are."""
        found = Counter(one.weighed.decided.standing for one in self.cells)
        return {standing: found[standing] for standing in GRAVITY if found[standing]}

    @property
    def alarms(self) -> list[CellReport]:
        """Cells that keep the gate shut."""
        return [one for one in self.cells if one.weighed.alarm]

    @property
    def tests(self) -> int:
        """How many figures were tested."""
        return sum(figure.p is not None for one in self.cells for figure in one.weighed.decided.figures)


def sentence(passage: GateReport) -> str:
    """The whole in a line."""
    counts = ", ".join(f"{count} {standing}" for standing, count in passage.counts.items())
    accepted = sum(bool(one.weighed.accepted) for one in passage.cells)
    taken = f"; {accepted} of them accepted" if accepted else ""
    shut = f"the gate is shut by {counted(len(passage.alarms), 'cell')}" if passage.alarms else "the gate is open"
    return f"{counted(len(passage.cells), 'cell')}: {counts or 'none'}{taken}: {shut}"


def rate(passage: GateReport) -> str:
    """What a false alarm's probability is, in a sentence."""
    exact = sum(one.weighed.decided.exact for one in passage.cells)
    said = [f"A figure has changed when it is off by more than {100 * passage.within:.3g} %."]
    if exact:
        said.append(f"{counted(exact, 'cell')} of the same bits in virtual time had to be the same to the last digit.")
    if passage.tests:
        said.append(
            f"{counted(passage.tests, 'figure')} with chance in them tested together: were nothing changed, one alarm "
            f"or more would have a probability of {ALPHA:.0%} at most (Holm)."
        )
    return " ".join(said)


def values_of(figure: MetricChange) -> str:
    """Before and now: '4.41 → 55.7 s (× 12.6)'."""
    if figure.name == OUTCOME:
        return figure.why
    before, after = (number(interval(side).median) for side in (figure.base, figure.now))
    unit = shown_unit(figure.unit)
    factor = f" (× {figure.factor:.3g})" if figure.factor is not None and figure.factor != 1 else ""
    return f"{before} → {after}{' ' if unit else ''}{unit}{factor}"


def figure_text(figure: MetricChange) -> str:
    """A figure and why it stands so."""
    runs = f", n = {len(figure.base)} and {len(figure.now)}" if figure.name != OUTCOME else ""
    test = "" if figure.p is None else f", p = {figure.p:.2g}"
    why = f"; {figure.why}" if figure.why and figure.name != OUTCOME else ""
    return f"{figure.name} {values_of(figure)}{runs}{test}{why}"


def told_text(one: CellReport) -> str:
    """All figures that tell of a cell."""
    found = [figure_text(figure) for figure in one.telling]
    more = len(found) - _NAMED
    return "; ".join([*found[:_NAMED], *([f"{more} more"] if more > 0 else [])])


def _shown(passage: GateReport) -> list[CellReport]:
    """The cells worth a line: all that are not the same, the gravest first."""
    found = [one for one in passage.cells if one.weighed.decided.standing != "same"]
    return sorted(found, key=lambda one: (not one.weighed.alarm, GRAVITY.index(one.weighed.decided.standing)))


def _accepted(one: CellReport) -> str:
    return "; ".join(dict.fromkeys(f"accepted until {each.until}: {each.reason}" for each in one.weighed.accepted))


def cautions(applied: Applied) -> list[str]:
    """What is to be said of the accepted changes themselves."""
    return [
        *(f"no longer accepted since {one.until}: {_whose(one)} ({one.reason})" for one in applied.expired),
        *(f"accepted, and not needed: {_whose(one)} ({one.reason})" for one in applied.unused),
    ]


def _whose(one: Allowance) -> str:
    metric = f" {one.metric}" if one.metric else ""
    return f"{one.scenario} {one.client}→{one.server}{metric}"


def departed(passage: GateReport) -> list[str]:
    """What is to be said of parameters that runs of now show at other values than they were set to.

    Cells whose baseline does not show the same come first, and of these as many are named as there are.
    """
    found = [(one, said) for one in passage.cells if (said := one.departures)]
    new = [(one, said) for one, said in found if not one.departed_before]
    old = [(one, said) for one, said in found if one.departed_before]
    lines = [f"not what was set: {one.weighed.decided.pair.name}: {'; '.join(said)}" for one, said in new]
    if old:
        names = [one.weighed.decided.pair.name for one, _ in old[:_NAMED]]
        more = f" and {counted(len(old) - _NAMED, 'more cell')}" if len(old) > _NAMED else ""
        lines.append(f"not what was set, as in the baseline: {'; '.join(names)}{more}")
    return lines


def show(passage: GateReport, console: Console) -> None:
    """For a terminal: what is not the same, and the sum of it."""
    rows = []
    for one in _shown(passage):
        standing = one.weighed.decided.standing
        symbol, colour = _SYMBOLS[standing]
        word = f"{symbol} {standing}{' (accepted)' if one.weighed.accepted else ''}"
        why = "; ".join(filter(None, [told_text(one), _accepted(one)]))
        rows.append(Row([Text(word, style=colour), one.weighed.decided.pair.name, why, ", ".join(one.causes)]))
    if rows:
        columns = [
            Column("", identifies=True), Column("cell", identifies=True, text=SENTENCE),
            Column("before → now", text=SENTENCE), Column("what differs in the bits", text=SENTENCE),
        ]  # fmt: skip
        console.print(Fitted("Since the baseline", columns, rows))
    for text in departed(passage):
        console.print(text, style="yellow", markup=False, soft_wrap=True)
    for text in (*cautions(passage.applied), rate(passage), sentence(passage)):
        console.print(text, markup=False, soft_wrap=True)


def markdown(passage: GateReport) -> str:
    """For a job's summary."""
    lines = [f"**{sentence(passage)[0].upper()}{sentence(passage)[1:]}.**", ""]
    shown = _shown(passage)
    if shown:
        lines += [line(["", "cell", "before → now", "what differs in the bits"]), line(["---"] * 4)]
        for one in shown:
            symbol, _ = _SYMBOLS[one.weighed.decided.standing]
            word = f"{symbol} {one.weighed.decided.standing}"
            why = "; ".join(filter(None, [told_text(one), _accepted(one)]))
            lines.append(
                line([word, quoted(one.weighed.decided.pair.name), quoted(why), quoted(", ".join(one.causes))])
            )
        lines.append("")
    return "\n".join(
        [
            *lines,
            *(f"{quoted(text)}\n" for text in (*departed(passage), *cautions(passage.applied))),
            f"{rate(passage)}\n",
        ]
    )


def workflow_commands(passage: GateReport) -> list[str]:
    """Workflow commands of GitHub Actions, one a cell that shuts the gate, at its scenario's file."""
    made = []
    for one in passage.alarms:
        decided = one.weighed.decided
        title = f"{decided.standing}: {decided.pair.name}"
        text = told_text(one) + (f" (differs in {', '.join(one.causes)})" if one.causes else "")
        file = f"scenarios/{decided.pair.cell.scenario.name}.yaml"
        made.append(f"::error file={_property(file)},title={_property(title)}::{_data(text)}")
    return made


def _data(text: str) -> str:
    """Escaped as the runner's workflow commands ask."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def report(passage: GateReport) -> dict[str, Any]:
    """As plain data."""
    return {
        "schema": 1,
        "open": not passage.alarms,
        "within": passage.within,
        "alpha": ALPHA,
        "tests": passage.tests,
        "counts": passage.counts,
        "cells": [_entry(one) for one in passage.cells],
        "expired": [one.model_dump(mode="json") for one in passage.applied.expired],
        "unused": [one.model_dump(mode="json") for one in passage.applied.unused],
    }


def _entry(one: CellReport) -> dict[str, Any]:
    decided = one.weighed.decided
    cell = decided.pair.cell
    return {
        "scenario": cell.scenario.name,
        "client": cell.client.name,
        "server": cell.server.name,
        "engine": cell.engine,
        "parameters": cell.parameters,
        "keys": {
            side: None if result is None else result.cell.key
            for side, result in (("baseline", decided.pair.base), ("now", decided.pair.now))
        },
        "standing": decided.standing,
        "alarm": one.weighed.alarm,
        "exact": decided.exact,
        "accepted": [each.reason for each in one.weighed.accepted],
        "causes": list(one.causes),
        "departures": one.departures,
        "figures": [_figure(figure) for figure in decided.figures],
    }


def _figure(figure: MetricChange) -> dict[str, Any]:
    return {
        "metric": figure.name,
        "unit": figure.unit,
        "standing": figure.standing,
        "why": figure.why,
        "baseline": [plain(value) for value in figure.base],
        "now": [plain(value) for value in figure.now],
        "factor": figure.factor if figure.factor is None or math.isfinite(figure.factor) else None,
        "p": figure.p,
        "alarm": figure.standing in ALARMS,
    }


# --- Verdicts, and decisions of the gate, as JUnit XML: what CI systems read test results from.
#
# The format has no standard; this is the part that Jenkins, GitLab and the common GitHub actions agree on.


#: Characters that XML 1.0 has no way to write, beside those that nobody is shown (`harness.formatting.harmless`).
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Verdict → element below a test case; what is missing passed.
_ELEMENTS = {"fail": "failure", "error": "error", "inconclusive": "skipped", "unsupported": "skipped"}
_OF_THE_GATE: dict[Standing, str] = {
    "worse": "failure", "differs": "failure", "cannot tell": "skipped", "gone": "skipped",
}  # fmt: skip


def verdicts(results: Sequence[CellResult]) -> str:
    """A suite a scenario and engine, a case a cell."""
    suites = []
    for cells in by_scenario(results):
        cell = cells[0].cell
        suites.append(_suite(f"{cell.scenario.name} ({cell.engine})", map(_case, cells)))
    return _document(suites)


def decisions(passage: GateReport) -> str:
    """One suite, a case a cell."""
    return _document([_suite("gate", map(_decision, passage.cells))])


def _case(result: CellResult) -> ElementTree.Element:
    verdict = result.verdict
    walls = sum(run.wall for run, _ in result.runs)
    case = _element("testcase", name=result.name, classname=result.cell.scenario.name, time=f"{walls:.3f}")
    if (kind := _ELEMENTS.get(verdict.status)) is not None:
        found = _element(kind, message=verdict.sentence or verdict.reason, type=verdict.reason or verdict.status)
        found.text = _writable("\n".join(filter(None, [verdict.sentence, result.shortfall, result.reproduction])))
        case.append(found)
    case.append(_words(f"cell {result.cell.key}, {len(result.runs)} runs\n{verdict.sentence}"))
    return case


def _decision(one: CellReport) -> ElementTree.Element:
    decided = one.weighed.decided
    case = _element("testcase", name=decided.pair.name, classname=f"gate.{decided.pair.cell.scenario.name}")
    kind = _OF_THE_GATE.get(decided.standing)
    if one.weighed.accepted:
        kind = "skipped"
    if kind is not None:
        found = _element(kind, message=told_text(one) or decided.standing, type=decided.standing)
        found.text = _writable("\n".join([*(f"differs in {cause}" for cause in one.causes),
                                          *(f"accepted: {each.reason}" for each in one.weighed.accepted)]))  # fmt: skip
        case.append(found)
    figures = (f"{figure.standing}: {figure_text(figure)}" for figure in decided.figures)
    case.append(_words("\n".join([*figures, *(f"not what was set: {text}" for text in one.departures)])))
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


def _words(text: str) -> ElementTree.Element:
    found = ElementTree.Element("system-out")
    found.text = _writable(text)
    return found


def _element(tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(tag, {key: _writable(value) for key, value in attributes.items()})


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", harmless(text))

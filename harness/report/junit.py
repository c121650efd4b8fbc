"""Verdicts, and decisions of the gate, as JUnit XML: what CI systems read test results from.

The format has no standard; this is the part that Jenkins, GitLab and the common GitHub actions agree on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.decision import Standing
from harness.formatting import harmless
from harness.report import by_scenario
from harness.report.gate import Passage, Told, figure_text, told_text

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


def decisions(passage: Passage) -> str:
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


def _decision(one: Told) -> ElementTree.Element:
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

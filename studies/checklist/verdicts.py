"""What a claim is, what runs can say to it, and the parts that the documents' claims are made of."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.evaluation.cell_result import CellResult
from harness.evaluation.objective_claim import OnlyClaim, judge_claim
from harness.outcome import Cell, Interval
from harness.report.numbers import number_text, span_text
from harness.report.studies import measured_cells
from harness.scenario.metric_names import TransferName

Results = Sequence[CellResult]
Status = Literal["reproduced", "contradicted", "in part", "not decided", "not applicable", "missing"]
#: Status → what it means, in the order of the page.
STATUSES: dict[Status, str] = {
    "reproduced": "the runs have the figure, or the direction",
    "in part": "some stacks, sizes or runs have it, and others do not",
    "contradicted": "the runs have another figure or direction, and a reason stands beside it",
    "not decided": "the runs' interval holds both answers",
    "not applicable": "a definition, a setting, a question, or something that no run here could show; it says why",
    "missing": "runs could show it, and none are stored",
}


@dataclass(frozen=True)
class Verdict:
    """What stored runs say to a claim."""

    status: Status
    here: str = ""
    """Our figures, with intervals."""
    why: str = ""
    """The reason, where it is not reproduced; what was held against what, where that is not plain."""


Judge = Callable[[Results], Verdict]
MISSING = Verdict("missing")


@dataclass(frozen=True)
class Claim:
    """One figure, table or sentence of a document."""

    where: str
    """Section, figure or slide."""
    says: str
    """What it says, in our words."""
    judge: Judge
    """From all stored results to the verdict."""


@dataclass(frozen=True)
class Document:
    """One document."""

    source: str
    """Authors and title."""
    claims: Callable[[Results], Sequence[Claim]]
    """In the order of the document. Results decide alone how many rows a table of stored comparisons has."""


@dataclass(frozen=True)
class Spread:
    """A figure over several stacks: the middle of their medians, and the outermost ends of their intervals."""

    middle: float
    low: float
    high: float
    medians: tuple[float, ...]

    def text(self, unit: str = "", per: float = 1.0) -> str:
        """'1.2 [1.1, 1.3] Mbit/s over 5 stacks'; figures are divided by `per`."""
        ends = f"[{number_text(self.low / per)}, {number_text(self.high / per)}]"
        words = " ".join(filter(None, [number_text(self.middle / per), ends, unit]))
        return words + (f" over {len(self.medians)} stacks" if len(self.medians) > 1 else "")


def spread(spans: Iterable[Interval | None]) -> Spread | None:
    """Over what is measured; None where nothing is."""
    known = [span for span in spans if span is not None]
    if not known:
        return None
    medians = tuple(span.median for span in known)
    middle = statistics.median(medians)
    return Spread(middle, min(span.low for span in known), max(span.high for span in known), medians)


def is_todays(cell: Cell) -> bool:
    """Whether a cell is of virtual time and of today's releases."""
    return cell.virtual_time and "@" not in cell.client.name + cell.server.name


def cells(
    results: Results, scenario: str, client: str = "", server: str = "", *, parameters: bool = False
) -> list[CellResult]:
    """The measured cells in virtual time of today's releases; with no parameter set unless `parameters`."""
    return [
        result
        for result in measured_cells(results, scenario)
        if is_todays(result.cell)
        and (parameters or not result.cell.parameters)
        and client in ("", result.cell.client.name)
        and server in ("", result.cell.server.name)
    ]


def figure(
    results: Results, scenario: str, metric: str, pair: tuple[str, str], transfer: TransferName = "first"
) -> Interval | None:
    """A figure of the first flow of a pair's cell, no parameter set."""
    found = cells(results, scenario, *pair)
    return found[0].interval(metric, 0, transfer) if found else None


def asked(result: CellResult) -> dict[str, str]:
    """What a cell was asked for, as text."""
    return {name: str(value) for name, value in result.cell.parameters.items()}


def observed(results: Results, scenario: str, pair: tuple[str, str], role: str, parameter: str) -> list[float]:
    """What a pair's endpoint was seen to do in its first run: every source's figure of a parameter."""
    for result in cells(results, scenario, *pair):
        for _, measured in result.runs[:1]:
            if measured is not None:
                return [
                    float(item.value)
                    for item in measured.observed
                    if (item.role, item.parameter) == (role, parameter) and isinstance(item.value, int | float)
                ]
    return []


def not_applicable(why: str) -> Judge:
    """Of what no run is held against."""
    return lambda results: Verdict("not applicable", "", why)


def setting(scenario: str, has: str) -> Judge:
    """Of what the document sets, and a scenario sets as well."""

    def judge(results: Results) -> Verdict:
        is_stored = any(result.cell.scenario.name == scenario for result in results)
        return Verdict("not applicable", f"`{scenario}`: {has}", "a setting, and ours") if is_stored else MISSING

    return judge


def within(found: Spread | None, unit: str, low: float, high: float, why: str = "", per: float = 1.0) -> Verdict:
    """Reproduced where every stack's median lies within bounds, in part where some do."""
    if found is None:
        return MISSING
    inside = sum(low <= median <= high for median in found.medians)
    text = found.text(unit, per)
    if inside == len(found.medians):
        return Verdict("reproduced", text)
    return Verdict("in part" if inside else "contradicted", text, why)


def only_claim(claim: OnlyClaim, why: str) -> Judge:
    """Of a claim that one pair alone meets the objectives, by the rule of `harness.evaluation.objective_claim`."""
    words: dict[str, Status] = {
        "borne out": "reproduced",
        "contradicted": "contradicted",
        "not decided": "not decided",
        "not run": "missing",
    }

    def judge(results: Results) -> Verdict:
        answer = judge_claim(claim, results)
        status = words[answer.status]
        if status == "missing":
            return MISSING
        return Verdict(status, answer.text.removeprefix(f"{answer.status}: "), "" if status == "reproduced" else why)

    return judge


def faster(before: Interval | None, after: Interval | None, unit: str = "s", why: str = "") -> Verdict:
    """Of the claim that a time falls: reproduced where the intervals do not touch and it does."""
    if before is None or after is None:
        return MISSING
    text = f"{span_text(before)} → {span_text(after)} {unit}"
    if after.high < before.low:
        return Verdict("reproduced", text)
    if after.low > before.high:
        return Verdict("contradicted", text, why)
    return Verdict("not decided", text, why)

"""Whether runs bear out a claim that of several pairs only one meets a path's objectives. Pure.

A pair meets the objectives where its verdict is a pass, and misses them where it is a fail. Anything else is undecided.
So is a pass of a few runs where chance plays a part: fewer than six values have no interval of 95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count, format_list
from harness.planning.sampling import has_chance
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Objective
from harness.stats.intervals import MIN_VALUES

Pair = tuple[str, str]
Answer = Literal["meets", "misses", "undecided"]
ClaimStatus = Literal["borne out", "contradicted", "not decided", "not run"]


@dataclass(frozen=True)
class OnlyClaim:
    """The claim that of some pairs only one meets the objectives of a path."""

    scenarios: tuple[str, ...]
    """The scenarios that emulate the path with the same objectives. Of each pair the cell with the most runs counts."""
    pair: Pair
    """Client and server that are said to meet them."""
    rivals: tuple[Pair, ...]
    """The pairs that are said to miss them."""


@dataclass(frozen=True)
class ClaimVerdict:
    """What the runs say to a claim."""

    status: ClaimStatus
    text: str
    """The counts of runs behind it, for people; begins with the status."""


def objectives_answer(result: CellResult) -> Answer:
    """Whether a cell meets all objectives of its scenario."""
    if result.verdict.status == "fail":
        return "misses"
    decisive = len(result.runs) >= MIN_VALUES or not has_chance(result.cell.scenario)
    return "meets" if result.verdict.status == "pass" and decisive else "undecided"


def is_judged(result: CellResult) -> bool:
    """Whether a cell's runs were held against the objectives of its scenario.

    Those of a pair that does not support its scenario, or never came to a transfer, were not.
    """
    return result.verdict.status in ("pass", "fail", "inconclusive")


def judged(results: Iterable[CellResult]) -> list[CellResult]:
    """The cells as they are, no parameter set, whose runs were held against the objectives: the pairs that count."""
    return [result for result in results if is_judged(result) and not result.cell.parameters]


def runs_within(result: CellResult, objective: Objective) -> tuple[int, int]:
    """How many runs of a cell are within an objective, and how many have the metric."""
    values = _values(result, objective)
    return sum(_is_within(objective, value) for value in values), len(values)


def count_text(result: CellResult) -> str:
    """The runs within the objective that the fewest of them meet: '26 of 40 runs within 2 MB's objective'."""
    counts = [(runs_within(result, objective), objective) for objective in result.cell.scenario.objectives]
    (within, runs), objective = min(counts, key=lambda item: item[0][0])
    if within == runs:
        return f"{within} of {format_count(runs, 'run')} within all {len(counts)} objectives"
    return f"{within} of {format_count(runs, 'run')} within {_subject(objective)}'s objective"


def judge_claim(claim: OnlyClaim, results: Iterable[CellResult]) -> ClaimVerdict:
    """What stored runs say to a claim: borne out where the pair meets the objectives and every other pair misses them.

    Pairs of the claim that are not stored are left out. The text names pairs that meet the objectives, too, though the
    claim says nothing of them.
    """
    evidence = _evidence(claim, results)
    own = evidence.get(claim.pair)
    if own is None:
        return ClaimVerdict("not run", "not run")
    rivals = {pair: evidence[pair] for pair in claim.rivals if pair in evidence}
    answers = [objectives_answer(result) for result in rivals.values()]
    status: ClaimStatus = "not decided"
    if objectives_answer(own) == "misses" or "meets" in answers:
        status = "contradicted"
    elif objectives_answer(own) == "meets" and set(answers) <= {"misses"}:
        status = "borne out"
    counts = [f"{' → '.join(pair)}: {count_text(result)}" for pair, result in {claim.pair: own, **rivals}.items()]
    named = (claim.pair, *claim.rivals)
    others = sorted(
        pair for pair, result in evidence.items() if pair not in named and objectives_answer(result) == "meets"
    )
    if others:
        verb = "meets" if len(others) == 1 else "meet"
        counts.append(f"{format_list([' → '.join(pair) for pair in others])} {verb} them too, beside the claim's pairs")
    return ClaimVerdict(status, f"{status}: {'; '.join(counts)}")


def meeting_pairs(results: Iterable[CellResult]) -> list[CellResult]:
    """The cells that meet all objectives by this rule."""
    return [result for result in results if objectives_answer(result) == "meets"]


def _evidence(claim: OnlyClaim, results: Iterable[CellResult]) -> dict[Pair, CellResult]:
    """Pair → its cell with the most runs, as it is; virtual time before real time, and earlier scenarios first."""
    candidates: dict[Pair, list[CellResult]] = {}
    for result in judged(results):
        cell = result.cell
        if cell.scenario.name in claim.scenarios:
            candidates.setdefault((cell.client.name, cell.server.name), []).append(result)

    def rank(result: CellResult) -> tuple[int, bool, int]:
        place = claim.scenarios.index(result.cell.scenario.name)
        return -len(result.runs), not result.cell.virtual_time, place

    return {pair: min(cells, key=rank) for pair, cells in candidates.items()}


def _values(result: CellResult, objective: Objective) -> Sequence[float]:
    name = MetricName.parse(objective.metric)
    return result.values(name.metric, name.flow or 0, name.transfer or "first", name.phase, name.move)


def _is_within(objective: Objective, value: float) -> bool:
    return value <= objective.bound if objective.at_most is not None else value >= objective.bound


def _subject(objective: Objective) -> str:
    size = objective.metric.removeprefix("milestone_")
    digits = size.rstrip("kMGTiB")
    return objective.metric if size == objective.metric else f"{digits} {size[len(digits) :]}"

"""The interop runner's test cases, asked of one implementation: what it takes works, and what it refuses ends with 127.

What an image takes its manifest says (`refuses`). A test case that it takes is played against each reference that takes
it in the other role; where none does against itself, or else against the first of the others. One that it refuses is
told to it alone, beside a peer that is asked for an ordinary transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.interop.registry import FOLDER
from harness.check import contract
from harness.engine import Engine
from harness.engine.exit_rules import NOT_SUPPORTED
from harness.evaluation.cell_result import CellResult
from harness.outcome import Cell
from harness.outcome.conformance import Answer, Finding
from harness.scenario.parameters import Role, other
from harness.scenario.schema import ONE_SIDED, Implementation, TestcaseName, asked_of

#: TESTCASE → the scenario in which it is tried, where that is not of the same name.
_TRIED_IN = {"multiconnect": "handshakeloss"}
#: Who alone can be the other end, where a peer that is told of an ordinary transfer has to do more: of the clients here
#: only picoquic's goes on at a server's preferred address (RFC 9000 §9.6: a client SHOULD).
_ABLE: dict[TestcaseName, str] = {"connectionmigration": "picoquic"}


def scenario_of(testcase: TestcaseName) -> str:
    """The scenario in which a test case is tried."""
    return f"{FOLDER}{_TRIED_IN.get(testcase, testcase)}"


@dataclass(frozen=True)
class Trial:
    """A test case in a role: the cells that show that it works, or none where the manifest says that it is refused."""

    role: Role
    testcase: TestcaseName
    cells: tuple[Cell, ...]
    why_not: str = ""
    """Why the manifest says that it is refused."""
    alone: bool = False
    """Whether it is taken, and nobody here can be the other end."""


def trials(
    one: Implementation,
    references: Sequence[Implementation],
    others: Sequence[Implementation],
    cell: Callable[[Role, Implementation, str], Cell],
) -> Iterator[Trial]:
    """Every test case in every role. `cell`: makes one of a role, against a peer, in a scenario."""
    for role in one.roles:
        for testcase in asked_of(role):
            why_not = one.refusal(role, testcase)
            peers = [] if why_not else _peers(one, role, testcase, references, others)
            cells = tuple(cell(role, peer, scenario_of(testcase)) for peer in peers)
            yield Trial(role, testcase, cells, why_not, alone=not why_not and not cells)


def _peers(
    one: Implementation,
    role: Role,
    testcase: TestcaseName,
    references: Sequence[Implementation],
    others: Sequence[Implementation],
) -> list[Implementation]:
    """The references that take it in the other role, else itself, else the first of the others."""
    told: TestcaseName = testcase if ONE_SIDED.get(testcase, other(role)) == other(role) else "transfer"
    only = _ABLE.get(testcase)

    def able(candidates: Sequence[Implementation]) -> list[Implementation]:
        return [item for item in candidates if only in (None, item.name) and not item.refusal(other(role), told)]

    return able([item for item in references if item.name != one.name]) or able([one]) or able(others)[:1]


def works(trial: Trial, result: CellResult) -> Finding:
    """What came of a cell of a test case that the manifest does not name among those it refuses."""
    verdict, cell = result.verdict, result.cell
    if verdict.status == "unsupported":
        # Of a published image nobody here knows all that it refuses.
        in_vain = verdict.reason == f"unsupported_{trial.role}" and cell.implementation(trial.role).build is not None
        said = "refused(127), and the manifest does not say so" if in_vain else "refused(127)"
        return _finding(trial, cell, "does not hold" if in_vain else "not offered", f"{said}: {verdict.sentence}")
    if verdict.status == "inconclusive":
        return _finding(trial, cell, "not offered", f"cannot be told: {verdict.sentence}")
    if verdict.status == "pass":
        return _finding(trial, cell, "holds", f"works: {verdict.sentence}")
    return _finding(trial, cell, "does not hold", f"fails: {verdict.sentence}")


def untried(trial: Trial, cell: Cell) -> Finding:
    """Of a test case that is taken, and that nobody here can play at the other end."""
    return _finding(trial, cell, "not offered", "not tried: no implementation here can be the other end")


def refused(trial: Trial, cell: Cell, engine: Engine) -> Finding:
    """Whether what the manifest says is refused ends with 127. `cell`: an ordinary transfer of the role."""
    outcome = contract.told(cell, trial.role, trial.testcase, engine)
    right = outcome.role == trial.role and outcome.exit_code == NOT_SUPPORTED
    seen = f"refused(127): {trial.why_not}" if right else f"not refused: {outcome.detail or outcome.status}"
    return _finding(trial, cell, "not offered" if right else "does not hold", seen)


def _finding(trial: Trial, cell: Cell, answer: Answer, seen: str) -> Finding:
    mine, against = (contract.name_of(cell, role) for role in (trial.role, other(trial.role)))
    return Finding(mine, trial.role, f"TESTCASE {trial.testcase}", answer, seen, against)

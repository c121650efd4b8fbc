"""Who is responsible for a failure: findings that look like a bug of an implementation, or that our endpoints cause.

Findings are data, with their evidence (findings.yaml); pages and tables join them to the entries of a matrix. Failures
without an entry have not been investigated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from harness.analysis.interop.matrix import Pair, TestcaseResult
from harness.scenario.parameters import ROLES, Role

#: `case`: nobody does anything wrong, and the test case cannot ask what it asks.
Responsibility = Literal["implementation", "endpoint", "case"]


@dataclass(frozen=True)
class Blame:
    """One finding: which failures it explains, and who is responsible."""

    role: Role
    implementation: str
    """The responsible stack, or the stack under our endpoint."""
    reason: str
    """The check that fails, or the reason code of a run that broke off (timed_out_client …); if empty, any reason in
    the test cases that are named.
    """
    whose: Responsibility
    why: str
    """What goes wrong, and the evidence for it, in a sentence."""
    cases: tuple[str, ...] = ()
    """The affected test cases; if empty, all."""
    says: str = ""
    """A part of the failure's sentence, if the reason alone does not identify it."""
    peers: tuple[str, ...] = ()
    """The implementations at the other end; if empty, all."""

    def explains(self, pair: Pair, case: str, entry: TestcaseResult) -> bool:
        """Whether the finding explains an entry of a matrix."""
        return (
            pair[0 if self.role == "client" else 1] == self.implementation
            and (self.reason == entry.reason if self.reason else entry.word != "unsupported" or entry.relabelled)
            and (not self.cases or case in self.cases)
            and self.says in entry.sentence
            and (not self.peers or pair[1 if self.role == "client" else 0] in self.peers)
        )


@cache
def blames() -> tuple[Blame, ...]:
    """The findings of findings.yaml, one for each implementation that an entry names; read when first asked for."""
    entries: list[Any] = yaml.safe_load(files(__package__).joinpath("findings.yaml").read_text("utf-8"))
    return tuple(
        Blame(
            role=role,
            implementation=name,
            reason=entry.get("reason", ""),
            whose=entry["whose"],
            why=entry["why"],
            cases=tuple(entry.get("cases", ())),
            says=entry.get("says", ""),
            peers=tuple(entry.get("peers", ())),
        )
        for entry in entries
        for role in ROLES
        for name in entry.get(role, ())
    )


def find_blame(pair: Pair, case: str, entry: TestcaseResult) -> Blame | None:
    """The finding that explains an entry; None if nobody has investigated it."""
    return next((blame for blame in blames() if blame.explains(pair, case, entry)), None)

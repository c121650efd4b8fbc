"""Of which runs what they were measured from is kept."""

from __future__ import annotations

from typing import Literal

from harness.evaluation.verdict import judge
from harness.outcome import MeasuredRun, Run, proven_outcome
from harness.scenario.schema import Scenario

#: Of which runs the artefacts are kept.
Artefacts = Literal["all", "failed", "none"]


def keeps(artefacts: Artefacts, scenario: Scenario, run: Run, measured: MeasuredRun | None) -> bool:
    """Whether the artefacts of a run are kept: where only those of failed ones are, of one that misses, too.

    `scenario`: with the objectives that it is held against.
    """
    if artefacts != "failed":
        return artefacts == "all"
    completed = proven_outcome(run, measured).status == "completed"
    return not completed or judge(scenario, [(run, measured)]).status == "fail"

"""Which runs keep the artefacts that they were measured from."""

from __future__ import annotations

from typing import Literal

from harness.evaluation.verdict import judge
from harness.outcome import MeasuredRun, Run, proven_outcome
from harness.scenario.schema import Scenario

#: Which runs keep their artefacts.
Artefacts = Literal["all", "failed", "none"]


def keeps_artefacts(artefacts: Artefacts, scenario: Scenario, run: Run, measured: MeasuredRun | None) -> bool:
    """Whether the artefacts of a run are kept. A run that misses its objectives counts as failed.

    `scenario`: has the objectives.
    """
    if artefacts != "failed":
        return artefacts == "all"
    completed = proven_outcome(run, measured).status == "completed"
    return not completed or judge(scenario, [(run, measured)]).status == "fail"

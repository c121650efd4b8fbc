"""What runs keep of the evidence that they were measured from."""

from __future__ import annotations

from typing import Literal

from harness.outcome import ENGINES, EngineName, Evidence, MeasuredRun, Run, proven_outcome
from harness.scenario.schema import Scenario

#: What a command asks for. `failed`: everything of runs that did not complete or miss an objective, figures of others.
RequestedEvidence = Literal["full", "failed", "captures", "figures"]
#: From least to most.
_ORDER: tuple[Evidence, ...] = ("figures", "captures", "full")


def default_evidence(engine: EngineName, *, many: bool) -> RequestedEvidence:
    """What runs keep where nobody says it.

    `many`: they are those of a sweep, a study, a search or a history, of which people read figures. In virtual time
    each can be made again to the same bytes. In real time it cannot, and keeps everything.
    """
    return "figures" if many and ENGINES[engine].deterministic else "full"


def kept_evidence(requested: RequestedEvidence, scenario: Scenario, run: Run, measured: MeasuredRun | None) -> Evidence:
    """What a run keeps. One that misses the objectives of its scenario counts as failed."""
    if requested != "failed":
        return requested
    # With it come the metrics, and polars: a plan need not wait for them.
    from harness.evaluation.verdict import judge

    completed = proven_outcome(run, measured).status == "completed"
    failed = not completed or judge(scenario, [(run, measured)]).status == "fail"
    return "full" if failed else "figures"


def suffices(kept: Evidence, requested: RequestedEvidence) -> bool:
    """Whether a stored run keeps what is asked for. For `failed` every run does."""
    return requested == "failed" or _ORDER.index(kept) >= _ORDER.index(requested)

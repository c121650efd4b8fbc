"""The answer for a cell."""

from __future__ import annotations

from typing import Literal

from harness.outcome.base import Fact

VerdictStatus = Literal["pass", "fail", "measured", "inconclusive", "unsupported", "error"]
"""measured: nothing was demanded, and the figures are there."""


class Interval(Fact):
    """Median of n values and the order-statistic interval around it (see `harness.stats.intervals`)."""

    n: int
    median: float
    low: float
    high: float
    coverage: float
    """Probability that the interval covers the true median, distribution-free; 0 for one value."""


class ObjectiveVerdict(Fact):
    """One objective against the interval of its metric."""

    metric: str
    demanded: str
    bound: float
    at_most: bool
    unit: str
    observed: Interval | None
    verdict: VerdictStatus


class Verdict(Fact):
    """The answer for one cell."""

    status: VerdictStatus
    reason: str
    """Reason code: objectives_met, milestone_2MB_missed, interval_straddles, no_objectives, unsupported_client,
    crashed_server …"""
    sentence: str
    objectives: tuple[ObjectiveVerdict, ...] = ()
    evidence: tuple[str, ...] = ()
    """Paths of the runs it rests on, relative to the store."""

"""Effects of a study's factors: stored cells → effects in seconds, with intervals. Pure."""

from harness.doe.effects.analysis import (
    Analysis,
    Conditional,
    Effect,
    Response,
    adjust,
    analyse,
    analyse_all,
    analyse_samples,
)
from harness.doe.effects.levels import as_observed
from harness.doe.effects.samples import (
    CombinationRuns,
    StudySample,
    foreign_bases,
    group_beside_own,
    group_studies,
    metrics_of,
)

__all__ = [
    "Analysis",
    "CombinationRuns",
    "Conditional",
    "Effect",
    "Response",
    "StudySample",
    "adjust",
    "analyse",
    "analyse_all",
    "analyse_samples",
    "as_observed",
    "foreign_bases",
    "group_beside_own",
    "group_studies",
    "metrics_of",
]

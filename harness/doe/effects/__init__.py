"""Effects of a study's factors: stored cells → effects in seconds, with intervals. Pure."""

from harness.doe.effects.analysis import Analysis, Conditional, Effect, Response, adjust, analyse, analyse_all
from harness.doe.effects.levels import as_observed
from harness.doe.effects.samples import CombinationRuns, StudySample, group_studies, metrics_of

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
    "as_observed",
    "group_studies",
    "metrics_of",
]

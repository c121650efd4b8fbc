"""Effects of a study's factors: stored cells → effects in seconds, with intervals. Pure."""

from harness.doe.effects.analysis import Analysis, Conditional, Effect, Response, analyses, analysis
from harness.doe.effects.samples import CombinationRuns, Studied, metrics_of, studied

__all__ = [
    "Analysis",
    "CombinationRuns",
    "Conditional",
    "Effect",
    "Response",
    "Studied",
    "analyses",
    "analysis",
    "metrics_of",
    "studied",
]

"""What factors of a study are worth: stored cells → effects in seconds, with intervals. Pure."""

from harness.doe.effects.analysis import Analysis, Conditional, Effect, Response, analyses, analysis
from harness.doe.effects.samples import Studied, Tried, metrics_of, studied

__all__ = [
    "Analysis",
    "Conditional",
    "Effect",
    "Response",
    "Studied",
    "Tried",
    "analyses",
    "analysis",
    "metrics_of",
    "studied",
]

"""The list of metrics. A metric is a function in any module of this package, marked with `@metric`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.metrics.view import RunView
from harness.outcome import Measurement


@dataclass(frozen=True)
class Caution:
    """What to check before trusting a run's measurements: one sentence, with figures."""

    text: str


Finding = Measurement | Caution
Metric = Callable[[RunView], Iterable[Finding]]

_METRICS: dict[str, Metric] = {}


def metric(function: Metric) -> Metric:
    """Register a pure function from a run to measurements and cautions.

    It yields nothing where the run has not what it needs, and a caution where that is surprising.
    """
    _METRICS[f"{function.__module__}.{function.__name__}"] = function
    return function


def metrics() -> dict[str, Metric]:
    """All metrics by qualified name, in alphabetical order; imports every module of the package and below."""
    package = importlib.import_module("harness.metrics")
    for module in pkgutil.walk_packages(package.__path__, "harness.metrics."):
        importlib.import_module(module.name)
    return dict(sorted(_METRICS.items()))

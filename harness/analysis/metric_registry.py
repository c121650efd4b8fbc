"""The list of metrics: each is declared beside the code that measures it.

A metric is in one place, in any module of `harness.analysis.metrics`: a function below its declaration.
`harness.analysis.metrics.kinds` has decorators for metrics of a flow, of the bottleneck and of all flows together.
Other metrics are declared with `declare`, and `@measures` marks the function that yields them. Measuring, tables, JSON,
the page docs/metrics.md and the check of objectives read the declarations; a unit is written nowhere else.

Commands that only read stored runs need the declarations alone, so this module imports nothing that measures.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeVar

from harness.derived import DERIVED, package_files
from harness.outcome import Absence, Better, Measurement
from harness.scenario.metric_names import TransferName

if TYPE_CHECKING:
    from harness.analysis.run_view import RunView

_PACKAGE = "harness.analysis.metrics"

Layer = Literal["flow", "move", "link", "network"]
"""The subject of a metric: a flow or one of its transfers, a move of its client, the emulated link, all flows
together.
"""


@dataclass(frozen=True)
class Caution:
    """What to check before trusting a run's measurements: one sentence, with figures."""

    text: str


Finding = Measurement | Absence | Caution
MeasuringFunction = Callable[["RunView"], Iterable[Finding]]
F = TypeVar("F", bound=MeasuringFunction)


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    """As in measured.json; a * stands for a part from the scenario (milestone_*: a size; in_*: a segment)."""
    layer: Layer
    unit: str
    """As in measured.json: "1" for a number or a share, "^n" for a power of the number of flows."""
    better: Better
    """Whether higher or lower values are better."""
    title: str
    """Its meaning, in a line."""
    formula: str
    """How it is computed."""
    source: str
    """Where it is observed, and the RFC's section or the paper that defines it."""

    def is_called(self, name: str) -> bool:
        """Whether measurements of it may have this name."""
        return re.fullmatch(re.escape(self.name).replace(r"\*", r"[\w-]+"), name) is not None

    def of(
        self,
        value: float,
        vantage: str,
        *,
        flow: int | None = None,
        transfer: TransferName | None = None,
        phase: int | None = None,
        move: int | None = None,
        better: Better | None = None,
        flows: int = 0,
        star: str = "",
    ) -> Measurement:
        """A measurement of it. `better`: where this run's is another; `flows`: the n of its unit."""
        return Measurement(
            name=self.name.replace("*", star),
            value=float(value),
            unit=self.unit.replace("^n", f"^{flows}"),
            direction=better or self.better,
            vantage=vantage,
            flow=flow,
            transfer=transfer,
            phase=phase,
            move=move,
        )


_DECLARED: dict[str, Metric] = {}
_MEASURING: dict[str, MeasuringFunction] = {}


def declare(name: str, *, layer: Layer, unit: str, better: Better, title: str, formula: str, source: str) -> Metric:
    """A new metric. Raises ValueError for a name that is already taken."""
    if name in _DECLARED:
        raise ValueError(f"the metric {name} is declared twice")
    _DECLARED[name] = Metric(name, layer, unit, better, title, formula, source)
    return _DECLARED[name]


def measures(function: F) -> F:
    """Register a pure function from a run to measurements, absences and cautions.

    It yields nothing if the metric does not apply to the run, and an absence if one might expect it.
    """
    _MEASURING[f"{function.__module__}.{function.__name__}"] = function
    return function


#: In which order the measurements of a run stand in its files: by the module that measures. Others come last.
_ORDER = (
    "bottleneck",
    "effort",
    "flow",
    "segments",
    "handover",
    "network",
    "queues",
    "recovery",
    "reordering",
    "times",
    "starvation",
    "wire",
)


def measuring_functions() -> dict[str, MeasuringFunction]:
    """All such functions by qualified name: those of a module together, in the order of their definition."""
    _import_all()

    def place(item: tuple[str, MeasuringFunction]) -> tuple[int, str]:
        module = item[0].split(".")[-2]
        return _ORDER.index(module) if module in _ORDER else len(_ORDER), module

    return dict(sorted(_MEASURING.items(), key=place))


def declared_metrics() -> dict[str, Metric]:
    """All metrics by name, in alphabetical order."""
    return dict(sorted((_kept_metrics() | _DECLARED).items()))


def find_metric(name: str) -> Metric | None:
    """The metric of measurements with that name; None if there is none."""
    return _find_cached(name, len(_DECLARED))


@cache
def _find_cached(name: str, count: int) -> Metric | None:
    """The same while so many are declared: a verdict looks up a few names repeatedly."""
    metrics = declared_metrics()
    return metrics.get(name) or next((metric for metric in metrics.values() if metric.is_called(name)), None)


def unit_of(measurement: Measurement) -> str:
    """The unit of a measurement, as declared: older runs wrote other units for the same metric."""
    metric = find_metric(measurement.name)
    return measurement.unit if metric is None or "^n" in metric.unit else metric.unit


@cache
def _kept_metrics() -> dict[str, Metric]:
    """All metrics, as an earlier command found them: to import what measures takes 0.4 s of CPU."""

    def derive() -> list[dict[str, str]]:
        _import_all()
        return [asdict(metric) for metric in _DECLARED.values()]

    # Texts of declarations have constants of other packages.
    kept = DERIVED.get(f"metrics {__file__}", package_files(), derive)
    return {metric["name"]: Metric(**metric) for metric in kept}


@cache
def _import_all() -> None:
    package = importlib.import_module(_PACKAGE)
    for module in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
        importlib.import_module(module.name)

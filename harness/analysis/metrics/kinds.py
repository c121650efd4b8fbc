"""Decorators that make a metric of a function: of a flow, of the bottleneck, of all flows together.

The metric has the function's name. The function returns a figure, or the reason why an expected figure is missing, or
None if the metric does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.handover import ClientMove, client_moves
from harness.analysis.metric_registry import Finding, Layer, Metric, declare, measures
from harness.analysis.run_view import RunView
from harness.analysis.shared_flows import SharedBottleneck, SharedFlow, flows_of, shared_bottleneck
from harness.capture.artefacts import TransferWindow
from harness.outcome import Absence, Better, Measurement


@dataclass(frozen=True)
class Value:
    """A measured figure."""

    value: float
    vantage: str
    """Where it was observed."""
    better: Better | None = None
    """The direction of this figure, if it differs from the metric's declaration."""
    excluded: tuple[int, int, str] | None = None
    """(samples that the mean leaves out, number of all samples, why)."""


@dataclass(frozen=True)
class Absent:
    """Why there is no figure: half a sentence for people."""

    why: str


MetricResult = Value | Absent | None
FlowFunction = Callable[[SharedFlow], MetricResult]
LinkFunction = Callable[[SharedBottleneck], MetricResult]
MoveFunction = Callable[[ClientMove], MetricResult]
FlowsFunction = Callable[[Sequence[SharedFlow]], MetricResult]


def flow_metric(
    *, unit: str, better: Better, title: str, formula: str, source: str
) -> Callable[[FlowFunction], FlowFunction]:
    """A metric of each flow of a run that has series (see `analysis.shared_flows`)."""

    def mark(function: FlowFunction) -> FlowFunction:
        metric = _declare("flow", function, unit, better, title, formula, source)

        def measured(view: RunView) -> Iterator[Finding]:
            absent: dict[str, list[int]] = {}
            for flow in flows_of(view):
                outcome = function(flow)
                if isinstance(outcome, Absent):
                    absent.setdefault(outcome.why, []).append(flow.number)
                yield from _findings(metric, outcome, flow.number)
            for why, flows in absent.items():
                yield Absence(metric=metric.name, flows=tuple(flows), why=why)

        _register(function, measured)
        return function

    return mark


def link_metric(
    *, unit: str, better: Better, title: str, formula: str, source: str
) -> Callable[[LinkFunction], LinkFunction]:
    """A metric of the bottleneck that data pass (`RunView.data_side`) while flows send through it."""

    def mark(function: LinkFunction) -> LinkFunction:
        metric = _declare("link", function, unit, better, title, formula, source)

        def measured(view: RunView) -> Iterator[Finding]:
            link = shared_bottleneck(view)
            if link is not None:
                yield from _run_findings(metric, function(link))

        _register(function, measured)
        return function

    return mark


def network_metric(
    *, unit: str, better: Better, title: str, formula: str, source: str, least: int = 2
) -> Callable[[FlowsFunction], FlowsFunction]:
    """A metric of all flows of a run together, if at least so many have series."""

    def mark(function: FlowsFunction) -> FlowsFunction:
        metric = _declare("network", function, unit, better, title, formula, source)

        def measured(view: RunView) -> Iterator[Finding]:
            flows = flows_of(view)
            if len(flows) >= least:
                yield from _run_findings(metric, function(flows))

        _register(function, measured)
        return function

    return mark


def move_metric(
    *, unit: str, better: Better, title: str, formula: str, source: str
) -> Callable[[MoveFunction], MoveFunction]:
    """A metric of each move of a flow's client."""

    def mark(function: MoveFunction) -> MoveFunction:
        metric = _declare("move", function, unit, better, title, formula, source)

        def measured(view: RunView) -> Iterator[Finding]:
            for moved in client_moves(view):
                flow, transfer, move = moved.facts.flow, moved.window.name, moved.number
                outcome = Absent(moved.why_unmeasurable) if moved.why_unmeasurable else function(moved)
                if isinstance(outcome, Absent):
                    yield Absence(metric=metric.name, flows=(flow,), transfer=transfer, move=move, why=outcome.why)
                elif outcome is not None:
                    yield metric.of(
                        outcome.value, outcome.vantage, flow=flow, transfer=transfer, move=move, better=outcome.better
                    )

        _register(function, measured)
        return function

    return mark


def transfer_absences(metrics: Iterable[Metric], window: TransferWindow, why: str) -> Iterator[Absence]:
    """Why one transfer has none of these metrics."""
    for metric in metrics:
        yield Absence(metric=metric.name, flows=(window.transfer.flow,), transfer=window.name, why=why)


def transfer_measurement(
    metric: Metric, window: TransferWindow, value: float, vantage: str, star: str = ""
) -> Measurement:
    """A measurement of one transfer."""
    return metric.of(value, vantage, flow=window.transfer.flow, transfer=window.name, star=star)


def _declare(
    layer: Layer,
    function: Callable[..., MetricResult],
    unit: str,
    better: Better,
    title: str,
    formula: str,
    source: str,
) -> Metric:
    return declare(
        function.__name__, layer=layer, unit=unit, better=better, title=title, formula=formula, source=source
    )


def _register(function: Callable[..., MetricResult], measured: Callable[[RunView], Iterator[Finding]]) -> None:
    measured.__module__, measured.__name__, measured.__doc__ = function.__module__, function.__name__, function.__doc__
    measures(measured)


def _run_findings(metric: Metric, outcome: MetricResult) -> Iterator[Finding]:
    if isinstance(outcome, Absent):
        yield Absence(metric=metric.name, why=outcome.why)
    yield from _findings(metric, outcome, None)


def _findings(metric: Metric, outcome: MetricResult, flow: int | None) -> Iterator[Finding]:
    if not isinstance(outcome, Value):
        return
    yield metric.of(outcome.value, outcome.vantage, flow=flow, better=outcome.better)
    if outcome.excluded is not None:
        omitted, total, why = outcome.excluded
        yield Absence(metric=metric.name, flows=() if flow is None else (flow,), samples=(omitted, total), why=why)

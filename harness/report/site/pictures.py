"""Geometry of pictures that templates draw: intervals and their bounds, and bytes received over time. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult, initial_window_bytes
from harness.netem import ideal_time, slow_start_time
from harness.netem.mobility import flow_timeline
from harness.outcome import Interval, ObjectiveVerdict
from harness.report.column_selection import columns
from harness.scenario.metric_names import MetricName
from harness.units import Size

#: Segments of the slow-start curve, and of the line-rate curve, which is straight except where the rate changes.
_BOOK, _STRAIGHT = 36, 12
#: So far beside a line nobody sees a point, in the picture's units (about pixels).
_UNSEEN = 0.3
#: Ratio of a scale's length to the greatest value on it.
_ROOM = 1.08
#: Approximate number of labels of an axis.
_LABELS = 5


@dataclass(frozen=True)
class Scale:
    """One objective as a line: allowed range, bound, interval, and theoretical limits, in percent of its length."""

    metric: str
    demanded: str
    verdict: str
    allowed: tuple[float, float]
    bound: float
    span: tuple[float, float] | None
    """Interval; None where the metric was not measured, or never reached."""
    median: float | None
    marks: tuple[tuple[str, float, float], ...]
    """(name, place, value) of the theoretical limits, where the metric has them."""
    unit: str
    observed: Interval | None


def objective_scale(result: CellResult, objective: ObjectiveVerdict) -> Scale:
    """The scale of one objective."""
    observed = objective.observed
    theory = _theoretical_times(result, objective.metric)
    shown = [objective.bound, *(value for _, value in theory)]
    if observed is not None:
        shown += [value for value in (observed.low, observed.median, observed.high) if math.isfinite(value)]
    end = max(*shown, 1e-12) * _ROOM

    def place(value: float) -> float:
        return round(100 * min(max(value, 0.0), end) / end, 2)

    bound = place(objective.bound)
    return Scale(
        objective.metric,
        objective.demanded.removeprefix(objective.metric).strip(),
        objective.verdict,
        (0.0, bound) if objective.at_most else (bound, 100.0),
        bound,
        None if observed is None or not math.isfinite(observed.low) else (place(observed.low), place(observed.high)),
        None if observed is None or not math.isfinite(observed.median) else place(observed.median),
        tuple((name, place(value), value) for name, value in theory),
        "" if objective.unit == "1" else objective.unit,
        observed,
    )


def _theoretical_times(result: CellResult, metric: str) -> list[tuple[str, float]]:
    scenario = result.cell.scenario
    sizes = {f"milestone_{size.label()}": size for size in scenario.milestones}
    if metric not in sizes:
        return []
    return [
        (
            "textbook slow start",
            slow_start_time(flow_timeline(scenario), sizes[metric], initial_window_bytes(result.cell)),
        ),
        ("line rate", ideal_time(flow_timeline(scenario), sizes[metric])),
    ]


@dataclass(frozen=True)
class Milestone:
    """Time to receive a number of bytes: median and interval over the runs, as coordinates in the picture."""

    label: str
    x: float
    low: float
    high: float
    y: float
    text: str
    left: bool
    """Whether its label is to the left of it."""


@dataclass(frozen=True)
class Received:
    """Bytes received over time, in a picture of `WIDTH` by `HEIGHT`."""

    textbook: str
    """Points of a line, as SVG has them."""
    ideal: str
    milestones: tuple[Milestone, ...]
    demanded: tuple[tuple[float, float, str], ...]
    """(x, y, words) of each objective on a milestone."""
    across: tuple[tuple[float, str], ...]
    """(x, label) of the ticks, s."""
    up: tuple[tuple[float, str], ...]
    """(y, label), MB."""
    words: str
    """The picture in a sentence."""
    end: float
    """End of the time axis, s."""

    def x(self, seconds: float) -> float:
        """The x coordinate of a time in seconds."""
        return _x_of(seconds, self.end)


#: Size of the picture, and the coordinates of its plot area.
WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 44, 628, 12, 216


def received_picture(result: CellResult) -> Received | None:
    """The picture of a cell with one flow of a fixed size; None for other cells, and where no milestone was reached."""
    scenario = result.cell.scenario
    amount = scenario.flows[0].amount if len(scenario.flows) == 1 else None
    if amount is None:
        return None
    milestones: list[tuple[str, int, Interval]] = []
    for metric, size in _sizes(result, amount):
        span = result.interval(*metric)
        if span is not None and math.isfinite(span.median):
            milestones.append((size.label(), size.bytes, span))
    if not milestones:
        return None
    path_course, window = flow_timeline(scenario), initial_window_bytes(result.cell)
    book = [(slow_start_time(path_course, size, window), size.bytes) for size in _parts(amount, _BOOK)]
    line = [(ideal_time(path_course, size), size.bytes) for size in _parts(amount, _STRAIGHT)]
    milestone_sizes = {f"milestone_{size.label()}": size for size in scenario.milestones}
    bounds = [
        (objective.bound, milestone_sizes[objective.metric].bytes, str(objective))
        for objective in scenario.objectives
        if objective.metric in milestone_sizes
    ]
    times = [span.median for _, _, span in milestones] + [span.high for _, _, span in milestones]
    end = _ROOM * max(value for value in (*times, book[-1][0], *(t for t, _, _ in bounds)) if math.isfinite(value))
    whole = amount.bytes * _ROOM

    def x(seconds: float) -> float:
        return _x_of(seconds, end)

    def y(size: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * size / whole, 1)

    return Received(
        _svg_points((x(t), y(size)) for t, size in book),
        _svg_points((x(t), y(size)) for t, size in line),
        tuple(
            Milestone(
                label,
                x(span.median),
                x(span.low),
                x(span.high),
                y(size),
                f"{span.median:.2f} s",
                x(span.median) > 0.75 * RIGHT,
            )
            for label, size, span in milestones
        ),
        tuple((x(t), y(size), words) for t, size, words in bounds),
        tuple((x(t), f"{t:g}") for t in axis_ticks(end)),
        tuple((y(size * 1e6), f"{size:g}") for size in axis_ticks(whole / 1e6)),
        "; ".join(f"{label} after {span.median:.2f} s" for label, _, span in milestones)
        + f"; textbook slow start has all of it after {book[-1][0]:.2f} s, the line rate after {line[-1][0]:.2f} s",
        end,
    )


def _x_of(seconds: float, end: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * min(seconds, end) / end, 1)


def _sizes(result: CellResult, amount: Size) -> list[tuple[MetricName, Size]]:
    """Time metrics of the first transfer and the size at each of them, in order; the whole transfer is one of them."""
    scenario = result.cell.scenario
    milestone_sizes = {f"milestone_{size.label()}": size for size in scenario.milestones}
    sizes = [
        (name, milestone_sizes[name.metric])
        for name, _ in columns(scenario)
        if name.transfer == "first" and name.metric in milestone_sizes
    ]
    if all(size.bytes != amount.bytes for _, size in sizes):
        sizes.append((MetricName("completion", 0, "first"), amount))
    return sizes


def _parts(amount: Size, count: int) -> list[Size]:
    return [Size(max(1, round(amount.bytes * part / count))) for part in range(count + 1)]


def _svg_points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in corners(list(points)))


def corners(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """The points of a line without those that it passes within `_UNSEEN` of: most are on straight parts.

    Points are in order of y, as those of received bytes are.
    """
    start = 0
    for end in range(2, len(points)):
        if not _is_straight(points[start : end + 1]):
            yield points[start]
            start = end - 1
    yield points[start]
    if start < len(points) - 1:
        yield points[-1]


def _is_straight(points: Sequence[tuple[float, float]]) -> bool:
    (x0, y0), *between, (x1, y1) = points
    if y1 == y0:
        return False
    slope = (x1 - x0) / (y1 - y0)
    return all(abs(x - x0 - slope * (y - y0)) <= _UNSEEN for x, y in between)


def axis_ticks(end: float) -> Sequence[float]:
    """Round numbers from 0 to an end, about `_LABELS` of them."""
    raw = end / _LABELS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    return [round(step * index, 10) for index in range(int(end / step) + 1)]

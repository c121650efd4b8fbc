"""Compare the same point under two engines: how far virtual time is from real time, and why, where known. Pure.

A point is an experiment as people identify it: scenario, client, server, parameters and seed. Values are
in the store's units (times in seconds, shares as parts of one). `harness.report.compare` shows them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from harness.analysis.metric_registry import find_metric, unit_of
from harness.analysis.metrics.wire import EXCESS, stored_excess
from harness.evaluation.cell_result import CellResult, is_observation, unreached_value
from harness.netem.bounds import bucket_share
from harness.outcome import ENGINES, Better, EngineName, Interval, MeasuredRun, Run, Transfer, proven_outcome
from harness.report.document import SENTENCE_WIDTH, Block, BulletList, Column, Document, Paragraph, Row, Span, Table
from harness.report.numbers import interval_text
from harness.report.results import SYMBOLS
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import ParameterValue
from harness.scenario.schema import Scenario
from harness.stats.intervals import MIN_VALUES, interval

# --- Figures of one engine's runs for a comparison, drawn from a cell's results.


CpuRole = Literal["client", "server", "sim"]
ROLES: tuple[CpuRole, ...] = ("client", "server", "sim")


@dataclass(frozen=True)
class Side:
    """One engine's runs of a point, summarised for one metric."""

    engine: EngineName
    key: str
    """The cell's key in the store."""
    outcomes: Mapping[str, int]
    """How often each outcome happened."""
    counted: int
    """Runs that were measured and completed, or whose transfers failed; the others do not count."""
    interval: Interval | None
    """Of the metric; a time that a failed transfer never reached is infinite. None where it was not measured."""
    receive_drops: float | None
    """Median of the datagrams dropped at full socket buffers of both endpoints."""
    simulator: str
    """Identity of the simulator, with the lab kernel."""
    measured_by: tuple[int, ...]
    """Versions of the measuring code behind the runs that count, in order."""


@dataclass(frozen=True)
class CpuUse:
    """What one container spent during the transfer; medians over the real-time runs
    (`harness.analysis.metrics.effort`).
    """

    seconds: float
    """CPU time, s; in a short transfer it includes the container's start."""
    share: float
    """CPU seconds per second of the completion, or of the client's life where it never completed; 1 is one core."""


def _counted_runs(result: CellResult) -> Iterator[tuple[Run, MeasuredRun]]:
    """The runs that count, as in `CellResult.measurements`."""
    for run, measured in result.runs:
        if measured is not None and is_observation(run, measured):
            yield run, measured


def _sibling_metric(metric: str, sibling: str) -> MetricName:
    """Name another metric of the same transfer."""
    name = MetricName.parse(metric)
    return MetricName(sibling, name.flow or 0, name.transfer or "first")


def _transfer(run: Run, metric: str) -> Transfer | None:
    name = MetricName.parse(metric)
    key = name.flow or 0, int(name.transfer == "repeat")
    return next((item for item in run.transfers if (item.flow, item.index) == key), None)


def _value(run: Run, measured: MeasuredRun, metric: str) -> float | None:
    measurement = measured.written(metric, len(run.cell.scenario.flows))
    if measurement is not None:
        return measurement.value
    return unreached_value(run, MetricName.parse(metric), failed=proven_outcome(run, measured).failed_transfer)


def side_of(result: CellResult | None, metric: str) -> Side | None:
    """Summarise a metric over an engine's runs. None without runs."""
    if result is None or not result.runs:
        return None
    counted = list(_counted_runs(result))
    values = [value for run, measured in counted if (value := _value(run, measured, metric)) is not None]
    drops = [measured.value(*_sibling_metric(metric, "udp_receive_drops")) for _, measured in counted]
    return Side(
        engine=result.cell.engine,
        key=result.cell.key,
        outcomes=result.outcomes,
        counted=len(counted),
        interval=interval(values) if values else None,
        receive_drops=_median(drops),
        simulator=result.cell.sim_image.identity,
        measured_by=tuple(sorted({measured.version for _, measured in counted})),
    )


def difference_of(real: float, virtual: float) -> float:
    """`virtual / real - 1`; 0 for equal values, two zeros and two infinities included."""
    if real == virtual:
        return 0.0
    return math.copysign(math.inf, virtual) if real == 0 else virtual / real - 1


def kind_of(results: Iterable[CellResult], metric: str) -> tuple[str, Better]:
    """Unit and direction of a metric. The unit of an unknown metric is empty."""
    for result in results:
        for measurement in result.measurements_by_name.get(metric, []):
            return unit_of(measurement), measurement.direction
    declaration = find_metric(MetricName.parse(metric).metric)
    return ("", "neutral") if declaration is None else (declaration.unit, declaration.better)


def _median(values: Iterable[float | None]) -> float | None:
    available = [value for value in values if value is not None]
    return interval(available).median if available else None


def cpu_of(result: CellResult, metric: str) -> dict[CpuRole, CpuUse]:
    """CPU use during the metric's transfer. The simulator's is recorded with the first flow."""
    uses: dict[CpuRole, CpuUse] = {}
    for role in ROLES:
        samples = [
            (used, used / seconds)
            for run, measured in _counted_runs(result)
            if (used := measured.value(*_sibling_metric(metric, f"cpu_{role}"))) is not None
            and (seconds := _seconds(run, measured, metric)) is not None
        ]
        if samples:
            uses[role] = CpuUse(
                seconds=interval(used for used, _ in samples).median,
                share=interval(share for _, share in samples).median,
            )
    return uses


def _seconds(run: Run, measured: MeasuredRun, metric: str) -> float | None:
    """Duration of the metric's transfer, s; the client's life where it never completed."""
    completion = measured.value(*_sibling_metric(metric, "completion"))
    if completion is not None:
        return completion
    transfer = _transfer(run, metric)
    lifetime = 0.0 if transfer is None else (transfer.ended_ns - transfer.started_ns) / 1e9
    return lifetime if lifetime > 0 else None


def cores_of(result: CellResult) -> int | None:
    """Cores of the machine of the last run."""
    core_counts = [cores for run, _ in result.runs if isinstance(cores := run.host.get("cpus"), int)]
    return core_counts[-1] if core_counts else None


# --- compare


#: Tolerance: a difference of medians up to this share of the real-time median counts as none.
TOLERANCE = 0.03
#: Threshold for CPU-bound: CPU seconds per second of the transfer, per core, of an endpoint or of the machine.
#: An endpoint works in one thread, so one core is its ceiling. But a transfer idles during handshake and slow start,
#: and its average stays below the ceiling. The simulator has one thread, too. In some reference runs of
#: satellite/medium it takes 0.9 to 1.0 of a core once the link is full. In those runs it takes 0.69 to 0.77 on average
#: over the completion. So 0.7 on average is about one core while there is work. All three share the machine's cores,
#: which idle as long, so the same share of them counts. This does not detect a shortage in short bursts.
CPU_BOUND = 0.7
#: Datagrams of virtual time per those of real time, from which on their number explains a difference: the tolerance of
#: what stacks should agree in is 5 %.
MORE_DATAGRAMS = 1.05

Reason = Literal[
    "one_engine",
    "no_run_counts",
    "not_measured",
    "within_tolerance",
    "other_bits",
    "other_measuring",
    "token_bucket",
    "cpu_bound",
    "receive_drops",
    "small_datagrams",
    "intervals_overlap",
    "not_explained",
]
Explanation = tuple[Reason, str]
"""A code, and words for people."""


@dataclass(frozen=True)
class EnginePair:
    """The point that both engines ran."""

    scenario: str
    title: str = field(compare=False)
    """The scenario's line for people; rewording it makes no other point."""
    client: str
    server: str
    parameters: tuple[tuple[str, ParameterValue], ...]
    """Parameters asked for, as (role.NAME, value)."""
    seed: int
    pair: tuple[str, str]
    """Client and server, each with the parameters that were asked of it."""


@dataclass(frozen=True)
class MetricComparison:
    """One metric of one point under both engines."""

    point: EnginePair
    metric: str
    unit: str
    """Unit of both intervals; empty where it is unknown, because neither engine measured the metric."""
    direction: Better
    """Whether higher or lower values are better."""
    compose: Side | None
    virtual: Side | None
    difference: float | None
    """Median in virtual time over median in real time, minus one; None where they cannot be compared."""
    tolerance: float
    """Largest absolute difference that counts as none."""
    within: bool | None
    """Whether the difference is within the tolerance; None where there is none to judge."""
    cpu: Mapping[CpuRole, CpuUse]
    """CPU use in real time; without what was not sampled. In virtual time CPU costs nothing."""
    cores: int | None
    """Cores of the machine of the real-time runs."""
    reason: Reason
    """The leading explanation, as a code."""
    explanation: str
    """All that is known to explain a difference, for people; empty where nothing needs explaining."""


def default_metrics(scenario: Scenario) -> list[str]:
    """Completion and milestones of the first transfer, and the repeat's completion.

    A milestone of the whole file is left out: it equals the completion.
    """
    first = scenario.flows[0]
    if first.carried is None:
        return []
    milestones = [
        MetricName(f"milestone_{size.label()}", 0, "first")
        for size in scenario.milestones
        if first.amount is not None and size < first.amount
    ]
    repeat = [MetricName("completion", 0, "repeat")] if first.repeat_after is not None else []
    names = [*milestones, MetricName("completion", 0, "first"), *repeat]
    return [name.text(len(scenario.flows)) for name in names]


def comparisons(
    results: Iterable[CellResult], metrics: Sequence[str] | None = None, within: float = TOLERANCE
) -> list[MetricComparison]:
    """Compare the engines point by point, one entry per metric, in order of scenario, client and server.

    `results` hold at most one cell per point and engine, as `StoredResults.find` gives them. `metrics` default to
    `default_metrics`. `within` is a share (0.03 for 3 %). A metric that cannot be compared has an entry, too. Raises
    ValueError for a negative tolerance, and for a second cell of the same point and engine.
    """
    if not within >= 0:
        raise ValueError(f"a tolerance of {within} is below zero")
    points: dict[EnginePair, dict[EngineName, CellResult]] = {}
    for result in results:
        engines = points.setdefault(_point(result), {})
        if result.cell.engine in engines:
            raise ValueError(f"two cells of {result.cell.engine} at the same point: {_point(result)}")
        engines[result.cell.engine] = result
    return [
        _compare(point, metric, engines, within)
        for point, engines in sorted(points.items(), key=lambda item: _order(item[0]))
        for metric in metrics or default_metrics(next(iter(engines.values())).cell.scenario)
    ]


def _point(result: CellResult) -> EnginePair:
    cell = result.cell
    return EnginePair(
        scenario=cell.scenario.name,
        title=cell.scenario.title,
        client=cell.client.name,
        server=cell.server.name,
        parameters=tuple(sorted(cell.parameters.items())),
        seed=cell.seed,
        pair=result.pair,
    )


def _order(point: EnginePair) -> tuple[str, str, str, str, int]:
    return point.scenario, point.client, point.server, str(point.parameters), point.seed


def _compare(
    point: EnginePair, metric: str, engines: Mapping[EngineName, CellResult], tolerance: float
) -> MetricComparison:
    compose, virtual = (side_of(engines.get(name), metric) for name in ENGINES)
    real = engines.get("compose")
    unit, direction = kind_of(engines.values(), metric)
    difference = within = None
    if compose and virtual and compose.interval and virtual.interval:
        difference = difference_of(compose.interval.median, virtual.interval.median)
        # Exactly 3 % is within 3 %, despite rounding in the division.
        within = abs(difference) <= tolerance + 1e-9
    comparison = MetricComparison(
        point=point,
        metric=metric,
        unit=unit,
        direction=direction,
        compose=compose,
        virtual=virtual,
        difference=difference,
        tolerance=tolerance,
        within=within,
        cpu=cpu_of(real, metric) if real else {},
        cores=cores_of(real) if real else None,
        reason="not_explained",
        explanation="",
    )
    explanations = _obstacle(comparison) if within is None else _explain(comparison, engines)
    reason = "within_tolerance" if within else explanations[0][0]
    return replace(comparison, reason=reason, explanation="; ".join(text for _, text in explanations))


# --- explanations


def _obstacle(comparison: MetricComparison) -> list[Explanation]:
    """Why there is nothing to compare."""
    for name, side in zip(ENGINES, (comparison.compose, comparison.virtual), strict=True):
        if side is None:
            return [("one_engine", f"no {name} runs")]
    for side in (comparison.compose, comparison.virtual):
        if side is not None and not side.counted:
            outcomes = ", ".join(f"{status} {count}" for status, count in side.outcomes.items())
            return [("no_run_counts", f"no {side.engine} run counts ({outcomes})")]
    unmeasured = [
        side.engine for side in (comparison.compose, comparison.virtual) if side is not None and side.interval is None
    ]
    return [("not_measured", f"not measured in any {' or '.join(unmeasured)} run")]


def _explain(comparison: MetricComparison, engines: Mapping[EngineName, CellResult]) -> list[Explanation]:
    """Possible explanations, the strongest first. Within the tolerance only what else differs."""
    assert comparison.compose and comparison.virtual
    explanations = [*_experiment_differences(engines), *_measuring_differences(comparison.compose, comparison.virtual)]
    if comparison.within:
        return explanations
    assert comparison.compose.interval and comparison.virtual.interval
    explanations += _buckets(engines, comparison.tolerance)
    if _worse_in_real_time(comparison):
        explanations += [
            *_cpu_shortages(comparison.cpu, comparison.cores),
            *_receive_drops(comparison.compose, comparison.virtual),
        ]
    explanations += _small_datagrams(engines)
    spans = comparison.compose.interval, comparison.virtual.interval
    if max(span.low for span in spans) <= min(span.high for span in spans):
        explanations.append(("intervals_overlap", "the intervals overlap"))
    explanations = explanations or [("not_explained", "not explained")]
    sides = (comparison.compose, comparison.virtual)
    small_samples = [
        f"{side.interval.n} {side.engine}" for side in sides if side.interval and side.interval.n < MIN_VALUES
    ]
    if small_samples:
        # A hint, never the leading reason.
        plural = "run" if small_samples[-1].startswith("1 ") else "runs"
        explanations.append(("not_explained", f"only {' and '.join(small_samples)} {plural}"))
    return explanations


def _worse_in_real_time(comparison: MetricComparison) -> bool:
    """Whether real time may be worse. Only then can a shortage of CPU time be the cause: virtual time has none."""
    assert comparison.difference is not None
    return {"lower": comparison.difference < 0, "higher": comparison.difference > 0, "neutral": True}[
        comparison.direction
    ]


def _experiment_differences(engines: Mapping[EngineName, CellResult]) -> list[Explanation]:
    """Differences of the experiment although names, parameters and seed are the same."""
    compose, virtual = (engines[name] for name in ENGINES)
    differences = [name for name, part in _parts(compose).items() if part != _parts(virtual)[name]]
    return [("other_bits", f"not the same experiment, other {' and '.join(differences)}")] if differences else []


def _measuring_differences(compose: Side, virtual: Side) -> list[Explanation]:
    """Versions of the measuring code, where the two engines' values come from more than one."""
    if len({*compose.measured_by, *virtual.measured_by}) <= 1:
        return []
    sides = (f"{', '.join(map(str, side.measured_by))} ({side.engine})" for side in (compose, virtual))
    return [("other_measuring", f"not measured by the same code, versions {' and '.join(sides)}")]


def _buckets(engines: Mapping[EngineName, CellResult], tolerance: float) -> list[Explanation]:
    """Token buckets that only the real-time link has and that are large enough to matter.

    A bucket shortens waits and lengthens the queue by a share of the round trip or of the queue. A share from the
    tolerance on may move a figure as much.
    """
    real, virtual = (engines[name] for name in ENGINES)
    path, buckets = real.cell.scenario.path, []
    for name, link in (("to_client", path.to_client), ("to_server", path.to_server)):
        burst, virtual_burst = (_burst(result, name) for result in (real, virtual))
        if burst is None or virtual_burst is not None or not link.queue.holds:
            continue
        share = bucket_share(link, burst, path.rtt)
        if share >= tolerance:
            buckets.append(f"{burst:,} B {name.replace('_', ' ')} ({_percent(share)} of the round trip or the queue)")
    return [("token_bucket", f"token bucket in real time: {' and '.join(buckets)}")] if buckets else []


def _burst(result: CellResult, name: str) -> int | None:
    """The token bucket of one direction in the last run whose link was proven, bytes."""
    links = [measured.link for _, measured in result.runs if measured is not None and measured.link is not None]
    burst: int | None = getattr(links[-1], name).burst_bytes if links else None
    return burst


def _parts(result: CellResult) -> dict[str, object]:
    """What decides a run, by name: the scenario without what is read from a run alone (`harness.execution.matrix`)."""
    cell, last = result.cell, result.last
    scenario = cell.scenario
    return {
        "scenario": (scenario.path, scenario.flows, scenario.protocol, scenario.ip_version, scenario.timeout),
        "client image": cell.client_image.identity,
        "server image": cell.server_image.identity,
        "simulator": cell.sim_image.identity,
        "effective parameters": last[0].effective if last else {},
    }


def _cpu_shortages(cpu: Mapping[CpuRole, CpuUse], cores: int | None) -> list[Explanation]:
    """Endpoints, and the machine, that had no CPU time left.

    A simulator without CPU time is no explanation: it delays packets, and the run's link is then not valid.
    """
    endpoints: tuple[CpuRole, ...] = ("client", "server")
    bound_roles = [role for role in endpoints if role in cpu and cpu[role].share >= CPU_BOUND]
    findings = [f"the {role} used {_percent(cpu[role].share)} of a core" for role in bound_roles]
    # Only one of several flows counts here, so this is an underestimate.
    total = sum(use.share for use in cpu.values())
    if cores and total >= CPU_BOUND * cores:
        findings.append(f"{', '.join(cpu)} together used {_percent(total / cores)} of the machine's cores ({cores})")
    return [("cpu_bound", f"CPU-bound in real time: {' and '.join(findings)}")] if findings else []


def _receive_drops(compose: Side, virtual: Side) -> list[Explanation]:
    """Datagrams lost because an endpoint did not read its socket in time: losses that the path did not cause."""
    if not compose.receive_drops or compose.receive_drops <= (virtual.receive_drops or 0):
        return []
    return [("receive_drops", f"full socket buffers dropped {compose.receive_drops:.0f} datagrams in real time")]


def _small_datagrams(engines: Mapping[EngineName, CellResult]) -> list[Explanation]:
    """A sender that uses far more datagrams in virtual time, where computing takes no time, than its bytes need."""
    real, virtual = (_excess(engines[name]) for name in ENGINES)
    if virtual is None or virtual < EXCESS or (real is not None and virtual <= MORE_DATAGRAMS * real):
        return []
    beside = "" if real is None else f", and {real:.1f} times in real time"
    needed = f"in virtual time the sender used {virtual:.1f} times the datagrams that its bytes need"
    return [("small_datagrams", f"{needed}{beside} (docs/limits.md)")]


def _excess(result: CellResult) -> float | None:
    """Median over the runs of the datagrams sent, per those that the bytes need. None where it is not known."""
    scenario = result.cell.scenario
    return _median(
        stored_excess(measured, scenario.flows[0].sender, scenario.ip_version) for _, measured in _counted_runs(result)
    )


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


# --- The comparison of engines as a document.


SCHEMA = 1

_HEADINGS = ("client → server", "metric", "n", "compose", "virtual", "difference", "CPU c/s/sim")
"""Before the verdict: n is of compose and virtual; CPU is the cores each container used in real time."""


def comparison_document(compared: Sequence[MetricComparison]) -> Document:
    """A table per scenario and the metrics that cannot be compared, or that there are no results.

    Numbers of the data are in the store's units; null where a time was never reached.
    """
    entries = [_entry(comparison) for comparison in compared]
    return Document({"schema": SCHEMA, **_counts(compared), "comparisons": entries}, comparison_blocks(compared))


def comparison_blocks(compared: Sequence[MetricComparison]) -> list[Block]:
    """The comparison as part of a page."""
    if not compared:
        return [Paragraph("No stored runs match.")]
    blocks: list[Block] = []
    for group in _scenarios(compared):
        point = group[0].point
        name = (Span(point.title, strong=True), " (", Span(point.scenario, code=True))
        blocks += [Paragraph((*name, ", median [interval] of n runs)")), _table(_comparable(group))]
        blocks.append(BulletList(_incomparable_lines(group), style="yellow"))
    return [*blocks, Paragraph(_summary(compared))]


# --- text


def _scenarios(compared: Sequence[MetricComparison]) -> list[list[MetricComparison]]:
    ordered = sorted(compared, key=lambda comparison: comparison.point.scenario)
    return [list(group) for _, group in groupby(ordered, key=lambda comparison: comparison.point.scenario)]


def _comparable(group: Iterable[MetricComparison]) -> list[MetricComparison]:
    return [comparison for comparison in group if comparison.within is not None]


def _table(group: Sequence[MetricComparison]) -> Table:
    first, *figures = _HEADINGS
    columns = [
        Column(first, identifies=True),
        Column(figures[0], identifies=True),
        *(Column(heading, right=True) for heading in figures[1:]),
        Column("verdict"),
        Column("explanation", text=SENTENCE_WIDTH),
    ]
    return Table(columns, [Row([*_cells(item), _verdict(item), item.explanation]) for item in group])


def _verdict(comparison: MetricComparison) -> Span:
    symbol, colour = SYMBOLS["pass" if comparison.within else "fail"]
    return Span(f"{symbol} {'within' if comparison.within else 'outside'}", style=colour)


def _cells(comparison: MetricComparison) -> list[str]:
    spans = [side.interval if side else None for side in (comparison.compose, comparison.virtual)]
    return [
        _pair_label(comparison),
        f"{comparison.metric} {comparison.unit}".rstrip(),
        "/".join(str(span.n) for span in spans if span),
        *(_interval(span) for span in spans),
        _difference(comparison.difference),
        "/".join(f"{comparison.cpu[role].share:.2f}" if role in comparison.cpu else "–" for role in ROLES),
    ]


def _pair_label(comparison: MetricComparison) -> str:
    seed = "" if comparison.point.seed == 1 else f" (seed {comparison.point.seed})"
    return " → ".join(comparison.point.pair) + seed


def _interval(span: Interval | None) -> str:
    if span is not None and math.isinf(span.low) and math.isinf(span.high):
        return "never"
    return interval_text(span)


def _difference(value: float | None) -> str:
    if value is None or math.isinf(value):
        return "–" if value is None else "∞"
    return f"{value * 100:+.1f} %"


def _incomparable_lines(group: Iterable[MetricComparison]) -> list[str]:
    """A line for each reason why metrics of a point cannot be compared. Cells of other parameters name none again."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for comparison in group:
        if comparison.within is None:
            reasons.setdefault((_pair_label(comparison), comparison.explanation), {})[comparison.metric] = None
    return [f"not comparable: {pair}: {why}: {', '.join(metrics)}" for (pair, why), metrics in reasons.items()]


def _counts(compared: Sequence[MetricComparison]) -> dict[str, int]:
    return {
        "within": sum(comparison.within is True for comparison in compared),
        "outside": sum(comparison.within is False for comparison in compared),
        "not_comparable": sum(comparison.within is None for comparison in compared),
    }


def _summary(compared: Sequence[MetricComparison]) -> str:
    counts = _counts(compared)
    return (
        f"{counts['within']} within ±{compared[0].tolerance * 100:g} %, {counts['outside']} outside, "
        f"{counts['not_comparable']} not comparable"
    )


# --- data


def _entry(comparison: MetricComparison) -> dict[str, Any]:
    return {
        "scenario": comparison.point.scenario,
        "client": comparison.point.client,
        "server": comparison.point.server,
        "parameters": dict(comparison.point.parameters),
        "seed": comparison.point.seed,
        "metric": comparison.metric,
        "unit": comparison.unit,
        "direction": comparison.direction,
        **{name: _side(side) for name, side in zip(ENGINES, (comparison.compose, comparison.virtual), strict=True)},
        "difference": _number(comparison.difference),
        "tolerance": comparison.tolerance,
        "within": comparison.within,
        "cpu": {role: {"seconds": use.seconds, "share": use.share} for role, use in comparison.cpu.items()},
        "cores": comparison.cores,
        "reason": comparison.reason,
        "explanation": comparison.explanation,
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    span = side.interval
    return {
        "key": side.key,
        "outcomes": dict(side.outcomes),
        "n": span.n if span else 0,
        "median": _number(span.median) if span else None,
        "low": _number(span.low) if span else None,
        "high": _number(span.high) if span else None,
        "coverage": span.coverage if span else None,
        "receive_drops": side.receive_drops,
        "simulator": side.simulator,
        "measured_by": list(side.measured_by),
    }


def _number(value: float | None) -> float | None:
    """JSON has no number for infinity."""
    return value if value is not None and math.isfinite(value) else None

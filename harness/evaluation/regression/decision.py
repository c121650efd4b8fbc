"""How each figure of a matrix has changed since its baseline.

* **Same code and images, virtual time.** Every figure of a repetition must be equal to the last digit. If one is not,
  the cell *differs*, whatever the tolerance.
* **Deterministic** (see `plays`). A metric has changed if every current value differs from every baseline value by more
  than the tolerance, in the same direction.
* **Random.** A metric has changed if its Hodges–Lehmann factor is beyond the tolerance and the Mann–Whitney test is
  significant at `ALPHA`, adjusted over all tests of the matrix (Holm). The probability of one or more false alarms in
  an unchanged matrix is at most `ALPHA`. A metric is the same if the factor's interval lies within the tolerance. Else
  it cannot be told, and more runs are needed.
* **Outcomes.** An increase of failed runs is tested by Fisher's exact test, in the same family. If all runs of a cell
  fail, two at least, and none of two or more did before, the cell is worse without a test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from harness.analysis.metric_registry import find_metric
from harness.engine.images.contents import Contents
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult, point_of
from harness.evaluation.ranking import headline_metrics
from harness.outcome import Cell, MeasuredRun, Run, proven_outcome
from harness.planning.sampling import is_random
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import ROLES
from harness.scenario.schema import Implementation, Scenario
from harness.stats.intervals import COVERAGE
from harness.stats.two_sample import ALPHA, Comparison, adjust_holm, compare, ratio
from harness.store.build_diff import VersionChange, compare_versions, differing_components
from harness.store.identity import Ledger
from harness.store.run_comparison import differing_figures

# --- Pairs of the same cell in two stores, and the differences of their code and image versions.


#: Digest of an image's contents → the contents, if the store has them.
ContentsLookup = Callable[[str], Contents | None]
#: Keys of a manifest that do not influence runs, among them the notes on its parameters.
_DESCRIPTIVE_KEYS: dict[str, Any] = {"parameters": {"__all__": {role: {"note"} for role in ROLES}}} | dict.fromkeys(
    ("title", "project", "licence", "version", "build_time", "tested", "colour", "marker", "notes"), True
)
#: Maximum number of packages and programs that a cause names.
_MAX_NAMED = 4


@dataclass(frozen=True)
class CellPair:
    """A cell in the baseline and now; one of the two may be missing."""

    base: CellResult | None
    current: CellResult | None

    @property
    def cell(self) -> Cell:
        """The current cell, else that of the baseline."""
        result = self.current or self.base
        assert result is not None
        return result.cell

    @property
    def name(self) -> str:
        """For people: the scenario, the pair, and the parameters."""
        result = self.current or self.base
        assert result is not None
        return f"{result.cell.scenario.name} {result.name}"

    @property
    def has_same_key(self) -> bool:
        """Whether both have the same key, so that everything their runs depend on is the same."""
        return self.base is not None and self.current is not None and self.base.cell.key == self.current.cell.key


def match_cells(base: Sequence[CellResult], now: Sequence[CellResult], across: Collection[str] = ()) -> list[CellPair]:
    """Each cell of the baseline or of now, once; the current ones first, in their order.

    `across`: parameters whose values may differ. InputError if a store has several cells that differ in them alone.
    """
    older, newer = (_by_point(cells, across) for cells in (base, now))
    current_pairs = [CellPair(older.pop(point, None), result) for point, result in newer.items()]
    return [*current_pairs, *(CellPair(result, None) for result in older.values())]


def _by_point(cells: Sequence[CellResult], across: Collection[str]) -> dict[tuple[object, ...], CellResult]:
    by_point: dict[tuple[object, ...], CellResult] = {}
    for result in cells:
        parameters = {name: value for name, value in result.cell.parameters.items() if name not in across}
        point = point_of(result.cell.model_copy(update={"parameters": parameters}))
        if across and point in by_point:
            names = by_point[point].name, result.name
            raise InputError(
                f"--across {','.join(across)}: {names[0]} and {names[1]} of {result.cell.scenario.name} differ in it "
                "alone, and either may be the one to compare",
                "select cells of one value in each store",
            )
        by_point[point] = result
    return by_point


def differing_parameters(pairs: Sequence[CellPair]) -> list[str]:
    """Parameters that alone keep cells of the baseline and of now from being compared; sorted."""
    removed = [pair.base.cell for pair in pairs if pair.base is not None and pair.current is None]
    new = [pair.current.cell for pair in pairs if pair.current is not None and pair.base is None]
    names: set[str] = set()
    for before in removed:
        for after in new:
            alike = before.model_copy(update={"parameters": after.parameters})
            if point_of(alike) == point_of(after):
                names |= {name for name, _ in set(before.parameters.items()) ^ set(after.parameters.items())}
    return sorted(names)


def version_differences(pair: CellPair, lookups: tuple[ContentsLookup, ContentsLookup], ledger: Ledger) -> list[str]:
    """What differs between the code and image versions of a pair, in words, as far as the stores know.

    `lookups`: contents by digest, of the baseline and of now.
    """
    if pair.base is None or pair.current is None:
        return []
    base, now = pair.base, pair.current
    differences = [_with_names(text, base.cell, now.cell) for text in differing_components(base.cell, now.cell, ledger)]
    # The parameters of endpoints are part of the lab; naming the manifest helps whoever changed it.
    differences += _manifests(base.cell, now.cell)
    if base.runs and now.runs:
        differences += _contents(base.runs[0][0], now.runs[0][0], lookups)
        differences += _environment_differences(base.runs[0][0], now.runs[0][0])
    versions = [{measured.version for _, measured in result.runs if measured is not None} for result in (base, now)]
    if versions[0] != versions[1]:
        differences.append("the measuring code")
    return differences


def _with_names(text: str, base: Cell, now: Cell) -> str:
    """'the image of NAME' with the names that it had before and has now; other components as they are."""
    images = [
        {cell.client.name: cell.client_image, cell.server.name: cell.server_image}
        | {name: endpoint.image for name, endpoint in cell.others.items()}
        for cell in (base, now)
    ]
    player = text.removeprefix("the image of ")
    if player == text or not all(player in side for side in images):
        return text
    before, after = (side[player] for side in images)
    if before.name != after.name:
        return f"{text} ({before.name} → {after.name})"
    # The tag was moved to another image: digests alone tell them apart.
    digests = [image.identity.rpartition("@")[2].removeprefix("sha256:")[:12] for image in (before, after)]
    return f"{text} ({before.name}: {' → '.join(digests)})"


def _manifests(base: Cell, now: Cell) -> list[str]:
    differences = []
    for name, sides in _contestants(base, now).items():
        before, after = (side.model_dump(mode="json", exclude=_DESCRIPTIVE_KEYS) for side in sides)
        keys = [key for key in after if before.get(key) != after[key]]
        if "parameters" in keys:
            parameters = before["parameters"], after["parameters"]
            names = sorted(
                key for key in {**parameters[0], **parameters[1]} if parameters[0].get(key) != parameters[1].get(key)
            )
            keys = [*(key for key in keys if key != "parameters"), *names]
        if keys:
            differences.append(f"the manifest of {name} ({', '.join(keys)})")
    return differences


def _contestants(base: Cell, now: Cell) -> dict[str, tuple[Implementation, Implementation]]:
    before, after = (
        {
            implementation.name: implementation
            for role in ROLES
            for flow in range(len(cell.scenario.flows))
            for implementation in [cell.implementation(role, flow)]
        }
        for cell in (base, now)
    )
    return {name: (before[name], after[name]) for name in before if name in after}


def _contents(base: Run, now: Run, lookups: tuple[ContentsLookup, ContentsLookup]) -> list[str]:
    version_changes, images = compare_versions(base, now, lookups)
    texts = [_version_text(change) for change in version_changes[:_MAX_NAMED]]
    if len(version_changes) > _MAX_NAMED:
        texts.append(f"{len(version_changes) - _MAX_NAMED} more packages and programs")
    return [*texts, *(f"files of {image}" for image in images)]


def _version_text(change: VersionChange) -> str:
    before, after = (version or "none" for version in change.versions)
    # The version of a program is a digest, which people cannot read.
    versions = f" {before} → {after}" if max(len(before), len(after)) < 32 else ""
    return f"{change.name}{versions} in {change.image}"


def _environment_differences(base: Run, now: Run) -> list[str]:
    """Differences of the machines and harnesses, which are not part of any key."""
    differences = []
    if base.commit != now.commit:
        differences.append(f"the harness ({base.commit[:8] or 'unknown'} → {now.commit[:8] or 'unknown'})")
    if not base.cell.virtual_time and base.host.get("cpu") != now.host.get("cpu"):
        differences.append(f"the processor ({base.host.get('cpu')} → {now.host.get('cpu')})")
    return differences


# --- decision


ChangeStatus = Literal["same", "better", "worse", "differs", "cannot tell", "new", "gone"]
#: Order in which the standings of figures decide that of their cell, the gravest first.
STATUS_ORDER: tuple[ChangeStatus, ...] = ("differs", "worse", "cannot tell", "gone", "new", "better", "same")
#: Standings that fail the gate.
ALARMS: frozenset[ChangeStatus] = frozenset({"differs", "worse"})
#: Outcomes that do not count: the environment invalidated the run.
_INVALID = frozenset({"infrastructure"})
OUTCOME = "outcome"


@dataclass(frozen=True)
class MetricChange:
    """One metric of a cell, or the outcomes of its runs, in the baseline and now."""

    name: str
    """For people; `OUTCOME` for the outcomes of runs."""
    unit: str
    base: tuple[float, ...]
    """One value per run; for outcomes 1 for a failed run, else 0."""
    current: tuple[float, ...]
    status: ChangeStatus
    why: str
    """In words; empty if the values are explanation enough."""
    factor: float | None = None
    """Ratio to the baseline; None if it is not a finite number."""
    p: float | None = None
    """p-value, adjusted for all tests of the matrix and all evaluations of it; None if nothing was tested."""


@dataclass(frozen=True)
class Decision:
    """A pair with the decision on its change."""

    pair: CellPair
    status: ChangeStatus
    figures: tuple[MetricChange, ...] = ()
    exact: bool = False
    """Whether both sides have the same code and images in virtual time, so that all figures must be equal."""


@dataclass(frozen=True)
class _Trial:
    """One test of a pair."""

    pair: CellPair
    name: str
    unit: str
    sign: int
    """1 where more is worse, -1 where more is better."""
    base: tuple[float, ...]
    current: tuple[float, ...]
    comparison: Comparison | None
    """None for outcomes."""
    p: float | None


def decide(
    cell_pairs: Sequence[CellPair], metrics: Sequence[MetricName] = (), *, within: float, looks: int = 1
) -> list[Decision]:
    """Decide how each pair has changed. `metrics`: in addition to those of objectives and of the scenario's headline.

    `within`: factor − 1 up to which a figure counts as the same. `looks`: how often a matrix may be evaluated; each
    evaluation has an equal share of `ALPHA` (Bonferroni). ValueError for a `within` below 0.
    """
    if within < 0:
        raise ValueError("a tolerance is no negative number")
    trials = {index: _trials(pair, metrics) for index, pair in enumerate(cell_pairs) if _is_testable(pair)}
    all_trials = [trial for pair_trials in trials.values() for trial in pair_trials]
    adjusted = iter(None if p is None else min(1.0, p * looks) for p in adjust_holm([trial.p for trial in all_trials]))
    figures = {
        index: tuple(_figure(trial, next(adjusted), within) for trial in pair_trials)
        for index, pair_trials in trials.items()
    }
    return [_decide_pair(pair, figures.get(index)) for index, pair in enumerate(cell_pairs)]


def must_be_equal(pair: CellPair) -> bool:
    """Whether all figures of a pair must be equal: virtual time, one key, equal image contents, lab kernel and CPU."""
    if not pair.has_same_key or not pair.cell.deterministic or pair.base is None or pair.current is None:
        return False
    before, after = ([run for run, _ in result.runs] for result in (pair.base, pair.current))
    versions = {
        measured.version for result in (pair.base, pair.current) for _, measured in result.runs if measured is not None
    }
    platforms = {(tuple(sorted(run.contents.items())), run.lab_kernel, run.cpu) for run in (*before, *after)}
    return len(versions) == 1 and len(platforms) == 1


def _is_testable(pair: CellPair) -> bool:
    return pair.base is not None and pair.current is not None and not must_be_equal(pair)


def _decide_pair(pair: CellPair, figures: tuple[MetricChange, ...] | None) -> Decision:
    if pair.base is None or pair.current is None:
        return Decision(pair, "new" if pair.base is None else "gone")
    if figures is None:
        figures = tuple(_differing(pair.base, pair.current))
        return Decision(pair, "differs" if figures else "same", figures, exact=True)
    standings = {figure.status for figure in figures}
    return Decision(
        pair, next((standing for standing in STATUS_ORDER if standing in standings), "cannot tell"), figures
    )


# --- the same code and images


def _differing(base: CellResult, now: CellResult) -> list[MetricChange]:
    """Figures that differ in repetitions that both sides have."""
    older = {run.repetition: (run, measured) for run, measured in base.runs}
    figures = []
    for run, measured in now.runs:
        if (former := older.get(run.repetition)) is not None:
            figures += _run_differences(former, (run, measured))
    return figures


def _run_differences(base: tuple[Run, MeasuredRun | None], now: tuple[Run, MeasuredRun | None]) -> list[MetricChange]:
    number, flows = now[0].repetition, len(now[0].cell.scenario.flows)
    ends = [proven_outcome(*side).status for side in (base, now)]
    if _INVALID & set(ends):
        return []
    if ends[0] != ends[1]:
        return [_difference(OUTCOME, (0.0,), (1.0,), f"repetition {number}: {ends[0]} before, {ends[1]} now")]
    return [
        _difference(figure.name.text(flows), both[:1], both[1:], f"repetition {number}", figure.unit)
        for figure in differing_figures(base[1], now[1])
        if (both := figure.both) is not None
    ]


def _difference(name: str, base: tuple[float, ...], now: tuple[float, ...], why: str, unit: str = "") -> MetricChange:
    return MetricChange(name, unit, base, now, "differs", f"{why}; the bits are the same")


# --- other code or images, or real time


def gate_metrics(scenario: Scenario, requested: Sequence[MetricName] = ()) -> list[MetricName]:
    """The metrics that the gate compares: of the objectives, of the headline, of the repeat, and the requested ones."""
    names = [MetricName.parse(objective.metric) for objective in scenario.objectives]
    names += headline_metrics(scenario)
    repeated = [number for number, flow in enumerate(scenario.flows) if flow.repeat_after is not None]
    names += [MetricName("completion", number, "repeat") for number in repeated]
    distinct = {
        name._replace(flow=0) if _of_flow(name) and len(scenario.flows) == 1 else name: None
        for name in [*names, *requested]
    }
    by_key: dict[object, MetricName] = {}
    for name in distinct:
        by_key.setdefault(name.key, name)
    return [name for name in by_key.values() if (metric := find_metric(name.metric)) and metric.better != "neutral"]


def _of_flow(name: MetricName) -> bool:
    metric = find_metric(name.metric)
    return metric is not None and metric.layer == "flow" and name.flow is None


def _trials(pair: CellPair, requested: Sequence[MetricName]) -> list[_Trial]:
    assert pair.base is not None and pair.current is not None
    trials = [_outcome_trial(pair)]
    for name in gate_metrics(pair.cell.scenario, requested):
        metric = find_metric(name.metric)
        base, now = (tuple(result.values(*name)) for result in (pair.base, pair.current))
        if metric is None or not base or not now:
            continue
        comparison = compare(now, base)
        trials.append(
            _Trial(
                pair,
                name.text(len(pair.cell.scenario.flows)),
                metric.unit,
                -1 if metric.better == "higher" else 1,
                base,
                now,
                comparison,
                comparison.p if is_random(pair.cell) else None,
            )
        )
    return trials


def _outcome_trial(pair: CellPair) -> _Trial:
    base, now = (_failures(result) for result in (pair.base, pair.current))
    return _Trial(pair, OUTCOME, "", 1, base, now, None, _fisher(base, now) if is_random(pair.cell) else None)


def _failures(result: CellResult | None) -> tuple[float, ...]:
    """1 for each run that did not complete, or in which a check of its scenario failed, else 0."""
    assert result is not None
    return tuple(
        float(end != "completed" or any(check.status == "failed" for check in (measured.checks if measured else ())))
        for run, measured in result.runs
        if (end := proven_outcome(run, measured).status) not in _INVALID
    )


def _fisher(base: Sequence[float], now: Sequence[float]) -> float | None:
    """The p-value of the difference in failures (Fisher's exact test); None if no run failed, or all did."""
    failed = sum(base) + sum(now)
    if not base or not now or failed in (0, len(base) + len(now)):
        return None
    # The import is slow and rarely needed.
    from scipy.stats import fisher_exact

    table = np.array([[sum(side), len(side) - sum(side)] for side in (base, now)], np.int64)
    return float(fisher_exact(table).pvalue)


def _figure(trial: _Trial, p: float | None, within: float) -> MetricChange:
    standing, why = (
        _judge_outcomes(trial, p) if trial.comparison is None else _judge_values(trial, trial.comparison, p, within)
    )
    factor = None if trial.comparison is None else trial.comparison.factor
    return MetricChange(trial.name, trial.unit, trial.base, trial.current, standing, why, factor, p)


def _judge_outcomes(trial: _Trial, p: float | None) -> tuple[ChangeStatus, str]:
    base, now = trial.base, trial.current
    if not base or not now:
        return "cannot tell", "no run of " + ("the baseline" if not base else "now") + " that the ground did not spoil"
    before, after = sum(base) / len(base), sum(now) / len(now)
    text = f"{sum(base):.0f} of {len(base)} runs failed before, {sum(now):.0f} of {len(now)} now"
    if before == after:
        return "same", text if after else ""
    direction: ChangeStatus = "worse" if after > before else "better"
    all_of_them = {before, after} == {0.0, 1.0} and min(len(base), len(now)) > 1
    if p is None or p <= ALPHA or all_of_them:
        return direction, text
    return "cannot tell", text


def _judge_values(trial: _Trial, comparison: Comparison, p: float | None, within: float) -> tuple[ChangeStatus, str]:
    smallest, largest = _ratios(trial)
    if_higher: ChangeStatus = "worse" if trial.sign > 0 else "better"
    if_lower: ChangeStatus = "better" if trial.sign > 0 else "worse"
    high, low = 1 + within, 1 / (1 + within)
    if not is_random(trial.pair.cell) or comparison.constant:
        if smallest > high or largest < low:
            return (if_higher if smallest > high else if_lower), ""
        if low <= smallest and largest <= high:
            return "same", ""
        return _middle(comparison, low, high, "some values are further off than the tolerance, and some are not")
    if p is not None and p <= ALPHA and (comparison.factor is None or not low <= comparison.factor <= high):
        return (if_higher if _is_higher(trial, comparison) else if_lower), ""
    if (comparison.coverage >= COVERAGE and low <= comparison.low and comparison.high <= high) or (
        p is not None and p <= ALPHA
    ):
        return "same", ""
    if low <= smallest and largest <= high:
        return "same", ""
    return "cannot tell", f"{len(trial.current)} beside {len(trial.base)} runs do not tell; more would"


def _middle(comparison: Comparison, low: float, high: float, why: str) -> tuple[ChangeStatus, str]:
    return ("same", "") if comparison.factor is not None and low <= comparison.factor <= high else ("cannot tell", why)


def _ratios(trial: _Trial) -> tuple[float, float]:
    """The smallest and the largest ratio of a current value to a baseline value."""
    return ratio(min(trial.current), max(trial.base)), ratio(max(trial.current), min(trial.base))


def _is_higher(trial: _Trial, comparison: Comparison) -> bool:
    if comparison.factor is not None:
        return comparison.factor > 1
    return sorted(trial.current)[len(trial.current) // 2] > sorted(trial.base)[len(trial.base) // 2]

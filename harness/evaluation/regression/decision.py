"""What has become of each figure of a matrix since its baseline.

* **Same bits, virtual time.** Every figure of a repetition is the same to the last digit; where one is not, the cell
  *differs*, whatever the tolerance.
* **No chance in it** (`harness.evaluation.regression.decision`). A metric has changed when every value of now is off
  every value of the baseline by more than the tolerance, to the same side.
* **Chance in it.** A metric has changed when its Hodges–Lehmann factor is beyond the tolerance and the test of Mann and
  Whitney shows it at `ALPHA`, adjusted over all tests of the matrix (Holm): the probability that a matrix in which
  nothing changed has one false alarm or more is at most `ALPHA`. It is the same when the factor's interval lies within
  the tolerance, and else cannot be told: more runs would tell.
* **Outcomes.** More runs that fail are judged alike, by Fisher's exact test, in the same family. A cell all of whose
  runs fail, two at least, where none of two or more did, is worse without a test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.analysis.metrics.registry import find
from harness.engine.images.contents import Contents
from harness.evaluation.cell_result import CellResult, point_of
from harness.evaluation.ranking import headline
from harness.outcome import Cell, MeasuredRun, Run, proven_outcome
from harness.planning import sampling
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import ROLES
from harness.scenario.schema import Implementation, Scenario
from harness.stats.intervals import COVERAGE
from harness.stats.two_sample import ALPHA, Comparison, compare, holm, ratio
from harness.store.build_diff import VersionChange, changes, other_bits
from harness.store.identity import Ledger
from harness.store.run_comparison import other_figures

# --- Cells of two stores that are the same to a person, and in what their bits differ.


#: Digest of an image's contents → the contents, as a store knows them.
Known = Callable[[str], Contents | None]
#: Of a manifest: what is said of an implementation, and makes no other run.
_WORDS = {"title", "project", "licence", "version", "build_time", "tested", "colour", "marker", "notes"}
#: Packages and programs that a cause names at most.
_NAMED = 4


@dataclass(frozen=True)
class Pair:
    """A cell in the baseline and now; one of them may be missing, not both."""

    base: CellResult | None
    now: CellResult | None

    @property
    def cell(self) -> Cell:
        """The one of now, where there is one."""
        found = self.now or self.base
        assert found is not None
        return found.cell

    @property
    def name(self) -> str:
        """For people: the scenario, the pair, and what was asked."""
        found = self.now or self.base
        assert found is not None
        return f"{found.cell.scenario.name} {found.name}"

    @property
    def same_bits(self) -> bool:
        """Whether both have the same key: all that their runs depend on is the same."""
        return self.base is not None and self.now is not None and self.base.cell.key == self.now.cell.key


def pairs(base: Sequence[CellResult], now: Sequence[CellResult]) -> list[Pair]:
    """Each cell that is in either, once; those of now first, in their order."""
    older = {point_of(result.cell): result for result in base}
    found = [Pair(older.pop(point_of(result.cell), None), result) for result in now]
    return [*found, *(Pair(result, None) for result in older.values())]


def causes(pair: Pair, known: tuple[Known, Known], ledger: Ledger) -> list[str]:
    """In what the bits of a pair differ, in words, as far as the stores know; `known`: of the baseline, and of now."""
    if pair.base is None or pair.now is None:
        return []
    one, other = pair.base, pair.now
    found = list(other_bits(one.cell, other.cell, ledger))
    # What endpoints are told is in the lab: that a manifest says it is nearer to whoever changed it.
    found += _manifests(one.cell, other.cell)
    if one.runs and other.runs:
        found += _contents(one.runs[0][0], other.runs[0][0], known)
        found += _around(one.runs[0][0], other.runs[0][0])
    versions = [{each.version for _, each in result.runs if each is not None} for result in (one, other)]
    if versions[0] != versions[1]:
        found.append("the measuring code")
    return found


def _manifests(one: Cell, other: Cell) -> list[str]:
    found = []
    for name, sides in _contestants(one, other).items():
        before, after = (side.model_dump(mode="json", exclude=_WORDS) for side in sides)
        keys = [key for key in after if before.get(key) != after[key]]
        if "parameters" in keys:
            both = before["parameters"], after["parameters"]
            names = sorted(key for key in {**both[0], **both[1]} if both[0].get(key) != both[1].get(key))
            keys = [*(key for key in keys if key != "parameters"), *names]
        if keys:
            found.append(f"the manifest of {name} ({', '.join(keys)})")
    return found


def _contestants(one: Cell, other: Cell) -> dict[str, tuple[Implementation, Implementation]]:
    before, after = (
        {each.name: each for role in ROLES for flow in range(len(cell.scenario.flows))
         for each in [cell.implementation(role, flow)]}
        for cell in (one, other)
    )  # fmt: skip
    return {name: (before[name], after[name]) for name in before if name in after}


def _contents(one: Run, other: Run, known: tuple[Known, Known]) -> list[str]:
    found, beside = changes(one, other, known)
    said = [_said(change) for change in found[:_NAMED]]
    if len(found) > _NAMED:
        said.append(f"{len(found) - _NAMED} more packages and programs")
    return [*said, *(f"files of {image}" for image in beside)]


def _said(change: VersionChange) -> str:
    before, after = (version or "none" for version in change.versions)
    # Programs have digests for versions: that they differ is all there is to say.
    told = f" {before} → {after}" if max(len(before), len(after)) < 32 else ""
    return f"{change.name}{told} in {change.image}"


def _around(one: Run, other: Run) -> list[str]:
    """What the two machines and harnesses differ in, which no key has."""
    found = []
    if one.commit != other.commit:
        found.append(f"the harness ({one.commit[:8] or 'unknown'} → {other.commit[:8] or 'unknown'})")
    if not one.cell.virtual_time and one.host.get("cpu") != other.host.get("cpu"):
        found.append(f"the processor ({one.host.get('cpu')} → {other.host.get('cpu')})")
    return found


# --- Whether chance has a part in what a cell's figures come to.


#: Traffic whose packets leave when their law says, whatever the seed.
_REGULAR = frozenset({"bulk", "cbr"})


def plays(cell: Cell) -> bool:
    """Whether another seed, or other bits that change nothing of substance, may give other figures.

    In real time always. In virtual time where the scenario draws something (loss, damage, jitter, a service process,
    RED's early drops, ranges, a generator's gaps), and where several flows share a queue, so that the order of two
    packets decides whose is dropped.
    """
    scenario = cell.scenario
    return (
        not cell.deterministic
        or len(scenario.flows) > 1
        or sampling.is_random(scenario)
        or any(flow.traffic.model not in _REGULAR for flow in scenario.flows)
    )


# --- decision


Standing = Literal["same", "better", "worse", "differs", "cannot tell", "new", "gone"]
#: The gravest first: what a cell's figures come to together.
GRAVITY: tuple[Standing, ...] = ("differs", "worse", "cannot tell", "gone", "new", "better", "same")
#: Those that keep the gate shut.
ALARMS: frozenset[Standing] = frozenset({"differs", "worse"})
#: Outcomes that are nobody's figure: the ground spoilt the run.
_SPOILT = frozenset({"infrastructure"})
OUTCOME = "outcome"


@dataclass(frozen=True)
class MetricChange:
    """One metric of a cell in the baseline and now, or how its runs ended."""

    name: str
    """For people; `OUTCOME` for how runs ended."""
    unit: str
    base: tuple[float, ...]
    """One value a run; of outcomes 1 for a run that failed, else 0."""
    now: tuple[float, ...]
    standing: Standing
    why: str
    """In words; empty where the values say all."""
    factor: float | None = None
    """How many times the baseline it is; None where that is no finite number."""
    p: float | None = None
    """Adjusted for all tests of the matrix and all looks at it; None where nothing was tested."""


@dataclass(frozen=True)
class Decided:
    """A pair with what has become of it."""

    pair: Pair
    standing: Standing
    figures: tuple[MetricChange, ...] = ()
    exact: bool = False
    """Whether both sides are of the same bits in virtual time, so that all figures had to be the same."""


@dataclass(frozen=True)
class _Trial:
    """Something that is to be decided of a pair."""

    pair: Pair
    name: str
    unit: str
    sign: int
    """1 where more is worse, -1 where more is better."""
    base: tuple[float, ...]
    now: tuple[float, ...]
    comparison: Comparison | None
    """None of outcomes."""
    p: float | None


def decide(found: Sequence[Pair], asked: Sequence[MetricName] = (), *, within: float, looks: int = 1) -> list[Decided]:
    """What has become of each pair. `asked`: metrics beside those of objectives and of the scenario's headline.

    `within`: factor − 1 up to which a figure counts as the same. `looks`: how often a matrix may be looked at until it
    can be told; each is given its share of `ALPHA` (Bonferroni). ValueError for a `within` below 0.
    """
    if within < 0:
        raise ValueError("a tolerance is no negative number")
    trials = {index: _trials(pair, asked) for index, pair in enumerate(found) if _open(pair)}
    every = [trial for one in trials.values() for trial in one]
    adjusted = iter(None if p is None else min(1.0, p * looks) for p in holm([trial.p for trial in every]))
    figures = {index: tuple(_figure(trial, next(adjusted), within) for trial in one) for index, one in trials.items()}
    return [_decided(pair, figures.get(index)) for index, pair in enumerate(found)]


def exact(pair: Pair) -> bool:
    """Whether every figure of both has to be the same: virtual time, one key, the same in all images and the lab."""
    if not pair.same_bits or not pair.cell.deterministic or pair.base is None or pair.now is None:
        return False
    before, after = ([run for run, _ in result.runs] for result in (pair.base, pair.now))
    versions = {each.version for result in (pair.base, pair.now) for _, each in result.runs if each is not None}
    bits = {(tuple(sorted(run.contents.items())), run.lab_kernel, run.cpu) for run in (*before, *after)}
    return len(versions) == 1 and len(bits) == 1


def _open(pair: Pair) -> bool:
    return pair.base is not None and pair.now is not None and not exact(pair)


def _decided(pair: Pair, figures: tuple[MetricChange, ...] | None) -> Decided:
    if pair.base is None or pair.now is None:
        return Decided(pair, "new" if pair.base is None else "gone")
    if figures is None:
        figures = tuple(_differing(pair.base, pair.now))
        return Decided(pair, "differs" if figures else "same", figures, exact=True)
    standings = {one.standing for one in figures}
    return Decided(pair, next((one for one in GRAVITY if one in standings), "cannot tell"), figures)


# --- the same bits


def _differing(base: CellResult, now: CellResult) -> list[MetricChange]:
    """What is not the same in repetitions that both have."""
    older = {run.repetition: (run, measured) for run, measured in base.runs}
    found = []
    for run, measured in now.runs:
        if (there := older.get(run.repetition)) is not None:
            found += _parted(there, (run, measured))
    return found


def _parted(
    one: tuple[Run, MeasuredRun | None], other: tuple[Run, MeasuredRun | None]
) -> list[MetricChange]:  # fmt: skip
    number, flows = other[0].repetition, len(other[0].cell.scenario.flows)
    ends = [proven_outcome(*side).status for side in (one, other)]
    if _SPOILT & set(ends):
        return []
    if ends[0] != ends[1]:
        return [_told(OUTCOME, (0.0,), (1.0,), f"repetition {number}: {ends[0]} before, {ends[1]} now")]
    return [
        _told(figure.name.text(flows), both[:1], both[1:], f"repetition {number}", figure.unit)
        for figure in other_figures(one[1], other[1])
        if (both := figure.both) is not None
    ]


def _told(name: str, base: tuple[float, ...], now: tuple[float, ...], why: str, unit: str = "") -> MetricChange:
    return MetricChange(name, unit, base, now, "differs", f"{why}; the bits are the same")


# --- other bits, or real time


def gated(scenario: Scenario, asked: Sequence[MetricName] = ()) -> list[MetricName]:
    """The metrics that the gate looks at: of the objectives, of the headline, of the repeat, and those asked for."""
    names = [MetricName.parse(objective.metric) for objective in scenario.objectives]
    names += headline(scenario)
    again = [number for number, flow in enumerate(scenario.flows) if flow.repeat_after is not None]
    names += [MetricName("completion", number, "repeat") for number in again]
    one = {name._replace(flow=0) if _of_flow(name) and len(scenario.flows) == 1 else name: None
           for name in [*names, *asked]}  # fmt: skip
    seen: dict[object, MetricName] = {}
    for name in one:
        seen.setdefault(name.key, name)
    return [name for name in seen.values() if (metric := find(name.metric)) and metric.better != "neutral"]


def _of_flow(name: MetricName) -> bool:
    metric = find(name.metric)
    return metric is not None and metric.layer == "flow" and name.flow is None


def _trials(pair: Pair, asked: Sequence[MetricName]) -> list[_Trial]:
    assert pair.base is not None and pair.now is not None
    found = [_ends(pair)]
    for name in gated(pair.cell.scenario, asked):
        metric = find(name.metric)
        base, now = (tuple(result.values(*name)) for result in (pair.base, pair.now))
        if metric is None or not base or not now:
            continue
        comparison = compare(now, base)
        found.append(
            _Trial(
                pair, name.text(len(pair.cell.scenario.flows)), metric.unit, -1 if metric.better == "higher" else 1,
                base, now, comparison, comparison.p if plays(pair.cell) else None,
            )
        )  # fmt: skip
    return found


def _ends(pair: Pair) -> _Trial:
    base, now = (_failed(result) for result in (pair.base, pair.now))
    return _Trial(pair, OUTCOME, "", 1, base, now, None, _fisher(base, now) if plays(pair.cell) else None)


def _failed(result: CellResult | None) -> tuple[float, ...]:
    """1 for each run that broke off, or in which a check of its scenario failed."""
    assert result is not None
    return tuple(
        float(end != "completed" or any(one.status == "failed" for one in (measured.checks if measured else ())))
        for run, measured in result.runs
        if (end := proven_outcome(run, measured).status) not in _SPOILT
    )


def _fisher(base: Sequence[float], now: Sequence[float]) -> float | None:
    """The p of failures on one side beside the other (Fisher's exact test); None where no run failed, or all did."""
    failed = sum(base) + sum(now)
    if not base or not now or failed in (0, len(base) + len(now)):
        return None
    # It takes a while to import, and few need it.
    from scipy.stats import fisher_exact

    table = np.array([[sum(side), len(side) - sum(side)] for side in (base, now)], np.int64)
    return float(fisher_exact(table).pvalue)


def _figure(trial: _Trial, p: float | None, within: float) -> MetricChange:
    standing, why = _of_ends(trial, p) if trial.comparison is None else _of_values(trial, trial.comparison, p, within)
    factor = None if trial.comparison is None else trial.comparison.factor
    return MetricChange(trial.name, trial.unit, trial.base, trial.now, standing, why, factor, p)


def _of_ends(trial: _Trial, p: float | None) -> tuple[Standing, str]:
    base, now = trial.base, trial.now
    if not base or not now:
        return "cannot tell", "no run of " + ("the baseline" if not base else "now") + " that the ground did not spoil"
    before, after = sum(base) / len(base), sum(now) / len(now)
    said = f"{sum(base):.0f} of {len(base)} runs failed before, {sum(now):.0f} of {len(now)} now"
    if before == after:
        return "same", said if after else ""
    moved: Standing = "worse" if after > before else "better"
    all_of_them = {before, after} == {0.0, 1.0} and min(len(base), len(now)) > 1
    if p is None or p <= ALPHA or all_of_them:
        return moved, said
    return "cannot tell", said


def _of_values(trial: _Trial, found: Comparison, p: float | None, within: float) -> tuple[Standing, str]:
    least, most = _ratios(trial)
    up: Standing = "worse" if trial.sign > 0 else "better"
    down: Standing = "better" if trial.sign > 0 else "worse"
    high, low = 1 + within, 1 / (1 + within)
    if not plays(trial.pair.cell) or found.constant:
        if least > high or most < low:
            return (up if least > high else down), ""
        if low <= least and most <= high:
            return "same", ""
        return _middle(found, low, high, "some values are further off than the tolerance, and some are not")
    if p is not None and p <= ALPHA and (found.factor is None or not low <= found.factor <= high):
        return (up if _above(trial, found) else down), ""
    if (found.coverage >= COVERAGE and low <= found.low and found.high <= high) or (p is not None and p <= ALPHA):
        return "same", ""
    if low <= least and most <= high:
        return "same", ""
    return "cannot tell", f"{len(trial.now)} beside {len(trial.base)} runs do not tell; more would"


def _middle(found: Comparison, low: float, high: float, why: str) -> tuple[Standing, str]:
    return ("same", "") if found.factor is not None and low <= found.factor <= high else ("cannot tell", why)


def _ratios(trial: _Trial) -> tuple[float, float]:
    """The smallest and the largest ratio of a value of now to one of the baseline."""
    return ratio(min(trial.now), max(trial.base)), ratio(max(trial.now), min(trial.base))


def _above(trial: _Trial, found: Comparison) -> bool:
    if found.factor is not None:
        return found.factor > 1
    return sorted(trial.now)[len(trial.now) // 2] > sorted(trial.base)[len(trial.base) // 2]

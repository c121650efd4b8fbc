"""Verdicts: the objectives of a scenario against the intervals of its completed runs. Pure.

An objective passes if the whole interval meets it, fails if the whole interval misses it, and is inconclusive
otherwise. A transfer that failed, because it timed out or its connection ended, is an observation with an infinitely
bad value. A crash or a wrong file is no observation, and keeps a cell from passing. A failure of the environment does
not count. Without objectives, a cell with an observation is measured. A scenario with checks passes if they hold
(`harness.analysis.interop`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.analysis.metric_registry import unit_of
from harness.analysis.objectives import convert
from harness.formatting import format_beyond
from harness.outcome import (
    Interval,
    MeasuredRun,
    Measurement,
    ObjectiveVerdict,
    Run,
    Verdict,
    VerdictStatus,
    proven_outcome,
)
from harness.scenario.schema import Objective, Scenario
from harness.stats.intervals import interval

#: Statuses of runs that are faults of an implementation, the gravest first.
_FAULTS = ("wrong_file", "crashed", "log_overflow")


@dataclass(frozen=True)
class _JudgedRun:
    """A classified run."""

    kind: Literal["observed", "unsupported", "fault", "infrastructure"]
    reason: str
    detail: str
    run: Run
    measured: MeasuredRun | None

    @property
    def failed_transfer(self) -> bool:
        return self.kind == "observed" and self.reason != "completed"


def judge(scenario: Scenario, runs: Sequence[tuple[Run, MeasuredRun | None]], paths: Sequence[str] = ()) -> Verdict:
    """The verdict on one cell.

    `paths`: the paths of the runs in the store, as long as `runs`, or empty. Those of the runs that decide the verdict
    become its evidence. Raises ValueError for another length.
    """
    if paths and len(paths) != len(runs):
        raise ValueError(f"{len(paths)} paths for {len(runs)} runs")
    if scenario.checks:
        # Few scenarios have checks, and what makes them takes 0.15 s of CPU to import.
        from harness.analysis.interop import verdict_of

        interop = verdict_of(runs)
        if interop.status != "pass" or not scenario.objectives:
            return interop.model_copy(update={"evidence": tuple(paths)})
    judged = [_classify(run, measured) for run, measured in runs]
    observed = [judged_run for judged_run in judged if judged_run.kind == "observed"]
    verdict = (
        _verdict_of_observations(scenario, judged, observed) if observed else _verdict_without_observations(judged)
    )
    mask = [judged_run.kind == "observed" or not observed for judged_run in judged]
    evidence = tuple(path for path, counts in zip(paths, mask, strict=False) if counts)
    return verdict.model_copy(update={"evidence": evidence})


def _classify(run: Run, measured: MeasuredRun | None) -> _JudgedRun:
    outcome = proven_outcome(run, measured)
    if outcome.status == "unsupported":
        return _JudgedRun("unsupported", _code("unsupported", outcome.role), outcome.detail, run, measured)
    if outcome.status in _FAULTS:
        return _JudgedRun("fault", _code(outcome.status, outcome.role), outcome.detail, run, measured)
    if outcome.status == "infrastructure":
        # A failure that measuring found afterwards has its own code.
        code = outcome.reason if run.outcome.status != "infrastructure" else "infrastructure"
        return _JudgedRun("infrastructure", code, outcome.detail or outcome.reason, run, measured)
    code = outcome.status if outcome.status in ("completed", "timed_out") else _code(outcome.status, outcome.role)
    return _JudgedRun("observed", code, outcome.detail, run, measured)


def _code(status: str, role: str | None) -> str:
    return f"{status}_{role}" if role else status


def _verdict_without_observations(judged: Sequence[_JudgedRun]) -> Verdict:
    """The verdict without any observation: it says why."""
    if not judged:
        return Verdict(status="error", reason="no_runs", sentence="The cell has not been run.")
    kind = next(
        kind
        for kind in ("unsupported", "fault", "infrastructure")
        if any(judged_run.kind == kind for judged_run in judged)
    )
    matching = [judged_run for judged_run in judged if judged_run.kind == kind]
    reason, count = Counter(judged_run.reason for judged_run in matching).most_common(1)[0]
    detail = next(
        (judged_run.detail for judged_run in matching if judged_run.reason == reason and judged_run.detail), ""
    )
    status: VerdictStatus = "unsupported" if kind == "unsupported" else "error"
    text = f"{_reason_text(reason)} in {count} of {len(judged)} runs"
    return Verdict(status=status, reason=reason, sentence=_sentence(text, detail))


def _verdict_of_observations(
    scenario: Scenario, judged: Sequence[_JudgedRun], observed: Sequence[_JudgedRun]
) -> Verdict:
    verdicts = tuple(_objective(objective, len(scenario.flows), observed) for objective in scenario.objectives)
    unfinished = [judged_run for judged_run in observed if judged_run.failed_transfer]
    if not verdicts:
        return _without_objectives(scenario, judged, observed, unfinished)
    failed = [verdict for verdict in verdicts if verdict.verdict == "fail"]
    faults = [judged_run for judged_run in judged if judged_run.kind in ("fault", "unsupported")]
    inconclusive = [verdict for verdict in verdicts if verdict.verdict == "inconclusive"]
    tail = _failed_transfers_text(unfinished, observed) + _uncounted_text(judged)
    if failed:
        worst = max(failed, key=relative_miss)
        if worst.observed is not None and math.isinf(worst.observed.median):
            reason, sentence = _not_finished(scenario, unfinished, len(observed))
            sentence += f", so {worst.demanded} is missed"
            return _verdict("fail", reason, sentence + _uncounted_text(judged), verdicts)
        return _verdict("fail", f"{worst.metric}_missed", _describe(worst) + tail, verdicts)
    if faults:
        reason, count = Counter(judged_run.reason for judged_run in faults).most_common(1)[0]
        detail = next(
            (judged_run.detail for judged_run in faults if judged_run.reason == reason and judged_run.detail), ""
        )
        text = f"{_reason_text(reason)} in {count} of {len(judged)} runs"
        sentence = _sentence(text, detail).removesuffix(".") + _failed_transfers_text(unfinished, observed)
        return _verdict("inconclusive", reason, sentence, verdicts)
    if inconclusive:
        missing = next((verdict for verdict in inconclusive if verdict.observed is None), None)
        if missing is not None:
            if any(_measured(judged_run, missing.metric, len(scenario.flows)) is not None for judged_run in observed):
                sentence = f"{missing.demanded} is in a unit that {missing.metric} does not convert to" + tail
                return _verdict("inconclusive", "unit_mismatch", sentence, verdicts)
            sentence = f"{missing.metric} was measured in none of {len(observed)} runs" + tail
            return _verdict("inconclusive", "not_observed", sentence, verdicts)
        sentence = _describe(inconclusive[0]) + "; more repetitions can tell" + tail
        return _verdict("inconclusive", "interval_straddles", sentence, verdicts)
    if len(unfinished) == len(observed):
        # The objectives are met, but no run transferred everything: a repeat failed, for example.
        reason, sentence = _not_finished(scenario, unfinished, len(observed))
        return _verdict("fail", reason, sentence + _uncounted_text(judged), verdicts)
    nearest = min(verdicts, key=_margin)
    return _verdict("pass", "objectives_met", f"All {len(verdicts)} met; {_describe(nearest)}" + tail, verdicts)


def _without_objectives(
    scenario: Scenario, judged: Sequence[_JudgedRun], observed: Sequence[_JudgedRun], unfinished: Sequence[_JudgedRun]
) -> Verdict:
    if len(unfinished) == len(observed):
        reason, sentence = _not_finished(scenario, unfinished, len(observed))
        return _verdict("fail", reason, sentence + _uncounted_text(judged), ())
    sentence = (
        "The scenario has no objectives; the figures are reported"
        + _failed_transfers_text(unfinished, observed)
        + _uncounted_text(judged)
    )
    return _verdict("measured", "no_objectives", sentence, ())


def _verdict(status: VerdictStatus, reason: str, sentence: str, objectives: tuple[ObjectiveVerdict, ...]) -> Verdict:
    return Verdict(status=status, reason=reason, sentence=f"{sentence}.", objectives=objectives)


def _objective(objective: Objective, flows: int, observed: Sequence[_JudgedRun]) -> ObjectiveVerdict:
    """Compare one objective with the runs in which its metric is known."""
    at_most = objective.at_most is not None
    values = [value for judged_run in observed if (value := _value(judged_run, objective, flows, at_most)) is not None]
    estimate = interval(values) if values else None
    status: VerdictStatus = "inconclusive"
    if estimate is not None:
        met = [
            value <= objective.bound if at_most else value >= objective.bound for value in (estimate.low, estimate.high)
        ]
        status = "pass" if all(met) else "inconclusive" if any(met) else "fail"
    return ObjectiveVerdict(
        metric=objective.metric,
        demanded=str(objective),
        bound=objective.bound,
        at_most=at_most,
        unit=objective.unit,
        observed=estimate,
        verdict=status,
    )


def _value(judged_run: _JudgedRun, objective: Objective, flows: int, at_most: bool) -> float | None:
    """The metric in the objective's unit; infinitely bad where the transfer failed before reaching it."""
    measurement = _measured(judged_run, objective.metric, flows)
    if measurement is not None:
        # Stored scenarios may have plain numbers, which are in the metric's own unit.
        return (
            measurement.value
            if objective.unit == "1"
            else convert(measurement.value, unit_of(measurement), objective.unit)
        )
    if judged_run.failed_transfer:
        return math.inf if at_most else -math.inf
    return None


def _measured(judged_run: _JudgedRun, metric: str, flows: int) -> Measurement | None:
    return None if judged_run.measured is None else judged_run.measured.written(metric, flows)


def relative_miss(verdict: ObjectiveVerdict) -> float:
    """How far the median is on the wrong side, relative to the bound; negative if the bound is met."""
    if verdict.observed is None:
        return -math.inf
    distance = verdict.observed.median - verdict.bound
    return (distance if verdict.at_most else -distance) / (abs(verdict.bound) or 1.0)


def _margin(verdict: ObjectiveVerdict) -> float:
    return -relative_miss(verdict)


def _describe(verdict: ObjectiveVerdict) -> str:
    """Observed against demanded: "milestone_2MB: 4.12 s [4.02, 4.31], n = 5, demanded ≤ 3 s: 37 % over"."""
    assert verdict.observed is not None
    demanded = verdict.demanded.removeprefix(verdict.metric).strip()
    text = f"{verdict.metric}: {_interval(verdict.observed, verdict.unit)}, demanded {demanded}"
    excess = relative_miss(verdict)
    if verdict.verdict == "fail" and math.isfinite(excess):
        text += f": {format_beyond(100 * excess, 0, 0)}% {'over' if verdict.at_most else 'under'}"
    return text


def _interval(estimate: Interval, unit: str) -> str:
    suffix = "" if unit == "1" else f" {unit}"
    if estimate.n == 1:
        return f"{_number(estimate.median)}{suffix}, n = 1 (no interval)"
    return (
        f"median {_number(estimate.median)}{suffix} [{_number(estimate.low)}, {_number(estimate.high)}], "
        f"n = {estimate.n}"
    )


def _number(value: float) -> str:
    if math.isinf(value):
        return "not reached"
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"


def _not_finished(scenario: Scenario, unfinished: Sequence[_JudgedRun], runs: int) -> tuple[str, str]:
    """(reason code, sentence) of failed transfers, for their most frequent reason."""
    reason, count = Counter(judged_run.reason for judged_run in unfinished).most_common(1)[0]
    if reason == "timed_out":
        return reason, f"The transfer did not finish within {scenario.timeout} in {count} of {runs} runs"
    detail = next(judged_run.detail for judged_run in unfinished if judged_run.reason == reason)
    return reason, f"{_reason_text(reason)} in {count} of {runs} runs: {detail.rstrip('.')}"


def _failed_transfers_text(unfinished: Sequence[_JudgedRun], observed: Sequence[_JudgedRun]) -> str:
    """Runs with failed transfers, which count as infinitely bad, as the end of a sentence."""
    reasons = Counter(judged_run.reason for judged_run in unfinished)
    return "".join(f"; {_reason_text(reason).lower()} {count} of {len(observed)}" for reason, count in reasons.items())


def _uncounted_text(judged: Sequence[_JudgedRun]) -> str:
    """Runs that the verdict does not depend on, as the end of a sentence."""
    reasons = Counter(judged_run.reason for judged_run in judged if judged_run.kind != "observed")
    return "".join(f"; not counted: {reason} {count} of {len(judged)}" for reason, count in reasons.items())


def _reason_text(reason: str) -> str:
    """A reason code as the start of a sentence."""
    name, _, role = reason.rpartition("_")
    if role in ("client", "server", "sim", "harness"):
        return f"{name.replace('_', ' ').capitalize()} ({role})"
    return reason.replace("_", " ").capitalize()


def _sentence(text: str, detail: str) -> str:
    return f"{text}: {detail.rstrip('.')}." if detail else f"{text}."

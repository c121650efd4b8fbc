"""The verdict on a cell whose scenario has checks: pass if all hold in every run. Pure.

A run that broke off counts as failed, whichever endpoint broke it off: a test case is to succeed. Runs that the
environment invalidated do not count, and a check that cannot be made keeps a cell from passing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.analysis.interop.evidence import NEAR_ENDPOINT, Evidence, read_evidence
from harness.analysis.interop.registry import (
    Check,
    CheckResult,
    Failed,
    NotExercised,
    Passed,
    Undetermined,
    declared_checks,
)
from harness.capture.artefacts import Artefacts
from harness.outcome import CheckStatus, InteropCheck, MeasuredRun, Run, Verdict, proven_outcome
from harness.scenario.parameters import Role

ResultWord = Literal["succeeded", "failed", "unsupported", "inconclusive"]
#: Endpoint → the side of the captures that has its packets first.
SENDER_SIDE: Final[dict[Role, str]] = {role: side for side, role in NEAR_ENDPOINT.items()}


@dataclass(frozen=True)
class RunResult:
    """One run, in the words of the interop runner."""

    word: ResultWord
    reason: str
    """Reason code: the check that failed, or what ended the run."""
    sentence: str
    role: str = ""
    """The role that is unsupported."""
    check: InteropCheck | None = None
    """The first check that failed, if the run failed."""


def run_result(run: Run, measured: MeasuredRun | None) -> RunResult:
    """The result of one run."""
    outcome = proven_outcome(run, measured)
    role = outcome.role or ""
    if outcome.status == "unsupported":
        return RunResult("unsupported", f"unsupported_{role}", outcome.detail, role)
    if outcome.status == "infrastructure":
        return RunResult("inconclusive", outcome.reason or "infrastructure", outcome.detail or outcome.reason)
    checks = measured.checks if measured is not None else ()
    failed_check = next((check for check in checks if check.status == "failed" and check.check != "files"), None)
    if outcome.status != "completed":
        sentence = f"{outcome.detail}; {failure_text(failed_check)}" if failed_check is not None else outcome.detail
        return RunResult("failed", f"{outcome.status}_{role}" if role else outcome.status, sentence, check=failed_check)
    failed_check = next((check for check in checks if check.status == "failed"), None)
    if failed_check is not None:
        return RunResult("failed", failed_check.check, failure_text(failed_check), check=failed_check)
    unexercised = [check for check in checks if check.status == "not_exercised"]
    if unexercised:
        sentence = "; ".join(f"{check.check} was not exercised: {check.sentence}" for check in unexercised)
        return RunResult("inconclusive", "not_exercised", sentence)
    unknown = [check for check in checks if check.status == "unknown"]
    if unknown:
        sentence = "; ".join(f"{check.check} cannot be checked: {check.sentence}" for check in unknown)
        return RunResult("inconclusive", "not_checked", sentence)
    return RunResult("succeeded", "checks_hold", f"all {len(checks)} checks hold")


def failure_text(check: InteropCheck) -> str:
    """A failed check in a sentence: what failed, at which packet of which side's capture, when."""
    text = f"{check.check}: {check.sentence}"
    if check.sender is None:
        return text
    return f"{text} (packet {check.packet} of the {SENDER_SIDE[check.sender]} capture, at {check.t:.6f} s)"


def verdict_of(runs: Sequence[tuple[Run, MeasuredRun | None]]) -> Verdict:
    """The verdict on the runs of a cell. Runs that differ are reported, and make it inconclusive."""
    results = [run_result(*pair) for pair in runs]
    if not results:
        return Verdict(status="error", reason="no_runs", sentence="The cell has not been run.")
    conclusive = [result for result in results if result.word != "inconclusive"]
    words = {result.word for result in conclusive}
    if not conclusive:
        return _make_verdict("inconclusive", results[0], results)
    if len(words) > 1:
        failed = [result for result in conclusive if result.word == "failed"]
        shown = failed[0] if failed else conclusive[0]
        text = f"Failed in {len(failed)} of {len(conclusive)} runs: {shown.sentence.rstrip('.')}."
        return Verdict(status="inconclusive", reason="flaky", sentence=text)
    status: Literal["pass", "fail", "unsupported"] = (
        "pass" if words == {"succeeded"} else "fail" if words == {"failed"} else "unsupported"
    )
    return _make_verdict(status, conclusive[0], results)


def _make_verdict(
    status: Literal["pass", "fail", "unsupported", "inconclusive"], example: RunResult, results: Sequence[RunResult]
) -> Verdict:
    inconclusive = sum(result.word == "inconclusive" for result in results)
    tail = f"; {inconclusive} of {len(results)} runs decide nothing" if 0 < inconclusive < len(results) else ""
    sentence = example.sentence.rstrip(".")
    return Verdict(status=status, reason=example.reason, sentence=f"{sentence[:1].upper()}{sentence[1:]}{tail}.")


# --- A run against the checks of its scenario.


CheckValue = bool | int | str


def run_checks(artefacts: Artefacts) -> tuple[InteropCheck, ...]:
    """The results of the checks of a run's scenario, in the scenario's order; empty for a scenario without checks."""
    requested = artefacts.scenario.checks
    if not requested:
        return ()
    # Checks that need no secrets are faster without them.
    checks = declared_checks()
    keys = any(checks[name].needs_keys for name in requested if name in checks)
    try:
        evidence = read_evidence(artefacts, keys=keys)
    except (OSError, ValueError) as error:
        unreadable = Undetermined(f"the captures cannot be read: {error}")
        return tuple(_check_record(name, value, unreadable, None) for name, value in requested.items())
    return judge_checks(requested, evidence)


def judge_checks(requested: Mapping[str, CheckValue], evidence: Evidence) -> tuple[InteropCheck, ...]:
    """The results of checks on evidence, in their order. `requested`: name → the value that it is to have."""
    checks = declared_checks()
    return tuple(_run_check(checks[name], value, evidence) for name, value in requested.items() if name in checks)


def _run_check(check: Check, value: CheckValue, evidence: Evidence) -> InteropCheck:
    finding: CheckResult
    if check.needs_keys and not evidence.has_keys:
        finding = Undetermined("neither endpoint wrote its secrets down")
    elif not evidence.sent:
        finding = Undetermined("no datagram was captured")
    else:
        try:
            finding = check.judge(evidence, str(value) if check.words else value)
        except Exception as error:  # one check's trouble with odd packets must not cost the others
            finding = Undetermined(f"{type(error).__name__}: {error}")
    return _check_record(check.name, value, finding, evidence)


_STATUS: Final[dict[type[CheckResult], CheckStatus]] = {
    Passed: "passed",
    Failed: "failed",
    NotExercised: "not_exercised",
    Undetermined: "unknown",
}


def _check_record(name: str, value: CheckValue, finding: CheckResult, evidence: Evidence | None) -> InteropCheck:
    packet = finding.packet if isinstance(finding, Failed) else None
    return InteropCheck(
        check=name,
        asked=value,
        status=_STATUS[type(finding)],
        sentence=finding.sentence,
        sender=None if packet is None else packet.sender,
        packet=None if packet is None else packet.datagram.number,
        t=None if packet is None or evidence is None else round(evidence.seconds(packet.t_ns), 6),
    )

"""The verdict on a cell whose scenario has checks: pass where all hold in every run. Pure.

A run that broke off counts as failed, whoever broke it: a test case is to succeed. What the ground spoilt counts for
nothing, and a check that cannot be made keeps a cell from passing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.analysis.interop.evidence import Evidence, evidence_of
from harness.analysis.interop.registry import Check, Failed, Found, Passed, Undetermined, declared
from harness.capture.artefacts import Artefacts
from harness.outcome import InteropCheck, MeasuredRun, Run, Verdict, proven_outcome
from harness.scenario.parameters import Role

Word = Literal["succeeded", "failed", "unsupported", "inconclusive"]
_SIDE: dict[Role, str] = {"client": "left", "server": "right"}


@dataclass(frozen=True)
class RunResult:
    """One run, in the words of the interop runner."""

    word: Word
    reason: str
    """Reason code: the check that failed, or what ended the run."""
    sentence: str
    role: str = ""
    """Who is unsupported."""
    check: InteropCheck | None = None
    """The first check that failed, of a run that failed."""


def run_result(run: Run, measured: MeasuredRun | None) -> RunResult:
    """What came of one run."""
    outcome = proven_outcome(run, measured)
    who = outcome.role or ""
    if outcome.status == "unsupported":
        return RunResult("unsupported", f"unsupported_{who}", outcome.detail, who)
    if outcome.status == "infrastructure":
        return RunResult("inconclusive", outcome.reason or "infrastructure", outcome.detail or outcome.reason)
    checks = measured.checks if measured is not None else ()
    wrong = next((one for one in checks if one.status == "failed" and one.check != "files"), None)
    if outcome.status != "completed":
        said = f"{outcome.detail}; {failure(wrong)}" if wrong is not None else outcome.detail
        return RunResult("failed", f"{outcome.status}_{who}" if who else outcome.status, said, check=wrong)
    wrong = next((one for one in checks if one.status == "failed"), None)
    if wrong is not None:
        return RunResult("failed", wrong.check, failure(wrong), check=wrong)
    unknown = [one for one in checks if one.status == "unknown"]
    if unknown:
        said = "; ".join(f"{one.check} cannot be checked: {one.sentence}" for one in unknown)
        return RunResult("inconclusive", "not_checked", said)
    return RunResult("succeeded", "checks_hold", f"all {len(checks)} checks hold")


def failure(check: InteropCheck) -> str:
    """A failed check in a sentence: what, at which packet of whose side's capture, when."""
    text = f"{check.check}: {check.sentence}"
    if check.sender is None:
        return text
    return f"{text} (packet {check.packet} of the {_SIDE[check.sender]} capture, at {check.t:.6f} s)"


def verdict_of(runs: Sequence[tuple[Run, MeasuredRun | None]]) -> Verdict:
    """The verdict on the runs of a cell. What differs from run to run is said, and decides nothing."""
    results = [run_result(*one) for one in runs]
    if not results:
        return Verdict(status="error", reason="no_runs", sentence="The cell has not been run.")
    decided = [one for one in results if one.word != "inconclusive"]
    words = {one.word for one in decided}
    if not decided:
        return _said("inconclusive", results[0], results)
    if len(words) > 1:
        failed = [one for one in decided if one.word == "failed"]
        shown = failed[0] if failed else decided[0]
        text = f"Failed in {len(failed)} of {len(decided)} runs: {shown.sentence.rstrip('.')}."
        return Verdict(status="inconclusive", reason="flaky", sentence=text)
    status: Literal["pass", "fail", "unsupported"] = (
        "pass" if words == {"succeeded"} else "fail" if words == {"failed"} else "unsupported"
    )
    return _said(status, decided[0], results)


def _said(
    status: Literal["pass", "fail", "unsupported", "inconclusive"], one: RunResult, results: Sequence[RunResult]
) -> Verdict:  # fmt: skip
    spoilt = sum(result.word == "inconclusive" for result in results)
    tail = f"; {spoilt} of {len(results)} runs decide nothing" if 0 < spoilt < len(results) else ""
    sentence = one.sentence.rstrip(".")
    return Verdict(status=status, reason=one.reason, sentence=f"{sentence[:1].upper()}{sentence[1:]}{tail}.")


# --- A run against the checks of its scenario.


CheckValue = bool | int | str


def checked(artefacts: Artefacts) -> tuple[InteropCheck, ...]:
    """What the checks of a run's scenario find, in their order there; nothing for a scenario without."""
    asked = artefacts.scenario.checks
    if not asked:
        return ()
    known = declared()
    # What needs no secrets is read faster without them.
    keys = any(known[name].needs_keys for name in asked if name in known)
    try:
        evidence = evidence_of(artefacts, keys=keys)
    except (OSError, ValueError) as error:
        why = Undetermined(f"the captures cannot be read: {error}")
        return tuple(_written(name, value, why, None) for name, value in asked.items())
    return tuple(_one(known[name], value, evidence) for name, value in asked.items() if name in known)


def _one(check: Check, value: CheckValue, evidence: Evidence) -> InteropCheck:
    found: Found
    if check.needs_keys and not evidence.keyed:
        found = Undetermined("neither endpoint wrote its secrets down")
    elif not evidence.sent:
        found = Undetermined("no datagram was captured")
    else:
        try:
            found = check.judge(evidence, str(value) if check.words else value)
        except Exception as error:  # one check's trouble with odd packets must not cost the others
            found = Undetermined(f"{type(error).__name__}: {error}")
    return _written(check.name, value, found, evidence)


def _written(name: str, value: CheckValue, found: Found, evidence: Evidence | None) -> InteropCheck:
    packet = found.packet if isinstance(found, Failed) else None
    return InteropCheck(
        check=name,
        asked=value,
        status="passed" if isinstance(found, Passed) else "failed" if isinstance(found, Failed) else "unknown",
        sentence=found.sentence,
        sender=None if packet is None else packet.sender,
        packet=None if packet is None else packet.datagram.number,
        t=None if packet is None or evidence is None else round(evidence.seconds(packet.t_ns), 6),
    )

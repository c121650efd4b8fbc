"""A run against the checks of its scenario."""

from __future__ import annotations

from harness.analysis.interop.evidence import Evidence, evidence_of
from harness.analysis.interop.registry import Check, Failed, Found, Passed, Unknown, declared
from harness.capture.artefacts import Artefacts
from harness.outcome import Checked

CheckValue = bool | int | str


def checked(artefacts: Artefacts) -> tuple[Checked, ...]:
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
        why = Unknown(f"the captures cannot be read: {error}")
        return tuple(_written(name, value, why, None) for name, value in asked.items())
    return tuple(_one(known[name], value, evidence) for name, value in asked.items() if name in known)


def _one(check: Check, value: CheckValue, evidence: Evidence) -> Checked:
    found: Found
    if check.needs_keys and not evidence.keyed:
        found = Unknown("neither endpoint wrote its secrets down")
    elif not evidence.sent:
        found = Unknown("no datagram was captured")
    else:
        try:
            found = check.judge(evidence, str(value) if check.words else value)
        except Exception as error:  # one check's trouble with odd packets must not cost the others
            found = Unknown(f"{type(error).__name__}: {error}")
    return _written(check.name, value, found, evidence)


def _written(name: str, value: CheckValue, found: Found, evidence: Evidence | None) -> Checked:
    packet = found.packet if isinstance(found, Failed) else None
    return Checked(
        check=name,
        asked=value,
        status="passed" if isinstance(found, Passed) else "failed" if isinstance(found, Failed) else "unknown",
        sentence=found.sentence,
        sender=None if packet is None else packet.sender,
        packet=None if packet is None else packet.datagram.number,
        t=None if packet is None or evidence is None else round(evidence.seconds(packet.t_ns), 6),
    )

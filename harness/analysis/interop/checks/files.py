"""What was downloaded."""

from __future__ import annotations

from harness.analysis.interop.evidence import Evidence
from harness.analysis.interop.registry import Failed, Found, Passed, check


@check(
    "files",
    takes="true",
    title="The client has every file that it asked for, byte for byte, and nothing else.",
    source="the interop runner's contract",
    needs_keys=False,
)
def files(evidence: Evidence, asked: bool) -> Found:
    """As the engine compared them with the served ones."""
    for transfer in evidence.run.transfers:
        if not transfer.intact:
            detail = evidence.run.outcome.detail or "not as it was served"
            return Failed(f"{transfer.received} of {transfer.size} B: {detail}")
    if not evidence.run.transfers:
        return Failed("there was no transfer")
    return Passed(f"{sum(transfer.size for transfer in evidence.run.transfers)} B, whole")

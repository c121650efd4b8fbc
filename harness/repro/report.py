"""Results of an attempt to prove an equivalence, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.formatting import format_count
from harness.outcome import Run
from harness.report.reruns import divergence_lines, entry_text
from harness.repro.divergence import compare_stored
from harness.repro.equivalence import ChangedComponent, GuardComparison, ProofAttempt
from harness.store.identity import Equivalence, Ledger

#: Cells that are named. Of more cells only the number is printed.
_NAMED = 5


def cell_text(run: Run) -> str:
    """A cell as text: scenario, pair and parameters."""
    cell = run.cell
    parameters = "".join(f" {name}={value}" for name, value in sorted(cell.parameters.items()))
    return f"{cell.scenario.name} {cell.client.name}→{cell.server.name}{parameters} ({run.name})"


def changed_lines(attempt: ProofAttempt) -> Iterator[str]:
    """The components whose digests are new."""
    for item in attempt.changed:
        yield f"{item.text}: {item.before[:12]} → {item.today[:12]}"


def result_lines(attempt: ProofAttempt) -> Iterator[str]:
    """Results of the guard cells."""
    yield from _lab_lines(attempt)
    if attempt.is_hopeless:
        yield from (f"{item.text} is in no cell that could be run: nothing was written" for item in attempt.unproven)
    else:
        yield from _limited_lines("no entry, for no guard cell has it", [item.text for item in attempt.unproven])
    if attempt.undecided:
        text = _contents_text(len(attempt.undecided), attempt.undecided[0])
        yield f"{text}, and no base could run them: nothing was written; name one with --base ({attempt.why_no_base})"
    if attempt.differing:
        yield from _differing_lines(attempt)
    elif attempt.proven and attempt.changed:
        scope = ""
        if attempt.excepted or attempt.without:
            left_out = ", ".join([*attempt.excepted, *attempt.without])
            scope = f", but for cells that use {left_out} ({attempt.excluded_cells} of the reference)"
        yield (
            f"the same bytes in {format_count(len(attempt.compared), 'guard cell')}: the digests are the same "
            f"thing{scope}"
        )
    elif attempt.proven:
        yield "nothing to prove: every digest is that of stored results"


def difference_lines(compared: Sequence[GuardComparison]) -> Iterator[str]:
    """The guard cells whose runs differ from the stored ones, one a line."""
    yield (
        f"{format_count(len(compared), 'guard cell')} came out otherwise than the reference's; an earlier revision "
        "makes them again now, to tell a change of behaviour from another machine or other packages:"
    )
    yield from (f"  {cell_text(item.stored)}: {', '.join(item.differs)}" for item in compared)


def _lab_lines(attempt: ProofAttempt) -> Iterator[str]:
    """Lines on cells that compile to another lab now: with another path, other endpoints or other settings."""
    yield from _limited_lines("another lab", [cell_text(run) for run in attempt.other_labs])
    if attempt.other_labs and not attempt.changed:
        yield (
            f"no digest is new, but {format_count(len(attempt.other_labs), 'cell')} of the reference "
            "would be run otherwise"
        )
    if attempt.uncovered:
        keys = ", ".join(attempt.uncovered)
        yield f"no guard cell is left that uses {keys}: nothing was written; --except leaves out what uses a key"


def _differing_lines(attempt: ProofAttempt) -> Iterator[str]:
    yield from _limited_lines(
        "differs", [f"{cell_text(item.stored)}: {', '.join(item.differs)}" for item in attempt.differing]
    )
    if attempt.why_no_base:
        yield f"they differ from the reference, and the base could not make them again: {attempt.why_no_base}"
    yield f"{len(attempt.differing)} of {format_count(len(attempt.compared), 'guard cell')} differ: nothing was written"
    if attempt.suggestion:
        keys = ",".join(attempt.suggestion)
        yield (
            f"all of them use {', '.join(attempt.suggestion)}, and no other cell does: --except {keys} leaves them out"
        )


def _limited_lines(label: str, texts: Sequence[str]) -> Iterator[str]:
    yield from (f"{label}: {text}" for text in texts[:_NAMED])
    if len(texts) > _NAMED:
        yield f"{label}: {len(texts) - _NAMED} more"


def golden_lines(item: ChangedComponent, golden: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Results of the golden labs of the compose engine."""
    yield f"{item.text}: {item.before[:12]} → {item.today[:12]}"
    for name, lines in golden.items():
        yield from _limited_lines(f"differs: golden lab {name}", lines)
    if any(golden.values()):
        yield "real time is another one: nothing was written for the compose engine"
    else:
        yield (
            f"the same files and commands in {format_count(len(golden), 'golden lab')}: the digests are the same thing"
        )


def again_lines(attempts: Mapping[Equivalence, ProofAttempt], ledger: Ledger) -> Iterator[str]:
    """Result for each entry of the ledger."""
    for entry, attempt in attempts.items():
        if not (attempt.compared or attempt.other_labs):
            yield f"{entry_text(entry, ledger)}: no stored run rests on it"
        elif attempt.other_labs:
            yield f"{entry_text(entry, ledger)}: not tried, another lab: {cell_text(attempt.other_labs[0])}"
        elif attempt.undecided and not attempt.differing:
            count = len(attempt.undecided)
            yield f"{entry_text(entry, ledger)}: cannot be told, {_contents_text(count, attempt.undecided[0])}"
        elif attempt.differing:
            first = attempt.differing[0]
            yield (
                f"{entry_text(entry, ledger)}: differs in {len(attempt.differing)} of "
                f"{format_count(len(attempt.compared), 'cell')}: {cell_text(first.stored)}: {', '.join(first.differs)}"
            )
        else:
            yield f"{entry_text(entry, ledger)}: holds in {format_count(len(attempt.compared), 'cell')}"
    reasons = dict.fromkeys(attempt.why_no_base for attempt in attempts.values() if attempt.why_no_base)
    for reason in reasons:
        yield f"what differs from the reference could not be made again by the base: {reason}"


def _contents_text(count: int, first: GuardComparison) -> str:
    names = ", ".join(first.other_contents[:_NAMED])
    return f"{format_count(count, 'cell')} differ where images have other contents ({names})"


def again_report(attempts: Mapping[Equivalence, ProofAttempt]) -> dict[str, Any]:
    """The same as data."""
    return {
        "schema": 1,
        "entries": [
            {
                **entry.model_dump(mode="json", by_alias=True),
                "holds": _holds(attempt),
                **_cells(attempt),
            }
            for entry, attempt in attempts.items()
        ],
    }


def _holds(attempt: ProofAttempt) -> bool | None:
    """Whether an entry holds; None where that cannot be decided."""
    return None if attempt.undecided and not attempt.differing else attempt.proven


def divergence_text(attempt: ProofAttempt) -> str:
    """Where the runs of the shortest differing cell diverge, as `harness divergence` prints it. ResultError."""
    first = min(attempt.differing, key=lambda item: item.current.wall)
    heading = f"{cell_text(first.stored)}, by the base first and by today's code second:"
    if first.folders is None:
        return heading
    return "\n".join([heading, *divergence_lines(compare_stored(*first.folders))])


def report(attempt: ProofAttempt) -> dict[str, Any]:
    """As data."""
    return {
        "schema": 1,
        "proven": attempt.proven,
        "changed": [
            {"kind": item.component[0], "name": item.component[1], "digest": item.today, "same_as": item.before}
            for item in attempt.changed
        ],
        "except": list(attempt.excepted),
        "without": list(attempt.without),
        "outside": attempt.excluded_cells,
        **_cells(attempt),
        "unproven": [item.text for item in attempt.unproven],
        "uncovered": list(attempt.uncovered),
        "suggestion": list(attempt.suggestion),
        "lab_kernel": attempt.lab_kernel,
    }


def _cells(attempt: ProofAttempt) -> dict[str, Any]:
    return {
        "cells": [_compared(item) for item in attempt.compared],
        "other_labs": [run.name for run in attempt.other_labs],
    }


def _compared(item: GuardComparison) -> dict[str, Any]:
    cell = item.stored.cell
    return {
        "key": cell.key,
        "repetition": item.stored.repetition,
        "scenario": cell.scenario.name,
        "client": cell.client.name,
        "server": cell.server.name,
        "wall": item.current.wall,
        "differs": list(item.differs),
        "by": "the base" if item.base is not item.stored else "the reference",
    }

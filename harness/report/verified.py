"""Repeated reference runs, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from harness.capture.divergence import TrailDifference
from harness.formatting import format_count
from harness.store.build_diff import VersionChange
from harness.store.identity import Equivalence, Ledger
from harness.store.run_comparison import MetricDifference, RunComparison

#: Texts name this many changed packages or figures, and give the number of the others.
_MAX_NAMED = 4


def sentence(comparison: RunComparison, ledger: Ledger) -> str:
    """The result of one repeated run, in a line. Where it differs, with the ledger's entries that call it the same."""
    cell = comparison.reference.cell
    name = f"{comparison.reference.name} {cell.scenario.name} {cell.client.name}→{cell.server.name}"
    clauses = [f"{name}: {comparison.answer}"]
    if comparison.first_difference is not None:
        clauses.append(f"the captures part {_place(comparison.first_difference)}")
    if comparison.repeated.outcome != comparison.reference.outcome and comparison.answer == "differs":
        outcomes = [
            " ".join((run.outcome.status, run.outcome.reason)).strip()
            for run in (comparison.reference, comparison.repeated)
        ]
        clauses.append(f"{outcomes[0]} there, {outcomes[1]} here" if outcomes[0] != outcomes[1] else "")
    clauses.append(
        _abbreviate(
            [_figure(figure, _flows(comparison)) for figure in comparison.figures]
            if comparison.answer != "identical"
            else []
        )
    )
    clauses.append(_differences_text(comparison))
    if comparison.answer == "differs" and comparison.equivalences:
        entries = _abbreviate([entry_text(entry, ledger) for entry in comparison.equivalences])
        clauses.append(f"the ledger holds it for the same by {entries}")
    return "; ".join(text for text in clauses if text)


def entry_text(entry: Equivalence, ledger: Ledger) -> str:
    """An entry of the ledger, with its place."""
    return f"{entry.kind} {entry.name} {entry.digest[:12]} = {entry.same_as[:12]} ({ledger.position_text(entry)})"


def _place(parting: TrailDifference) -> str:
    if parting.first == parting.last:
        return f"at packet {parting.first:,} of the client's side"
    return f"between packets {parting.first:,} and {parting.last:,} of the client's side"


def _flows(comparison: RunComparison) -> int:
    return len(comparison.reference.cell.scenario.flows)


def _figure(figure: MetricDifference, flows: int) -> str:
    reference, rerun = ("–" if value is None else f"{value:g}" for value in figure.values)
    return f"{figure.name.text(flows)} {reference} there, {rerun} here ({figure.unit})"


def _differences_text(comparison: RunComparison) -> str:
    """Differences of code, images, kernel and processor here, in words."""
    facts = [f"other {part.removeprefix('the ')}" for part in comparison.key_parts]
    if comparison.reference.lab_kernel != comparison.repeated.lab_kernel:
        facts.append("other lab kernel")
    if comparison.reference.cpu != comparison.repeated.cpu:
        facts.append(f"cpu {comparison.repeated.cpu or 'unknown'} instead of {comparison.reference.cpu or 'unknown'}")
    facts += _processors(comparison)
    facts += [f"other files in the image of {image}" for image in comparison.other_images]
    changed = _abbreviate([_change_text(change) for change in comparison.changed])
    return ", ".join([*facts, *([changed] if changed else [])])


def _processors(comparison: RunComparison) -> list[str]:
    """The processors of both hosts, where they differ and endpoints of either run saw the host's."""
    reference_cpu, rerun_cpu = (str(run.host.get("cpu", "")) for run in (comparison.reference, comparison.repeated))
    exposed = "host" in (comparison.reference.cpu, comparison.repeated.cpu)
    return (
        [f"on {reference_cpu} there, on {rerun_cpu} here"]
        if exposed and reference_cpu and rerun_cpu and reference_cpu != rerun_cpu
        else []
    )


def _change_text(change: VersionChange) -> str:
    old, new = (version or "not there" for version in change.versions)
    images = "images" if ", " in change.image else "image"
    return f"{change.name} in the {images} of {change.image}: {old}, here {new}"


def _abbreviate(texts: Sequence[str]) -> str:
    hidden = len(texts) - _MAX_NAMED
    return ", ".join([*texts[:_MAX_NAMED], *([f"{hidden} more"] if hidden > 0 else [])])


def show(comparisons: Sequence[RunComparison], console: Console) -> None:
    """Print a summary."""
    counts = Counter(comparison.answer for comparison in comparisons)
    parts = ", ".join(f"{count} {answer}" for answer, count in sorted(counts.items()))
    console.print(f"{format_count(len(comparisons), 'reference run')} made again: {parts or 'none'}", markup=False)


def report(comparisons: Sequence[RunComparison]) -> dict[str, Any]:
    """The same as plain data."""
    return {"verified": [_entry(comparison) for comparison in comparisons]}


def _entry(comparison: RunComparison) -> dict[str, Any]:
    cell = comparison.reference.cell
    return {
        "key": cell.key,
        "repetition": comparison.reference.repetition,
        "scenario": cell.scenario.name,
        "client": cell.client.name,
        "server": cell.server.name,
        "answer": comparison.answer,
        "packets": None
        if comparison.first_difference is None
        else {"first": comparison.first_difference.first, "last": comparison.first_difference.last},
        "figures": [
            {
                "metric": figure.name.text(_flows(comparison)),
                "unit": figure.unit,
                "reference": figure.values[0],
                "here": figure.values[1],
            }
            for figure in comparison.figures
        ],
        "bits": list(comparison.key_parts),
        "changed": [
            {"image": change.image, "name": change.name, "reference": change.versions[0], "here": change.versions[1]}
            for change in comparison.changed
        ],
        "other_files": list(comparison.other_images),
        "joining": [entry.model_dump(mode="json", by_alias=True) for entry in comparison.equivalences],
    }

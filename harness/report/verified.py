"""Reference runs made again, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from harness.capture.divergence import Parting
from harness.formatting import counted
from harness.store.build_diff import VersionChange
from harness.store.identity import Equivalence, Ledger
from harness.store.run_comparison import MetricDifference, RunComparison

#: Changed packages, and figures, that are named; of more only the number is said.
_NAMED = 4


def sentence(one: RunComparison, ledger: Ledger) -> str:
    """What came of one run, in a line; where it differs, with the entries of the ledger that say it does not."""
    cell = one.reference.cell
    who = f"{one.reference.name} {cell.scenario.name} {cell.client.name}→{cell.server.name}"
    said = [f"{who}: {one.answer}"]
    if one.at is not None:
        said.append(f"the captures part {_place(one.at)}")
    if one.again.outcome != one.reference.outcome and one.answer == "differs":
        outcomes = [" ".join((run.outcome.status, run.outcome.reason)).strip() for run in (one.reference, one.again)]
        said.append(f"{outcomes[0]} there, {outcomes[1]} here" if outcomes[0] != outcomes[1] else "")
    said.append(_some([_figure(figure, _flows(one)) for figure in one.figures] if one.answer != "identical" else []))
    said.append(_bits(one))
    if one.answer == "differs" and one.joining:
        entries = _some([entry_text(entry, ledger) for entry in one.joining])
        entries = _some([entry_text(entry, ledger) for entry in one.joining])
        said.append(f"the ledger holds it for the same by {entries}")
    return "; ".join(text for text in said if text)


def entry_text(entry: Equivalence, ledger: Ledger) -> str:
    """An entry of the ledger, with its place."""
    return f"{entry.kind} {entry.name} {entry.digest[:12]} = {entry.same_as[:12]} ({ledger.place(entry)})"


def _place(at: Parting) -> str:
    if at.first == at.last:
        return f"at packet {at.first:,} of the client's side"
    return f"between packets {at.first:,} and {at.last:,} of the client's side"


def _flows(one: RunComparison) -> int:
    return len(one.reference.cell.scenario.flows)


def _figure(figure: MetricDifference, flows: int) -> str:
    one, other = ("–" if value is None else f"{value:g}" for value in figure.values)
    return f"{figure.name.text(flows)} {one} there, {other} here ({figure.unit})"


def _bits(one: RunComparison) -> str:
    """What of the bits is other here, in words."""
    facts = [f"other {what.removeprefix('the ')}" for what in one.bits]
    if one.reference.lab_kernel != one.again.lab_kernel:
        facts.append("other lab kernel")
    if one.reference.cpu != one.again.cpu:
        facts.append(f"cpu {one.again.cpu or 'unknown'} instead of {one.reference.cpu or 'unknown'}")
    facts += _processors(one)
    facts += [f"other files in the image of {image}" for image in one.beside]
    changed = _some([_change(change) for change in one.changed])
    return ", ".join([*facts, *([changed] if changed else [])])


def _processors(one: RunComparison) -> list[str]:
    """Whose processors endpoints saw, where either run's saw the host's and they are not the same."""
    there, here = (str(run.host.get("cpu", "")) for run in (one.reference, one.again))
    seen = "host" in (one.reference.cpu, one.again.cpu)
    return [f"on {there} there, on {here} here"] if seen and there and here and there != here else []


def _change(change: VersionChange) -> str:
    was, now = (version or "not there" for version in change.versions)
    images = "images" if ", " in change.image else "image"
    return f"{change.name} in the {images} of {change.image}: {was}, here {now}"


def _some(texts: Sequence[str]) -> str:
    beyond = len(texts) - _NAMED
    return ", ".join([*texts[:_NAMED], *([f"{beyond} more"] if beyond > 0 else [])])


def show(found: Sequence[RunComparison], console: Console) -> None:
    """The sum of it."""
    counts = Counter(one.answer for one in found)
    parts = ", ".join(f"{count} {answer}" for answer, count in sorted(counts.items()))
    console.print(f"{counted(len(found), 'reference run')} made again: {parts or 'none'}", markup=False)


def report(found: Sequence[RunComparison]) -> dict[str, Any]:
    """The same as plain data."""
    return {"verified": [_entry(one) for one in found]}


def _entry(one: RunComparison) -> dict[str, Any]:
    cell = one.reference.cell
    return {
        "key": cell.key,
        "repetition": one.reference.repetition,
        "scenario": cell.scenario.name,
        "client": cell.client.name,
        "server": cell.server.name,
        "answer": one.answer,
        "packets": None if one.at is None else {"first": one.at.first, "last": one.at.last},
        "figures": [
            {
                "metric": figure.name.text(_flows(one)),
                "unit": figure.unit,
                "reference": figure.values[0],
                "here": figure.values[1],
            }
            for figure in one.figures
        ],
        "bits": list(one.bits),
        "changed": [
            {"image": change.image, "name": change.name, "reference": change.versions[0], "here": change.versions[1]}
            for change in one.changed
        ],
        "other_files": list(one.beside),
        "joining": [entry.model_dump(mode="json", by_alias=True) for entry in one.joining],
    }

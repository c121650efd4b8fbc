"""Runs that were made again: reference runs compared with theirs, and where two runs of a cell diverge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from harness.capture.divergence import CapturedFrame, Divergence, PacketDivergence, TrailDifference
from harness.capture.syscalls import Call, CallDivergence
from harness.formatting import format_count
from harness.outcome import RandomBytes
from harness.report.document import Document, Paragraph
from harness.store.build_diff import VersionChange
from harness.store.identity import Equivalence, Ledger
from harness.store.run_comparison import MetricDifference, RunComparison

#: Texts name this many changed packages or figures, and give the number of the others.
_MAX_NAMED = 4


def rerun_sentence(comparison: RunComparison, ledger: Ledger) -> str:
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


def reruns_document(comparisons: Sequence[RunComparison]) -> Document:
    """How many runs came out as before; as data, each of them."""
    counts = Counter(comparison.answer for comparison in comparisons)
    parts = ", ".join(f"{count} {answer}" for answer, count in sorted(counts.items()))
    summary = f"{format_count(len(comparisons), 'reference run')} made again: {parts or 'none'}"
    return Document({"verified": [_entry(comparison) for comparison in comparisons]}, [Paragraph(summary)])


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


# --- Where two runs diverge.


def divergence_document(divergence: Divergence, times: int = 2) -> Document:
    """Where two runs diverge. `times`: number of compared runs."""
    data = {
        "schema": 1,
        "identical": divergence.identical,
        "runs": times,
        "facts": [dict(zip(("name", "first", "second"), fact, strict=True)) for fact in divergence.facts],
        "packets": [asdict(item) for item in divergence.packets],
        "unseen": list(divergence.unseen),
        "random": [
            {"endpoint": item.endpoint, "drawn": [stream.model_dump() if stream else None for stream in item.drawn]}
            for item in divergence.random
        ],
        "calls": None if divergence.calls is None else asdict(divergence.calls),
    }
    return Document(data, [Paragraph(line) for line in divergence_lines(divergence, times)])


def divergence_lines(divergence: Divergence, times: int = 2) -> list[str]:
    """In words, a fact per line. `times`: number of compared runs."""
    lines = [*_facts(divergence)]
    if divergence.identical:
        return [*lines, f"identical: the captures and random streams of {format_count(times, 'run')}"]
    lines += [line for item in divergence.packets for line in _packets(item)]
    lines += [f"{side} capture: the digests differ, and the files are not there" for side in divergence.unseen]
    lines += [
        f"random bytes of {item.endpoint}: {_random_text(item.drawn[0])} in the first run, "
        f"{_random_text(item.drawn[1])} in the second"
        for item in divergence.random
    ]
    if divergence.calls is not None:
        lines += _calls(divergence.calls)
    return lines


def _facts(divergence: Divergence) -> Iterator[str]:
    for name, first, second in divergence.facts:
        yield f"{name}: {first or 'unknown'} in the first run, {second or 'unknown'} in the second"


def _random_text(drawn: RandomBytes | None) -> str:
    return "none" if drawn is None else f"{drawn.bytes} ({drawn.digest[:8]})"


def _packets(item: PacketDivergence) -> Iterator[str]:
    differences = " and ".join(item.differs) or "one capture has ended"
    yield f"{item.side} capture: packet {item.number} of {item.counts[0]} and {item.counts[1]} differs: {differences}"
    for name, packet in zip(("first", "second"), item.packets, strict=True):
        yield f"  {name} run: {'no more packets' if packet is None else _packet(packet)}"


def _packet(packet: CapturedFrame) -> str:
    header = f"{packet.t_ns / 1e9:.9f} s  {packet.source} → {packet.destination}"
    return f"{header}  {packet.kind}, {packet.length} bytes on the wire"


def _calls(item: CallDivergence) -> Iterator[str]:
    first_call = next(call for call in item.calls if call is not None)
    yield f"system calls: number {first_call.number} differs: {' and '.join(item.differs)}"
    for name, call in zip(("first", "second"), item.calls, strict=True):
        yield f"  {name} run: {'no more calls' if call is None else _call(call)}"
    yield f"  before it, of {first_call.host} {first_call.process} (pid {first_call.pid}):"
    yield from (f"    {_call(call)}" for call in item.before)
    yield "  before it, of anybody:"
    yield from (f"    {_call(call)}" for call in item.around)


def _call(call: Call) -> str:
    looks = f", {format_count(call.looks, 'clock read')} before it" if call.looks else ""
    caller = f"{call.host} {call.process} (pid {call.pid})"
    return f"{call.time_ns / 1e9:.9f} s  {caller}  {call.name} = {call.result_text}{looks}"

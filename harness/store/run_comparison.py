"""A stored run beside the same one made again: the same to the byte, the same figures, or where they part. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.capture.divergence import Parting, parting
from harness.outcome import MeasuredRun, Run
from harness.scenario.metric_names import MetricName
from harness.store.build_diff import VersionChange, changes, other_bits
from harness.store.identity import Equivalence, Ledger, components
from harness.store.results import StoreReader

Answer = Literal["identical", "same figures", "differs"]


@dataclass(frozen=True)
class MetricDifference:
    """A measurement that came out differently."""

    name: MetricName
    unit: str
    values: tuple[float | None, float | None]
    """In the reference, and here; None where it was not made."""

    @property
    def both(self) -> tuple[float, float] | None:
        """The two values, where both runs have one and they differ: what one of them lacks, other code has measured."""
        reference, again = self.values
        return None if reference is None or again is None or reference == again else (reference, again)


@dataclass(frozen=True)
class RunComparison:
    """A reference run beside the same one made here."""

    reference: Run
    again: Run
    answer: Answer
    at: Parting | None
    """In which packets towards or from the client the captures part, where the reference tells."""
    figures: tuple[MetricDifference, ...]
    bits: tuple[str, ...]
    """In which parts of the key the cells differ."""
    changed: tuple[VersionChange, ...]
    """What the images hold in other versions."""
    beside: tuple[str, ...]
    """Images whose contents differ in other files, or are not known."""
    joining: tuple[Equivalence, ...] = ()
    """Entries of the ledger by which digests of the two are the same thing."""


def compared(
    run: Run,
    measured: MeasuredRun | None,
    again: Run,
    remeasured: MeasuredRun | None,
    stores: tuple[StoreReader, StoreReader],
    ledger: Ledger,
) -> RunComparison:
    """A reference run beside one made here, with what was measured of each and the stores that have them."""
    same_captures = bool(run.captures) and run.captures == again.captures
    # Of test cases the reference has captures' digests, and no figures that others could be held against.
    has_figures = measured is not None and bool(measured.measurements)
    figures = other_figures(measured, remeasured) if has_figures else ()
    same_figures = has_figures and not figures and _ended_alike(run, again)
    # What was measured by other code may come out differently of equal captures.
    answer: Answer = "identical" if same_captures else "same figures" if same_figures else "differs"
    at = parting(run.trail, again.trail) if not same_captures and run.trail and again.trail else None
    changed, other_files = changes(run, again, (stores[0].contents, stores[1].contents))
    bits = other_bits(run.cell, again.cell, ledger)
    joining = tuple(ledger.joining(run.cell, components(again.cell))) if run.cell.key == again.cell.key else ()
    return RunComparison(run, again, answer, at, figures, bits, tuple(changed), tuple(other_files), joining)


def differing_digests(first: Run, second: Run) -> tuple[str, ...]:
    """In which captures and random streams two runs differ."""
    sides = sorted({*first.captures, *second.captures})
    hosts = sorted({*first.random, *second.random})
    return (
        *(f"{side} capture" for side in sides if first.captures.get(side) != second.captures.get(side)),
        *(f"random bytes of {name}" for name in hosts if first.random.get(name) != second.random.get(name)),
    )


def _ended_alike(first: Run, second: Run) -> bool:
    return (first.outcome.status, first.outcome.reason) == (second.outcome.status, second.outcome.reason)


def other_figures(first: MeasuredRun | None, second: MeasuredRun | None) -> tuple[MetricDifference, ...]:
    """The measurements in which two runs differ; those of what happened in the lab, not of the CPU it took."""
    sides = [_figures(measured) for measured in (first, second)]
    names = sorted({*sides[0], *sides[1]}, key=lambda name: name.text(2))
    pairs = {name: (sides[0].get(name), sides[1].get(name)) for name in names}
    return tuple(
        MetricDifference(name, (pair[0] or pair[1] or ("", 0.0))[0], (_value(pair[0]), _value(pair[1])))
        for name, pair in pairs.items()
        if pair[0] != pair[1]
    )


def _figures(measured: MeasuredRun | None) -> dict[MetricName, tuple[str, float]]:
    """Name → (unit, value)."""
    return (
        {}
        if measured is None
        else {measurement.named: (measurement.unit, measurement.value) for measurement in measured.measurements}
    )


def _value(side: tuple[str, float] | None) -> float | None:
    return None if side is None else side[1]

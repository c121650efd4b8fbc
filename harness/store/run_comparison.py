"""Comparison of a stored run with its repetition: identical to the byte, equal figures, or where they differ. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.capture.divergence import TrailDifference, compare_trails
from harness.outcome import MeasuredRun, Run
from harness.scenario.metric_names import MetricName
from harness.store.build_diff import VersionChange, compare_versions, differing_components
from harness.store.identity import Equivalence, Ledger, components
from harness.store.results import StoreReader

Answer = Literal["identical", "same figures", "differs"]


@dataclass(frozen=True)
class MetricDifference:
    """A measurement that differs between the runs."""

    name: MetricName
    unit: str
    values: tuple[float | None, float | None]
    """In the reference, and here; None where it was not made."""

    @property
    def both(self) -> tuple[float, float] | None:
        """The two values, if both runs have one and they differ. If one run lacks it, other code measured that run."""
        reference, again = self.values
        return None if reference is None or again is None or reference == again else (reference, again)


@dataclass(frozen=True)
class RunComparison:
    """The comparison of a reference run with its repetition here."""

    reference: Run
    repeated: Run
    answer: Answer
    first_difference: TrailDifference | None
    """The packets towards or from the client in which the captures first differ, where the reference has a trail."""
    figures: tuple[MetricDifference, ...]
    key_parts: tuple[str, ...]
    """The parts of the key in which the cells differ."""
    changed: tuple[VersionChange, ...]
    """Packages and programs with different versions in the images."""
    other_images: tuple[str, ...]
    """Images whose contents differ in other files, or are unknown."""
    equivalences: tuple[Equivalence, ...] = ()
    """Entries of the ledger that make digests of the two equivalent."""


def compare_with_reference(
    run: Run,
    measured: MeasuredRun | None,
    again: Run,
    remeasured: MeasuredRun | None,
    stores: tuple[StoreReader, StoreReader],
    ledger: Ledger,
) -> RunComparison:
    """Compare a reference run with its repetition here, given the measurements and the store of each."""
    same_captures = bool(run.captures) and run.captures == again.captures
    # For test cases the reference has digests of captures, but no figures to compare.
    has_figures = measured is not None and bool(measured.measurements)
    figures = differing_figures(measured, remeasured) if has_figures else ()
    same_figures = has_figures and not figures and _has_same_outcome(run, again)
    # Other code may measure different figures from equal captures.
    answer: Answer = "identical" if same_captures else "same figures" if same_figures else "differs"
    at = compare_trails(run.trail, again.trail) if not same_captures and run.trail and again.trail else None
    changed, other_files = compare_versions(run, again, (stores[0].contents, stores[1].contents))
    bits = differing_components(run.cell, again.cell, ledger)
    joining = (
        tuple(ledger.equivalences_between(run.cell, components(again.cell))) if run.cell.key == again.cell.key else ()
    )
    return RunComparison(run, again, answer, at, figures, bits, tuple(changed), tuple(other_files), joining)


def differing_digests(first: Run, second: Run) -> tuple[str, ...]:
    """The captures and random streams in which two runs differ."""
    sides = sorted({*first.captures, *second.captures})
    hosts = sorted({*first.random, *second.random})
    return (
        *(f"{side} capture" for side in sides if first.captures.get(side) != second.captures.get(side)),
        *(f"random bytes of {name}" for name in hosts if first.random.get(name) != second.random.get(name)),
    )


def _has_same_outcome(first: Run, second: Run) -> bool:
    return (first.outcome.status, first.outcome.reason) == (second.outcome.status, second.outcome.reason)


def differing_figures(first: MeasuredRun | None, second: MeasuredRun | None) -> tuple[MetricDifference, ...]:
    """The measurements in which two runs differ: those of events in the lab, not of the CPU time that it took."""
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

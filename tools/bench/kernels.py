"""Two lab kernels, or the two ways in which one enters programs, side by side: the same bytes, and how much faster.

The cells are reference runs: the cheapest of each scenario, of each stack in each role, and of each value that was
asked for.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engine.kernel import ENTRIES, LabKernel
from harness.engine.virtual.engine import VirtualEngine
from harness.errors import InputError, did_you_mean
from harness.execution import App
from harness.execution.events import Listener
from harness.execution.matrix import PlannedRun
from harness.execution.runner import run_unjudged
from harness.outcome import Run
from harness.scenario.parameters import ROLES
from harness.store.provenance import Provenance
from harness.store.results import Store
from harness.store.run_comparison import differing_digests


@dataclass(frozen=True)
class SideBySide:
    """One cell under both kernels."""

    runs: tuple[Run, Run]
    cpu: tuple[float, float]
    """Seconds of processor time that the kernels and their guests took."""
    differs: tuple[str, ...]
    """Captures, random streams and other files that are not the same; nothing where all are."""

    @property
    def ratios(self) -> tuple[float, float]:
        """How much longer the first kernel took, by the wall's clock and in processor time."""
        return self.runs[0].wall / self.runs[1].wall, self.cpu[0] / self.cpu[1]


def kernel_of(name: str) -> LabKernel:
    """'host' or 'inproc': today's kernel entered so; FILE or FILE@host: another. InputError for none of these."""
    file, _, entry = name.rpartition("@") if "@" in name else (name, "", "")
    if name in ENTRIES:
        return LabKernel(entry=next(entered for entered in ENTRIES if entered == name))
    if entry and entry not in ENTRIES:
        raise InputError(f"no way to enter programs is called '{entry}'", did_you_mean(entry, ENTRIES))
    if not Path(file).is_file():
        raise InputError(f"there is no lab kernel {file}", f"name a file, or one of {', '.join(ENTRIES)}")
    return LabKernel(Path(file).resolve(), next((entered for entered in ENTRIES if entered == entry), None))


def varied(runs: Sequence[Run]) -> list[Run]:
    """Cheapest runs first, those that have something no cheaper one has: a scenario, a stack in a role, a value."""
    seen: set[tuple[str, ...]] = set()
    selected = []
    for run in sorted(runs, key=lambda run: (run.wall, run.name)):
        cell = run.cell
        has: set[tuple[str, ...]] = {("scenario", cell.scenario.name)}
        has |= {("asked", name, str(value)) for name, value in cell.parameters.items()}
        flows = range(len(cell.scenario.flows))
        has |= {(role, cell.implementation(role, flow).name) for role in ROLES for flow in flows}
        if not has <= seen:
            seen |= has
            selected.append(run)
    return selected


def side_by_side(
    app: App, items: Iterable[PlannedRun], kernels: tuple[LabKernel, LabKernel], core: int, listen: Listener
) -> Iterator[SideBySide]:
    """Make each run under both kernels, one after the other on one core. EngineError when the ground failed."""
    engines = [VirtualEngine(app.cache, [core], kernel=kernel) for kernel in kernels]
    with tempfile.TemporaryDirectory(prefix="quic-lab-kernels-") as scratch:
        for number, item in enumerate(items):
            kernel_runs: dict[int, Run] = {}
            cpu: dict[int, float] = {}
            # Each goes first as often as the other: what one reads, the other finds in memory.
            for which in (0, 1) if number % 2 else (1, 0):
                store, before = Store(Path(scratch) / f"{number}-{which}"), _of_children()
                kernel_runs[which], _ = run_unjudged(item, engines[which], store, Provenance(), listen)
                cpu[which] = _of_children() - before
            yield SideBySide(
                (kernel_runs[0], kernel_runs[1]), (cpu[0], cpu[1]), differences(kernel_runs[0], kernel_runs[1])
            )


def _of_children() -> float:
    """Seconds of processor time that ended processes of this one took, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def differences(first: Run, second: Run) -> tuple[str, ...]:
    """What two runs do not have in common, of all that was recorded."""
    files = sorted({*first.artefacts, *second.artefacts})
    outcome = () if first.outcome == second.outcome else (f"outcome: {first.outcome.status}, {second.outcome.status}",)
    return (
        *outcome,
        *differing_digests(first, second),
        *(file for file in files if first.artefacts.get(file) != second.artefacts.get(file)),
    )


def sentence(comparison: SideBySide) -> str:
    """A line about a cell."""
    cell = comparison.runs[0].cell
    walls, cpus = (
        " : ".join(f"{seconds:.2f}" for seconds in pair)
        for pair in ([run.wall for run in comparison.runs], comparison.cpu)
    )
    wall, cpu = comparison.ratios
    same = f"DIFFERS: {', '.join(comparison.differs)}" if comparison.differs else "the same bytes"
    return (
        f"{cell.scenario.name}, {cell.client.name} → {cell.server.name} ({comparison.runs[0].outcome.status}): "
        f"{walls} s = {wall:.2f}, of the processor {cpus} s = {cpu:.2f}, {same}"
    )


def summary(comparisons: Sequence[SideBySide]) -> str:
    """A line about all of them."""
    same = sum(not comparison.differs for comparison in comparisons)
    wall, cpu = (statistics.median(comparison.ratios[which] for comparison in comparisons) for which in (0, 1))
    return (
        f"{same} of {len(comparisons)} give the same bytes; median ratios: {wall:.2f} by the wall's clock, "
        f"{cpu:.2f} of the processor"
    )


def report(comparisons: Sequence[SideBySide]) -> dict[str, Any]:
    """All of it for --json."""
    return {
        "schema": 1,
        "same": sum(not comparison.differs for comparison in comparisons),
        "ratios": [statistics.median(comparison.ratios[which] for comparison in comparisons) for which in (0, 1)]
        if comparisons
        else None,
        "cells": [
            {
                "key": comparison.runs[0].cell.key,
                "scenario": comparison.runs[0].cell.scenario.name,
                "client": comparison.runs[0].cell.client.name,
                "server": comparison.runs[0].cell.server.name,
                "wall": [run.wall for run in comparison.runs],
                "cpu": list(comparison.cpu),
                "ratios": list(comparison.ratios),
                "differs": list(comparison.differs),
            }
            for comparison in comparisons
        ],
    }

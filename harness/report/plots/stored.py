"""Which stored runs are drawn, beside which others, and where their figures go."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InputError, did_you_mean
from harness.evaluation.cell_result import CellResult
from harness.outcome import Cell, MeasuredRun, Run
from harness.report.plots.curves import labels
from harness.report.plots.pairs import beside, is_red
from harness.report.plots.view import Drawn
from harness.store.results import MEASURED, RUN, SERIES, StoreReader

Span = tuple[float, float]

#: Characters of a folder's name that tells several runs apart, at most.
_LONGEST = 100

#: All stored results of the cells that are wanted.
Search = Callable[[Callable[[Cell], bool]], list[CellResult]]

#: A stored run, and what was measured of it.
Stored = tuple[Run, MeasuredRun | None]


@dataclass(frozen=True)
class Drawing:
    """A run to draw, and the run with DropTail that belongs beside it where it has RED."""

    run: Drawn
    partner: Drawn | None = None


@dataclass(frozen=True)
class Subject:
    """What a drawing is of, without its series, which are large."""

    run: Stored
    partner: Stored | None = None

    @property
    def runs(self) -> list[Run]:
        """The run, and its partner."""
        return [one[0] for one in (self.run, self.partner) if one is not None]

    def files(self, store: StoreReader) -> list[Path]:
        """What is drawn: the files of the run, and of its partner, that are there."""
        folders = [store.folder(one.cell.key, one.repetition) for one in self.runs]
        files = (folder / name for folder in folders for name in (RUN, MEASURED, SERIES))
        return [file for file in files if file.exists()]

    def drawing(self, store: StoreReader, span: Span | None = None) -> Drawing:
        """With the series, of a detail of that span. Raises ResultError."""
        return Drawing(
            _drawn(store, self.run, span), None if self.partner is None else _drawn(store, self.partner, span)
        )


def find_drawings(
    store: StoreReader, results: Sequence[CellResult], search: Search, asked: Sequence[str], span: Span | None
) -> Iterator[Drawing]:
    """The drawings of the runs asked for, each read when it is its turn. Raises HarnessError."""
    return (subject.drawing(store, span) for subject in find_subjects(results, search, asked))


def find_subjects(results: Sequence[CellResult], search: Search, asked: Sequence[str] = ()) -> list[Subject]:
    """The runs to draw: those asked for as KEY/REPETITION, else the first of each cell. Raises InputError."""
    chosen = [pair for result in results for pair in result.runs]
    if asked:
        names = {run.name: (run, measured) for run, measured in chosen}
        for name in asked:
            if name not in names:
                raise InputError(f"--run {name}: no such run is stored", did_you_mean(name, names))
        chosen = [names[name] for name in dict.fromkeys(asked)]
    else:
        first = {run.cell.key: run.repetition for run, _ in reversed(chosen)}
        chosen = [(run, measured) for run, measured in chosen if run.repetition == first[run.cell.key]]
    reds = [run.cell for run, _ in chosen if is_red(run.cell)]
    # The partners need not be among what was asked for.
    others = search(lambda cell: any(beside(red, cell) for red in reds)) if reds else []
    return [Subject((run, measured), _partner(run, others)) for run, measured in chosen]


def _drawn(store: StoreReader, stored: Stored, span: Span | None) -> Drawn:
    run, measured = stored
    return Drawn(run, measured, store.series(run.cell.key, run.repetition), span)


def _partner(run: Run, others: Sequence[CellResult]) -> Stored | None:
    for result in others:
        if not beside(run.cell, result.cell):
            continue
        for other, measured in result.runs:
            if other.repetition == run.repetition:
                return other, measured
    return None


def folder_name(run: Run) -> Path:
    """Where a run's figures go: scenario / who played, parameters, engine, seed, repetition."""
    cell = run.cell
    words = [cell.client.name, cell.server.name] if cell.scenario.open_roles else []
    words += [f"{name}={value}" for name, value in cell.parameters.items()]
    words += [cell.engine, str(cell.seed), str(run.repetition)]
    return Path(cell.scenario.name) / "-".join(map(_plain, words))


def folder_of(runs: Sequence[Drawn]) -> Path:
    """Where the figures of several runs go: together / what tells them apart; long names are cut and numbered."""
    name = "-and-".join(_plain(label) for label in labels(runs))
    if len(name) > _LONGEST:
        told = hashlib.sha256(" ".join(run.run.name for run in runs).encode()).hexdigest()[:8]
        name = f"{name[:_LONGEST]}-{told}"
    return Path("together") / name


def _plain(word: str) -> str:
    """A word as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.=_]+", "_", word)

"""What words name of a store: scenarios, or cells and runs by whatever name something printed of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import AbsentError, InputError, did_you_mean

if TYPE_CHECKING:
    from harness.evaluation.cell_result import CellResult
    from harness.execution import App
    from harness.outcome import Cell

#: A cell's key, or enough of its beginning.
_KEY = re.compile(r"[0-9a-f]{6,}")
#: A repetition behind the name of a cell: KEY/2, or the #2 of a line of progress.
_RUN = re.compile(r"(?P<key>[0-9a-f]{6,})/(?P<slash>\d+)|(?P<name>.+?) #(?P<hash>\d+)")
#: How alike a word is to the name that was meant.
_ALIKE = 0.8


@dataclass(frozen=True)
class Word:
    """A word that names no scenario: a cell, or one run of it."""

    text: str
    cell: str
    """The cell's key, the beginning of that, or a name of it."""
    repetition: int | None = None

    def is_of(self, cell: Cell) -> bool:
        """Whether it names the cell."""
        from harness.evaluation.cell_result import called

        if _KEY.fullmatch(self.cell) and cell.key.startswith(self.cell):
            return True
        return self.cell in called(cell)


@dataclass(frozen=True)
class Named:
    """What words name."""

    results: list[CellResult]
    """The cells, of scenarios and named one by one."""
    runs: tuple[str, ...] = ()
    """Where runs or cells were named one by one: those runs, and the first of every other cell, as KEY/REPETITION."""
    several: bool = False
    """Whether that took more than one word."""


def stored_cells(
    app: App,
    words: list[str] | None,
    clients: str,
    servers: str,
    *,
    every: bool = False,
    instead: Iterable[str] = (),
) -> list[CellResult]:
    """The stored cells of these scenarios, or of these names, and of these implementations. Raises InputError;
    AbsentError where there is none of them.

    `every`: also those that newer ones replace. `instead`: words that may stand where a scenario does, for the hint.
    """
    return stored(app, words, clients, servers, every=every, instead=instead).results


def stored(
    app: App,
    words: list[str] | None,
    clients: str = "all",
    servers: str = "all",
    *,
    every: bool = False,
    instead: Iterable[str] = (),
) -> Named:
    """The same, with the runs that were named one by one. AbsentError where nothing is stored, or nothing of this."""
    root, other = app.places.store, "'harness run' makes runs; --store names another folder"
    if not root.is_dir():
        raise AbsentError(f"{root}: no such folder, so there are no stored runs", other)
    scenarios, others, unknown = _sorted(app, words or [], instead)

    def played(cell: Cell) -> bool:
        return (clients == "all" or cell.client.name in clients.split(",")) and (
            servers == "all" or cell.server.name in servers.split(",")
        )

    def of_scenarios(cell: Cell) -> bool:
        return played(cell) and (not words or cell.scenario.name in scenarios)

    found = app.results.find(of_scenarios, every=every) if scenarios or not words else []
    runs: list[str] = []
    if others:
        runs = [result.runs[0][0].name for result in found if result.runs]
        # By its key a cell is found though a newer one has replaced it.
        old = any(_KEY.fullmatch(word.cell) for word in others)
        cells = app.results.find(lambda cell: played(cell) and any(word.is_of(cell) for word in others), every=old)
        for word, error in zip(others, unknown, strict=True):
            mine = [result for result in cells if word.is_of(result.cell)]
            if not mine:
                raise _nearest(app, word.text, error)
            runs += [_run(result, word) for result in mine]
        there = {result.cell.key for result in found}
        found += [result for result in cells if result.cell.key not in there]
    _require_known(app, "--clients", clients, {result.cell.client.name for result in found})
    _require_known(app, "--servers", servers, {result.cell.server.name for result in found})
    if not found:
        known = sorted({result.cell.scenario.name for result in app.results.find(lambda cell: True)})
        if not known:
            raise AbsentError(f"{root} holds no runs", other)
        raise AbsentError("no stored runs match", f"{root} has runs of {', '.join(known)}")
    return Named(found, tuple(dict.fromkeys(runs)), len(others) > 1)


def _require_known(app: App, option: str, words: str, found: set[str]) -> None:
    """InputError for an implementation that neither is here nor has runs that were found."""
    known = found | app.catalogue.implementations().keys()
    for word in [] if words == "all" else words.split(","):
        if word not in known:
            raise InputError(f"{option} {words}: no implementation '{word}'", did_you_mean(word, known))


def _sorted(app: App, words: Iterable[str], instead: Iterable[str]) -> tuple[set[str], list[Word], list[InputError]]:
    """Names of scenarios; other words, and what is wrong with each of these if it names nothing stored either."""
    scenarios, others, unknown = set[str](), list[Word](), list[InputError]()
    for word in words:
        folder = Path(word)
        if (folder / "run.json").is_file() and folder.resolve().name.isdecimal():
            folder = folder.resolve()
            others.append(Word(word, folder.parent.name, int(folder.name)))
            unknown.append(InputError(f"{word}: a run of another store", "name its store with --store"))
            continue
        try:
            scenarios |= {scenario.name for scenario in app.catalogue.find_scenarios([word], instead)}
        except InputError as error:
            if folder.is_file():
                raise
            others.append(_word(word))
            unknown.append(error)
    return scenarios, others, unknown


def _word(text: str) -> Word:
    match = _RUN.fullmatch(text)
    if match is None:
        return Word(text, text)
    return Word(text, match["key"] or match["name"], int(match["slash"] or match["hash"]))


def _run(result: CellResult, word: Word) -> str:
    """The run of a cell that a word names: the first, where it names no repetition."""
    runs = [run for run, _ in result.runs if word.repetition in (None, run.repetition)]
    if not runs:
        there = ", ".join(str(run.repetition) for run, _ in result.runs)
        raise InputError(f"{word.text}: no such repetition is stored", f"there is: {there}" if there else "")
    return runs[0].name


def _nearest(app: App, word: str, error: InputError) -> InputError:
    """What is wrong with a word that names nothing: where something stored is called nearly so, that."""
    from harness.evaluation.cell_result import called

    names = {name for result in app.results.find(lambda cell: True) for name in called(result.cell)}
    near = difflib.get_close_matches(word, names, n=3, cutoff=_ALIKE)
    if not near:
        return error
    said = " or ".join(f"'{name}'" for name in near)
    return InputError(f"no scenario, and no stored cell or run, is called '{word}'", f"did you mean {said}?")

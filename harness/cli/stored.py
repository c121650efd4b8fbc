"""Selection of stored cells and runs by words: scenarios, or names of cells and runs as tables print them.

And the arguments of commands that select them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.consoles import empty_json_if_absent, print_document
from harness.cli.environment import open_app
from harness.cli.options import AsJson, AsMarkdown, Clients, Every, Servers, StoredScenarios, StoreFolder
from harness.errors import InputError, NoDataError, did_you_mean

if TYPE_CHECKING:
    from harness.evaluation.cell_result import CellResult
    from harness.execution import App
    from harness.outcome import Cell
    from harness.report.document import Document

#: A cell's key, or at least six digits of its beginning.
_KEY = re.compile(r"[0-9a-f]{6,}")
#: A cell with a repetition: KEY/2, or 'NAME #2' as in a line of progress.
_RUN = re.compile(r"(?P<key>[0-9a-f]{6,})/(?P<slash>\d+)|(?P<name>.+?) #(?P<hash>\d+)")
#: Similarity from which on a name is suggested for a word (difflib).
_SIMILARITY = 0.8


@dataclass(frozen=True)
class CellName:
    """A word that names a cell or one run of it, and no scenario."""

    text: str
    cell: str
    """The cell's key, the beginning of that, or a name of it."""
    repetition: int | None = None

    def is_of(self, cell: Cell) -> bool:
        """Whether the word names this cell."""
        from harness.evaluation.cell_result import cell_names

        if _KEY.fullmatch(self.cell) and cell.key.startswith(self.cell):
            return True
        return self.cell in cell_names(cell)


@dataclass(frozen=True)
class Selection:
    """The cells and runs that words select."""

    results: list[CellResult]
    """The cells: those of scenarios, and those named individually."""
    runs: tuple[str, ...] = ()
    """If runs or cells were named individually: those runs, and the first run of other cells, as KEY/REPETITION."""
    several: bool = False
    """Whether that took more than one word."""


def stored_cells(
    app: App, words: list[str] | None, clients: str, servers: str, *, every: bool = False, instead: Iterable[str] = ()
) -> list[CellResult]:
    """The stored cells of these scenarios or names, and of these implementations. Raises InputError; AbsentError where
    there is none.

    `every`: also cells that newer ones replace. `instead`: other words that are valid in place of a scenario, for the
    hint.
    """
    return select_stored(app, words, clients, servers, every=every, instead=instead).results


def select_stored(
    app: App,
    words: list[str] | None,
    clients: str = "all",
    servers: str = "all",
    *,
    every: bool = False,
    instead: Iterable[str] = (),
) -> Selection:
    """The same, with the runs that were named individually. AbsentError where no stored run matches."""
    from harness.store.cell_names import CellNames

    root, hint = app.paths.store, "'harness run' makes runs; --store names another folder"
    if not root.is_dir():
        raise NoDataError(f"{root}: no such folder, so there are no stored runs", hint)
    scenarios, cell_words, unknown = _classify_words(app, words or [], instead)

    players = CellNames(clients=_names_in(clients), servers=_names_in(servers))
    of_scenarios = replace(players, scenarios=frozenset(scenarios) if words else None)
    results = app.results.find(among=of_scenarios, every=every) if scenarios or not words else []
    runs: list[str] = []
    if cell_words:
        runs = [result.runs[0][0].name for result in results if result.runs]
        # A key also finds a cell that a newer one has replaced.
        old = any(_KEY.fullmatch(word.cell) for word in cell_words)
        cells = app.results.find(lambda cell: any(word.is_of(cell) for word in cell_words), among=players, every=old)
        for word, error in zip(cell_words, unknown, strict=True):
            matching = [result for result in cells if word.is_of(result.cell)]
            if not matching:
                raise _unknown_word_error(app, word.text, error)
            runs += [_run_name(result, word) for result in matching]
        keys = {result.cell.key for result in results}
        results += [result for result in cells if result.cell.key not in keys]
    _require_known(app, "--clients", clients, {result.cell.client.name for result in results})
    _require_known(app, "--servers", servers, {result.cell.server.name for result in results})
    if not results:
        scenario_names = sorted({result.cell.scenario.name for result in app.results.find(lambda cell: True)})
        if not scenario_names:
            raise NoDataError(f"{root} holds no runs", hint)
        raise NoDataError("no stored runs match", f"{root} has runs of {', '.join(scenario_names)}")
    return Selection(results, tuple(dict.fromkeys(runs)), len(cell_words) > 1)


def _names_in(words: str) -> frozenset[str] | None:
    return None if words == "all" else frozenset(words.split(","))


def _require_known(app: App, option: str, words: str, stored_names: set[str]) -> None:
    """InputError for an implementation that is not in the checkout and has no selected runs."""
    if words == "all":
        return
    implementations = stored_names | app.catalogue.implementations().keys()
    for word in words.split(","):
        if word not in implementations:
            raise InputError(f"{option} {words}: no implementation '{word}'", did_you_mean(word, implementations))


def _classify_words(
    app: App, words: Iterable[str], instead: Iterable[str]
) -> tuple[set[str], list[CellName], list[InputError]]:
    """(names of scenarios, other words, the error for each of those if it names nothing stored either)."""
    scenarios, cell_words, unknown = set[str](), list[CellName](), list[InputError]()
    for word in words:
        folder = Path(word)
        if (folder / "run.json").is_file() and folder.resolve().name.isdecimal():
            folder = folder.resolve()
            cell_words.append(CellName(word, folder.parent.name, int(folder.name)))
            unknown.append(InputError(f"{word}: a run of another store", "name its store with --store"))
            continue
        try:
            scenarios |= {scenario.name for scenario in app.catalogue.find_scenarios([word], instead)}
        except InputError as error:
            if folder.is_file():
                raise
            cell_words.append(_parse_word(word))
            unknown.append(error)
    return scenarios, cell_words, unknown


def _parse_word(text: str) -> CellName:
    match = _RUN.fullmatch(text)
    if match is None:
        return CellName(text, text)
    return CellName(text, match["key"] or match["name"], int(match["slash"] or match["hash"]))


def _run_name(result: CellResult, word: CellName) -> str:
    """Name of the run of a cell that a word names: the first run, where the word has no repetition."""
    runs = [run for run, _ in result.runs if word.repetition in (None, run.repetition)]
    if not runs:
        repetitions = ", ".join(str(run.repetition) for run, _ in result.runs)
        raise InputError(
            f"{word.text}: no such repetition is stored", f"there is: {repetitions}" if repetitions else ""
        )
    return runs[0].name


def _unknown_word_error(app: App, word: str, error: InputError) -> InputError:
    """The error for a word that names nothing. It suggests stored names that are similar, where there are any."""
    from harness.evaluation.cell_result import cell_names

    names = {name for result in app.results.find(lambda cell: True) for name in cell_names(result.cell)}
    near = difflib.get_close_matches(word, names, n=3, cutoff=_SIMILARITY)
    if not near:
        return error
    suggestions = " or ".join(f"'{name}'" for name in near)
    return InputError(f"no scenario, and no stored cell or run, is called '{word}'", f"did you mean {suggestions}?")


# --- Arguments of commands


@dataclass(frozen=True)
class StoredArguments:
    """The arguments of a command on stored cells."""

    scenarios: StoredScenarios = None
    clients: Clients = "all"
    servers: Servers = "all"
    store: StoreFolder = None

    def cells(self, app: App | None = None, *, every: bool = False) -> list[CellResult]:
        """The selected cells, of an app that is open already or of the named store. As `stored_cells`."""
        return stored_cells(app or open_app(self.store), self.scenarios, self.clients, self.servers, every=every)


@dataclass(frozen=True)
class ReportArguments(StoredArguments):
    """The arguments of a command that prints a report on stored cells."""

    every: Every = False
    markdown: AsMarkdown = False
    as_json: AsJson = False

    def results(self, nothing: Callable[[], Document]) -> list[CellResult]:
        """The selected cells. Where there is none, the data of `nothing` is printed if JSON was requested. As
        `stored_cells`.
        """
        with empty_json_if_absent(self.as_json, nothing):
            return self.cells(every=self.every)

    def print_report(self, document_of: Callable[[list[CellResult]], Document]) -> None:
        """Print the report on the selected cells. As `stored_cells`."""
        self.print(document_of(self.results(lambda: document_of([]))))

    def print(self, document: Document) -> None:
        """Print a report in the requested way."""
        print_document(document, markdown=self.markdown, as_json=self.as_json)

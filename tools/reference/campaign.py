"""The campaign behind the repository's pages: the requests it consists of, and what of them is to be run.

`results/reference/campaign.yaml` holds them. A cell of the reference that today's requests would not make is not of
today, whatever became other: a scenario, a manifest, an image, the simulator or an engine.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.analysis.metrics import VERSION
from harness.catalogue import load
from harness.doe.interventions import ExplanationGenerator, explain
from harness.doe.settings_search import SearchGenerator, cells_so_far, drive_searches, start_searches
from harness.errors import EngineError, InputError, did_you_mean
from harness.evaluation.cell_result import CellResult, point_of
from harness.evaluation.publish import PublishedRuns, publish_runs
from harness.evaluation.staleness import mark_outdated
from harness.evaluation.verdict import judge
from harness.execution import App, Options
from harness.execution.events import Listener
from harness.execution.matrix import Pairs, PlannedRun, Request, plan_runs
from harness.execution.measured_store import StoredResults
from harness.outcome import ENGINES, Cell, EngineName, Run, proven_outcome
from harness.planning.estimate import expected_seconds
from harness.planning.sweep import dimensions, is_dimension
from harness.scenario.parameters import ROLES, Role
from harness.scenario.schema import Implementation, Part
from harness.store.identity import Component, Ledger, components, with_key
from harness.store.parquet import ColumnStore
from harness.store.results import is_columnar

CAMPAIGN = "campaign.yaml"
#: Sets of one cost that a search asks for at once: as many on every machine, so that it goes the same way on all.
_WIDTH = 8
#: So many runs, or seconds, of new results are taken over at once.
_PUBLISHED_RUNS, _PUBLISHED_SECONDS = 2000, 1800


class Asked(Part):
    """One request, as the words of a `harness run` would say it."""

    scenarios: tuple[str, ...]
    """Files, folders or names."""
    clients: str = "all"
    """Implementations, separated by commas, or all."""
    servers: str = "all"
    """Implementations, separated by commas, or all."""
    pairs: Pairs = "all"
    """Every client with every server, or each with itself only."""
    engine: EngineName = "virtual"
    """What runs it."""
    repeat: Annotated[int, Field(ge=1)] | None = None
    """Repetitions per cell, instead of the scenario's."""
    seed: Annotated[int, Field(ge=0)] = 1
    """Seed of the emulated loss."""
    set: Mapping[str, str] = Field(default_factory=dict)
    """What holds in every cell: name → value."""
    vary: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """A cell for each value: name → values."""
    search: Annotated[int, Field(ge=1)] | None = None
    """Sets of settings that `harness reach` may try for each pair; without, a study has its design."""
    why: bool = False
    """Whether each cell is also run with its causes of lost time removed, as `harness why` does."""

    @model_validator(mode="after")
    def _searches_all_pairs(self) -> Self:
        if self.search is not None and self.pairs != "all":
            raise ValueError("a search has all its pairs: leave 'pairs' out, or 'search'")
        if self.search is not None and self.why:
            raise ValueError("a search is no experiment on its cells: leave 'why' out, or 'search'")
        return self

    @property
    def grows(self) -> bool:
        """Whether its later cells follow from what the earlier ones came to."""
        return self.why or self.search is not None


class Requests(Part):
    """The campaign's file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    implementations: tuple[str, ...] = ()
    """What `all` means in a request: names of implementations. Without, it is every one of the checkout."""
    requests: tuple[Asked, ...]
    """In the order in which they are worked off."""


@dataclass(frozen=True)
class Share:
    """One request with its cells."""

    request: Asked
    cells: tuple[Cell, ...]
    missing_runs: tuple[PlannedRun, ...]
    """What of them is neither in the reference nor in the store."""

    @property
    def planned(self) -> list[PlannedRun]:
        """All its runs."""
        return plan_runs(self.cells, self.request.repeat)

    @property
    def seconds(self) -> float:
        """Rough wall time of what is to do, of one core."""
        return sum(expected_seconds(item.cell) for item in self.missing_runs)

    @property
    def name(self) -> str:
        """What it is called by: its scenarios, pairs and engine; and how far a search goes."""
        how = "" if self.request.search is None else f", a search of {self.request.search} sets a pair"
        how += ", with causes removed" if self.request.why else ""
        pairs = (
            "each with itself" if self.request.pairs == "itself" else f"{self.request.clients} → {self.request.servers}"
        )
        return f"{', '.join(self.request.scenarios)} ({pairs}, {self.request.engine}{how})"


class Reference:
    """The reference of a checkout, and the campaign it comes from."""

    def __init__(self, app: App, root: Path, *, fresh: bool = False) -> None:
        """`app`: whose store runs are made in; `root`: where the reference is; `fresh`: what it has is made as well."""
        self._app = app
        self.root = root
        self._remake = fresh
        self._unpublished: list[CellResult] = []
        self._published_at = time.monotonic()
        self._read_columns: tuple[list[tuple[int, int]], ColumnStore] | None = None

    def _read(self) -> Requests:
        file = self.root / CAMPAIGN
        if not file.exists():
            raise InputError(f"there is no {file}", "it lists the requests that the reference consists of")
        return load(file, Requests)

    def requests(self) -> tuple[Asked, ...]:
        """What the campaign asks for. InputError, with its place, for what it cannot ask."""
        file, asked = self.root / CAMPAIGN, self._read().requests
        for number, request in enumerate(asked, 1):
            for name in (*request.set, *request.vary):
                if not is_dimension(name):
                    message = f"{file}: request {number}: nothing is called '{name}'"
                    raise InputError(message, did_you_mean(name, dimensions()))
        return asked

    @functools.cached_property
    def _unavailable(self) -> dict[str, str]:
        """Implementations that are not here, read once: Docker is asked for the image of each."""
        return self._app.inventory.unavailable()

    @functools.cached_property
    def _excluded(self) -> frozenset[str]:
        """Names of the implementations that `all` does not mean, read once. InputError for a name that nobody has."""
        contestants = self._app.catalogue.implementations()
        listed = {contestants.find(name)[0].name for name in self._read().implementations}
        unlisted = {item.name for item, _ in contestants.values()} - listed if listed else set()
        return frozenset(unlisted | self._unavailable.keys())

    def matrix(self, asked: Asked, listen: Listener, among: Set[str] | None = None) -> list[Cell]:
        """The cells of one request, with today's bits. Raises InputError.

        Of a search, or an experiment, those that it asks for, as far as those lead of which something is known.
        `among`: the names of the implementations whose cells are wanted; all without.
        """
        if asked.grows:
            known = functools.partial(self._stored_cell, repeat=asked.repeat, columns=self._columns())
            return [cell for search in self._searching(asked, listen, among) for cell in cells_so_far(search, known)]
        return self._app.matrix(self._request(asked, among), listen, pull=False)

    def _request(self, asked: Asked, among: Set[str] | None = None) -> Request:
        app = self._app
        scenarios = app.catalogue.find_scenarios(asked.scenarios)

        def players(words: str, role: Role) -> list[Implementation]:
            absent = self._excluded if words == "all" else ()
            every = app.catalogue.find_implementations(words, role, absent, scenarios)
            return [item for item in every if among is None or item.name in among]

        return Request(
            scenarios=scenarios,
            clients=players(asked.clients, "client"),
            servers=players(asked.servers, "server"),
            default_roles=frozenset(
                role for role in ROLES if (asked.clients if role == "client" else asked.servers) == "all"
            ),
            pairs=asked.pairs,
            engine=asked.engine,
            sim_kernel="lab" if ENGINES[asked.engine].virtual_time else "auto",
            repetitions=asked.repeat,
            seed=asked.seed,
            parameters=asked.set,
            vary=asked.vary,
            # Most of it is stored, and the campaign's file decides how much it may ask for.
            most=None,
        )

    def _searching(
        self, asked: Asked, listen: Listener, among: Set[str] | None = None
    ) -> Sequence[SearchGenerator | ExplanationGenerator]:
        if asked.search is None:
            cells = self._app.matrix(self._request(asked, among), listen, pull=False)
            return [explain(cell, functools.partial(with_key, ledger=self._app.ledger)) for cell in cells]
        return start_searches(self._app, self._request(asked, among), asked.search, listen, width=_WIDTH, pull=False)

    def _stored_cell(self, cell: Cell, repeat: int | None, columns: ColumnStore | None) -> CellResult | None:
        """A cell with its runs, of the reference and of the store; None where some of them are in neither."""
        planned = plan_runs([cell], repeat)
        kept = set() if columns is None or self._remake else self._sound_runs(columns, planned)
        done = kept | self._app.results.completed_runs(planned, frozenset({"infrastructure"}))
        return self._combined_cell(cell, repeat, columns) if len(done) == len(planned) else None

    def _combined_cell(self, cell: Cell, repeat: int | None, columns: ColumnStore | None) -> CellResult:
        """A cell with its runs, judged as one: the sound ones of the reference, and of the store the rest."""
        stored = self._app.results.result_of(cell, repeat)
        if columns is None:
            return stored
        reference = StoredResults(columns, None).result_of(cell, repeat)
        by_repetition = {
            run.repetition: ((run, measured), folder)
            for result in (stored, reference)
            for (run, measured), folder in zip(result.runs, result.folders, strict=True)
            if result is stored or self._sound(columns, run)
        }
        pairs, folders = (
            zip(*(by_repetition[number] for number in sorted(by_repetition)), strict=True)
            if by_repetition
            else ((), ())
        )
        return CellResult(cell, pairs, judge(cell.scenario, pairs, [str(folder) for folder in folders]), folders)

    def shares(self, engine: EngineName, only: Collection[str], listen: Listener) -> Iterator[Share]:
        """The requests of one engine that have cells, and what of these is still to do.

        `only`: scenarios or folders to which cells are limited; none for all.
        """
        for asked in self.requests():
            if asked.engine != engine or not self._names_any(asked, only):
                continue
            cells = [cell for cell in self.matrix(asked, listen) if _is_named(cell.scenario.name, only)]
            if cells:
                planned = plan_runs(cells, asked.repeat)
                done = self.stored_runs(planned) | self._app.results.completed_runs(
                    planned, frozenset({"infrastructure"})
                )
                todo = tuple(item for item in planned if (item.cell.key, item.repetition) not in done)
                yield Share(asked, tuple(cells), todo)

    def _names_any(self, asked: Asked, only: Collection[str]) -> bool:
        """Whether any scenario of a request is among `only`; then its cells are worth planning. InputError."""
        return any(_is_named(scenario.name, only) for scenario in self._app.catalogue.find_scenarios(asked.scenarios))

    def stored_runs(self, planned: Iterable[PlannedRun]) -> set[tuple[str, int]]:
        """(key, repetition) of the planned runs that the reference has, with what is worth keeping."""
        columns = self._columns()
        return set() if columns is None or self._remake else self._sound_runs(columns, planned)

    def _columns(self) -> ColumnStore | None:
        """What is in the reference by now, read anew only where it was written; None where nothing is."""
        if not is_columnar(self.root):
            return None
        tables = (file.stat() for file in sorted(self.root.glob("*.parquet")))
        written = [(table.st_ino, table.st_mtime_ns) for table in tables]
        if self._read_columns is None or self._read_columns[0] != written:
            self._read_columns = written, ColumnStore(self.root)
        return self._read_columns[1]

    def _sound_runs(self, columns: ColumnStore, planned: Iterable[PlannedRun]) -> set[tuple[str, int]]:
        sound = set()
        for item in planned:
            run = columns.run(item.cell.key, item.repetition)
            if run is not None and self._sound(columns, run):
                sound.add((item.cell.key, item.repetition))
        return sound

    def _sound(self, columns: ColumnStore, run: Run) -> bool:
        return proven_outcome(run, columns.measured(run.cell.key, run.repetition)).status != "infrastructure"

    def work(self, share: Share, options: Options, listen: Listener) -> list[CellResult]:
        """Do what is to do of a request, and return what the reference lacks of it. Raises as `App.run` does.

        Its finished runs wait to be published if something ends it early.
        """
        repeat, cells = share.request.repeat, {cell.key: cell for cell in share.cells}

        def results_of(asked: Sequence[Cell]) -> list[CellResult]:
            columns = self._columns()
            known = {cell.key: self._stored_cell(cell, repeat, columns) for cell in asked}
            cells.update((cell.key, cell) for cell in asked)
            self._run([cell for cell in asked if known[cell.key] is None], repeat, options, listen)
            return [known[cell.key] or self._combined_cell(cell, repeat, columns) for cell in asked]

        try:
            if share.request.grows:
                drive_searches(self._searching(share.request, listen), results_of)
            else:
                self._run(
                    list({item.cell.key: item.cell for item in share.missing_runs}.values()), repeat, options, listen
                )
        except (KeyboardInterrupt, EngineError):
            self._unpublished += self.unstored_results(cells.values(), repeat)
            raise
        return self.unstored_results(cells.values(), repeat)

    def _run(self, cells: Sequence[Cell], repeat: int | None, options: Options, listen: Listener) -> None:
        """What of these cells is in neither store is run."""
        if cells:
            self._app.run_cells(cells, repeat, options, listen, self.stored_runs(plan_runs(cells, repeat)))

    def unstored_results(self, cells: Iterable[Cell], repeat: int | None) -> list[CellResult]:
        """Those cells of which the store has sound runs that the reference has not."""
        cells = list(cells)
        kept = self.stored_runs(plan_runs(cells, repeat))
        results = [self._app.results.result_of(cell, repeat or cell.scenario.repetitions) for cell in cells]
        return [
            result
            for result in results
            if any(
                proven_outcome(run, measured).status != "infrastructure" and (run.cell.key, run.repetition) not in kept
                for run, measured in result.runs
            )
        ]

    def publish(
        self,
        results: Iterable[CellResult],
        with_series: Callable[[Sequence[CellResult]], Set[str]],
        announce: Callable[[int], None],
        *,
        last: bool,
    ) -> PublishedRuns | None:
        """Take results over into the reference, a few requests at a time. EngineError if the disk refuses; ResultError.

        The reference is rewritten as a whole, which takes minutes: results wait until there are many, or for a while.
        Nothing is lost meanwhile, for the store has them. None as long as they wait. `with_series`: the names of the
        runs whose series are kept; `announce`: called with the number of runs before the reference is rewritten;
        `last`: nothing is to wait.
        """
        self._unpublished += results
        runs = sum(len(result.runs) for result in self._unpublished)
        waited = time.monotonic() - self._published_at
        if not runs or not (last or runs >= _PUBLISHED_RUNS or waited >= _PUBLISHED_SECONDS):
            return None
        announce(runs)
        drawn = with_series(self._unpublished)
        published = publish_runs(self.root, self._unpublished, self._app.stored_runs, lambda run: run.name in drawn)
        self._unpublished, self._published_at = [], time.monotonic()
        return published

    def current_cells(self, listen: Listener, stored: Iterable[Cell]) -> dict[object, Cell]:
        """Point → the cell that the campaign would run there today, for implementations with `stored` cells."""
        among = {cell.implementation(role).name for cell in stored for role in ROLES}
        return {point_of(cell): cell for asked in self.requests() for cell in self.matrix(asked, listen, among)}

    def unrequested(self, listen: Listener) -> set[str]:
        """Keys of the cells of the reference that no request asks for, whatever their bits."""
        columns = self._columns()
        if columns is None:
            return set()
        stored = {key: [run.cell for run in columns.runs(key)] for key in columns.cell_keys()}
        today = self.current_cells(listen, (cell for cells in stored.values() for cell in cells))
        return {key for key, cells in stored.items() if any(point_of(cell) not in today for cell in cells)}

    def with_staleness(self, results: list[CellResult], listen: Listener) -> list[CellResult]:
        """Results of the reference, with what of each is not of today."""
        today = self.current_cells(listen, (result.cell for result in results))
        return mark_outdated(results, today, VERSION, self._app.ledger)


def ledger_of_stored(ledger: Ledger, stored: Iterable[Cell]) -> Ledger:
    """The ledger without the entries that end at an identity of no stored cell: they join no results."""
    digests = {item for cell in stored for item in components(cell).items()}

    def end(component: Component, digest: str) -> tuple[Component, str]:
        # Without scopes: an entry that leaves some cells out serves the others.
        return component, ledger.identity(component, digest, frozenset)

    ends = {end(component, digest) for component, digest in digests}
    needed = [entry for entry in ledger.entries.equivalences if end(entry.component, entry.digest) in ends]
    return functools.reduce(Ledger.with_entry, needed, Ledger())


def _is_named(scenario: str, words: Collection[str]) -> bool:
    return not words or any(scenario == word or scenario.startswith(f"{word}/") for word in words)

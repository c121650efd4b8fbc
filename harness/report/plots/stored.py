"""Which stored runs are drawn, beside which others, where their figures go, and which of them are missing."""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.errors import InputError, did_you_mean, reason
from harness.evaluation.cell_result import CellResult
from harness.formatting import counted
from harness.outcome import Cell, MeasuredRun, Run
from harness.report.plots.curves import labels
from harness.report.plots.render import PAGE, Format, names_on, write
from harness.report.plots.view import PlotData
from harness.scenario.schema import FRAME_HEADER, Red
from harness.store.results import MEASURED, RUN, SERIES, Store, StoreReader

# --- Runs that belong beside each other: RED and DropTail on the same path, with the same flows.


def is_red(cell: Cell) -> bool:
    """Whether the bottleneck towards the client has RED."""
    return isinstance(cell.scenario.path.to_client.queue, Red)


def beside(red: Cell, candidate: Cell) -> bool:
    """Whether two cells differ only in the discipline of the bottleneck's queue: `red` has RED, `candidate` has not.

    The size of the queue is the same.
    """
    return is_red(red) and not is_red(candidate) and _but_for_the_queue(red) == _but_for_the_queue(candidate)


def _but_for_the_queue(cell: Cell) -> object:
    scenario = cell.scenario
    path = scenario.path.model_dump(mode="json", by_alias=True)
    link = "forward" if scenario.path.terminal == "client" else "return"
    del path[link]["queue"]
    packet = scenario.path.mtu + FRAME_HEADER
    queue_bytes = scenario.path.to_client.held.bytes_at(scenario.path.to_client.rate, scenario.path.rtt, packet)
    parameters = {name: value for name, value in cell.parameters.items() if not name.startswith(f"path.{link}.queue")}
    flows = [flow.model_dump(mode="json") for flow in scenario.flows]
    return path, queue_bytes, flows, parameters, cell.client.name, cell.server.name, cell.engine, cell.seed


# --- stored


Span = tuple[float, float]

#: Characters of a folder's name that tells several runs apart, at most.
_LONGEST = 100

#: All stored results of the cells that are wanted.
Search = Callable[[Callable[[Cell], bool]], list[CellResult]]

#: A stored run, and what was measured of it.
Stored = tuple[Run, MeasuredRun | None]


@dataclass(frozen=True)
class PlottedRun:
    """A run to draw, and the run with DropTail that belongs beside it where it has RED."""

    run: PlotData
    partner: PlotData | None = None


@dataclass(frozen=True)
class Subject:
    """What a drawing is of, without its series, which are large."""

    run: Stored
    partner: Stored | None = None

    @property
    def runs(self) -> list[Run]:
        """The run, and its partner."""
        return [stored[0] for stored in (self.run, self.partner) if stored is not None]

    def files(self, store: StoreReader) -> list[Path]:
        """What is drawn: the files of the run, and of its partner, that are there."""
        folders = [store.folder(run.cell.key, run.repetition) for run in self.runs]
        files = (folder / name for folder in folders for name in (RUN, MEASURED, SERIES))
        return [file for file in files if file.exists()]

    def drawing(self, store: StoreReader, span: Span | None = None) -> PlottedRun:
        """With the series, of a detail of that span. Raises ResultError."""
        return PlottedRun(
            _drawn(store, self.run, span), None if self.partner is None else _drawn(store, self.partner, span)
        )


def find_drawings(
    store: StoreReader, results: Sequence[CellResult], search: Search, run_names: Sequence[str], span: Span | None
) -> Iterator[PlottedRun]:
    """The drawings of the runs asked for, each read when it is its turn. Raises HarnessError."""
    return (subject.drawing(store, span) for subject in find_subjects(results, search, run_names))


def find_subjects(results: Sequence[CellResult], search: Search, run_names: Sequence[str] = ()) -> list[Subject]:
    """The runs to draw: those asked for as KEY/REPETITION, else the first of each cell. Raises InputError."""
    selected = [pair for result in results for pair in result.runs]
    if run_names:
        names = {run.name: (run, measured) for run, measured in selected}
        for name in run_names:
            if name not in names:
                raise InputError(f"--run {name}: no such run is stored", did_you_mean(name, names))
        selected = [names[name] for name in dict.fromkeys(run_names)]
    else:
        first = {run.cell.key: run.repetition for run, _ in reversed(selected)}
        selected = [(run, measured) for run, measured in selected if run.repetition == first[run.cell.key]]
    reds = [run.cell for run, _ in selected if is_red(run.cell)]
    # The partners need not be among what was asked for.
    candidates = search(lambda cell: any(beside(red, cell) for red in reds)) if reds else []
    return [Subject((run, measured), _partner(run, candidates)) for run, measured in selected]


def _drawn(store: StoreReader, stored: Stored, span: Span | None) -> PlotData:
    run, measured = stored
    return PlotData(run, measured, store.series(run.cell.key, run.repetition), span)


def _partner(run: Run, candidates: Sequence[CellResult]) -> Stored | None:
    for result in candidates:
        if not beside(run.cell, result.cell):
            continue
        for partner, measured in result.runs:
            if partner.repetition == run.repetition:
                return partner, measured
    return None


def folder_name(run: Run) -> Path:
    """Where a run's figures go: scenario / who played, parameters, engine, seed, repetition."""
    cell = run.cell
    words = [cell.client.name, cell.server.name] if cell.scenario.open_roles else []
    words += [f"{name}={value}" for name, value in cell.parameters.items()]
    words += [cell.engine, str(cell.seed), str(run.repetition)]
    return Path(cell.scenario.name) / "-".join(map(_plain, words))


def folder_of(runs: Sequence[PlotData]) -> Path:
    """Where the figures of several runs go: together / what tells them apart; long names are cut and numbered."""
    name = "-and-".join(_plain(label) for label in labels(runs))
    if len(name) > _LONGEST:
        digest = hashlib.sha256(" ".join(run.run.name for run in runs).encode()).hexdigest()[:8]
        name = f"{name[:_LONGEST]}-{digest}"
    return Path("together") / name


def _plain(word: str) -> str:
    """A word as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.=_]+", "_", word)


# --- The figures of many cells: which of them are there already, and drawing the others in several processes.


#: What is drawn without being asked for: PNGs take as long as everything else together.
FORMATS = (Format.SVG, Format.HTML)
#: Cells a process more is worth its start for.
_WORTH = 2
#: CPU time of a cell's figures and of a process' start, s, as it is on a common machine: for people who wait.
_CELL, _START = 3.0, 2.0
#: How soon Ctrl-C is heard while others draw, s.
_HEARS = 0.5


@dataclass(frozen=True)
class FigureSheet:
    """The figures of one cell: what they are of, and the folder they go to."""

    subject: Subject
    folder: Path

    @property
    def name(self) -> str:
        """Of the run that is drawn: KEY/REPETITION."""
        return self.subject.run[0].name


@dataclass(frozen=True)
class DrawnSheet:
    """What came of a sheet."""

    sheet: FigureSheet
    figures: int
    """How many are there; 0 of a run that has nothing to draw."""
    problem: str | None = None
    """Why they could not be drawn."""


@dataclass(frozen=True)
class Made:
    """What there is of many cells in the end."""

    drawn: tuple[DrawnSheet, ...]
    """Drawn now, or not, with the reason."""
    kept: tuple[DrawnSheet, ...]
    """There already."""

    def problems(self) -> list[str]:
        """A sentence for each reason, with the number of cells and one of them."""
        reasons: dict[str, list[str]] = {}
        for item in self.drawn:
            if item.problem is not None:
                reasons.setdefault(item.problem, []).append(item.sheet.name)
        return [
            f"no figures of {counted(len(names), 'cell')} (such as {names[0]}): {reason}"
            for reason, names in reasons.items()
        ]

    def sentence(self, place: str) -> str:
        """How many figures of how many cells there are in a place, and of how many cells they were there before."""
        sheets = [item for item in (*self.drawn, *self.kept) if item.figures]
        before = "all" if len(self.kept) == len(sheets) else len(self.kept)
        drawn_before = f" ({before} drawn before)" if self.kept else ""
        figures = counted(sum(item.figures for item in sheets), "figure")
        return f"{figures} of {counted(len(sheets), 'cell')} in {place}{drawn_before}"


def draw_missing(
    store: Store,
    results: Sequence[CellResult],
    search: Search,
    target: Path,
    cache: Path,
    processes: int,
    say: Callable[[str], None],
) -> Made:
    """Draw the first run of each of these cells into `target`, but those whose figures are newer than what they show.

    Raises HarnessError where the store cannot be read; what goes wrong with one cell is in the result. `say` is told
    before it takes a while.
    """
    sheets = [FigureSheet(subject, target / folder_name(subject.run[0])) for subject in find_subjects(results, search)]
    figure_counts = [(sheet, figures_there(sheet.folder, sheet.subject.files(store))) for sheet in sheets]
    up_to_date = tuple(DrawnSheet(sheet, count) for sheet, count in figure_counts if count)
    missing = [sheet for sheet, count in figure_counts if not count]
    processes = max(min(processes, len(missing) // _WORTH), 1)
    if missing:
        seconds = _START + _CELL * len(missing) / processes
        say(
            f"drawing the figures of {counted(len(missing), 'cell')}; about {seconds:.0f} s "
            "(--no-figures leaves them out)"
        )
    return Made(tuple(draw(store.root, missing, cache, processes)), up_to_date)


def draw_transfer(store: StoreReader, run: Run, measured: MeasuredRun | None, target: Path, cache: Path) -> Path | None:
    """The figure of one run's transfer, drawn unless it is newer than the run; None where there is nothing to draw.

    Raises HarnessError.
    """
    file = target / folder_name(run) / "transfer.svg"
    changed = [shown.stat().st_mtime_ns for shown in Subject((run, measured)).files(store)]
    if file.exists() and file.stat().st_mtime_ns > max(changed, default=0):
        return file
    drawn = Subject((run, measured)).drawing(store).run
    return file if write(drawn, file.parent, [Format.SVG], cache, only=[file.stem]) else None


def figures_there(folder: Path, shown: Sequence[Path]) -> int:
    """How many figures a folder has, if its page and all pictures on it are newer than the files they show; else 0."""
    try:
        since = max((file.stat().st_mtime_ns for file in shown), default=0)
        page = folder / PAGE
        pictures = [folder / f"{name}.svg" for name in names_on(page)]
        return len(pictures) if all(file.stat().st_mtime_ns > since for file in (page, *pictures)) else 0
    except OSError:
        return 0


def draw(root: Path, sheets: Sequence[FigureSheet], cache: Path, processes: int) -> Iterator[DrawnSheet]:
    """Draw runs of the store below `root`, side by side in so many processes; with one, in this one."""
    if processes == 1:
        yield from (_draw(root, sheet, cache) for sheet in sheets)
        return
    # Not forked: polars and V8 have threads.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        # Ctrl-C is for this process; those begun here inherit that they do not hear it.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            futures: dict[Future[DrawnSheet], FigureSheet] = {
                pool.submit(_draw, root, sheet, cache): sheet for sheet in sheets
            }
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        pending = set(futures)
        while pending:
            # Not for ever: where the kernel gives Ctrl-C to another thread, this one hears of it when it wakes.
            completed, pending = wait(pending, _HEARS, FIRST_COMPLETED)
            for future in completed:
                error = future.exception()
                yield future.result() if error is None else DrawnSheet(futures[future], 0, reason(error))
    except BaseException:
        # Nobody waits for what is half drawn: without its page, which comes last, it is drawn again.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _draw(root: Path, sheet: FigureSheet, cache: Path) -> DrawnSheet:
    try:
        drawing = sheet.subject.drawing(Store(root))
        files = write(drawing.run, sheet.folder, FORMATS, cache, partner=drawing.partner)
    except Exception as error:  # a figure must not cost the verdicts, nor the other cells' figures
        return DrawnSheet(sheet, 0, reason(error))
    return DrawnSheet(sheet, sum(file.suffix == ".svg" for file in files))


# --- Which stored runs `harness run` draws in the end.


Telling = tuple[CellResult, Run, MeasuredRun | None]

#: Verdicts, the worst first; what is not among them comes last.
_WORST = ("error", "fail", "inconclusive")


def with_figures(results: Iterable[CellResult]) -> list[CellResult]:
    """Those of these cells that have all their figures drawn: whose flows share the path, or come and go on it."""
    return [result for result in results if result.runs and result.cell.scenario.has_series]


def telling_runs(results: Iterable[CellResult]) -> list[Telling]:
    """The measured runs of single downloads, the one to look at first in front.

    That is one of the worst verdict; among these one that did not complete, then the slowest, then the latest.
    """
    runs = [
        (result, run, measured)
        for result in results
        if not result.cell.scenario.has_series
        for run, measured in result.runs
        # Of one that nobody could play there is nothing to see.
        if measured is not None
    ]
    return sorted(runs, key=_gravity)


def _gravity(item: Telling) -> tuple[int, bool, float, float]:
    result, run, measured = item
    status = result.verdict.status
    rank = _WORST.index(status) if status in _WORST else len(_WORST)
    completion = None if measured is None else measured.value("completion", 0, "first")
    return rank, run.outcome.status == "completed", -(completion or 0.0), -_moment(run)


def _moment(run: Run) -> float:
    """When a run began, s since the epoch; 0 where that was not noted."""
    try:
        return datetime.fromisoformat(run.started_at).timestamp()
    except ValueError:
        return 0.0

"""Selection of the stored runs to draw, their partners, the folders of their figures, and the missing figures."""

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

from harness.errors import InputError, describe_error, did_you_mean
from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.outcome import Cell, MeasuredRun, Run
from harness.report.plots.curves import run_labels
from harness.report.plots.render import PAGE, Format, figure_names, write_figures
from harness.report.plots.view import PlotData
from harness.scenario.schema import FRAME_HEADER, DropTail, Red
from harness.store.results import MEASURED, RUN, SERIES, Store, StoreReader

# --- Pairs of runs: RED and DropTail on the same path, with the same flows.


def is_red(cell: Cell) -> bool:
    """Whether the bottleneck towards the client uses RED."""
    return isinstance(cell.scenario.path.to_client.queue, Red)


def is_droptail(cell: Cell) -> bool:
    """Whether the bottleneck towards the client is a drop-tail queue."""
    return isinstance(cell.scenario.path.to_client.queue, DropTail)


def is_queue_pair(red: Cell, candidate: Cell) -> bool:
    """Whether two cells differ only in the bottleneck's discipline: `red` has RED, `candidate` is drop-tail.

    The size of the queue is the same.
    """
    return is_red(red) and is_droptail(candidate) and _key_without_queue(red) == _key_without_queue(candidate)


def _key_without_queue(cell: Cell) -> object:
    scenario = cell.scenario
    path = scenario.path.model_dump(mode="json", by_alias=True)
    link = "forward" if scenario.path.terminal == "client" else "return"
    del path[link]["queue"]
    packet = scenario.path.mtu + FRAME_HEADER
    link_to_client = scenario.path.to_client
    queue_bytes = link_to_client.queue.capacity.bytes_at(link_to_client.rate, scenario.path.rtt, packet)
    parameters = {name: value for name, value in cell.parameters.items() if not name.startswith(f"path.{link}.queue")}
    flows = [flow.model_dump(mode="json") for flow in scenario.flows]
    return path, queue_bytes, flows, parameters, cell.client.name, cell.server.name, cell.engine, cell.seed


# --- stored


Span = tuple[float, float]

#: The most characters of a folder's name for several runs; a longer one is cut, and a digest is appended.
_MAX_NAME = 100

#: All stored results of the cells that a predicate selects.
Search = Callable[[Callable[[Cell], bool]], list[CellResult]]

#: A stored run and its measurements.
Stored = tuple[Run, MeasuredRun | None]


@dataclass(frozen=True)
class PlottedRun:
    """A run to draw; if it uses RED, also its partner run with DropTail."""

    run: PlotData
    partner: PlotData | None = None


@dataclass(frozen=True)
class Subject:
    """The run of a drawing and its partner, without their series, which are large."""

    run: Stored
    partner: Stored | None = None

    @property
    def runs(self) -> list[Run]:
        """The run, and its partner."""
        return [stored[0] for stored in (self.run, self.partner) if stored is not None]

    def files(self, store: StoreReader) -> list[Path]:
        """The existing files from which the run and its partner are drawn."""
        folders = [store.folder(run.cell.key, run.repetition) for run in self.runs]
        files = (folder / name for folder in folders for name in (RUN, MEASURED, SERIES))
        return [file for file in files if file.exists()]

    def drawing(self, store: StoreReader, span: Span | None = None) -> PlottedRun:
        """The runs with their series. `span`: the detail to show, s. Raises ResultError."""
        return PlottedRun(
            _load_plot_data(store, self.run, span),
            None if self.partner is None else _load_plot_data(store, self.partner, span),
        )


def load_drawings(
    store: StoreReader, results: Sequence[CellResult], search: Search, run_names: Sequence[str], span: Span | None
) -> Iterator[PlottedRun]:
    """The drawings of the requested runs; each is read when it is needed. Raises HarnessError."""
    return (subject.drawing(store, span) for subject in find_subjects(results, search, run_names))


def find_subjects(results: Sequence[CellResult], search: Search, run_names: Sequence[str] = ()) -> list[Subject]:
    """The runs to draw: those requested as KEY/REPETITION, else the first of each cell. Raises InputError."""
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
    # Partners may be outside the requested results.
    candidates = search(lambda cell: any(is_queue_pair(red, cell) for red in reds)) if reds else []
    return [Subject((run, measured), _partner(run, candidates)) for run, measured in selected]


def _load_plot_data(store: StoreReader, stored: Stored, span: Span | None) -> PlotData:
    run, measured = stored
    return PlotData(run, measured, store.series(run.cell.key, run.repetition), span)


def _partner(run: Run, candidates: Sequence[CellResult]) -> Stored | None:
    for result in candidates:
        if not is_queue_pair(run.cell, result.cell):
            continue
        for partner, measured in result.runs:
            if partner.repetition == run.repetition:
                return partner, measured
    return None


def run_folder(run: Run) -> Path:
    """The folder of a run's figures: scenario / pair, parameters, engine, seed and repetition."""
    cell = run.cell
    words = [cell.client.name, cell.server.name] if cell.scenario.open_roles else []
    words += [f"{name}={value}" for name, value in cell.parameters.items()]
    words += [cell.engine, str(cell.seed), str(run.repetition)]
    return Path(cell.scenario.name) / "-".join(map(_safe_name, words))


def comparison_folder(runs: Sequence[PlotData]) -> Path:
    """The folder of several runs' figures: together / the runs' labels; a long name is cut, and a digest appended."""
    name = "-and-".join(_safe_name(label) for label in run_labels(runs))
    if len(name) > _MAX_NAME:
        digest = hashlib.sha256(" ".join(run.run.name for run in runs).encode()).hexdigest()[:8]
        name = f"{name[:_MAX_NAME]}-{digest}"
    return Path("together") / name


def _safe_name(word: str) -> str:
    """A word in a form that is safe in a file's name."""
    return re.sub(r"[^A-Za-z0-9.=_]+", "_", word)


# --- The figures of many cells: finding those that are up to date, and drawing the others in several processes.


#: The default formats. PNGs are left out, since they take as long as everything else together.
FORMATS = (Format.SVG, Format.HTML)
#: The least number of cells per process that is worth the process' start.
_CELLS_PER_PROCESS = 2
#: CPU time of a cell's figures and of a process' start on a common machine, s, for the estimate that users see.
_CELL_SECONDS, _START_SECONDS = 3.0, 2.0
#: The longest delay before Ctrl-C takes effect while other processes draw, s.
_WAKE_INTERVAL = 0.5


@dataclass(frozen=True)
class FigureSheet:
    """The figures of one cell: their subject and their folder."""

    subject: Subject
    folder: Path

    @property
    def name(self) -> str:
        """The name of the run that is drawn: KEY/REPETITION."""
        return self.subject.run[0].name


@dataclass(frozen=True)
class DrawnSheet:
    """The result of drawing a sheet."""

    sheet: FigureSheet
    figures: int
    """The number of figures; 0 for a run that has nothing to draw."""
    problem: str | None = None
    """Why they could not be drawn."""


@dataclass(frozen=True)
class DrawingSummary:
    """The sheets of many cells: drawn now, or up to date before."""

    drawn: tuple[DrawnSheet, ...]
    """Drawn now, or failed, with the reason."""
    kept: tuple[DrawnSheet, ...]
    """Up to date before."""

    def problems(self) -> list[str]:
        """A sentence for each reason, with the number of cells and the name of one."""
        reasons: dict[str, list[str]] = {}
        for item in self.drawn:
            if item.problem is not None:
                reasons.setdefault(item.problem, []).append(item.sheet.name)
        return [
            f"no figures of {format_count(len(names), 'cell')} (such as {names[0]}): {reason}"
            for reason, names in reasons.items()
        ]

    def sentence(self, place: str) -> str:
        """A sentence with the number of figures and of cells in a place, and of cells that were drawn before."""
        sheets = [item for item in (*self.drawn, *self.kept) if item.figures]
        before = "all" if len(self.kept) == len(sheets) else len(self.kept)
        drawn_before = f" ({before} drawn before)" if self.kept else ""
        figures = format_count(sum(item.figures for item in sheets), "figure")
        return f"{figures} of {format_count(len(sheets), 'cell')} in {place}{drawn_before}"


def draw_outdated(
    store: Store,
    results: Sequence[CellResult],
    search: Search,
    target: Path,
    cache: Path,
    processes: int,
    say: Callable[[str], None],
) -> DrawingSummary:
    """Draw the first run of each of these cells into `target`, unless its figures are newer than its data.

    `say` gets a message before the drawing, which takes a while. Raises HarnessError where the store cannot be read.
    Errors of single cells are in the result.
    """
    sheets = [FigureSheet(subject, target / run_folder(subject.run[0])) for subject in find_subjects(results, search)]
    figure_counts = [(sheet, count_current_figures(sheet.folder, sheet.subject.files(store))) for sheet in sheets]
    up_to_date = tuple(DrawnSheet(sheet, count) for sheet, count in figure_counts if count)
    missing = [sheet for sheet, count in figure_counts if not count]
    processes = max(min(processes, len(missing) // _CELLS_PER_PROCESS), 1)
    if missing:
        seconds = _START_SECONDS + _CELL_SECONDS * len(missing) / processes
        say(
            f"drawing the figures of {format_count(len(missing), 'cell')}; about {seconds:.0f} s "
            "(--no-figures leaves them out)"
        )
    return DrawingSummary(tuple(draw_sheets(store.root, missing, cache, processes)), up_to_date)


def draw_transfer(store: StoreReader, run: Run, measured: MeasuredRun | None, target: Path, cache: Path) -> Path | None:
    """The file with the figure of one run's transfer, drawn unless it is newer than the run; None without a figure.

    Raises HarnessError.
    """
    file = target / run_folder(run) / "transfer.svg"
    changed = [shown.stat().st_mtime_ns for shown in Subject((run, measured)).files(store)]
    if file.exists() and file.stat().st_mtime_ns > max(changed, default=0):
        return file
    drawn = Subject((run, measured)).drawing(store).run
    return file if write_figures(drawn, file.parent, [Format.SVG], cache, only=[file.stem]) else None


def count_current_figures(folder: Path, shown: Sequence[Path]) -> int:
    """The number of figures in a folder; 0 unless its page and all its pictures are newer than the files in `shown`."""
    try:
        since = max((file.stat().st_mtime_ns for file in shown), default=0)
        page = folder / PAGE
        pictures = [folder / f"{name}.svg" for name in figure_names(page)]
        return len(pictures) if all(file.stat().st_mtime_ns > since for file in (page, *pictures)) else 0
    except OSError:
        return 0


def draw_sheets(root: Path, sheets: Sequence[FigureSheet], cache: Path, processes: int) -> Iterator[DrawnSheet]:
    """Draw runs of the store below `root` in `processes` parallel processes; with one, in this process."""
    if processes == 1:
        yield from (_draw(root, sheet, cache) for sheet in sheets)
        return
    # Spawned, not forked, because polars and V8 have threads.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        # Only this process handles Ctrl-C: the processes that start here inherit the blocked signal.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            futures: dict[Future[DrawnSheet], FigureSheet] = {
                pool.submit(_draw, root, sheet, cache): sheet for sheet in sheets
            }
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        pending = set(futures)
        while pending:
            # With a timeout: if the kernel delivers Ctrl-C to another thread, this one handles it when it wakes.
            completed, pending = wait(pending, _WAKE_INTERVAL, FIRST_COMPLETED)
            for future in completed:
                error = future.exception()
                yield future.result() if error is None else DrawnSheet(futures[future], 0, describe_error(error))
    except BaseException:
        # Unfinished sheets are abandoned. They have no page, which is written last, so they will be drawn again.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _draw(root: Path, sheet: FigureSheet, cache: Path) -> DrawnSheet:
    try:
        drawing = sheet.subject.drawing(Store(root))
        files = write_figures(drawing.run, sheet.folder, FORMATS, cache, partner=drawing.partner)
    except Exception as error:  # a figure must not cost the verdicts, nor the other cells' figures
        return DrawnSheet(sheet, 0, describe_error(error))
    return DrawnSheet(sheet, sum(file.suffix == ".svg" for file in files))


# --- The stored runs that `harness run` draws at its end.


RankedRun = tuple[CellResult, Run, MeasuredRun | None]

#: Verdicts in order of severity, the worst first; verdicts that are not listed come last.
_BY_SEVERITY = ("error", "fail", "inconclusive")


def cells_with_figures(results: Iterable[CellResult]) -> list[CellResult]:
    """The cells for which all figures are drawn: their flows share the path, or start and stop on it."""
    return [result for result in results if result.runs and result.cell.scenario.has_series]


def rank_runs(results: Iterable[CellResult]) -> list[RankedRun]:
    """The measured runs of single downloads, the most interesting one first.

    They are sorted by the severity of the verdict; then runs that did not complete, then slower, then later runs first.
    """
    runs = [
        (result, run, measured)
        for result in results
        if not result.cell.scenario.has_series
        for run, measured in result.runs
        # A run of an unsupported cell has nothing to show.
        if measured is not None
    ]
    return sorted(runs, key=_severity)


def _severity(item: RankedRun) -> tuple[int, bool, float, float]:
    result, run, measured = item
    status = result.verdict.status
    rank = _BY_SEVERITY.index(status) if status in _BY_SEVERITY else len(_BY_SEVERITY)
    completion = None if measured is None else measured.value("completion", 0, "first")
    return rank, run.outcome.status == "completed", -(completion or 0.0), -_start_time(run)


def _start_time(run: Run) -> float:
    """The start of a run, s since the epoch; 0 where it was not recorded."""
    try:
        return datetime.fromisoformat(run.started_at).timestamp()
    except ValueError:
        return 0.0

"""The figures of many cells: which of them are there already, and drawing the others in several processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from harness.errors import reason
from harness.evaluation.cell_result import CellResult
from harness.formatting import counted
from harness.outcome import MeasuredRun, Run
from harness.report.plots.render import PAGE, Format, names_on, write
from harness.report.plots.stored import Search, Subject, find_subjects, folder_name
from harness.store.results import Store, StoreReader

#: What is drawn without being asked for: PNGs take as long as everything else together.
FORMATS = (Format.SVG, Format.HTML)
#: Cells a process more is worth its start for.
_WORTH = 2
#: CPU time of a cell's figures and of a process' start, s, as it is on a common machine: for people who wait.
_CELL, _START = 3.0, 2.0
#: How soon Ctrl-C is heard while others draw, s.
_HEARS = 0.5


@dataclass(frozen=True)
class Sheet:
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

    sheet: Sheet
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
        there = [item for item in (*self.drawn, *self.kept) if item.figures]
        before = "all" if len(self.kept) == len(there) else len(self.kept)
        kept = f" ({before} drawn before)" if self.kept else ""
        figures = counted(sum(item.figures for item in there), "figure")
        return f"{figures} of {counted(len(there), 'cell')} in {place}{kept}"


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
    sheets = [Sheet(subject, target / folder_name(subject.run[0])) for subject in find_subjects(results, search)]
    found = [(sheet, figures_there(sheet.folder, sheet.subject.files(store))) for sheet in sheets]
    kept = tuple(DrawnSheet(sheet, count) for sheet, count in found if count)
    todo = [sheet for sheet, count in found if not count]
    processes = max(min(processes, len(todo) // _WORTH), 1)
    if todo:
        seconds = _START + _CELL * len(todo) / processes
        say(
            f"drawing the figures of {counted(len(todo), 'cell')}; about {seconds:.0f} s (--no-figures leaves them out)"
        )
    return Made(tuple(draw(store.root, todo, cache, processes)), kept)


def draw_transfer(store: StoreReader, run: Run, measured: MeasuredRun | None, target: Path, cache: Path) -> Path | None:
    """The figure of one run's transfer, drawn unless it is newer than the run; None where there is nothing to draw.

    Raises HarnessError.
    """
    file = target / folder_name(run) / "transfer.svg"
    since = [shown.stat().st_mtime_ns for shown in Subject((run, measured)).files(store)]
    if file.exists() and file.stat().st_mtime_ns > max(since, default=0):
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


def draw(root: Path, sheets: Sequence[Sheet], cache: Path, processes: int) -> Iterator[DrawnSheet]:
    """Draw runs of the store below `root`, side by side in so many processes; with one, in this one."""
    if processes == 1:
        yield from (_draw(root, sheet, cache) for sheet in sheets)
        return
    # Not forked: polars and V8 have threads.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        # Ctrl-C is for this process; those begun here inherit that they do not hear it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            futures: dict[Future[DrawnSheet], Sheet] = {
                pool.submit(_draw, root, sheet, cache): sheet for sheet in sheets
            }
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        waiting = set(futures)
        while waiting:
            # Not for ever: where the kernel gives Ctrl-C to another thread, this one hears of it when it wakes.
            done, waiting = wait(waiting, _HEARS, FIRST_COMPLETED)
            for future in done:
                error = future.exception()
                yield future.result() if error is None else DrawnSheet(futures[future], 0, reason(error))
    except BaseException:
        # Nobody waits for what is half drawn: without its page, which comes last, it is drawn again.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _draw(root: Path, sheet: Sheet, cache: Path) -> DrawnSheet:
    try:
        drawing = sheet.subject.drawing(Store(root))
        wrote = write(drawing.run, sheet.folder, FORMATS, cache, partner=drawing.partner)
    except Exception as error:  # a figure must not cost the verdicts, nor the other cells' figures
        return DrawnSheet(sheet, 0, reason(error))
    return DrawnSheet(sheet, sum(file.suffix == ".svg" for file in wrote))

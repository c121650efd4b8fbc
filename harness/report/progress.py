"""Progress for people: a line per event, and a sign of life in between.

On a terminal the sign of life is a spinner with the phase, and the elapsed time against its estimate. Elsewhere it is
a line every half minute. Parallel runs have a line each, and so have builds of images.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from harness.execution.events import (
    BuildEnded,
    BuildStarted,
    ClusterProgress,
    Event,
    ImageStarted,
    LabKernelUsed,
    PhaseStarted,
    PlanMade,
    RunEnded,
    RunFinished,
    RunStarted,
    RunsVerified,
    RunTakenOver,
    WaitingForImage,
    WaitingForMachine,
    WaitingForRun,
    Warned,
)
from harness.formatting import format_count
from harness.outcome import ENGINES, Cell
from harness.report.terminal import styled_text

#: Longest silence without a terminal, seconds.
SILENCE = 30.0
#: Multiple of an estimate from which on it was wrong.
OVERDUE = 1.25


def duration_text(seconds: float) -> str:
    """A duration for people: '40 s', '12 min'."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _name(cell: Cell, repetition: int, varied: Collection[str] | None) -> str:
    """Name of a run: scenario, pair, varied values (all of them, where that is not known), repetition."""
    parameters = {name: value for name, value in cell.parameters.items() if varied is None or name in varied}
    values = ", ".join(f"{name}={value}" for name, value in parameters.items())
    pair = f"{cell.client.name}→{cell.server.name}"
    return f"{cell.scenario.name} {pair}{f' ({values})' if values else ''} #{repetition}"


def _progress(seconds: float, estimate: float) -> list[str]:
    """Elapsed time against its estimate. Empty without an estimate. An estimate that was wrong is called so."""
    if not estimate:
        return []
    if seconds > OVERDUE * estimate:
        return [f"{seconds:.0f} s, longer than the {duration_text(estimate)} that were expected"]
    return [f"{seconds:.0f} s of about {duration_text(estimate)}"]


@dataclass
class _ActiveRun:
    """A run under way."""

    what: str
    estimate: float
    since: float
    phase: str = ""


class ProgressPrinter:
    """Listens to events and prints progress on a console (stderr)."""

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds that never go back."""
        self._console = console
        self._clock = clock
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._begun = self._clock()
        self._varied: Collection[str] | None = None
        """Parameters by which the cells differ; None while that is not known."""
        self._current = ("", 0.0, self._begun)
        """What goes on while nothing runs: the thing, its estimate in seconds, since when."""
        self._awaited: str | None = None
        """The image whose build ends that; empty where any build does, None where none does."""
        self._runs: dict[tuple[str, int], _ActiveRun] = {}
        """Runs under way, by key and repetition; the one that began first comes first."""
        self._builds: dict[str, tuple[float, float]] = {}
        """What is built beside: name → its estimate in seconds, since when."""
        self._printed_at = self._begun
        self._ran = 0
        self._ended = threading.Event()
        self._pulse = threading.Thread(target=self._beat, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        self._pulse.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._pulse.join()
        if self._status:
            self._status.stop()
        if kind is None and self._ran:
            self._say(f"done: {format_count(self._ran, 'run')}")

    def _beat(self) -> None:
        """Print signs of life until everything has ended."""
        while not self._ended.wait(1.0 if self._status else SILENCE / 10):
            self.tick()

    def tick(self) -> None:
        """Print the signs of life that are due now."""
        signs = self._signs_of_life()
        if not signs or (self._status is None and self._clock() - self._printed_at < SILENCE):
            return
        if self._status:
            self._status.update(Text("\n  ".join(signs)))
        else:
            for sign in signs:
                self._say(f"… {sign}")

    def _signs_of_life(self) -> list[str]:
        """Current activities and their elapsed time, a line each. Empty when nothing goes on."""
        now = self._clock()
        # Copies: other threads begin and end runs and builds.
        runs, builds = list(self._runs.values()), list(self._builds.items())
        lines = [
            " · ".join([run.what, *([run.phase] if run.phase else []), *_progress(now - run.since, run.estimate)])
            for run in runs
        ]
        activity, estimate, since = self._current
        if activity and not runs:
            lines = [" · ".join([activity, *_progress(now - since, estimate)])]
        return lines + [
            " · ".join([f"building {name}", *_progress(now - began, expected)]) for name, (expected, began) in builds
        ]

    def _now(self, activity: str, estimate: float, awaited: str | None = None) -> None:
        self._current = (activity, estimate, self._clock())
        self._awaited = awaited

    def interrupted(self) -> None:
        """Print what an interrupt waits for: the end of the current runs and builds."""
        under_way = [f"{run.what}{f' ({run.phase})' if run.phase else ''}" for run in list(self._runs.values())]
        under_way += [f"the build of the image {name}" for name in list(self._builds)]
        ending = f"ending {', '.join(under_way)}" if under_way else "ending"
        self._say(f"interrupted: {ending}; a second Ctrl-C ends everything at once", style="yellow")

    def __call__(self, event: Event) -> None:
        """Print what happened."""
        match event:
            case PlanMade(to_run=0):
                self._say(f"all {event.stored} runs are stored: nothing to run (--fresh runs them again)")
            case PlanMade():
                self._varied = event.varied_parameters
                stored = f", {event.stored} are stored" if event.stored else ""
                extension = ", then more until their objectives are decided" if event.is_open_ended else ""
                runs = f"{event.to_run} runs of {event.cells} cells to do{stored}"
                disk = f", {event.disk}" if event.disk else ""
                self._say(f"{runs}; about {duration_text(event.seconds)}{disk}{extension}")
            case ImageStarted():
                self._now(f"making the image {event.name}", event.seconds, "")
                self._say(f"making the image {event.name} (about {duration_text(event.seconds)})")
            case BuildStarted() | BuildEnded():
                self._build(event)
            case WaitingForImage() | WaitingForMachine() | WaitingForRun():
                self._waits(event)
            case RunTakenOver():
                self._now("", 0)
                self._say(f"{_name(event.cell, event.repetition, self._varied)} was made by another harness meanwhile")
            case RunStarted():
                title = f"[{event.number}/{event.total}] {_name(event.cell, event.repetition, self._varied)}"
                self._runs[event.cell.key, event.repetition] = _ActiveRun(title, event.seconds, self._clock())
                self._now("", 0)
                self._say(f"{title} · about {duration_text(event.seconds_left)} left")
            case PhaseStarted():
                # A retried run begins with a phase.
                title = _name(event.cell, event.repetition, self._varied)
                run = _ActiveRun(title, 0, self._clock())
                self._runs.setdefault((event.cell.key, event.repetition), run).phase = event.phase
            case RunEnded():
                self._runs.pop((event.cell.key, event.repetition), None)
            case RunFinished():
                self._finished(event)
            case ClusterProgress() | RunsVerified() | LabKernelUsed() | Warned():
                self._aside(event)

    def _aside(self, event: ClusterProgress | RunsVerified | LabKernelUsed | Warned) -> None:
        match event:
            case ClusterProgress():
                self._cluster(event)
            case RunsVerified():
                self._say(f"verified: {event.text}")
            case LabKernelUsed():
                self._say(f"queues of the lab kernel: {event.text}")
            case Warned():
                self._warned(event)

    def _cluster(self, event: ClusterProgress) -> None:
        capacity = (
            f"{format_count(event.workers, 'worker')} on {format_count(event.hosts, 'machine')}, "
            f"{format_count(event.cores, 'core')}"
        )
        if event.changed:
            self._say(f"the cluster has {capacity}")
        speed = ""
        if event.rate:
            left = duration_text((event.total - event.completed) / event.rate)
            speed = f", {event.rate * 60:.3g} runs/min, about {left} left"
        self._now(f"{event.completed} of {event.total} runs done, {event.under_way} handed out to {capacity}{speed}", 0)

    def _warned(self, event: Warned) -> None:
        run_name = ""
        if event.cell is not None:
            running = self._runs.get((event.cell.key, event.repetition))
            run_name = running.what if running is not None else _name(event.cell, event.repetition, self._varied)
        self._say(f"warning: {f'{run_name}: ' if run_name else ''}{event.text}", style="yellow")

    def _waits(self, event: WaitingForImage | WaitingForMachine | WaitingForRun) -> None:
        remaining, awaited = "", None
        match event:
            case WaitingForImage():
                awaited = event.name
                activity = f"waiting for the image {event.name}"
                remaining = f" (about {duration_text(event.seconds)} left)"
            case WaitingForMachine():
                cells = "real-time cells" if ENGINES[event.engine].virtual_time else "cells"
                activity = f"waiting for another harness to end, which runs {cells} on this machine"
            case WaitingForRun():
                holder = f" (process {event.process})" if event.process else ""
                name = _name(event.cell, event.repetition, self._varied)
                activity = f"waiting for another harness{holder}, which makes {name}"
        self._now(activity, 0, awaited)
        self._say(activity + remaining)

    def _build(self, event: BuildStarted | BuildEnded) -> None:
        # The making of an image has no event of its own at its end. Builds beside runs begin after it.
        if self._awaited == "" or (isinstance(event, BuildEnded) and event.name == self._awaited):
            self._now("", 0)
        if isinstance(event, BuildStarted):
            self._builds[event.name] = (event.seconds, self._clock())
            self._say(f"building the image {event.name} (about {duration_text(event.seconds)})")
            return
        self._builds.pop(event.name, None)
        if event.error is None:
            self._say(f"the image {event.name} is built, after {duration_text(event.seconds)}")
            return
        self._say(f"error: {event.error.message}", style="red")
        if event.error.hint:
            self._say(f"hint: {event.error.hint}")
        if event.lost:
            self._say(f"{format_count(event.lost, 'run')} left out for want of the image {event.name}")

    def _finished(self, event: RunFinished) -> None:
        # With it come the metrics, and polars: a plan, which prints durations as this does, need not wait for them.
        from harness.report.results import verdict_span

        self._ran += 1
        outcome, run = event.outcome, event.run
        running = self._runs.pop((event.cell.key, run.repetition), None)
        name = running.what if running is not None else _name(event.cell, run.repetition, self._varied)
        text = styled_text(verdict_span(event.verdict.status))
        took = f"{run.wall:.1f} s" if run.virtual is None else f"{run.wall:.1f} s, {run.virtual:.1f} s virtual"
        text.append(f" after {took}: {outcome.status}", style="default")
        if outcome.detail:
            text.append(f" ({outcome.detail})", style="default")
        self._console.print(Text(f"{self._stamp()}  {name} "), text, sep="", soft_wrap=True)

    def _say(self, text: str, style: str = "") -> None:
        self._printed_at = self._clock()
        self._console.print(f"{self._stamp()}  {text}", style=style, soft_wrap=True, markup=False)

    def _stamp(self) -> str:
        """How long ago everything began."""
        return f"{self._clock() - self._begun:6.1f} s"

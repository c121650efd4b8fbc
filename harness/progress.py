"""Progress for people: a line per thing that happens, and a sign of life in between.

On a terminal the sign of life is a spinner with the phase and how long the current thing has taken against its
estimate; elsewhere it is a line every half minute.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from harness.events import Event, ImageStarted, PhaseStarted, PlanMade, RunFinished, RunStarted, Warned
from harness.outcome import Cell
from harness.reports import beyond_the_pair, counted
from harness.reports.table import verdict_text

#: Longest silence without a terminal, seconds.
SILENCE = 30.0


def span(seconds: float) -> str:
    """A duration for people: '40 s', '12 min'."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _name(cell: Cell, repetition: int) -> str:
    return f"{cell.scenario.name} {cell.client.name}→{cell.server.name}{beyond_the_pair(cell)} #{repetition}"


class Talk:
    """Listens to events and talks on a console (stderr)."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._begun = time.monotonic()
        self._current = ("", "", 0.0, self._begun)
        """What goes on: the thing, its phase, its estimate in seconds, since when."""
        self._said = self._begun
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
            self._say(f"done: {counted(self._ran, 'run')}")

    def _beat(self) -> None:
        """Say that things go on, and for how long already."""
        while not self._ended.wait(1.0 if self._status else SILENCE / 10):
            what, phase, estimate, since = self._current
            if not what or (self._status is None and time.monotonic() - self._said < SILENCE):
                continue
            text = f"{what} · {phase} · " if phase else f"{what} · "
            text += f"{time.monotonic() - since:.0f} s of about {span(estimate)}"
            if self._status:
                self._status.update(text.replace("[", "\\["))
            else:
                self._say(f"… {text}")

    def _now(self, what: str, estimate: float) -> None:
        self._current = (what, "", estimate, time.monotonic())

    def __call__(self, event: Event) -> None:
        """Say what happened."""
        match event:
            case PlanMade(to_run=0):
                self._say(f"all {event.stored} runs are stored: nothing to run (--fresh runs them again)")
            case PlanMade():
                stored = f", {event.stored} are stored" if event.stored else ""
                self._say(f"{event.to_run} runs of {event.cells} cells to do{stored}; about {span(event.seconds)}")
            case ImageStarted():
                self._now(f"making the image {event.name}", event.seconds)
                self._say(f"making the image {event.name} (about {span(event.seconds)})")
            case RunStarted():
                what = f"[{event.number}/{event.of}] {_name(event.cell, event.repetition)}"
                self._now(what, event.seconds)
                self._say(f"{what} · about {span(event.seconds_left)} left")
            case PhaseStarted():
                what, _, estimate, since = self._current
                self._current = (what, event.phase, estimate, since)
            case RunFinished():
                self._finished(event)
            case Warned():
                self._say(f"warning: {event.text}", style="yellow")

    def _finished(self, event: RunFinished) -> None:
        self._ran += 1
        outcome, run = event.outcome, event.run
        text = verdict_text(event.verdict.status)
        took = f"{run.wall:.1f} s" if run.virtual is None else f"{run.wall:.1f} s, {run.virtual:.1f} s virtual"
        text.append(f" after {took}: {outcome.status}", style="default")
        if outcome.detail:
            text.append(f" ({outcome.detail})", style="default")
        self._console.print(f"    {_name(event.cell, run.repetition)} ", text, sep="", soft_wrap=True)

    def _say(self, text: str, style: str = "") -> None:
        self._said = time.monotonic()
        stamp = self._said - self._begun
        self._console.print(f"{stamp:6.1f} s  {text}", style=style, soft_wrap=True, markup=False)

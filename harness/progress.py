"""Progress for people: a line per thing that happens, and a sign of life in between.

On a terminal the sign of life is a spinner with the phase and how long the current thing has taken against its
estimate; elsewhere it is a line every half minute. Of runs side by side the one that began first is shown, and what is
built beside is named too.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from harness.events import (
    BuildEnded,
    BuildStarted,
    Event,
    ImageStarted,
    PhaseStarted,
    PlanMade,
    RunFinished,
    RunStarted,
    RunsWait,
    Warned,
)
from harness.outcome import Cell
from harness.reports.table import verdict_text
from harness.results import beyond_the_pair
from harness.text import counted

#: Longest silence without a terminal, seconds.
SILENCE = 30.0


def span(seconds: float) -> str:
    """A duration for people: '40 s', '12 min'."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _name(cell: Cell, repetition: int) -> str:
    return f"{cell.scenario.name} {cell.client.name}→{cell.server.name}{beyond_the_pair(cell)} #{repetition}"


def _progress(seconds: float, estimate: float) -> list[str]:
    """How long something has taken against its estimate; nothing where there is none."""
    return [f"{seconds:.0f} s of about {span(estimate)}"] if estimate else []


@dataclass
class _Running:
    """A run under way."""

    what: str
    estimate: float
    since: float
    phase: str = ""


class Talk:
    """Listens to events and talks on a console (stderr)."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._begun = time.monotonic()
        self._current = ("", 0.0, self._begun)
        """What goes on while nothing runs: the thing, its estimate in seconds, since when."""
        self._runs: dict[tuple[str, int], _Running] = {}
        """Runs under way, by key and repetition; the one that began first comes first."""
        self._builds: dict[str, tuple[float, float]] = {}
        """What is built beside: name → its estimate in seconds, since when."""
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
            text = self._sign_of_life()
            if not text or (self._status is None and time.monotonic() - self._said < SILENCE):
                continue
            if self._status:
                self._status.update(text.replace("[", "\\["))
            else:
                self._say(f"… {text}")

    def _sign_of_life(self) -> str:
        """What goes on, and for how long already; empty when nothing does."""
        now = time.monotonic()
        # Copies: other threads begin and end runs and builds.
        runs = list(self._runs.values())
        if runs:
            one = runs[0]
            parts = [one.what, *([one.phase] if one.phase else []), *_progress(now - one.since, one.estimate)]
            parts += [f"{len(runs) - 1} more beside it"] if len(runs) > 1 else []
        else:
            what, estimate, since = self._current
            parts = [what, *_progress(now - since, estimate)] if what else []
        parts += [
            f"building {name}, {now - began:.0f} s of about {span(expected)}"
            for name, (expected, began) in list(self._builds.items())
        ]
        return " · ".join(parts)

    def _now(self, what: str, estimate: float) -> None:
        self._current = (what, estimate, time.monotonic())

    def __call__(self, event: Event) -> None:
        """Say what happened."""
        match event:
            case PlanMade(to_run=0):
                self._say(f"all {event.stored} runs are stored: nothing to run (--fresh runs them again)")
            case PlanMade():
                stored = f", {event.stored} are stored" if event.stored else ""
                more = ", then more until their objectives are decided" if event.more else ""
                runs = f"{event.to_run} runs of {event.cells} cells to do{stored}"
                disk = f", {event.disk}" if event.disk else ""
                self._say(f"{runs}; about {span(event.seconds)}{disk}{more}")
            case ImageStarted():
                self._now(f"making the image {event.name}", event.seconds)
                self._say(f"making the image {event.name} (about {span(event.seconds)})")
            case BuildStarted():
                self._builds[event.name] = (event.seconds, time.monotonic())
                self._say(f"building the image {event.name} (about {span(event.seconds)})")
            case BuildEnded():
                self._built(event)
            case RunsWait():
                what = f"waiting for the image {event.name}"
                self._now(what, 0)
                self._say(f"{what} (about {span(event.seconds)} left)")
            case RunStarted():
                what = f"[{event.number}/{event.of}] {_name(event.cell, event.repetition)}"
                self._runs[event.cell.key, event.repetition] = _Running(what, event.seconds, time.monotonic())
                self._now("", 0)
                self._say(f"{what} · about {span(event.seconds_left)} left")
            case PhaseStarted():
                # A run that is tried again begins with a phase.
                what = _name(event.cell, event.repetition)
                run = _Running(what, 0, time.monotonic())
                self._runs.setdefault((event.cell.key, event.repetition), run).phase = event.phase
            case RunFinished():
                self._finished(event)
            case Warned():
                self._say(f"warning: {event.text}", style="yellow")

    def _built(self, event: BuildEnded) -> None:
        self._builds.pop(event.name, None)
        if event.error is None:
            self._say(f"the image {event.name} is built, after {span(event.seconds)}")
            return
        self._say(f"error: {event.error.message}", style="red")
        if event.error.hint:
            self._say(f"hint: {event.error.hint}")
        if event.lost:
            self._say(f"{counted(event.lost, 'run')} left out for want of the image {event.name}")

    def _finished(self, event: RunFinished) -> None:
        self._ran += 1
        self._runs.pop((event.cell.key, event.run.repetition), None)
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

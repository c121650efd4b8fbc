"""Progress for people: one line per thing that happens, a spinner with the phase where there is a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from harness.events import Event, ImageStarted, PhaseStarted, PlanMade, RunFinished, RunStarted, Warned
from harness.reports.table import verdict_text


def span(seconds: float) -> str:
    """A duration for people: '40 s', '12 min'."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class Talk:
    """Listens to events and talks on a console (stderr)."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._begun = time.monotonic()
        self._current = ""

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, event: Event) -> None:
        """Say what happened."""
        match event:
            case PlanMade(to_run=0):
                self._say(f"all {event.stored} runs are stored: nothing to run (--fresh runs them again)")
            case PlanMade():
                stored = f", {event.stored} are stored" if event.stored else ""
                self._say(f"{event.to_run} runs of {event.cells} cells to do{stored}; about {span(event.seconds)}")
            case ImageStarted():
                self._current = f"making the image {event.name} (about {span(event.seconds)})"
                self._say(self._current)
                self._show(self._current)
            case RunStarted():
                cell = event.cell
                self._current = (
                    f"[{event.number}/{event.of}] {cell.scenario.name} {cell.client.name}→{cell.server.name} "
                    f"#{event.repetition}"
                )
                self._say(f"{self._current} · about {span(event.seconds_left)} left")
            case PhaseStarted():
                self._show(f"{self._current} · {event.phase}")
            case RunFinished():
                self._finished(event)
            case Warned():
                self._say(f"warning: {event.text}", style="yellow")

    def _finished(self, event: RunFinished) -> None:
        outcome = event.outcome
        text = verdict_text(event.verdict.status)
        text.append(f" after {event.run.wall:.1f} s: {outcome.status}", style="default")
        if outcome.detail:
            text.append(f" ({outcome.detail})", style="default")
        self._console.print("   ", text, sep="", soft_wrap=True)

    def _say(self, text: str, style: str = "") -> None:
        stamp = time.monotonic() - self._begun
        self._console.print(f"{stamp:6.1f} s  {text}", style=style, soft_wrap=True, markup=False)

    def _show(self, text: str) -> None:
        if self._status:
            self._status.update(text.replace("[", "\\["))

"""What benchmarks share: a line of figures, a scenario by its rates, a cell whose images are there."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.execution import App
from harness.execution.matrix import Request
from harness.outcome import ENGINES, Cell, EngineName
from harness.scenario.schema import Flow, Scenario
from harness.units import Size

Line = dict[str, Any]


def line(name: str, values: Sequence[float], unit: str, aim: str) -> Line:
    """A benchmark's figures: median and extremes of `values`, beside what is aimed at."""
    return {
        "name": name,
        "unit": unit,
        "aim": aim,
        "n": len(values),
        "median": statistics.median(values),
        "low": min(values),
        "high": max(values),
    }


def scenario(
    name: str,
    rate: str,
    back: str,
    *,
    delay: str = "325 ms",
    size: str = "10 MB",
    loss: str = "0 %",
    burst: str | None = None,
) -> Scenario:
    """A path of two rates, the same delay each way and one BDP of buffer, with random loss both ways.

    `burst`: a token bucket towards the terminal.
    """
    link = {"delay": delay, "queue": "1 BDP", "loss": loss}
    return Scenario.model_validate(
        {
            "name": f"bench/{name}",
            "title": name,
            "path": {"forward": {"rate": rate, "burst": burst, **link}, "return": {"rate": back, **link}},
            "flows": [Flow(download=Size.parse(size))],
        }
    )


class Session(ABC):
    """One benchmark session: where it works, where it prints, and its lines."""

    def __init__(self, app: App, console: Console, folder: Path, lines: list[Line]) -> None:
        self.app = app
        self.console = console
        self.folder = folder
        self.lines = lines

    @abstractmethod
    def run(self) -> None:
        """Measure everything there is to this part."""

    def announce(self, name: str, seconds: float) -> None:
        """An image is made."""
        self.console.print(f"making the image {name} (about {seconds:.0f} s)")

    def say(self, figures: Line) -> None:
        """Print a line of figures and keep it."""
        self.lines.append(figures)
        self.console.print(
            f"{figures['name']:52} {figures['median']:10.6g} {figures['unit']:7} "
            f"[{figures['low']:.6g}, {figures['high']:.6g}] n={figures['n']}  aim: {figures['aim']}",
            markup=False,
            soft_wrap=True,
        )

    def cell(
        self,
        wanted: Scenario,
        engine: EngineName = "compose",
        client: str = "ngtcp2",
        server: str = "",
        **parameters: str,
    ) -> Cell:
        """The cell of an implementation with itself, or another as server, with its images made; `parameters` are the
        server's.
        """
        find = self.app.catalogue.find_implementations
        request = Request(
            [wanted],
            find(client, "client"),
            find(server or client, "server"),
            engine=engine,
            sim_kernel="lab" if ENGINES[engine].virtual_time else "auto",
            parameters={f"server.{name}": value for name, value in parameters.items()},
        )
        cell = self.app.matrix(request, lambda event: None, pull=False)[0]
        for build in self.app.inventory.builds_of(cell):
            self.app.images.make(build, self.announce)
        return cell

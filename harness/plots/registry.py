"""The list of plots. A plot is a function in any module of this package, marked with `@plot` or `@plot_of_pair`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from harness.plots.theme import Chart
from harness.plots.view import Drawn

Draw = Callable[[Drawn], Chart | None]
DrawPair = Callable[[Drawn, Drawn], Chart | None]


@dataclass(frozen=True)
class Plot:
    """One kind of figure."""

    name: str
    """Of its files, and on the command line."""
    title: str
    """What it shows, above the figure."""
    note: str
    """How to read it, where that does not go without saying."""
    needs: tuple[str, ...]
    """Names of the series without which it is not drawn."""
    draw: Callable[..., Chart | None]
    """From one run, or a pair of runs, to its chart; None where they have not what it needs."""
    pair: bool = False
    """Whether it draws two runs beside each other: RED first, then DropTail."""

    def chart(self, *runs: Drawn) -> Chart | None:
        """The chart without its heading; None where a run has not what it needs."""
        if any(not run.has(name) for run in runs for name in self.needs):
            return None
        return self.draw(*runs)


_PLOTS: dict[str, Plot] = {}


def plot(title: str, *needs: str, note: str = "") -> Callable[[Draw], Draw]:
    """Register a pure function from a run to a chart. Its name is that of the figure."""

    def register(function: Draw) -> Draw:
        _PLOTS[function.__name__] = Plot(function.__name__, title, note, needs, function)
        return function

    return register


def plot_of_pair(title: str, *needs: str, note: str = "") -> Callable[[DrawPair], DrawPair]:
    """Register a pure function from two runs, which differ in their queues' disciplines alone, to a chart."""

    def register(function: DrawPair) -> DrawPair:
        _PLOTS[function.__name__] = Plot(function.__name__, title, note, needs, function, pair=True)
        return function

    return register


def plots() -> dict[str, Plot]:
    """All plots by name, in alphabetical order; imports every module of the package."""
    package = importlib.import_module("harness.plots")
    for module in pkgutil.iter_modules(package.__path__, "harness.plots."):
        importlib.import_module(module.name)
    return dict(sorted(_PLOTS.items()))

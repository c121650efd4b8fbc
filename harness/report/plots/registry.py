"""The list of plots. A plot is a function in any module of this package, marked with one of the decorators below."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from harness.report.plots.theme import Chart
from harness.report.plots.view import PlotData

Draw = Callable[[PlotData], Chart | None]
DrawPair = Callable[[PlotData, PlotData], Chart | None]
DrawRuns = Callable[[Sequence[PlotData]], Chart | None]

F = TypeVar("F", bound=Callable[..., Chart | None])

Subject = Literal["flows", "transfer", "pair", "runs"]
"""What a figure is of: flows that share a path or come and go on it; one flow; RED beside DropTail; several runs."""


@dataclass(frozen=True)
class Plot:
    """One kind of figure."""

    name: str
    """The name in its files and on the command line."""
    title: str
    """The heading above the figure."""
    note: str
    """How to read it; empty where that is obvious."""
    needs: tuple[str, ...]
    """Names of the series without which it is not drawn."""
    draw: Callable[..., Chart | None]
    """From one run, a pair of runs, or a sequence of runs to the chart; None where they lack data for it."""
    of: Subject = "flows"

    @property
    def alone(self) -> bool:
        """Whether it draws one run."""
        return self.of in ("flows", "transfer")

    @property
    def shows(self) -> str:
        """Its content in one line: the first line of the function's docstring."""
        return (self.draw.__doc__ or "").strip().partition("\n")[0]

    def fits(self, run: PlotData) -> bool:
        """Whether this plot is drawn for a run by default."""
        if self.of == "transfer":
            return len(run.flows) == 1
        return self.of == "flows" and run.run.cell.scenario.has_series

    def chart(self, *runs: PlotData) -> Chart | None:
        """The chart without its heading; None where a run lacks a series that it needs."""
        if any(not run.has(name) for run in runs for name in self.needs):
            return None
        return self.draw(runs) if self.of == "runs" else self.draw(*runs)


_PLOTS: dict[str, Plot] = {}


def plot(title: str, *needs: str, note: str = "", of: Literal["flows", "transfer"] = "flows") -> Callable[[Draw], Draw]:
    """Register a pure function from a run to a chart. The function's name is the figure's name.

    `of`: the runs that are drawn by default: those whose flows share the path or stop, or those of one flow.
    """
    return lambda function: _register(function, title, note, needs, of)


def plot_of_pair(title: str, *needs: str, note: str = "") -> Callable[[DrawPair], DrawPair]:
    """Register a pure function to a chart from two runs that differ only in the queue discipline."""
    return lambda function: _register(function, title, note, needs, "pair")


def plot_of_runs(title: str, *needs: str, note: str = "") -> Callable[[DrawRuns], DrawRuns]:
    """Register a pure function to a chart from several runs, which may differ in anything."""
    return lambda function: _register(function, title, note, needs, "runs")


def _register(function: F, title: str, note: str, needs: tuple[str, ...], of: Subject) -> F:
    _PLOTS[function.__name__] = Plot(function.__name__, title, note, needs, function, of)
    return function


def plots() -> dict[str, Plot]:
    """All plots by name, in alphabetical order; imports every module of the package."""
    package = importlib.import_module("harness.report.plots")
    for module in pkgutil.iter_modules(package.__path__, "harness.report.plots."):
        importlib.import_module(module.name)
    return dict(sorted(_PLOTS.items()))

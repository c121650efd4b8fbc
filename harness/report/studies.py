"""Studies compare the claims of one source with stored runs. Lists the installed ones.

A package offers studies by an entry point of the group `harness.studies`. It names a `Study`, or a package
whose subpackages each define `STUDY`. This project's own studies are in studies/ (pyproject.toml).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.outcome import Cell, Interval
from harness.planning.endpoint_config import effective_parameters
from harness.report.parameters import sort_key

#: The entry points that name studies.
ENTRY_POINT_GROUP = "harness.studies"
#: The shared page of studies without a page of their own.
SHARED_PAGE = "documents.md"


@dataclass(frozen=True)
class Figure:
    """A figure on the page: one plot of one cell's first run."""

    scenario: str
    server: str
    """Who serves the first flow."""
    plot: str
    caption: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What tells the cell from others of the scenario."""
    client: str = ""
    """Whose client the first flow has, where the server does not tell."""

    @property
    def file(self) -> str:
        """Its file below docs/figures."""
        words = [
            self.scenario.rpartition("/")[2],
            *filter(None, [self.client]),
            self.server,
            *self.parameters.values(),
            self.plot,
        ]
        return "-".join(words) + ".svg"

    def is_of(self, result: CellResult) -> bool:
        """Whether it shows this cell."""
        cell = result.cell
        return (
            cell.scenario.name == self.scenario
            and cell.virtual_time
            and cell.implementation("server", 0).name == self.server
            and self.client in ("", cell.implementation("client", 0).name)
            and all(str(cell.parameters.get(name)) == value for name, value in self.parameters.items())
        )


@dataclass(frozen=True)
class Drawing:
    """A figure on the page that is drawn from all runs of a study."""

    file: str
    """Below docs/figures."""
    caption: str
    draw: Callable[[Sequence[CellResult]], dict[str, Any] | None]
    """From all stored results to Vega-Lite; None where there is nothing to draw."""


@dataclass(frozen=True)
class Study:
    """One source, and the runs that test its claims."""

    source: str
    """Who says it, and where."""
    text: Callable[[Sequence[CellResult]], str]
    """From all stored results to the study's part of its page, in Markdown."""
    scenarios: tuple[str, ...]
    """Those whose runs it rests on, by name or folder."""
    place: int
    """Studies with smaller numbers stand above it."""
    page: str = SHARED_PAGE
    """Its page, a file below docs/."""
    beside: Mapping[str, Callable[[Sequence[CellResult]], str]] = field(default_factory=dict)
    """What is too long for that page: file below docs/ → its text, of all stored results. A page, or data."""
    drawings: tuple[Drawing, ...] = ()
    """What is drawn below the text."""
    figures: tuple[Figure, ...] = ()
    """And below that."""
    claim: Callable[[Sequence[CellResult]], str] | None = None
    """From all stored results to a paragraph for the page of results: the main claim, and what the runs say to it."""
    finding: Callable[[Sequence[CellResult]], str] | None = None
    """From all stored results to a sentence that opens the shared page: what the source says, and what the runs say.
    Empty without runs."""

    def rests_on(self, result: CellResult) -> bool:
        """Whether a cell is among those it rests on."""
        name = result.cell.scenario.name
        return any(name == scenario or name.startswith(f"{scenario}/") for scenario in self.scenarios)


def measured_cells(results: Iterable[CellResult], scenario: str) -> list[CellResult]:
    """The cells of a scenario that have measurements, sorted by server and parameters."""
    cells = [result for result in results if result.cell.scenario.name == scenario and result.measurements]
    return sorted(cells, key=lambda result: (result.cell.server.name, sort_key(result.cell)))


def controller_of(cell: Cell, flow: int = 0) -> str:
    """The congestion control of a flow's server, as it is asked for, else its default; empty where nobody knows it."""
    setting = cell.implementation("server", flow).setting("server", "congestion_control")
    default = "" if setting is None or setting.default is None else setting.default
    return str(effective_parameters(cell, flow).get("server.congestion_control", default))


def packets_per_round_trip(result: CellResult) -> list[float]:
    """Packets that the first flow's sender sends in a round trip of the path without a queue, run by run.

    Empty where the flow has no planned stop, or nothing was counted.
    """
    scenario = result.cell.scenario
    stop = scenario.flows[0].stop
    if stop is None:
        return []
    return [sent * scenario.path.rtt.seconds / stop.seconds for sent in result.values("packets_to_client", 0, "first")]


def shared_throughputs(result: CellResult) -> tuple[Interval, Interval] | None:
    """Mbit/s of a cell's first flow and of its second; None where one is not known, or neither has anything.

    None, too, where a run did not complete: what flows have until one of them fails says nothing of how they share.
    """
    if not result.all_completed:
        return None
    first, second = (result.interval("mean_throughput", flow) for flow in (0, 1))
    if first is None or second is None or not first.median + second.median:
        return None
    return first, second


@cache
def installed_studies() -> dict[str, Study]:
    """All installed studies by name, in the order of pages. Imports them.

    InputError: an entry point that cannot be loaded, names no study, or has the name of another.
    """
    studies: dict[str, Study] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        for name, study in _studies_of(entry).items():
            if name in studies:
                raise InputError(f"two studies are called '{name}'", f"rename that of the entry point {entry.value}")
            studies[name] = study
    return sort_studies(studies)


def package_studies(package: ModuleType) -> dict[str, Study]:
    """The studies of a package by the names of its subpackages, in the order of pages."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg]
    return sort_studies({name: importlib.import_module(f"{package.__name__}.{name}").STUDY for name in names})


def sort_studies(studies: Mapping[str, Study]) -> dict[str, Study]:
    """Studies by their places, and by name where those are equal."""
    return dict(sorted(studies.items(), key=lambda item: (item[1].place, item[0])))


def _studies_of(entry: EntryPoint) -> dict[str, Study]:
    hint = f"mend or uninstall what has the entry point '{entry.name}' of the group {ENTRY_POINT_GROUP}"
    try:
        loaded = entry.load()
        studies = package_studies(loaded) if isinstance(loaded, ModuleType) else {entry.name: loaded}
    except Exception as error:
        raise InputError(f"the studies of {entry.value} cannot be loaded: {error}", hint) from error
    for name, study in studies.items():
        if not isinstance(study, Study):
            raise InputError(f"{entry.value}: '{name}' is no Study but a {type(study).__name__}", hint)
    return studies

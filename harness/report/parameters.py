"""The parameters of a table's cells: those that vary become columns, those that all share stand in its title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.outcome import Cell
from harness.planning.sweep import is_of_path
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue
from harness.units import Duration, Percentage, QueueSize, Rate, Size


@dataclass(frozen=True)
class Asked:
    """What was asked of the cells of one table."""

    varied: tuple[str, ...]
    """Names that differ between the cells, the columns of the table."""
    shared: Mapping[str, ParameterValue]
    """Names that all cells have, with their one value."""
    joined: bool
    """A name without a role stands for both of them."""

    def cells(self, cell: Cell) -> list[str]:
        """One cell's entries in the columns; a dash where nothing was asked."""
        table = _joined(cell.parameters) if self.joined else cell.parameters
        return [str(table.get(name, "–")) for name in self.varied]

    @property
    def suffix(self) -> str:
        """What all cells share, for a title: ', server.congestion_control bbr'; empty for nothing."""
        return "".join(f", {name} {value}" for name, value in self.shared.items())


def asked(cells: Sequence[Cell]) -> Asked:
    """What varies and what does not."""
    tables = [_joined(cell.parameters) for cell in cells]
    joined = len({frozenset(table) for table in tables}) <= 1
    if not joined:
        # Here both roles are asked alike, there one of them: the names of the roles tell them apart.
        tables = [dict(cell.parameters) for cell in cells]
    names = list(dict.fromkeys(name for table in tables for name in sorted(table, key=_order)))
    varied = [name for name in names if len({table.get(name) for table in tables}) > 1]
    shared = {name: value for name, value in (tables[0] if tables else {}).items() if name not in varied}
    return Asked(tuple(varied), shared, joined)


def sort_key(cell: Cell) -> tuple[object, ...]:
    """Cells of one table in the order of their values, small before large."""
    return tuple((name, *_size(value), str(value)) for name, value in sorted(cell.parameters.items()))


def _joined(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """role.NAME → value, with NAME alone where both roles have the same value."""
    made: dict[str, ParameterValue] = {}
    for full, value in parameters.items():
        name = full.partition(".")[2]
        both = name in PARAMETERS and all(parameters.get(f"{each}.{name}") == value for each in ROLES)
        made[name if both else full] = value
    return made


def _order(name: str) -> tuple[int, str]:
    """The path first, then the endpoints."""
    return (0 if is_of_path(name) else 1, name)


def _size(value: ParameterValue) -> tuple[str, float]:
    """A value as a word and a number to sort by: what it is called or measured in, and how much it is."""
    text = str(value)
    discipline, _, limit = text.partition(" ")
    if discipline == "RED":
        return discipline, _size(limit)[1]
    for kind in (Rate, Duration, Size, Percentage):
        with suppress(ValueError):
            return "", float(kind.parse(text).value)
    with suppress(ValueError):
        return "", float(QueueSize.parse(text).amount)
    with suppress(ValueError):
        return "", float(value)
    return "", 0.0

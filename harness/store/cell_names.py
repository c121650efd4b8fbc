"""Which cells a command is about, by names that a store can tell without reading its runs."""

from __future__ import annotations

from dataclasses import dataclass

from harness.outcome import Cell


@dataclass(frozen=True)
class CellNames:
    """Names that a cell must have; None where any will do."""

    scenarios: frozenset[str] | None = None
    clients: frozenset[str] | None = None
    servers: frozenset[str] | None = None

    def include(self, cell: Cell) -> bool:
        """Whether a cell has these names."""
        named = (
            (self.scenarios, cell.scenario.name),
            (self.clients, cell.client.name),
            (self.servers, cell.server.name),
        )
        return all(names is None or name in names for names, name in named)


#: All cells.
EVERY_CELL = CellNames()

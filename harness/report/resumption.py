"""Cells whose second connection starts from what the first learnt of the path. Their repeats measure that, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Cell
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Flow

#: Mark of a repeat's figures that rest on an earlier connection, and of the footnote about them.
MARK = "†"


@dataclass(frozen=True)
class Seed:
    """What the second connection of a cell starts from."""

    server: str
    """The implementation that remembers."""
    value: str
    """Of the parameter bdp_seed."""
    asked: bool
    """Whether it was asked for; else the server does so by default."""

    @property
    def sentence(self) -> str:
        """For people."""
        suffix = "" if self.asked else " by default"
        return (
            f"the second connection starts from what the first learnt ({self.server}, bdp_seed: {self.value}{suffix})"
        )


def seed_of(cell: Cell) -> Seed | None:
    """The seed of a cell's repeat. None where nothing is repeated, resumed or remembered, or nothing is known of it."""
    seeds = (_seed(cell, number, flow) for number, flow in enumerate(cell.scenario.flows) if flow.repeat_after)
    return next((seed for seed in seeds if seed is not None), None)


def _seed(cell: Cell, number: int, flow: Flow) -> Seed | None:
    client, server = cell.implementation("client", number), cell.implementation("server", number)
    setting = server.setting("server", "bdp_seed")
    requested = flow.parameters.get("server.bdp_seed", cell.parameters.get("server.bdp_seed"))
    value = requested if requested is not None or setting is None else setting.default
    if not client.session or value in (None, "off"):
        return None
    return Seed(server.name, str(value), requested is not None)


def add_mark(text: str, name: MetricName, seed: Seed | None) -> str:
    """A figure of a table, with the mark where it belongs to a repeat with a seed."""
    return f"{text} {MARK}" if seed is not None and name.transfer == "repeat" and text != "–" else text


def footnotes(results: Sequence[CellResult]) -> list[str]:
    """A line for each kind of seed among the cells of a table."""
    seeds = dict.fromkeys(seed for result in results if (seed := seed_of(result.cell)) is not None)
    return [f"{MARK} {seed.sentence}" for seed in seeds]

"""Changes that somebody has accepted, for a time: the file of `harness gate --allow`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from harness.catalogue import load
from harness.gate.decide import ALARMS, Decided
from harness.model import Part
from harness.outcome import EngineName


class Allowance(Part):
    """A change that keeps no gate shut."""

    scenario: str
    """By name; a folder's name for all in it."""
    client: str = "all"
    """Implementation, or all."""
    server: str = "all"
    """Implementation, or all."""
    engine: EngineName | None = None
    """Both without."""
    metric: str | None = None
    """As results name it, `outcome` for how runs end; all without."""
    reason: Annotated[str, Field(min_length=1)]
    """Why it is accepted."""
    until: datetime.date
    """The last day on which it is."""


class Allowances(Part):
    """The file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    allow: tuple[Allowance, ...]


@dataclass(frozen=True)
class Weighed:
    """A decision with what was accepted of it."""

    decided: Decided
    accepted: tuple[Allowance, ...] = ()
    """One for each figure that would be an alarm, where all of them are accepted; else empty."""

    @property
    def alarm(self) -> bool:
        """Whether it keeps the gate shut."""
        return self.decided.standing in ALARMS and not self.accepted


@dataclass(frozen=True)
class Applied:
    """A matrix weighed."""

    cells: tuple[Weighed, ...]
    expired: tuple[Allowance, ...]
    """Those whose day is over; they accept nothing."""
    unused: tuple[Allowance, ...]
    """Those that still hold, and nothing needs."""


def read_allowances(file: Path) -> tuple[Allowance, ...]:
    """Those of a file. Raises InputError with its place."""
    return load(file, Allowances).allow


def apply(decided: Sequence[Decided], allowances: Sequence[Allowance], today: datetime.date) -> Applied:
    """Weigh decisions by what is accepted on a day."""
    holds = [one for one in allowances if one.until >= today]
    cells = tuple(_weighed(one, holds) for one in decided)
    used = {id(one) for cell in cells for one in cell.accepted}
    return Applied(
        cells, tuple(one for one in allowances if one.until < today), tuple(one for one in holds if id(one) not in used)
    )


def _weighed(decided: Decided, holds: Sequence[Allowance]) -> Weighed:
    found = []
    for figure in decided.figures:
        if figure.standing in ALARMS:
            mine = next((one for one in holds if _fits(one, decided, figure.name)), None)
            if mine is None:
                return Weighed(decided)
            found.append(mine)
    return Weighed(decided, tuple(found))


def _fits(allowance: Allowance, decided: Decided, metric: str) -> bool:
    cell = decided.pair.cell
    name = cell.scenario.name
    return (
        (name == allowance.scenario or name.startswith(f"{allowance.scenario.rstrip('/')}/"))
        and allowance.client in ("all", cell.client.name)
        and allowance.server in ("all", cell.server.name)
        and allowance.engine in (None, cell.engine)
        and allowance.metric in (None, metric)
    )

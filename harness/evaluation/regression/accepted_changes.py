"""Changes that somebody has accepted for a limited time: the file of `harness gate --allow`."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, field_validator

from harness.analysis.metric_registry import declared_metrics, find_metric
from harness.catalogue import read_yaml
from harness.errors import UnfitError, did_you_mean
from harness.evaluation.regression.decision import ALARMS, OUTCOME, Decision
from harness.formatting import format_value
from harness.outcome import EngineName
from harness.scenario.loader import to_error, validate_data
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import ROLES
from harness.scenario.schema import Part
from harness.scenario.validation_errors import Location, Mistake


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

    @field_validator("reason")
    @classmethod
    def _some(cls, value: str) -> str:
        if not value.strip():
            raise UnfitError("a blank reason is none", "say why the change is accepted")
        return value


class Allowances(Part):
    """The file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    allow: tuple[Allowance, ...]


@dataclass(frozen=True)
class AllowedDecision:
    """A decision with its accepted changes."""

    decision: Decision
    accepted: tuple[Allowance, ...] = ()
    """One for each figure that would be an alarm, if all of them are accepted; else empty."""

    @property
    def alarm(self) -> bool:
        """Whether it fails the gate."""
        return self.decision.status in ALARMS and not self.accepted


@dataclass(frozen=True)
class AppliedAllowances:
    """The decisions of a matrix, with the accepted changes applied."""

    cells: tuple[AllowedDecision, ...]
    expired: tuple[Allowance, ...]
    """Expired allowances, which accept nothing."""
    unused: tuple[Allowance, ...]
    """Valid allowances that no change needs."""


@dataclass(frozen=True)
class AllowedNames:
    """Names that an allowance may use."""

    scenarios: Collection[str]
    implementations: Collection[str]


def read_allowances(file: Path, names: AllowedNames) -> tuple[Allowance, ...]:
    """Read the allowances of a file. Raises InputError with its position, also for an unknown name."""
    data, positions = read_yaml(file)
    allowances = validate_data(data, positions, Allowances).allow
    if mistakes := [
        mistake
        for index, allowance in enumerate(allowances)
        for mistake in _unknown(("allow", index), allowance, names)
    ]:
        raise to_error(mistakes, positions)
    return allowances


def _unknown(location: Location, allowance: Allowance, names: AllowedNames) -> Iterator[Mistake]:
    families = {str(parent) for name in names.scenarios for parent in PurePosixPath(name).parents} - {"."}
    if allowance.scenario.rstrip("/") not in {*names.scenarios, *families}:
        text = f"no scenario is called {format_value(allowance.scenario)}"
        yield Mistake((*location, "scenario"), text, did_you_mean(allowance.scenario, {*names.scenarios, *families}))
    for role in ROLES:
        name = allowance.client if role == "client" else allowance.server
        if name not in {"all", *names.implementations}:
            text = f"nobody is called {format_value(name)}"
            yield Mistake((*location, role), text, did_you_mean(name, {"all", *names.implementations}))
    if allowance.metric is not None and allowance.metric != OUTCOME:
        metric = MetricName.parse(allowance.metric).metric
        if find_metric(metric) is None:
            yield Mistake(
                (*location, "metric"),
                f"there is no metric {format_value(metric)}",
                did_you_mean(metric, declared_metrics()),
            )


def apply_allowances(
    decided: Sequence[Decision], allowances: Sequence[Allowance], today: datetime.date
) -> AppliedAllowances:
    """Apply the allowances that are valid on the day `today` to the decisions."""
    valid = [allowance for allowance in allowances if allowance.until >= today]
    cells = tuple(_apply_to(decision, valid) for decision in decided)
    used = {id(allowance) for cell in cells for allowance in cell.accepted}
    return AppliedAllowances(
        cells,
        tuple(allowance for allowance in allowances if allowance.until < today),
        tuple(allowance for allowance in valid if id(allowance) not in used),
    )


def _apply_to(decided: Decision, valid: Sequence[Allowance]) -> AllowedDecision:
    accepted = []
    for figure in decided.figures:
        if figure.status in ALARMS:
            covering = next((allowance for allowance in valid if _covers(allowance, decided, figure.name)), None)
            if covering is None:
                return AllowedDecision(decided)
            accepted.append(covering)
    return AllowedDecision(decided, tuple(accepted))


def _covers(allowance: Allowance, decided: Decision, metric: str) -> bool:
    cell = decided.pair.cell
    name = cell.scenario.name
    return (
        (name == allowance.scenario or name.startswith(f"{allowance.scenario.rstrip('/')}/"))
        and allowance.client in ("all", cell.client.name)
        and allowance.server in ("all", cell.server.name)
        and allowance.engine in (None, cell.engine)
        and allowance.metric in (None, metric)
    )

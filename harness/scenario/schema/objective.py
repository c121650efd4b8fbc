"""What is demanded of a metric."""

from __future__ import annotations

import contextlib
import math
from typing import Self

from pydantic import FiniteFloat, field_serializer, field_validator, model_validator

from harness.errors import UnfitError
from harness.formatting import format_value
from harness.scenario.schema.base import Part
from harness.units import Duration, Rate

_BOUNDS = "a duration ('3 s'), a rate ('20 Mbit/s') or a plain number"


class Objective(Part):
    """A demand on one metric, met by the median over the repetitions."""

    metric: str
    """Name of a metric, such as completion, milestone_2MB, goodput, repeat_completion."""
    at_most: Duration | Rate | FiniteFloat | None = None
    """Upper bound, with the metric's unit."""
    at_least: Duration | Rate | FiniteFloat | None = None
    """Lower bound, with the metric's unit."""

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_most is None) == (self.at_least is None):
            raise UnfitError("give exactly one of at_most and at_least", "write {metric: completion, at_most: 20 s}")
        return self

    @field_validator("at_most", "at_least", mode="before")
    @classmethod
    def _bound(cls, value: object) -> object:
        if value is None or isinstance(value, Duration | Rate):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        if not isinstance(value, str):
            raise UnfitError(f"{format_value(value)} is not a bound: {_BOUNDS}", "for example at_most: 20 s")
        for kind in (Duration, Rate):
            with contextlib.suppress(ValueError):
                return kind.parse(value)
        raise UnfitError(f"{format_value(value)} is not a bound: {_BOUNDS}", "for example at_most: 20 s")

    @field_serializer("at_most", "at_least")
    def _written(self, value: Duration | Rate | float | None) -> str | float | None:
        # Pydantic would serialise a plain number as the first type of the union.
        return str(value) if isinstance(value, Duration | Rate) else value

    @property
    def bound(self) -> float:
        """The bound in the unit of the metric: seconds, Mbit/s or 1."""
        value = self.at_most if self.at_most is not None else self.at_least
        if isinstance(value, Duration):
            return value.seconds
        if isinstance(value, Rate):
            return value.value / 1e6
        assert value is not None
        return value

    @property
    def unit(self) -> str:
        """The unit the bound is written in: s, Mbit/s or 1."""
        value = self.at_most if self.at_most is not None else self.at_least
        return "s" if isinstance(value, Duration) else "Mbit/s" if isinstance(value, Rate) else "1"

    def __str__(self) -> str:
        sign, value = ("≤", self.at_most) if self.at_most is not None else ("≥", self.at_least)
        return f"{self.metric} {sign} {value}"

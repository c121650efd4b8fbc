"""A study: factors and their levels, and which of all combinations are run."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.parameters import ParameterValue, WrittenNumber, WrittenValue, canonical_value
from harness.scenario.schema.base import DESIGN, PROFILE, Part

DesignKind = Literal["full", "fractional", "one-at-a-time", "random"]
#: Minimum resolution of a design: two-level fractions below it alias main effects with each other.
LEAST_RESOLUTION = 3
#: Maximum number of factors of a study: a full design of so many has as many cells as anybody runs.
MAXIMUM_FACTORS = 16
#: Maximum number of levels of a factor.
MAXIMUM_LEVELS = 12

Levels = Annotated[tuple[WrittenNumber, ...], Field(min_length=2, max_length=MAXIMUM_LEVELS)]
ProfileName = Annotated[str, Field(pattern=PROFILE)]


class Experiment(Part):
    """Factors with levels, or profiles of settings, and the cells that are made of them for each pair. What a pair
    cannot be told is absent from its cells, by name.
    """

    factors: Annotated[dict[str, Levels], Field(max_length=MAXIMUM_FACTORS)] = {}
    """NAME → levels, with the base first. NAME is client.X, server.X, X alone for both, or path.forward.rate and its
    like. A level that a pair does not honour is left out for it, and a factor with it where fewer than two are left."""
    design: Annotated[str, Field(pattern=DESIGN)] = "full"
    """Which combinations are run: full (all), fractional(R) (of two levels each, a regular fraction of resolution R),
    one-at-a-time (the base, and every other level alone), random(N) (N of all, drawn by the scenario's name)."""
    profiles: Annotated[dict[ProfileName, dict[str, WrittenValue]], Field(max_length=MAXIMUM_FACTORS)] = {}
    """Instead of factors: NAME → settings that go together, client.X or server.X. Each is a cell, beside one that is
    told nothing."""
    least: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_FACTORS)] = 1
    """Factors, or settings of a profile, that a pair must honour to take part."""

    @field_validator("profiles")
    @classmethod
    def _canonical(cls, value: dict[str, dict[str, ParameterValue]]) -> dict[str, dict[str, ParameterValue]]:
        return {
            name: {full: canonical_value(full, item) for full, item in settings.items()}
            for name, settings in value.items()
        }

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.factors) == bool(self.profiles):
            raise UnfitError(
                "give exactly one of factors and profiles", "write factors: {server.initial_cwnd: [10, 32]}"
            )
        return self

    @property
    def kind(self) -> DesignKind:
        """Of the design."""
        return self.design.partition("(")[0]  # type: ignore[return-value]  # the pattern admits no other

    @property
    def number(self) -> int:
        """What stands in brackets: the resolution, or how many combinations are drawn; 0 where nothing does."""
        return int(self.design.partition("(")[2].rstrip(")") or 0)

"""What a link does to packets behind its queue: variation of the delay, reordering, random loss."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import Part
from harness.units import Duration, Percentage

#: netem's tables of distributions end at so many deviations (iproute2, NETEM_DIST_SCALE: 32767 / 8192).
_TABLE_END = 4
#: A link that fades faster changes from packet to packet: write the model that does.
_SHORTEST_STATE = Duration.parse("1 ms")


class GilbertElliott(Part):
    """Two-state loss, advanced once per packet (netem `gemodel`; Gilbert 1960, Elliott 1963)."""

    good_to_bad: Percentage
    """Probability of leaving the good state at a packet (netem p)."""
    bad_to_good: Percentage
    """Probability of leaving the bad state at a packet (netem r)."""
    loss_in_bad: Percentage = Percentage.parse("100 %")
    """Loss in the bad state (netem 1-h)."""
    loss_in_good: Percentage = Percentage.parse("0 %")
    """Loss in the good state (netem 1-k)."""

    @property
    def mean(self) -> float:
        """Long-run share of packets lost."""
        p, r = self.good_to_bad.fraction, self.bad_to_good.fraction
        if p + r == 0:
            return self.loss_in_good.fraction
        return (r * self.loss_in_good.fraction + p * self.loss_in_bad.fraction) / (p + r)


class TimedGilbertElliott(Part):
    """Two-state loss whose states last for a time, whatever the packets do: a link that fades (Gilbert 1960, Elliott
    1963, in continuous time). How long each state lasts is drawn from an exponential distribution.
    """

    good: Duration
    """Mean time in the good state."""
    bad: Duration
    """Mean time in the bad state."""
    loss_in_bad: Percentage = Percentage.parse("100 %")
    """Loss in the bad state."""
    loss_in_good: Percentage = Percentage.parse("0 %")
    """Loss in the good state."""

    @property
    def mean(self) -> float:
        """Share of the time's packets lost in the long run."""
        bad = self.bad.value / (self.good.value + self.bad.value)
        return (1 - bad) * self.loss_in_good.fraction + bad * self.loss_in_bad.fraction

    @field_validator("good", "bad")
    @classmethod
    def _long_enough(cls, value: Duration) -> Duration:
        if value < _SHORTEST_STATE:
            raise UnfitError(f"a state of {value} on average is too short", f"write '{_SHORTEST_STATE}' or more")
        return value


def _loss_form(loss: Any) -> str:
    if isinstance(loss, TimedGilbertElliott) or (isinstance(loss, dict) and {"good", "bad"} & loss.keys()):
        return "states in time"
    return "states by packet" if isinstance(loss, GilbertElliott | dict) else "a share"


Loss = Annotated[
    Annotated[Percentage, Tag("a share")]
    | Annotated[GilbertElliott, Tag("states by packet")]
    | Annotated[TimedGilbertElliott, Tag("states in time")],
    Discriminator(_loss_form),
]
"""A share, independent for each packet, or states."""


class Jitter(Part):
    """Variation of the delay with a distribution (tc-netem(8): delay, distribution)."""

    deviation: Duration
    """Uniform: the largest deviation, ±; else the standard deviation. A delay below zero is none."""
    distribution: Literal["uniform", "normal", "pareto", "paretonormal"] = "uniform"
    """Distribution of the deviations; those of tc's tables end at four standard deviations."""
    correlation: Percentage = Percentage(0)
    """Dependence of each deviation on the one before it (tc-netem(8); the result is not exactly that coefficient)."""
    order: Literal["kept", "free"] = "kept"
    """'kept': a packet waits for the one before it, as in a queue; 'free': packets overtake each other."""

    @property
    def largest(self) -> Duration:
        """The most that a delay differs from its mean."""
        return self.deviation if self.distribution == "uniform" else Duration(_TABLE_END * self.deviation.value)


class Reorder(Part):
    """Packets that are not delayed as others are, so that they overtake those before them (tc-netem(8): reorder)."""

    share: Percentage
    """Share of the packets that leave early, of those that may."""
    gap: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    """After a packet that left early so many less one may not; 1: each may."""
    ahead: Duration | None = None
    """How much earlier they leave; by default the whole delay."""
    correlation: Percentage = Percentage(0)
    """Dependence of each packet's chance on the one before it."""

    @field_validator("share")
    @classmethod
    def _some(cls, value: Percentage) -> Percentage:
        if not 0 < value.fraction <= 1:
            raise UnfitError("a share of 0 % reorders nothing", "write '1 %', say, or leave reorder out")
        return value

"""Faults that a path does by rule: packets it drops, packets it damages, times in which nothing passes."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import Part
from harness.scenario.schema.ranges import Durations, largest, smallest
from harness.units import Duration, Percentage

#: Maximum number of rules per direction: each packet passes one per counted number, and one per step of a burst.
MAXIMUM_NUMBER, MAXIMUM_BURST = 100, 16
#: Maximum number of outages of a path: each takes two groups of commands.
MAXIMUM_REPEAT = 100

Number = Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_NUMBER)]
Burst = Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_BURST)]


def _chance(value: Percentage | None) -> Percentage | None:
    if value is not None and not 0 < value.fraction < 1:
        raise UnfitError(f"a rate of {value} leaves nothing to chance", "write '30 %', say, or leave it out")
    return value


class Drop(Part):
    """Datagrams of one direction that are dropped behind the queue: by their numbers, or by chance."""

    packets: tuple[Number, ...] = ()
    """Their numbers in this direction, the first datagram that passes being 1, in order."""
    rate: Percentage | None = None
    """The chance of each datagram, unless the longest burst is over."""
    burst: Burst | None = None
    """Most datagrams that are dropped one after the other by chance: the next one passes. By default any number."""

    _rate = field_validator("rate")(_chance)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if bool(self.packets) == (self.rate is not None):
            raise UnfitError(
                "give exactly one of packets (their numbers) and rate (their chance)",
                "write {rate: 30 %, burst: 3}, or {packets: [2, 3]}",
            )
        if self.burst is not None and self.rate is None:
            raise UnfitError("a longest burst is of a rate: what is dropped by number is known", "leave out burst")
        for before, after in pairwise(self.packets):
            if after <= before:
                raise UnfitError(f"number {after} stands behind {before}: numbers go up", "write them in order")
        return self


class Corrupt(Part):
    """Datagrams of one direction of which one byte is changed behind the queue, by chance.

    It is one of the first 51 bytes of the UDP payload, and of a shorter one any; never of a Version Negotiation
    packet. The UDP checksum is taken out, so that the receiver is given the datagram: IPv4 only (RFC 768).
    """

    rate: Percentage
    """The chance of each datagram, unless the longest burst is over."""
    burst: Burst | None = None
    """Most datagrams that are damaged one after the other: the next one passes. By default any number."""

    _rate = field_validator("rate")(_chance)


class Blackhole(Part):
    """Times in which nothing is forwarded, and nothing is said: by a path in both directions, by a link in its own."""

    after: Duration
    """How long it forwards first, counted from the client's first datagram."""
    lasts: Durations
    """How long it then does not; a list of two is a range that each outage's length is drawn from. (`on` and `off`, as
    the published simulator has it, are true and false in YAML.)"""
    repeat: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_REPEAT)] = 1
    """How often both come, one after the other."""
    every: Duration | None = None
    """Instead of `repeat`: an outage begins so long after the one before it began, until no flow can still be running.
    """

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name, value in (("after", self.after), ("lasts", self.shortest), ("every", self.every)):
            if value is not None and not value.value:
                raise UnfitError(f"{name} is no time at all", f"write {name}: 2 s, say")
        if isinstance(self.lasts, tuple) and self.lasts[0] > self.lasts[1]:
            raise UnfitError("a range goes from the least to the most", f"write [{self.lasts[1]}, {self.lasts[0]}]")
        if self.every is not None and self.repeat > 1:
            raise UnfitError("repeat and every both say how often it comes", "leave one of the two out")
        if self.every is not None and self.every <= self.longest:
            raise UnfitError(
                f"it begins every {self.every}, and lasts up to {self.longest}",
                "write a longer every, or shorter lasts",
            )
        if isinstance(self.lasts, tuple) and self.repeat > 1:
            raise UnfitError("lasts is drawn, so that no repetition has a time of its own", "write every: 15 s, say")
        return self

    @property
    def shortest(self) -> Duration:
        """The shortest that an outage may last."""
        return smallest(self.lasts)

    @property
    def longest(self) -> Duration:
        """The longest that an outage may last."""
        return largest(self.lasts)

    @property
    def is_plain(self) -> bool:
        """Whether all its times are known without a seed and the length of a run."""
        return self.every is None and not isinstance(self.lasts, tuple)

    @property
    def times(self) -> tuple[tuple[Duration, Duration], ...]:
        """From when to when nothing passes, at the longest; of one that comes again and again the first time."""
        period = self.after.value + self.longest.value
        return tuple(
            (Duration(self.after.value + period * number), Duration(period * (number + 1)))
            for number in range(self.repeat)
        )

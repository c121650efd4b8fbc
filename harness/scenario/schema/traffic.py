"""What a sender sends, and when."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import Part
from harness.units import Duration, Rate, Size

#: Datagrams that the generator can send in a second, in real time, on one core: it keeps time up to 30,000 here.
GENERATOR_LIMIT = 20_000


class Bulk(Part):
    """As much as the transport takes."""

    model: Literal["bulk"] = "bulk"


def _something(value: Rate) -> Rate:
    if not value.value:
        raise UnfitError("traffic without a rate is none", "write '1 Mbit/s', say, or leave the flow out")
    return value


class ConstantRate(Part):
    """Equal amounts at equal times; what the transport does not take in time follows as soon as it does."""

    model: Literal["cbr"]
    rate: Rate
    """Of the payload."""
    packet: Size = Size.parse("1200 B")
    """UDP payload of a datagram; TCP cuts its own segments."""

    _rate = field_validator("rate")(_something)


class Poisson(Part):
    """Datagrams of one size with exponential gaps."""

    model: Literal["poisson"]
    rate: Rate
    """Mean rate of the UDP payload."""
    packet: Size = Size.parse("1200 B")
    """UDP payload of a datagram."""

    _rate = field_validator("rate")(_something)


class UniformGaps(Part):
    """Datagrams with sizes and gaps drawn from uniform distributions."""

    model: Literal["uniform"]
    packet: tuple[Size, Size]
    """UDP payload of a datagram: smallest, largest."""
    gap: tuple[Duration, Duration]
    """Time between two datagrams: shortest, longest."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.packet[0].bytes > self.packet[1].bytes or self.gap[0].value > self.gap[1].value:
            raise UnfitError("ranges go from the smallest to the largest value", "exchange the two")
        if not self.gap[1].value:
            raise UnfitError("a gap is longer than nothing", "write gap: [10 ms, 20 ms]")
        return self

    @property
    def rate(self) -> Rate:
        """Mean rate of the UDP payload."""
        size, gap = sum(one.bytes for one in self.packet) / 2, sum(one.seconds for one in self.gap) / 2
        return Rate(round(size * 8 / gap))


Traffic = Annotated[Bulk | ConstantRate | Poisson | UniformGaps, Field(discriminator="model")]

"""The cost of computing at an endpoint in virtual time, where it is free otherwise."""

from __future__ import annotations

from typing import Self

from pydantic import ValidationInfo, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import Part
from harness.units import Cost

#: The most of each cost: the lab kernel takes no more (images/lab-kernel/lab_cost.c).
MAXIMUM_COSTS = {"per_call": Cost.parse("1 s"), "per_datagram": Cost.parse("1 s"), "per_byte": Cost.parse("1 ms")}


class Cpu(Part):
    """The cost of computing at an endpoint, charged by the lab kernel at the end of each system call."""

    per_call: Cost = Cost(0)
    """Of a system call."""
    per_datagram: Cost = Cost(0)
    """Of a datagram of UDP that is sent or received. Several in one call count one by one, and so do those that
    the kernel cuts from one buffer (GSO) or merges into one (GRO)."""
    per_byte: Cost = Cost(0)
    """Of a byte of a datagram's payload, or of what is written to a connection of TCP or read from it."""

    @field_validator("per_call", "per_datagram", "per_byte")
    @classmethod
    def _possible(cls, value: Cost, info: ValidationInfo) -> Cost:
        most = MAXIMUM_COSTS[str(info.field_name)]
        if value > most:
            raise UnfitError(f"{value}, and {most} is the most", "is the unit the one you meant?")
        return value

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not any(self.costs):
            raise UnfitError("without a cost computing is free", "leave cpu out, or write per_datagram: 5 us")
        return self

    @property
    def costs(self) -> tuple[int, int, int]:
        """Picoseconds per call, per datagram and per byte."""
        return self.per_call.value, self.per_datagram.value, self.per_byte.value

    def __str__(self) -> str:
        """As in a sentence: 2 us per call, 5 us per datagram, 500 ps per byte."""
        named = zip(("call", "datagram", "byte"), (self.per_call, self.per_datagram, self.per_byte), strict=True)
        return ", ".join(f"{cost} per {noun}" for noun, cost in named if cost.value)

"""The queue of a bottleneck, and how it drops."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import Part
from harness.scenario.schema.frame_size import MTU
from harness.units import Percentage, QueueSize, Size


class DropTail(Part):
    """A first-in first-out queue that drops what does not fit."""

    discipline: Literal["droptail"] = "droptail"
    size: QueueSize
    """How much it holds: '50 kB', '25 packets', '100 ms' or '1 BDP'."""


class Red(Part):
    """Random Early Detection as Linux's sch_red does it (Floyd & Jacobson 1993; net/sched/sch_red.c)."""

    discipline: Literal["red"]
    limit: QueueSize
    """Hard limit of the queue."""
    min: QueueSize
    """Average queue below which nothing is dropped."""
    max: QueueSize
    """Average queue above which everything is dropped (sch_red is not gentle)."""
    probability: Percentage
    """Drop probability when the average reaches `max`; below 100 %, which tc cannot express."""
    wq: Annotated[float, Field(gt=0, le=0.5, allow_inf_nan=False)] | None = None
    """Weight of the moving average; the nearest power of two is used."""
    burst: Annotated[int, Field(strict=True, gt=0)] | None = None
    """tc's burst in packets, instead of `wq`."""
    average_packet: Size = Size.parse("1000 B")
    """Mean packet size (tc avpkt)."""
    ecn: bool = False
    """Mark instead of dropping where the packet allows it."""

    @field_validator("probability")
    @classmethod
    def _below_one(cls, value: Percentage) -> Percentage:
        if not 0 < value.fraction < 1:
            raise UnfitError("must be above 0 % and below 100 %: tc wraps 1.0 to 0 (use 99.9 %)", "write '10 %', say")
        return value

    @model_validator(mode="after")
    def _one_weight(self) -> Self:
        if (self.wq is None) == (self.burst is None):
            raise UnfitError("give exactly one of wq and burst", "write wq: 0.002, and no burst")
        return self


Queue = Annotated[DropTail | Red, Field(discriminator="discipline")]

#: RED in its short form ("RED 1 BDP"): thresholds as parts of the limit (as scenarios/queue has them), the largest
#: probability and the weight (Floyd & Jacobson 1993, and Floyd's notes on it).
RED_MIN, RED_MAX, RED_PROBABILITY, RED_WQ = Decimal("0.3"), Decimal("0.8"), "10 %", 0.002


def short_red(text: str) -> dict[str, object]:
    """RED from its limit alone. Raises ValueError."""
    limit = QueueSize.parse(text)
    return {
        "discipline": "red", "limit": limit, "min": limit.part(RED_MIN), "max": limit.part(RED_MAX),
        "probability": RED_PROBABILITY, "wq": RED_WQ, "average_packet": f"{MTU} B",
    }  # fmt: skip

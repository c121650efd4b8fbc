"""Random loss."""

from __future__ import annotations

from harness.scenario.schema.base import Part
from harness.units import Percentage


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

"""What is expected of one measurement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class Prediction:
    """What is expected of one measurement."""

    mean: float
    sd: float
    """Standard deviation of one measurement."""

    def deviation(self, measured: float) -> float:
        """How many standard deviations a measurement is away; infinite for any distance where there are none."""
        if self.sd == 0:
            return 0.0 if measured == self.mean else np.inf
        return abs(measured - self.mean) / self.sd

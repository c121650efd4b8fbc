"""What an effect rests on: a permutation test, the run that it depends on most, and the run that fits worst. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.doe.effects.samples import TimedRun
from harness.stats.intervals import COVERAGE, MIN_VALUES

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

#: The share of effects in bold that chance may make: the false discovery rate.
ALPHA = 1 - COVERAGE
#: The most permutations that a test draws; fewer exist for six repetitions of up to three levels, and all are used.
_PERMUTATIONS = 50_000
#: A larger leverage: the model fits the run alone, and nothing is left to check it by.
_FULL_LEVERAGE = 1 - 1e-9
#: Logarithms closer than that are equal.
_ROUNDING = 1e-12


def pseudoinverse(matrix: Array) -> Array:
    """The pseudoinverse of a matrix, for least squares."""
    # The import takes half a second, and only the analysis of a study needs it.
    from scipy.linalg import pinv

    return np.asarray(pinv(matrix), dtype=np.float64)


def permutation_p(levels: Sequence[Array]) -> float | None:
    """The probability by chance of level means as different as these; None for fewer than six repetitions.

    `levels`: for each level one value per repetition, in the same order. Without an effect all orders of the levels
    within a repetition are equally probable, also where a timeout stands for a time. The statistic is the range of the
    levels' mean ranks: with two levels this is the sign test, with more of them its generalisation by M. Friedman, The
    use of ranks to avoid the assumption of normality, J. Am. Stat. Assoc. 32 (1937). The range covers the choice of the
    worst and the best level. With fewer than six repetitions the smallest p of two levels is above 5 %.
    """
    from scipy.stats import permutation_test, rankdata

    if len(levels[0]) < MIN_VALUES:
        return None
    ranks = rankdata(np.round(np.array(levels), 9), axis=0)

    def spread(*samples: Array, axis: int) -> Array:
        means = np.stack([sample.mean(axis=axis) for sample in samples])
        return np.asarray(means.max(axis=0) - means.min(axis=0))

    result = permutation_test(
        tuple(ranks),
        spread,
        permutation_type="samples",
        alternative="greater",
        n_resamples=_PERMUTATIONS,
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    return float(result.pvalue)


def adjust_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted so that of those at most `ALPHA` the same share is by chance; None stays None.

    Y. Benjamini and Y. Hochberg, Controlling the false discovery rate, J. R. Statist. Soc. B 57 (1995). It holds for
    times that depend on each other positively, as milestones of one run do.
    """
    from scipy.stats import false_discovery_control

    known = [p for p in p_values if p is not None]
    adjusted = iter(false_discovery_control(known) if known else ())
    return [None if p is None else float(next(adjusted)) for p in p_values]


def influence(matrix: Array, logs: Array, contrast: Array) -> float | None:
    """The least value of a contrast if one run is left out; None where every run is needed for the fit.

    By the formula for a deleted observation: D. A. Belsley, E. Kuh and R. E. Welsch, Regression Diagnostics, §2.1.
    `matrix`: a row per run, of full column rank.
    """
    inverse = pseudoinverse(matrix)
    leverage = np.einsum("ij,ji->i", matrix, inverse)
    removable = leverage < _FULL_LEVERAGE
    if not removable.any():
        return None
    coefficients = inverse @ logs
    residuals = logs - matrix @ coefficients
    changes = (contrast @ inverse)[removable] * residuals[removable] / (1 - leverage[removable])
    return float(contrast @ coefficients - max(changes.max(), 0.0))


@dataclass(frozen=True)
class Residual:
    """The run that a model fits worst."""

    run: TimedRun
    fitted: float
    """Seconds."""
    studentised: float
    """Residual in units of its standard deviation, which the other runs give (externally studentised)."""
    p: float
    """The probability of such a residual of any run by chance (Bonferroni)."""
    leverage: float
    """The weight of the run's own time in its fitted time, 0 to 1."""
    highest_leverage: float
    """Of all runs."""
    degrees: int
    """Degrees of freedom of the residuals."""

    @property
    def is_outlier(self) -> bool:
        """Whether chance seldom makes such a residual."""
        return self.p <= ALPHA


def largest_residual(matrix: Array, runs: Sequence[TimedRun]) -> Residual | None:
    """The run with the largest externally studentised residual; None where the model fits all runs, or has no freedom.

    S. Weisberg, Applied Linear Regression, 4th ed., §9.2.
    """
    from scipy.stats import t

    logs = np.log([run.seconds for run in runs])
    inverse = pseudoinverse(matrix)
    leverage = np.einsum("ij,ji->i", matrix, inverse)
    residuals = logs - matrix @ (inverse @ logs)
    degrees = len(runs) - matrix.shape[1]
    squares = float(residuals @ residuals)
    if degrees < 2 or squares < _ROUNDING:
        return None
    room = np.maximum(1 - leverage, 1e-9)
    deleted_variances = np.maximum(squares - residuals**2 / room, 0) / (degrees - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        studentised = np.where(leverage < _FULL_LEVERAGE, residuals / np.sqrt(deleted_variances * room), 0.0)
    studentised = np.nan_to_num(studentised, nan=0.0, posinf=np.inf, neginf=-np.inf)
    place = int(np.argmax(np.abs(studentised)))
    p = min(1.0, 2 * len(runs) * float(t.sf(abs(studentised[place]), degrees - 1)))
    return Residual(
        runs[place],
        float(np.exp(logs[place] - residuals[place])),
        float(studentised[place]),
        p,
        float(leverage[place]),
        float(leverage.max()),
        degrees,
    )

"""What a comparison could have found, and how much more it needs: power in both directions.

detectable_difference(estimate, level=0.05)     # found in 80% of repetitions of the same experiment
find_needed(estimate, 0.05, seeds=3)            # how many seeds would find the observed difference in 80%
"""

import math
from bisect import bisect_left

from scipy import special
from scipy.optimize import brentq

from rlhf_exp.analysis.stats.crossed import Estimate
from rlhf_exp.analysis.stats.intervals import CONFIDENCE, Interval, standard_error

LEVEL = 0.05
POWER = 0.8
MOST_SEEDS, MOST_ROWS = 100, 1_000_000
MANY = 300  # degrees of freedom from which the noncentral t distribution is the normal one


def detectable_difference(estimate: Estimate, level: float) -> float:
    """The smallest true difference that a two-sided test at `level` finds in 80%."""
    critical, df = -special.stdtrit(estimate.df, level / 2), estimate.df
    if df > MANY:
        shift = critical + special.ndtri(POWER)
    else:
        # NaN, with df near 1 and a critical value above 50,000, is a power of nearly 1.
        shift = brentq(lambda shift: 1 - POWER - max(0.0, special.nctdtr(df, shift, critical)), 0, 4 * critical + 4)
    return float(shift * estimate.error)


def plan_rows(difference: Interval, rows: int) -> tuple[float, int | None]:
    """Of one run's paired difference: the smallest true one that is found in 80%, and how many rows would find the
    observed one; None if it takes more than the limit. By the normal distribution."""
    normal = special.ndtri((1 + CONFIDENCE) / 2)
    detectable = standard_error(difference) * (normal + special.ndtri(POWER))
    size = abs(difference["value"])
    enough = size and rows * (detectable / size) ** 2 <= MOST_ROWS
    return float(detectable), math.ceil(rows * (detectable / size) ** 2) if enough else None


def find_needed(estimate: Estimate, level: float, seeds: int | None = None, rows: int | None = None) -> int | None:
    """The number of seeds (from `seeds` of each setting, on the same rows), or of rows (from `rows`, with the same
    seeds), from which the observed difference would be found in 80%; None if no number up to the limit is enough."""
    have, most = (seeds, MOST_SEEDS) if seeds else (rows or 1, MOST_ROWS)

    def enough(number: int) -> bool:
        factor = number / have
        scaled = scale_seeds(estimate, factor) if seeds else scale_rows(estimate, factor)
        return detectable_difference(scaled, level) <= abs(estimate.value)

    if not enough(most):
        return None
    # `enough` is false below the answer and true from it on.
    return bisect_left(range(1, most), True, key=enough) + 1


def scale_seeds(estimate: Estimate, factor: float) -> Estimate:
    """The estimate that `factor` times as many seeds would give."""
    noise, by_seeds = estimate.by_noise / factor, estimate.by_seeds / factor
    by_rows = estimate.by_rows - estimate.by_noise + noise
    df = max(1.0, estimate.df * factor) if by_seeds else estimate.df
    return estimate._replace(by_rows=by_rows, by_noise=noise, by_seeds=by_seeds, df=df)


def scale_rows(estimate: Estimate, factor: float) -> Estimate:
    """The estimate that `factor` times as many rows would give. The degrees of freedom are kept: with seeds they come
    from these."""
    return estimate._replace(by_rows=estimate.by_rows / factor, by_noise=estimate.by_noise / factor)

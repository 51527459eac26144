"""What a comparison could have found, and how much more it needs: power in both directions.

detectable_difference(estimate, level=0.05)     # found in 80% of repetitions of the same experiment
find_needed(estimate, 0.05, seeds=3)            # how many seeds would find the observed difference in 80%
plan_comparison(noise, 0.02, seeds=3) # before any run of the comparison
"""

import math

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

from rlhf_exp.stats.crossed import Estimate
from rlhf_exp.stats.intervals import CONFIDENCE, Interval, standard_error

LEVEL = 0.05
POWER = 0.8
MOST_SEEDS, MOST_ROWS = 100, 1_000_000
QUANTILES = 60  # of each setting's spread in a plan
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


def plan_comparison(noise: float, spread: float, seeds: int) -> float:
    """The smallest true difference of two settings that is found in 80%, if no row is harder for one of them, and rows
    are many.

    Args:
        noise: variance of one run's mean over `rows` that comes from sampling.
        spread: standard deviation of the seeds' own effect.
        seeds: of each setting. With one the spread must be 0: nothing could show it.
    """
    error = math.sqrt(2 * (spread**2 + noise) / seeds)
    if seeds == 1:
        return error * float(special.ndtri((1 + CONFIDENCE) / 2) + special.ndtri(POWER))
    # The spreads that the two settings' seeds may show, and what the test takes from them (crossed.py).
    df, shown = seeds - 1, (np.arange(QUANTILES) + 0.5) / QUANTILES
    seen = stats.chi2.ppf(shown, df) / df * (spread**2 + noise) / seeds
    both = seen + seen[:, None]
    of_seeds = stats.t.ppf((1 + CONFIDENCE) / 2, df * both**2 / (seen**2 + seen[:, None] ** 2)) * np.sqrt(both)
    of_sampling = special.ndtri((1 + CONFIDENCE) / 2) * math.sqrt(2 * noise / seeds)
    half = np.maximum(of_seeds, of_sampling)
    size = brentq(lambda size: stats.norm.cdf((size - half) / error).mean() - POWER, 0, half.max() + 10 * error)
    return float(size)


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
    low, high = 1, most  # `enough` is false below the answer and true from it on
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


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

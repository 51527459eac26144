"""Intervals of one mean: arrays in, plain numbers out.

Every interval is 95% and has the form that all files use: {"value", "low", "high"}.

    >>> mean_interval([1.0, 2.0, 3.0])["value"]
    2.0
"""

import math
from collections.abc import Sequence
from statistics import correlation

import numpy as np
from scipy import optimize, special

from rlhf_exp.runs.records import Interval

CONFIDENCE = 0.95


def exact(value: float) -> Interval:
    """A figure that has no interval."""
    return as_interval(value, None, None)


def standard_error(interval: Interval) -> float:
    """Of a figure that is about normally distributed, from its interval; 0 where it has none.

    >>> round(standard_error({"value": 0.5, "low": 0.402, "high": 0.598}), 3)
    0.05
    """
    if interval["low"] is None or interval["high"] is None:
        return 0.0
    return float((interval["high"] - interval["low"]) / 2 / special.ndtri((1 + CONFIDENCE) / 2))


def wilson(successes: float, n: float) -> Interval:
    """Share of successes with Wilson's score interval, which stays in [0, 1] and is also valid near 0 and 1: next to
    these (up to 2 successes or failures, 3 above n = 50) with the bound by Poisson's distribution, without which it
    covers a share of 0.99 in 86% with n = 16.

    A tie counts as half a success. It varies less than a success or a failure, so with ties the interval is wider than
    necessary; Student's t interval would leave [0, 1], and have no width if all are ties.

    Raises:
        ValueError: n is 0, or `successes` lies outside 0..n.

    Source: Wilson (1927), as in `scipy.stats.BinomTestResult.proportion_ci`, which takes no halves; modified
    as in Brown, Cai and DasGupta (2001), section 4.1.1.

    >>> {name: round(value, 3) for name, value in wilson(6, 10).items()}
    {'value': 0.6, 'low': 0.313, 'high': 0.832}
    """
    require_values(n)
    if successes < 0 or successes > n:
        raise ValueError(f"successes must lie in 0..{n}, not {successes}")
    share, z2 = successes / n, special.ndtri((1 + CONFIDENCE) / 2) ** 2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = min(middle - half, _near_zero(successes, n))
    high = max(middle + half, 1 - _near_zero(n - successes, n))
    # At the ends rounding could leave [0, 1] by 1e-17.
    return as_interval(share, 0.0 if successes == 0 else low, 1.0 if successes == n else high)


def mean_interval(values: Sequence[float] | np.ndarray) -> Interval:
    """Mean with Student's t interval, for many rows and for a few seeds (a bootstrap of few is too narrow).

    A value that is not finite makes the figures NaN or infinite; it is not dropped.

    Raises:
        ValueError: no values.
    """
    array = np.asarray(values, dtype=np.float64)
    require_values(len(array))
    mean = array.mean()
    if len(array) == 1:
        return exact(mean)
    with np.errstate(invalid="ignore"):
        half = special.stdtrit(len(array) - 1, (1 + CONFIDENCE) / 2) * array.std(ddof=1) / math.sqrt(len(array))
    return as_interval(mean, mean - half, mean + half)


def share_interval(shares: Sequence[float] | np.ndarray, completions: int = 1) -> Interval:
    """Mean of a share per row, each from 0 to 1, such as the share of a row's completions that are correct.

    Completions of one row are correlated. Wilson's interval, with the number of independent completions that have the
    same variance as the mean over rows: at least one per row, at most all of them. Unlike Student's t interval it stays
    in [0, 1], and covers the truth near 0 and 1 too.

    Args:
        completions: how many completions each share is of.

    Raises:
        ValueError: no shares.

    Source: Franco, Little, Louis and Slud (2019), doi:10.1093/jssam/smy019: Wilson's interval with the effective sample
    size of clustered data.
    """
    array = np.asarray(shares, dtype=np.float64)
    require_values(len(array))
    rows, mean = len(array), array.mean()
    variance = array.var(ddof=1) if rows > 1 else 0.0
    if variance > 0:
        effective = min(max(rows * mean * (1 - mean) / variance, rows), rows * completions)
    else:
        effective = rows * completions if 0 < mean < 1 else rows
    found = wilson(mean * effective, effective)
    return as_interval(mean, found["low"], found["high"])


def paired_score_interval(up: int, down: int, n: int) -> Interval:
    """Difference of two shares of the same rows, of which `up` changed from 0 to 1 and `down` from 1 to 0: the
    differences that the score test with the probabilities of the null hypothesis does not refuse.

    Raises:
        ValueError: n is 0, or fewer than `up + down`.

    Source: Tango (1998), Statistics in Medicine 17, 891-908, equations 4 and 8.

    >>> {name: round(value, 3) for name, value in paired_score_interval(0, 0, 100).items()}
    {'value': 0.0, 'low': -0.037, 'high': 0.037}
    """
    require_values(n)
    if up + down > n:
        raise ValueError(f"{up} + {down} of {n} rows cannot have changed")
    value, critical = (up - down) / n, special.ndtri((1 + CONFIDENCE) / 2)

    def distance(difference: float) -> float:
        """How far the difference lies from the estimate, in standard errors."""
        b = (2 * n - up + down) * difference - up - down
        square = b * b + 8 * n * down * difference * (1 - difference)  # rounding can take 0 below 0
        q = (math.sqrt(max(square, 0.0)) - b) / (4 * n)
        return (value - difference) * n / math.sqrt(max(n * (2 * q + difference * (1 - difference)), 1e-300))

    def find(bound: float, sign: int) -> float:
        if value == bound or abs(distance(bound)) <= critical:
            return bound
        return optimize.brentq(lambda difference: distance(difference) + sign * critical, *sorted((value, bound)))

    return as_interval(value, find(-1.0, -1), find(1.0, 1))


def _near_zero(successes: float, n: float) -> float:
    """A lower bound of a share with few successes; 1 for more."""
    few = 0 < successes <= (3 if n > 50 else 2)
    return special.gammaincinv(successes, 1 - CONFIDENCE) / n if few else 1.0


def require_values(n: float) -> None:
    """Raise ValueError if there is nothing to measure."""
    if n == 0:
        raise ValueError("no values to measure: n is 0")


def correlation_interval(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The correlation of two figures of the same things, at least 4, with an interval by Fisher's z.

    Raises:
        StatisticsError: one of them is constant.
    """
    z, half = math.atanh(0.999999 * correlation(first, second)), 1.96 / math.sqrt(len(first) - 3)
    return as_interval(math.tanh(z), math.tanh(z - half), math.tanh(z + half))


def as_interval(value: float, low: float | None, high: float | None) -> Interval:
    """Plain floats, which JSON can hold."""
    return {
        "value": float(value),
        "low": None if low is None else float(low),
        "high": None if high is None else float(high),
    }

"""Intervals, and tests of differences between rows and between seeds: arrays in, plain numbers out.

Every interval is 95% and has the form that all files use: {"value", "low", "high"}.

    >>> paired_bootstrap([0, 0, 1, 1], [1, 0, 1, 1], seed=0)
    {'value': 0.25, 'low': 0.0, 'high': 0.75}
"""

import math
import warnings
from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 10_000
BATCH_ELEMENTS = 2_000_000  # resampled values held at a time: 16 MB of float64, whatever n is


class Interval(TypedDict):
    """A figure and its 95% interval; `low` and `high` are None if there are too few values."""

    value: float
    low: float | None
    high: float | None


class WinRate(TypedDict):
    win_rate: Interval
    wins: int
    losses: int
    ties: int
    n: int


def exact(value: float) -> Interval:
    """A figure that has no interval."""
    return _interval(value, None, None)


def wilson(successes: float, n: int) -> Interval:
    """Share of successes with Wilson's score interval, which stays in [0, 1] and is also valid near 0 and 1.

    A tie counts as half a success. It varies less than a success or a failure, so with ties the interval is wider than
    necessary; Student's t interval would leave [0, 1], and have no width if all are ties.

    Raises:
        ValueError: n is 0, or `successes` lies outside 0..n.

    Source: Wilson (1927), as in `scipy.stats.BinomTestResult.proportion_ci`, which takes no halves.

    >>> {name: round(value, 3) for name, value in wilson(9, 10).items()}
    {'value': 0.9, 'low': 0.596, 'high': 0.982}
    """
    _require_values(n)
    if successes < 0 or successes > n:
        raise ValueError(f"successes must lie in 0..{n}, not {successes}")
    share, z2 = successes / n, stats.norm.ppf((1 + CONFIDENCE) / 2) ** 2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # At the ends rounding could leave [0, 1] by 1e-17.
    return _interval(share, 0.0 if successes == 0 else middle - half, 1.0 if successes == n else middle + half)


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean with Student's t interval, for many rows and for a few seeds (a bootstrap of few is too narrow).

    A value that is not finite makes the figures NaN or infinite; it is not dropped.

    Raises:
        ValueError: no values.
    """
    array = np.asarray(values, dtype=np.float64)
    _require_values(len(array))
    mean = array.mean()
    if len(array) == 1:
        return exact(mean)
    with np.errstate(invalid="ignore"):
        half = stats.t.ppf((1 + CONFIDENCE) / 2, len(array) - 1) * stats.sem(array)
    return _interval(mean, mean - half, mean + half)


def share_interval(shares: Sequence[float]) -> Interval:
    """Mean of a share per row, each from 0 to 1, such as the share of a row's completions that are correct.

    Completions of one row are correlated, so the interval is over rows. If every share is 0 or 1 (one completion per
    row, or rows that are all equal, for which a t interval would have no width) it is Wilson's interval; otherwise
    Student's t interval, limited to [0, 1].

    Raises:
        ValueError: no shares.
    """
    if set(shares) <= {0, 1}:
        return wilson(int(sum(shares)), len(shares))
    found = mean_interval(shares)
    if found["low"] is None:
        return found
    return _interval(found["value"], max(0.0, found["low"]), min(1.0, found["high"]))


def paired_bootstrap(
    baseline: Sequence[float] | np.ndarray, trained: Sequence[float] | np.ndarray, seed: int
) -> Interval:
    """Mean of trained minus baseline over the same rows, with the percentile bootstrap over rows.

    Rows are resampled as pairs, so that differences in difficulty cancel. If all rows changed by the same amount the
    interval has no width, since resampling cannot produce values that did not occur.

    Args:
        baseline: (rows,) one value per row, or (rows, completions), whose mean per row is taken.
        trained: the same rows in the same order.

    Raises:
        ValueError: no rows, or different numbers of rows.

    Source: Efron and Tibshirani (1993), chapter 13, through `scipy.stats.bootstrap`.
    """
    return _bootstrap_mean(_mean_by_row(_differences(baseline, trained)), seed)


def win_rate(
    baseline_rewards: Sequence[float] | np.ndarray, trained_rewards: Sequence[float] | np.ndarray, seed: int
) -> WinRate:
    """How often the trained reward beats the baseline's on the same row; a tie counts as half a win.

    With several completions per row the i-th is compared with the i-th of the same row: wins, losses and ties count
    completions, `n` counts rows. The interval is the percentile bootstrap over rows. Arguments and errors are those of
    `paired_bootstrap`.
    """
    signs = np.sign(_differences(baseline_rewards, trained_rewards))
    return {
        "win_rate": _bootstrap_mean(_mean_by_row((signs + 1) / 2), seed),
        "wins": int((signs > 0).sum()),
        "losses": int((signs < 0).sum()),
        "ties": int((signs == 0).sum()),
        "n": len(signs),
    }


def mean_difference(first: Sequence[float], second: Sequence[float]) -> tuple[Interval, float | None]:
    """Mean of `first` minus mean of `second` with Welch's t interval, and the p-value of no difference: for two groups
    of a few seeds each, whose variances may differ. Bounds and p are None if a group has one value, or if neither
    varies.

    Raises:
        ValueError: a group has no values.

    Source: Welch (1947), through `scipy.stats.ttest_ind`.
    """
    _require_values(min(len(first), len(second)))
    value = float(np.mean(first) - np.mean(second))
    if min(len(first), len(second)) == 1 or (_alike(first) and _alike(second)):
        return exact(value), None
    with warnings.catch_warnings():
        # scipy warns of lost precision if a group does not vary; with another group that does, the result is exact.
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        test = stats.ttest_ind(first, second, equal_var=False)
    bounds = test.confidence_interval(CONFIDENCE)
    return _interval(value, bounds.low, bounds.high), float(test.pvalue)


def mean_change(before: Sequence[float], after: Sequence[float]) -> tuple[Interval, float | None]:
    """Mean of after minus before over pairs, with Student's t interval, and the p-value of no change. Bounds and p are
    None if there is one pair, or if all change by the same amount.

    Raises:
        ValueError: no values, or not as many of one as of the other.

    Source: the paired t test, through `scipy.stats.ttest_1samp`.
    """
    changes = _differences(before, after)
    if _alike(changes):
        return exact(changes.mean()), None
    return mean_interval(changes), float(stats.ttest_1samp(changes, 0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number: if those below 0.05 count as significant, the probability of any false
    finding is at most 5%, whatever the dependence between the tests.

    Source: Holm (1979), step-down; scipy has only false discovery rates (`false_discovery_control`).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(order))
    scaled = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted.tolist()


def _alike(values: Sequence[float] | np.ndarray) -> bool:
    """Whether all values are equal, up to rounding."""
    return bool(np.allclose(values, values[0], rtol=1e-9, atol=1e-12))


def _mean_by_row(values: np.ndarray) -> np.ndarray:
    return values if values.ndim == 1 else values.mean(axis=1)


def _differences(baseline: Sequence[float] | np.ndarray, trained: Sequence[float] | np.ndarray) -> np.ndarray:
    if len(baseline) != len(trained):
        counts = f"{len(baseline)} baseline, {len(trained)} trained"
        raise ValueError(f"a paired test needs the same rows: {counts}")
    _require_values(len(baseline))
    return np.asarray(trained, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)


def _bootstrap_mean(values: np.ndarray, seed: int) -> Interval:
    if len(values) == 1:
        return exact(values[0])
    bounds = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=max(1, BATCH_ELEMENTS // len(values)),
        vectorized=True,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return _interval(values.mean(), bounds.low, bounds.high)


def _require_values(n: int) -> None:
    if n == 0:
        raise ValueError("no values to measure: n is 0")


def _interval(value: float, low: float | None, high: float | None) -> Interval:
    return {
        "value": float(value),
        "low": None if low is None else float(low),
        "high": None if high is None else float(high),
    }

"""Intervals and paired comparisons: arrays in, plain numbers out; no model, no disk.

Every interval is 95% and has the one shape used in all files: {"value", "low", "high"}.

    paired_bootstrap([0, 0, 1], [1, 0, 1], seed=0)  ->  {"value": 0.333, "low": 0.0, "high": 1.0}
"""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 10_000
BATCH_ELEMENTS = 2_000_000  # resampled values held at a time: 16 MB of float64, whatever n is


class Interval(TypedDict):
    """A figure and its 95% interval; `low` and `high` are None where one value cannot tell."""

    value: float
    low: float | None
    high: float | None


class WinRate(TypedDict):
    win_rate: Interval
    wins: int
    losses: int
    ties: int
    n: int


def wilson(successes: int, n: int) -> Interval:
    """Share of successes with Wilson's score interval, which stays in [0, 1] and holds near its ends.

    Raises:
        ValueError: n is 0, or `successes` lies outside 0..n.

    Source: Wilson (1927), as in `scipy.stats.BinomTestResult.proportion_ci`.
    """
    _require_values(n)
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie in 0..{n}, not {successes}")
    bounds = stats.binomtest(int(successes), int(n)).proportion_ci(CONFIDENCE, method="wilson")
    return _interval(successes / n, bounds.low, bounds.high)


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
        return _interval(mean, None, None)
    with np.errstate(invalid="ignore"):
        half = stats.t.ppf((1 + CONFIDENCE) / 2, len(array) - 1) * stats.sem(array)
    return _interval(mean, mean - half, mean + half)


def paired_bootstrap(baseline: Sequence[float], trained: Sequence[float], seed: int) -> Interval:
    """Mean of trained minus baseline over the same rows, with the percentile bootstrap over rows.

    Rows are resampled as pairs, so what makes a row hard cancels. Where every row moved by the same
    amount the interval has no width: resampling cannot show what it has never seen.

    Args:
        baseline: (rows,) one value per row.
        trained: (rows,) the same rows in the same order.

    Raises:
        ValueError: no rows, or different numbers of rows.

    Source: Efron and Tibshirani (1993), chapter 13, through `scipy.stats.bootstrap`.
    """
    return _bootstrap_mean(_differences(baseline, trained), seed)


def win_rate(baseline_rewards: Sequence[float], trained_rewards: Sequence[float], seed: int) -> WinRate:
    """How often the trained reward beats the baseline's on the same row; a tie counts as half a win.

    The interval is the percentile bootstrap over rows. Raises as `paired_bootstrap` does.
    """
    signs = np.sign(_differences(baseline_rewards, trained_rewards))
    return {
        "win_rate": _bootstrap_mean((signs + 1) / 2, seed),
        "wins": int((signs > 0).sum()),
        "losses": int((signs < 0).sum()),
        "ties": int((signs == 0).sum()),
        "n": len(signs),
    }


def _differences(baseline: Sequence[float], trained: Sequence[float]) -> np.ndarray:
    if len(baseline) != len(trained):
        counts = f"{len(baseline)} baseline, {len(trained)} trained"
        raise ValueError(f"a paired test needs the same rows: {counts}")
    _require_values(len(baseline))
    return np.asarray(trained, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)


def _bootstrap_mean(values: np.ndarray, seed: int) -> Interval:
    if len(values) == 1:
        return _interval(values[0], None, None)
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

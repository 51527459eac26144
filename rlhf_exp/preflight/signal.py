"""How many groups of completions will carry a training signal, from pass rates.

>>> share, is_bound = expect_signal([1, 0, 4, 2], [4, 4, 4, 4], size=2)
>>> round(share["value"], 3), is_bound     # (1/2 + 0 + 0 + 2/3) / 4
(0.292, False)
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import betaln, gammaln

from rlhf_exp.stats import CONFIDENCE, Interval, as_interval, share_interval

RESAMPLES, SEED = 500, 0


def expect_signal(correct: Sequence[int], completions: Sequence[int], size: int) -> tuple[Interval, bool]:
    """The mean over rows of 1 - p^G - (1 - p)^G, the probability that a group of G completions holds a right and a
    wrong one, with a bootstrap interval over rows.

    With at least G completions of each row the estimate is unbiased: the share of all groups of G of them that hold
    both (Halmos 1946). With 2 to G - 1 the pass rates are taken as beta-distributed, with the mean and variance of
    these rows by the method of moments. With one, all rows are taken as alike, which gives an upper bound, since the
    probability is concave in p.

    Args:
        correct: right completions of each row.
        completions: all completions of each row.
        size: G.

    Returns:
        the share, and whether it is an upper bound.
    """
    c, k = np.asarray(correct, dtype=float), np.asarray(completions, dtype=float)
    rows = np.random.default_rng(SEED).integers(len(c), size=(RESAMPLES, len(c)))
    if k.min() >= size:
        mixed = 1 - _draw_all(c, k, size) - _draw_all(k - c, k, size)
        value, resampled = mixed.mean(), mixed[rows].mean(axis=1)
    else:
        value, resampled = _fit(c, k, size), np.array([_fit(c[of], k[of], size) for of in rows])
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    accuracy = share_interval(c / k, int(k.min()))
    if accuracy["value"] in (0, 1):  # resampling shows no spread; the accuracy's interval does
        rate = accuracy["high"] if accuracy["value"] == 0 else accuracy["low"]
        high = max(high, 1 - (rate or 0) ** size - (1 - (rate or 0)) ** size)
    return as_interval(value, low, high), bool(k.min() == 1 and size > 1)


def _draw_all(c: np.ndarray, k: np.ndarray, size: int) -> np.ndarray:
    """The probability that `size` draws without replacement from k all fall among c."""
    enough = c >= size
    most = np.where(enough, c, size)
    logs = gammaln(most + 1) - gammaln(most - size + 1) - gammaln(k + 1) + gammaln(k - size + 1)
    return np.where(enough, np.exp(logs), 0.0)


def _fit(c: np.ndarray, k: np.ndarray, size: int) -> float:
    """The same of a beta distribution of pass rates with the mean m and the second moment s of these rows."""
    m, several = (c / k).mean(), k > 1
    if not 0 < m < 1:
        return 0.0
    s = (c * (c - 1))[several].sum() / (k * (k - 1))[several].sum() if several.any() else m * m
    alike = (s - m * m) / (m - m * m)  # correlation of two completions of a row
    if alike <= 1e-6:
        return float(1 - m**size - (1 - m) ** size)
    total = 1 / min(alike, 1 - 1e-6) - 1
    a, b = m * total, (1 - m) * total
    return float(1 - np.exp(betaln(a + size, b) - betaln(a, b)) - np.exp(betaln(a, b + size) - betaln(a, b)))

"""Finds runs that collapsed: far below the other seeds of their setting.

find_collapsed({"ppo": [0.35, 0.36, 0.02], "grpo": [0.37, 0.34, 0.36]})   ->  [("ppo", 2)]
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats

LEVEL = 0.05
LOST = 0.25
"""A run whose accuracy is below this share of the median of the other seeds collapsed, however few seeds there are."""


def find_collapsed(accuracies: dict[str, Sequence[float]], error: float = 0.0) -> list[tuple[str, int]]:
    """The setting and place of each run that collapsed.

    `error` is the standard error that one run's accuracy has from its rows and sampling: seeds that happen to lie
    closer together do not make a third one an outlier.

    Either its accuracy is below a quarter of the median of the setting's other seeds, or it lies below their mean by
    more than chance: the one-sided test of the externally studentized residual over the runs of all settings, by
    Bonferroni for their number. A setting's only run is never named.

    Source of the test: Beckman and Cook (1983), Outliers, Technometrics 25, section 4.
    """
    values = {label: np.asarray(found, dtype=np.float64) for label, found in accuracies.items() if len(found) > 1}
    runs = sum(map(len, values.values()))
    found = []
    for label, own in values.items():
        for place, value in enumerate(own):
            others = np.delete(own, place)
            rest = [others, *(kept for name, kept in values.items() if name != label)]
            df = sum(len(kept) - 1 for kept in rest)
            lost = value < LOST * np.median(others)
            if lost or (df and _test(value, others, rest, df, error) < LEVEL / runs):
                found.append((label, place))
    return found


def _test(value: float, others: np.ndarray, rest: list[np.ndarray], df: int, error: float) -> float:
    """The p-value of a value as low as this, by the spread of the `rest`, which is at least `error`."""
    variance = max(sum(((kept - kept.mean()) ** 2).sum() for kept in rest) / df, error**2)
    distance = value - others.mean()
    if variance == 0:
        return float(distance >= 0)
    return float(stats.t.cdf(distance / np.sqrt(variance * (1 + 1 / len(others))), df))

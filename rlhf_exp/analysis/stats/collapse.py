"""Finds runs that collapsed: far below the other seeds of their setting.

find_collapsed({"ppo": [0.35, 0.36, 0.02], "grpo": [0.37, 0.34, 0.36]}, 0.02)   ->  [("ppo", 2)]
"""

from collections.abc import Sequence

import numpy as np
from scipy import special

from rlhf_exp.analysis.stats.planning import LEVEL

LOST = 0.25
"""A run whose accuracy is below this share of the median of the other seeds, by more than sampling explains, collapsed,
however few seeds there are."""


def find_collapsed(accuracies: dict[str, Sequence[float]], error: float) -> list[tuple[str, int]]:
    """The setting and place of each run that collapsed.

    `error` is the standard error that one run's accuracy has from its rows and sampling.

    Its accuracy lies below the mean of the setting's other seeds by more than chance, by one of two one-sided tests,
    each by Bonferroni for the number of runs: the externally studentized residual, by the spread of the setting's other
    seeds, at least `error` (other settings' seeds may spread less, so they say nothing here); or, for an accuracy below
    a quarter of the median of the other seeds, by `error` alone. A setting's only run is never named.

    Source of the first test: Beckman and Cook (1983), Outliers, Technometrics 25, section 4.
    """
    values = {label: np.asarray(found, dtype=np.float64) for label, found in accuracies.items() if len(found) > 1}
    level = LEVEL / max(1, sum(map(len, values.values())))
    found = []
    for label, own in values.items():
        for place, value in enumerate(own):
            others = np.delete(own, place)
            distance = (value - others.mean()) / np.sqrt(1 + 1 / len(others))
            lost = value < LOST * np.median(others) and distance < special.ndtri(level) * error
            df = len(others) - 1
            if lost or (df and distance < special.stdtrit(df, level) * max(others.std(ddof=1), error)):
                found.append((label, place))
    return found

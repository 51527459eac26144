"""Tests which settings differ: each from the start model, and each from the best setting or a named one.

    contrasts = compare_settings(trained, gains)      # {"ppo": (seeds, rows), "grpo": (seeds, rows), ...}, both
    contrasts[0].adjusted, contrasts[0].detectable, contrasts[0].seeds_needed

The variance of a contrast joins seeds, rows and sampling (crossed.py). Three seeds alone say little about how far seeds
spread, so a setting borrows from the spread of all, unless its own is far above: one collapsed seed hides no other
setting's effect. All contrasts together have a family-wise error of at most 5%:
those against the start and against a named setting by Holm; those against the best by the studentized range (Tukey
1953, Kramer 1956), since the best is chosen from the same data, whose share of the level follows Holm's weighted
procedure. bench/intervals.py measures error and power.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from rlhf_exp.analysis.stats.crossed import (
    DIFFERENCES,
    LEVELS,
    Estimate,
    Spread,
    crossed_interval,
    estimate,
    measure_spread,
)
from rlhf_exp.analysis.stats.intervals import Interval
from rlhf_exp.analysis.stats.planning import LEVEL, detectable_difference, find_needed

START = "start model"
POOL = 6
"""The degrees of freedom that the spread of all settings counts as, beside a setting's own. With a pool alone settings
whose seeds spread from 1 to 6 points count as different by mistake in 11 of 100 cases, with this one in 5; settings
that spread alike lose a little power (docs/appendix/statistics.md)."""
FAR = 10
"""A setting whose seeds have a variance above this many times the median of the others', or of what sampling alone
gives these, has its own spread only, and enters that of all with this many times the median. Without it one collapsed
seed multiplies the width of all intervals by 5; with settings left out altogether 7% of comparisons had a false finding
where seeds spread by 1 to 6 points (docs/appendix/statistics.md)."""


class Contrast(NamedTuple):
    """`estimate` is the first's mean minus the second's.

    Attributes:
        p: of this contrast alone; of one with the best, over all pairs of settings.
        adjusted: for all contrasts of the comparison.
        level: what the adjustment leaves of 0.05 to this contrast.
        ranged: the number of settings if the best was chosen from them, else 0.
        seeds: of the setting that has fewer.
        alone: of a gain, the interval by the setting's own seeds, which the table of results has too.
    """

    first: str
    second: str
    estimate: Estimate
    seeds: int
    rows: int
    ranged: int = 0
    p: float = 1.0
    adjusted: float = 1.0
    level: float = LEVEL
    alone: Interval | None = None

    @property
    def interval(self) -> Interval:
        """95%, of this contrast alone."""
        return self.alone or self.estimate.interval

    @property
    def significant(self) -> bool:
        return self.adjusted < LEVEL

    @property
    def detectable(self) -> float:
        """The smallest true difference that a repetition of the experiment would find significant in 80%."""
        return detectable_difference(self.estimate, self._single_level)

    @property
    def seeds_needed(self) -> int | None:
        """How many seeds of each setting would find the observed difference in 80%, on the same rows; None if no number
        up to the limit would."""
        return find_needed(self.estimate, self._single_level, seeds=self.seeds)

    @property
    def rows_needed(self) -> int | None:
        """How many rows would, with the same seeds."""
        return find_needed(self.estimate, self._single_level, rows=self.rows)

    @property
    def _single_level(self) -> float:
        return self.level if self.ranged < 3 else _invert_range(self.level, self.ranged, self.estimate.df)


def compare_settings(
    trained: dict[str, np.ndarray],
    gains: dict[str, np.ndarray],
    named: str | None = None,
    bounded: bool = True,
    centre: str | None = None,
) -> list[Contrast]:
    """Each setting against the start model, then each against the best one or the one that is `named`.

    Args:
        trained: (seeds, rows) figures of each setting, of at least two seeds; the rows are those of all settings.
        gains: the same minus the start model's; {} without a start model.
        named: the setting that the others are compared with, chosen before their results are known.
        bounded: the figures are shares.
        centre: the setting that takes the place of the best one; p is over all pairs of settings, whichever it is.
    """
    kind = DIFFERENCES if bounded else LEVELS
    starts, pairs = [], []
    spreads = measure_spreads(gains)
    for label, figures in gains.items():
        found = estimate(figures.mean(0), weigh_spreads(spreads, label), kind)
        seeds, rows = figures.shape
        starts.append(Contrast(label, START, found, seeds, rows, alone=crossed_interval(figures, kind)))
    means = {label: figures.mean(0) for label, figures in trained.items()}
    centre = named or centre or max(means, key=lambda label: means[label].mean())
    spreads, ranged = measure_spreads(trained), 0 if named else len(trained)
    for label in trained:
        if label != centre:
            found = estimate(means[centre] - means[label], weigh_spreads(spreads, centre, label), kind)
            seeds = min(len(trained[centre]), len(trained[label]))
            pairs.append(Contrast(centre, label, found, seeds, len(means[label]), ranged))
    return adjust(starts, pairs)


def adjust(starts: list[Contrast], pairs: list[Contrast]) -> list[Contrast]:
    """The contrasts with their p-values; `level` is that at which the procedure ended."""
    starts, pairs = ([contrast._replace(p=_find_p(contrast)) for contrast in of] for of in (starts, pairs))
    if pairs and not pairs[0].ranged:  # with a named setting
        starts, pairs = [*starts, *pairs], []
    adjusted = holm([contrast.p for contrast in starts], further=len(pairs))
    left = sum(p >= LEVEL for p in adjusted)
    level = LEVEL / (len(pairs) + max(1, left))
    found = [c._replace(adjusted=p, level=level) for c, p in zip(starts, adjusted, strict=True)]
    for contrast in pairs:
        shared, p = LEVEL * len(pairs) / (len(pairs) + left), share_level(contrast.p, adjusted, len(pairs))
        found.append(contrast._replace(adjusted=p, level=shared))
    return found


def weigh_spreads(spreads: dict[str, Spread], *chosen: str) -> list[tuple[Spread, float]]:
    """The spread of each setting, with its weight in the variance of a contrast of the means of the `chosen` ones.

    A chosen setting's spread, if it is not FAR above the others, is the mean of its own, weighted by its degrees of
    freedom, and of all settings' together, which counts as POOL degrees of freedom. Since each setting's spread stays a
    part of its own, Satterthwaite's formula gives fewer degrees of freedom where the spreads are unequal.
    """
    total, bounds = sum(spread.df for spread in spreads.values()), bound_spreads(spreads)
    weights = dict.fromkeys(spreads, 0.0)
    for label in chosen:
        df, pool = spreads[label].df, POOL if bounds[label] == 1 else 0
        weights[label] += df / (df + pool) / (df + 1)
        for name, spread in spreads.items():
            weights[name] += pool / (df + pool) * bounds[name] * spread.df / total / (df + 1)
    return [(spread, weights[label]) for label, spread in spreads.items()]


def bound_spreads(spreads: dict[str, Spread]) -> dict[str, float]:
    """The part of each spread that enters that of all settings: 1 if it is not FAR above the others'."""
    bounds = {}
    for label, spread in spreads.items():
        others = [max(other.between, other.noise) for name, other in spreads.items() if name != label]
        bound = FAR * np.median(others) if others else np.inf
        bounds[label] = float(bound / spread.between) if spread.between > bound else 1.0
    return bounds


def measure_spreads(settings: dict[str, np.ndarray]) -> dict[str, Spread]:
    """Of each setting's (seeds, rows) figures, of at least two seeds."""
    return {label: measure_spread(figures) for label, figures in settings.items()}


def shared_deviation(spreads: dict[str, Spread]) -> float:
    """The standard deviation of the seeds' own effect, without sampling, over all settings, each with its bound."""
    bounds = bound_spreads(spreads)
    effects = [bounds[label] * spread.between - spread.noise for label, spread in spreads.items()]
    df = [spread.df for spread in spreads.values()]
    return float(np.sqrt(max(np.average(effects, weights=df), 0.0)))


def holm(p_values: list[float], further: float = 0) -> list[float]:
    """p-values adjusted for their number: if those below 0.05 count as significant, the probability of any false
    finding is at most 5%, whatever the dependence between the tests.

    Args:
        further: the weight of hypotheses that are tested elsewhere at the same level, each of these having weight 1.

    Source: Holm (1979), step-down, with weights; scipy has only false discovery rates (`false_discovery_control`).

    >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(order))
    scaled = np.asarray(p_values, dtype=np.float64)[order] * (further + np.arange(len(order), 0, -1))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted.tolist()


def share_level(p_range: float, starts: list[float], pairs: int) -> float:
    """A p-value by the studentized range, adjusted for the contrasts with the start model.

    The pairs together have weight `pairs`, each contrast with the start weight 1. As these are found, in the order of
    their adjusted p-values `starts`, the pairs take over their share of the level. The pairs give nothing back.
    """
    taken = [0.0, *sorted(starts)]
    steps = (max(p, p_range * (pairs + len(starts) - n) / pairs) for n, p in enumerate(taken))
    return min(1.0, *steps)


@lru_cache
def _invert_range(level: float, settings: int, df: float) -> float:
    """The level at which one t test has the critical value of the studentized range. The logarithm of the range's level
    is nearly linear in that of the test's, so few values of the range, each 10 ms, find it between Bonferroni's level
    and `level`, with a hundredth on either side for rounding."""

    def excess(log_share: float) -> float:
        single = level * np.exp(log_share)
        p = stats.studentized_range.sf(-np.sqrt(2) * special.stdtrit(df, single / 2), settings, df)
        return float(np.log(max(p, single) / level))  # far out scipy's p is 0

    return level * float(np.exp(optimize.brentq(excess, np.log(1.98 / settings / (settings - 1)), 0.01, xtol=1e-6)))


def _find_p(contrast: Contrast) -> float:
    """By the studentized range of the settings from which the best was chosen, which takes milliseconds; of two
    settings, or of ones named beforehand, it is Student's."""
    estimate = contrast.estimate
    if contrast.ranged < 3 or estimate.error == 0:
        return estimate.p
    distance = np.sqrt(2) * abs(estimate.centre) / estimate.error
    return float(stats.studentized_range.sf(distance, contrast.ranged, estimate.df))

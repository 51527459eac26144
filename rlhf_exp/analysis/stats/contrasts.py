"""Tests which settings differ: each from the start model, and each from the best setting or a named one.

    contrasts = compare_settings(trained, gains)      # {"ppo": (seeds, rows), "grpo": (seeds, rows), ...}, both
    contrasts[0].interval, contrasts[0].verdict, contrasts[0].seeds_needed

The variance of a contrast joins seeds, rows and sampling (crossed.py). Three seeds alone say little about how far seeds
spread, so a setting borrows from the spread of all, unless its own is far above or far below: one collapsed seed hides
no other setting's effect. All contrasts together have a family-wise error of at most 5%:
those against the start and against a named setting by Holm; those against the best, and all other pairs, by the
studentized range (Tukey 1953, Kramer 1956), since the best is chosen from the same data. Its share of the level follows
Holm's weighted procedure. bench/intervals.py measures error and power.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from rlhf_exp.analysis.stats.crossed import (
    DIFFERENCES,
    Estimate,
    Kind,
    Spread,
    estimate,
    limit,
    measure_spread,
)
from rlhf_exp.analysis.stats.intervals import Interval
from rlhf_exp.analysis.stats.planning import LEVEL, detectable_difference, find_needed

START = "start model"
POOL = 6
"""The degrees of freedom that the spread of all settings counts as, beside a setting's own. With a pool alone settings
whose seeds spread from 1 to 6 points count as different by mistake in 11 of 100 cases, with this one in 5; settings
that spread alike lose a little power (docs/appendix/statistics.md)."""
MOST_PAIRED = 5
"""Of so many settings each pair is compared."""
FAR = 10
"""A setting whose seeds have a variance above this many times the median of the others', or of what sampling alone
gives these, has its own spread only, and enters that of all with this many times the median. Without it one collapsed
seed multiplies the width of all intervals by 5; with settings left out altogether 7% of comparisons had a false finding
where seeds spread by 1 to 6 points (docs/appendix/statistics.md)."""
RARE = 0.001
"""A setting whose variance is below that of the others together by an F ratio that chance brings less often than this
has its own spread only, so that wild settings do not hide its effect."""


class Contrast(NamedTuple):
    """`estimate` is the first's mean minus the second's; `level`: at which one t test decides about it, so that all
    contrasts of a comparison together have a false finding in at most 5%; `seeds`: of the setting that has fewer."""

    first: str
    second: str
    estimate: Estimate
    seeds: int
    rows: int
    kind: Kind
    level: float = LEVEL

    @property
    def interval(self) -> Interval:
        """At that level: all intervals of a comparison together miss the truth in at most 5%."""
        return limit(self.estimate.find_interval(self.level), self.kind)

    @property
    def verdict(self) -> int:
        """1 if the first is higher, -1 if it is lower, 0 if its interval includes no difference."""
        interval = self.interval
        if interval["low"] is not None and interval["low"] > 0:
            return 1
        return -1 if interval["high"] is not None and interval["high"] < 0 else 0

    @property
    def detectable(self) -> float:
        """The smallest true difference that a repetition of the experiment would find in 80%."""
        return detectable_difference(self.estimate, self.level)

    @property
    def seeds_needed(self) -> int | None:
        """How many seeds of each setting would find the observed difference in 80%, on the same rows; None if no number
        up to the limit would."""
        return find_needed(self.estimate, self.level, seeds=self.seeds)

    @property
    def rows_needed(self) -> int | None:
        """How many rows would detect it, with the same seeds."""
        return find_needed(self.estimate, self.level, rows=self.rows)


def compare_settings(
    trained: dict[str, np.ndarray],
    gains: dict[str, np.ndarray],
    named: str | None = None,
    kind: Kind = DIFFERENCES,
    centre: str | None = None,
    level: float = LEVEL,
) -> list[Contrast]:
    """Each setting against the start model, then the best one against each other, and of at most MOST_PAIRED settings
    all pairs; or each against the one that is `named`.

    Args:
        trained: (seeds, rows) figures of each setting, of at least two seeds; the rows are those of all settings.
        gains: the same minus the start model's; {} without a start model.
        named: the setting that the others are compared with, chosen before their results are known.
        kind: of the differences.
        centre: the setting that takes the place of the best one, and is alone compared with the others. The level is
            for all pairs, whether they are compared or not.
        level: the probability of any false finding.
    """
    starts = [contrast(gains, label, START, kind) for label in gains]
    first = named or centre or find_best(trained, kind)
    has_all_pairs = not centre and len(trained) <= MOST_PAIRED
    others, chosen = [label for label in trained if label != first], []
    if named:
        starts += [contrast(trained, label, named, kind) for label in others]
    else:
        chosen = [*combinations([first, *others], 2)][: None if has_all_pairs else len(others)]
    pairs, weight = [contrast(trained, *pair, kind) for pair in chosen], len(others) if chosen else 0
    left = count_left([found.estimate.p for found in starts], level, further=weight)
    decided = [found._replace(level=level / (weight + max(1, left))) for found in starts]
    for found in pairs:
        shared = level * weight / (weight + left)
        single = shared if len(trained) < 3 else invert_range(shared, len(trained), found.estimate.df)
        decided.append(found._replace(level=single))
    return decided


def find_best(trained: dict[str, np.ndarray], kind: Kind = DIFFERENCES) -> str:
    """The setting whose mean is surely the highest: by the low end of its interval, so that one whose seeds lie far
    apart hides no other. Settings that spread alike borrow from each other's spread, and the highest mean is the best.
    """
    lows = dict[str, float]()
    for label, figures in trained.items():
        low = contrast(trained, label, START, kind).estimate.find_interval(LEVEL)["low"]
        lows[label] = float(figures.mean()) if low is None else low
    return max(lows, key=lows.__getitem__)


def contrast(
    scores: dict[str, np.ndarray],
    first: str,
    second: str = START,
    kind: Kind = DIFFERENCES,
    varied: Collection[str] | None = None,
) -> Contrast:
    """The difference of two settings, with the spread of all; `second` START: the first alone.

    Args:
        scores: (seeds, rows) of each setting.
        varied: the settings whose runs are seeds; None for all. The others have no spread.
    """
    chosen = [label for label in (first, second) if label in scores]
    means = scores[first].mean(0) - (scores[second].mean(0) if len(chosen) == 2 else 0.0)
    kept = {label: of for label, of in scores.items() if varied is None or label in varied}
    made = estimate(means, weigh_settings(kept, chosen, kind.relative), kind)
    return Contrast(first, second, made, min(len(scores[label]) for label in chosen), len(means), kind)


def count_left(p_values: Sequence[float], level: float = LEVEL, further: float = 0) -> int:
    """How many hypotheses Holm's procedure does not refuse. Those that it refuses are those whose p-value is below the
    level at which it ends, `level` / (`further` + the number left), so that an interval at that level excludes 0.

    Args:
        level: the probability of any false finding, whatever the dependence between the tests.
        further: the weight of hypotheses that are tested elsewhere at the same level, each of these having weight 1.

    Source: Holm (1979), step-down, with weights.

    >>> count_left([0.01, 0.04, 0.03])
    2
    """
    left = len(p_values)
    for p in sorted(p_values):
        if p >= level / (further + left):
            break
        left -= 1
    return left


def weigh_settings(
    settings: dict[str, np.ndarray], chosen: Collection[str], relative: bool
) -> list[tuple[Spread, float]]:
    """As `weigh_spreads`, from each setting's (seeds, rows) figures; `relative`: spreads are borrowed as shares of the
    settings' means."""
    sizes = {label: abs(of.mean()) or 1.0 if relative else 1.0 for label, of in settings.items()}
    spreads = {label: measure_spread(of / sizes[label]) for label, of in settings.items()}
    return weigh_spreads(spreads, *[label for label in chosen if label in spreads], sizes=sizes)


def weigh_spreads(
    spreads: dict[str, Spread], *chosen: str, sizes: dict[str, float] | None = None
) -> list[tuple[Spread, float]]:
    """The spread of each setting, with its weight in the variance of a contrast of the means of the `chosen` ones,
    which are `sizes` times those that the spreads are of.

    A chosen setting's spread, if it is neither FAR above the others nor below them by more than chance, is the mean of
    its own, weighted by its degrees of freedom, and of all settings' together, which counts as POOL degrees of freedom.
    Since each setting's spread stays a part of its own, Satterthwaite's formula gives fewer degrees of freedom where
    the spreads are unequal.
    """
    total, bounds = sum(spread.df for spread in spreads.values()), bound_spreads(spreads)
    weights = dict.fromkeys(spreads, 0.0)
    for label in chosen:
        df, pool = spreads[label].df, POOL if bounds[label] == 1 and not _is_below(label, spreads, bounds) else 0
        share = (sizes or {}).get(label, 1.0) ** 2 / (df + pool) / (df + 1)
        weights[label] += df * share
        for name, spread in spreads.items():
            weights[name] += pool * bounds[name] * spread.df / total * share
    return [(spread, weights[label]) for label, spread in spreads.items()]


def _is_below(label: str, spreads: dict[str, Spread], bounds: dict[str, float]) -> bool:
    """Whether a setting's variance is below that of the others together by more than chance (RARE). What sampling alone
    gives is its lower bound."""
    own, others = spreads[label], [(spread, bounds[name]) for name, spread in spreads.items() if name != label]
    df = sum(spread.df for spread, _ in others)
    of_all = sum(spread.between * bound * spread.df for spread, bound in others)
    return bool(of_all and special.fdtr(own.df, df, max(own.between, own.noise) * df / of_all) < RARE)


def bound_spreads(spreads: dict[str, Spread]) -> dict[str, float]:
    """The part of each spread that enters that of all settings: 1 if it is not FAR above the others'."""
    bounds = {}
    for label, spread in spreads.items():
        others = [max(other.between, other.noise) for name, other in spreads.items() if name != label]
        bound = FAR * np.median(others) if others else np.inf
        bounds[label] = float(bound / spread.between) if spread.between > bound else 1.0
    return bounds


@lru_cache
def invert_range(level: float, settings: int, df: float) -> float:
    """The level at which one t test has the critical value of the studentized range. The logarithm of the range's level
    is nearly linear in that of the test's, so few values of the range, each 10 ms, find it between Bonferroni's level
    and `level`, with a hundredth on either side for rounding."""

    def excess(log_share: float) -> float:
        single = level * np.exp(log_share)
        p = stats.studentized_range.sf(-np.sqrt(2) * special.stdtrit(df, single / 2), settings, df)
        return float(np.log(max(p, single) / level))  # far out scipy's p is 0

    return level * float(np.exp(optimize.brentq(excess, np.log(1.98 / settings / (settings - 1)), 0.01, xtol=1e-6)))

"""Intervals of means over seeds and rows, and over rows alone, with every source of error in them.

    figures    # (seeds, rows): of each run and held-out row the mean over its completions
    crossed_interval(figures, SHARES)                # of an accuracy
    crossed_interval(figures - start, DIFFERENCES)   # of its gain over a start model that all runs share: (rows,)
    paired_interval(baseline, trained, DIFFERENCES)  # of the gain of one run

Seeds and rows are crossed random effects: figure = mean + seed + row + rest. The row's effect holds the choice of the
rows and everything that the runs share on a row: the start model's completions of it, and common random numbers. The
rest holds the sampling of each run. The variance of the mean is therefore

    variance over rows of the means over seeds / rows  +  variance of the seeds' effect / seeds

estimated as in Searle, Casella and McCulloch (1992), Variance Components, chapter 4, the second part as 0 where the
estimate is negative. Few seeds may lie close together by chance, so each part has a Student's t of its own degrees of
freedom in the interval, which then covers the truth in 95% or more however far seeds spread: Banerjee (1960),
Approximate confidence interval for linear functions of means of k populations when the population variances are not
equal, Sankhya 22, 357-358. One Satterthwaite's formula for both covers it in 0.88 at two seeds. bench/intervals.py
measures the coverage, beside that of a bootstrap and of Student's t over seeds.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from rlhf_exp.analysis.stats.intervals import (
    CONFIDENCE,
    Interval,
    as_interval,
    exact,
    paired_score_interval,
    require_values,
)

Rows = Sequence[float] | np.ndarray


class Kind(NamedTuple):
    """What the figures are: the bounds of their mean, and the rows that are added before its variance is taken.

    Without added rows an interval near a bound, or with few rows that changed, is too narrow.

    Attributes:
        scaled: the values are differences of shares; the added rows are multiplied by the size of a change: the root
            mean square of the rows that are not 0, or 1 if all are. With several completions of each row a change is
            smaller than 1.
        relative: settings with larger means spread more over seeds, as KLs and costs do.
    """

    added: tuple[float, ...]
    low: float
    high: float
    scaled: bool = False
    relative: bool = False

    def add_to(self, rows: np.ndarray) -> np.ndarray:
        """(rows,) values and the added ones."""
        changed = rows[rows != 0] if self.scaled else rows[:0]
        size = np.sqrt(np.mean(changed**2)) if len(changed) else 1.0
        return np.concatenate([rows, np.multiply(size, self.added)])


LEVELS = Kind((), -np.inf, np.inf)
SIZES = LEVELS._replace(relative=True)
SHARES = Kind((0.0, 0.0, 1.0, 1.0), 0.0, 1.0)
"""Two successes and two failures: Agresti and Coull (1998)."""
DIFFERENCES = Kind((-1.0, 1.0), -1.0, 1.0, scaled=True)
"""Of two shares. One change in each direction: Bonett and Price (2012), after Agresti and Min (2005), who have one
completion of each row."""


class Spread(NamedTuple):
    """How the means of runs of one setting vary.

    Attributes:
        between: variance of the seeds' means.
        noise: the part of it that comes from sampling and from rows on which seeds differ.
        df: degrees of freedom of `between`.
    """

    between: float
    noise: float
    df: float


class Estimate(NamedTuple):
    """A mean, or a difference of means, and the parts of its variance.

    Attributes:
        centre: of the interval: the mean over the rows and those that are added to them.
        by_rows: the variance that comes from rows and sampling; it falls as 1 / rows.
        by_noise: the part of `by_rows` that also falls as 1 / seeds.
        by_seeds: the variance that comes from the seeds' effect; it falls as 1 / seeds.
        df: the degrees of freedom with which Student's t interval is Banerjee's 95% interval.
    """

    value: float
    centre: float
    by_rows: float
    by_noise: float
    by_seeds: float
    df: float

    @property
    def error(self) -> float:
        """The standard error."""
        return float(np.sqrt(self.by_rows + self.by_seeds))

    @property
    def interval(self) -> Interval:
        """Its 95% interval."""
        return self.find_interval(1 - CONFIDENCE)

    def find_interval(self, level: float) -> Interval:
        """The differences that a two-sided t test at `level` does not refuse."""
        half = -special.stdtrit(self.df, level / 2) * self.error
        return as_interval(self.value, min(self.centre - half, self.value), max(self.centre + half, self.value))

    @property
    def p(self) -> float:
        """The two-sided p-value of no difference."""
        if self.error == 0:
            return float(self.value == 0)
        return float(2 * special.stdtr(self.df, -abs(self.centre) / self.error))


def crossed_interval(figures: np.ndarray, kind: Kind = LEVELS) -> Interval:
    """The mean over seeds and rows, with an interval over seeds, rows and sampling.

    Args:
        figures: (seeds, rows); one seed is measured over its rows alone.

    Raises:
        ValueError: no seeds or no rows.
    """
    figures = np.asarray(figures, dtype=np.float64)
    require_values(figures.size)
    if figures.shape[1] == 1:
        return exact(figures.mean())
    if len(figures) == 1:
        return _rows_interval(figures[0], kind)
    spreads = [(measure_spread(figures), 1 / len(figures))]
    return limit(estimate(figures.mean(0), spreads, kind).interval, kind)


def paired_interval(baseline: Rows, trained: Rows, kind: Kind | None = None) -> Interval:
    """Mean of trained minus baseline over the same rows. It covers the choice of the rows and the sampling of both
    sides, not the training seed. Of shares with one completion of each row it is Tango's score interval.

    Args:
        baseline: (rows,) one value per row, or (rows, completions), whose mean per row is taken.
        trained: the same rows in the same order; it may have another number of completions.
        kind: DIFFERENCES for shares. By default, for values without bounds, one change in each direction, of the size
            that two unrelated rows differ by, so that a few changed rows are not taken for certainty; among unrelated
            sides it alters nothing.

    Raises:
        ValueError: no rows, or different numbers of rows.
    """
    before, after = pair_rows(baseline, trained)
    if len(before) == 1:
        return exact((after - before).mean())
    if kind is None:
        size = float(np.sqrt(before.var(ddof=1) + after.var(ddof=1)))
        kind = LEVELS._replace(added=(-size, size))
    return _rows_interval(after - before, kind)


def _rows_interval(values: np.ndarray, kind: Kind) -> Interval:
    """The mean of (rows,) values."""
    if kind.scaled and np.isin(values, (-1.0, 0.0, 1.0)).all():
        return paired_score_interval(int((values == 1).sum()), int((values == -1).sum()), len(values))
    return limit(estimate(values, [], kind).interval, kind)


def measure_spread(figures: np.ndarray) -> Spread:
    """The spread of one setting's (seeds, rows) figures, of at least two seeds: the mean squares of the two-way
    analysis of variance, each divided by the number of rows; of one row nothing is known of the noise."""
    seeds, rows = figures.shape
    between = figures.mean(1).var(ddof=1)
    if rows == 1:
        return Spread(float(between), 0.0, seeds - 1)
    within = figures.var(0, ddof=1).mean() / rows
    noise = max(rows * within - between, 0.0) / (rows - 1)
    return Spread(float(between), float(noise), seeds - 1)


def estimate(means: np.ndarray, spreads: Sequence[tuple[Spread, float]], kind: Kind = LEVELS) -> Estimate:
    """The mean over rows of `means`.

    Args:
        means: (rows,) means over seeds, or differences of such means.
        spreads: independent spreads of the seeds in `means`, each with the sum of 1 / seeds over the means that have
            it. They widen the interval even where the seeds' effect is estimated as 0.
    """
    rows, joined = len(means), kind.add_to(means)
    by_rows = joined.var(ddof=1) / len(joined)
    return join(means.mean(), joined.mean(), by_rows, rows, spreads)


def join(value: float, centre: float, by_rows: float, rows: int, spreads: Sequence[tuple[Spread, float]]) -> Estimate:
    """The estimate from the variance that comes from rows, and the spreads, as in `estimate`.

    The interval's half width is the root of t(rows)^2 (variance of rows) + t(seeds)^2 (variance between seeds), where
    the sampling of each run is part of the second, and at least what rows and sampling alone give. Several spreads
    together have Satterthwaite's degrees of freedom.
    """
    between = sum(spread.between * share for spread, share in spreads)
    noise = sum(spread.noise * share for spread, share in spreads)
    by_seeds, of_all = max(between - noise, 0.0), max(by_rows - noise, 0.0)
    by_noise = float(min(noise, by_rows))
    found = Estimate(float(value), float(centre), float(by_rows), by_noise, float(by_seeds), rows - 1)
    if not between or not by_rows + by_seeds:  # settings that are alike on every row
        return found
    df = between**2 / sum((spread.between * share) ** 2 / spread.df for spread, share in spreads)
    of_rows, of_seeds = special.stdtrit([rows - 1, df], (1 + CONFIDENCE) / 2) ** 2
    square = (of_rows * of_all + of_seeds * between) / (by_rows + by_seeds)
    if square > of_rows:
        df = max(df, special.stdtridf((1 + CONFIDENCE) / 2, np.sqrt(square)))
    return found._replace(df=float(df if square > of_rows else rows - 1))


def pair_rows(baseline: Rows, trained: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Both sides as (rows,) means over completions.

    Raises:
        ValueError: no rows, or different numbers of rows.
    """
    if len(baseline) != len(trained):
        raise ValueError(f"a paired test needs the same rows: {len(baseline)} baseline, {len(trained)} trained")
    require_values(len(baseline))
    sides = (np.asarray(side, dtype=np.float64) for side in (baseline, trained))
    before, after = (side if side.ndim == 1 else side.mean(1) for side in sides)
    return before, after


def limit(interval: Interval, kind: Kind) -> Interval:
    """Cut off at the bounds of the mean."""
    ends: Any = interval  # which has both
    return as_interval(interval["value"], max(kind.low, ends["low"]), min(kind.high, ends["high"]))

"""Pure functions of series and of running scores, of which the rules are made.

recent([(1, 0.1), (2, 0.3), ...])            # medians of the latest rows, from LEAST_ROWS rows on
combine(min, course, other)                  # one score per step that both have
"""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median

Series = list[tuple[int, float]]
"""(step, value), in order of steps, finite values only."""
Course = Sequence[tuple[int | None, float]]
"""(step, score): how sick the run looks at each step, from the steps up to it; None for held-out rows."""

START_ROWS, LEAST_ROWS = 3, 5
"""A run's start is the median of its first rows; a course begins when there are some more."""


def recent(series: Series, window: int = 0, least: int = 3) -> Series:
    """At each row from LEAST_ROWS on the median of the last `window` rows up to it; of a quarter of them for 0, and of
    at least `least`."""
    medians, values = [], [value for _, value in series]
    for i in range(LEAST_ROWS - 1, len(series)):
        rows = max(least, window or (i + 1) // 4)
        medians.append((series[i][0], median(values[max(0, i + 1 - rows) : i + 1])))
    return medians


def combine(how: Callable[..., float], *courses: Course) -> Course:
    """One score per step that all courses have: min where all signs are needed."""
    scores = [dict(course) for course in courses]
    return [(step, how(*(of[step] for of in scores))) for step in scores[0] if all(step in of for of in scores)]


def worst(*courses: Course) -> Course:
    """The largest of the courses at each step that any has."""
    largest: dict[int, float] = {}
    for course in courses:
        for step, score in course:
            largest[step or 0] = max(score, largest.get(step or 0, -math.inf))
    return sorted(largest.items())


def angle(share: float) -> float:
    """A share on Cohen's scale, 2 asin(sqrt(p)), on which the error of a share is the same everywhere."""
    return 2 * math.asin(math.sqrt(min(max(share, 0.0), 1.0)))


def soften(z: float) -> float:
    """log(1 + exp(z)): near 0 for a z below 0, which says nothing, and z above it."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def log(value: float, least: float = 1e-8) -> float:
    return math.log(max(value, least))


def root(value: float) -> float:
    """Distances grow as the root of a KL (Gao et al. 2022, arXiv:2210.10760), which keeps its scores light-tailed."""
    return math.copysign(math.sqrt(abs(value)), value)


def last_quarter(series: Series, least: int = 1) -> Series:
    return series[-max(least, len(series) // 4) :]


def mean(series: Series) -> float:
    return fmean(value for _, value in series)

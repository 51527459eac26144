"""Intervals, and tests of differences between rows, seeds and settings: arrays in, plain numbers out.

intervals     of one mean: Wilson's, Student's t
crossed       of means over seeds and rows, and of paired differences over rows
wins          of win rates
contrasts     which settings differ, and what these runs could have shown (planning)
collapse      runs far below the other seeds
"""

from rlhf_exp.analysis.stats.contrasts import START, Contrast, compare_settings, count_left
from rlhf_exp.analysis.stats.crossed import DIFFERENCES, LEVELS, SHARES, SIZES, Kind, crossed_interval, paired_interval
from rlhf_exp.analysis.stats.intervals import (
    CONFIDENCE,
    Interval,
    as_interval,
    correlation_interval,
    exact,
    mean_interval,
    share_interval,
    wilson,
)
from rlhf_exp.analysis.stats.planning import LEVEL
from rlhf_exp.analysis.stats.wins import WinRate, win_rate

__all__ = [
    "CONFIDENCE", "DIFFERENCES", "LEVEL", "LEVELS", "SHARES", "SIZES", "START", "Contrast", "Interval", "Kind",
    "WinRate", "as_interval", "compare_settings", "correlation_interval", "count_left", "crossed_interval", "exact",
    "mean_interval", "paired_interval", "share_interval", "wilson", "win_rate",
]  # fmt: skip

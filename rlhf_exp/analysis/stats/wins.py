"""How often one of two models beats the other on the same row.

win_rate(baseline_rewards, trained_rewards)  ->  {"win_rate": {...}, "wins": 3, "losses": 1, "ties": 4, "n": 8}
"""

from typing import Any, TypedDict

import numpy as np

from rlhf_exp.analysis.stats.crossed import DIFFERENCES, Rows, pair_rows, paired_interval
from rlhf_exp.analysis.stats.intervals import Interval, as_interval


class WinRate(TypedDict):
    win_rate: Interval
    wins: int
    losses: int
    ties: int
    n: int


def win_rate(baseline_rewards: Rows, trained_rewards: Rows) -> WinRate:
    """How often the trained reward beats the baseline's on the same row; a tie counts as half a win.

    With several completions per row the i-th is compared with the i-th of the same row, as far as both sides have one:
    wins, losses and ties count completions, `n` counts rows. The win rate is half of one plus the share of wins minus
    that of losses, which is a difference of shares (`paired_interval`). Arguments and errors are those of
    `paired_interval`.
    """
    pair_rows(baseline_rewards, trained_rewards)
    sides = [np.asarray(side, dtype=np.float64) for side in (baseline_rewards, trained_rewards)]
    before, after = (side if side.ndim > 1 else side[:, None] for side in sides)
    shared = min(before.shape[1], after.shape[1])
    signs = np.sign(after[:, :shared] - before[:, :shared])
    found: Any = paired_interval(np.zeros(len(signs)), signs, DIFFERENCES)
    halved: list[Any] = [None if found[end] is None else (1 + found[end]) / 2 for end in ("value", "low", "high")]
    return {
        "win_rate": as_interval(*halved),
        "wins": int((signs > 0).sum()),
        "losses": int((signs < 0).sum()),
        "ties": int((signs == 0).sum()),
        "n": len(signs),
    }

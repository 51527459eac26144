"""Thresholds that others publish, as expressions over the same series, to compare with; none was calibrated.

    flag("axolotl, KL above 2", run)     # True, False, or None where the run lacks the series

Sources: axolotl's docs/training_stability.qmd; verl's docs/algo/rollout_corr.md; tinker-cookbook's hyperparams.md;
rewardspy; provenir; arXiv 2606.18487 (entropy); arXiv 2503.01491 (critic); arXiv 2410.08847 (dpo). A rule that names no
moment is applied to the median of the run's last quarter, which forgives single steps.
"""

from collections.abc import Callable
from statistics import fmean, median, pstdev

from archive import Archived

Values = list[float]


def last(values: Values) -> float:
    return median(values[-max(1, len(values) // 4) :])


def cusum(values: Values) -> bool:
    """rewardspy: two-sided, standardised by the first ten steps, drift 0.5, h 5."""
    start = values[:10]
    deviation, up, down = pstdev(start) or 1e-9, 0.0, 0.0
    for value in values[10:]:
        z = (value - fmean(start)) / deviation
        up, down = max(0.0, up + z - 0.5), max(0.0, down - z - 0.5)
        if max(up, down) > 5:
            return True
    return False


def z_of_recent(values: Values) -> bool:
    """rewardspy: the mean of the last tenth against all before."""
    cut = max(1, len(values) // 10)
    return len(values) > 10 and abs(fmean(values[-cut:]) - fmean(values[:-cut])) / (pstdev(values[:-cut]) or 1e-9) > 3


PUBLIC: dict[str, tuple[str, Callable[[Values], bool]]] = {
    "axolotl: entropy below 0.01": ("entropy|ppo/entropy", lambda v: last(v) < 0.01),
    "axolotl: entropy outside 0.05 to 0.5": ("entropy|ppo/entropy", lambda v: not 0.05 <= last(v) <= 0.5),
    "axolotl: KL above 2": ("kl|ppo/kl", lambda v: last(v) > 2),
    "axolotl: clip region_mean above 0.3": ("clip_ratio/region_mean", lambda v: last(v) > 0.3),
    "axolotl: clipped_ratio above 0.8": ("completions/clipped_ratio", lambda v: last(v) > 0.8),
    "axolotl: clipped_ratio above 0.3": ("completions/clipped_ratio", lambda v: last(v) > 0.3),
    "axolotl: frac_reward_zero_std above 0.8": ("frac_reward_zero_std", lambda v: last(v) > 0.8),
    "axolotl: gradient norm above 10": ("grad_norm", lambda v: last(v) > 10),
    "provenir: KL above 0.5": ("kl|ppo/kl", lambda v: last(v) > 0.5),
    "2606.18487: entropy starts below 0.18": ("entropy|ppo/entropy", lambda v: v[0] < 0.18),
    "2606.18487: entropy falls by half": ("entropy|ppo/entropy", lambda v: last(v) < 0.5 * v[0]),
    "tinker: sampling against scoring above 0.01": (
        "sampling/sampling_logp_difference/mean", lambda v: last(v) > 0.01,
    ),
    "verl: mean weight outside 0.5 to 2": ("ratio/mean|ppo/ratio", lambda v: not 0.5 <= last(v) <= 2),
    "rewardspy: z of length above 3": ("completions/mean_length", z_of_recent),
    "rewardspy: CUSUM of the reward": ("reward", cusum),
    "2503.01491: explained variance at or below 0": ("ppo/explained_variance", lambda v: last(v) <= 0),
    "2410.08847: chosen log-probabilities fall": ("logps/chosen", lambda v: last(v) < v[0]),
}  # fmt: skip
"""Name: (series, the rule). A difference to the source: tinker's figure is a KL, ours a mean absolute difference."""


def flag(name: str, run: Archived) -> bool | None:
    keys, rule = PUBLIC[name]
    for key in keys.split("|"):
        if values := [row[key] for row in run.metrics if row.get(key) is not None]:
            return rule(values)
    return None

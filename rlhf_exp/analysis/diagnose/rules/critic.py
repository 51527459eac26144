"""PPO's critic: what it explains, and how it breaks down."""

import math
from bisect import insort
from functools import partial
from statistics import median

from rlhf_exp.analysis.diagnose.courses import LEAST_ROWS, log
from rlhf_exp.analysis.diagnose.rule import CRITICS, Suspicion, rule
from rlhf_exp.analysis.diagnose.signals import Signals

NOTHING, SOME, LEAST = 1e-4, 0.1, 1e-3
"""Shares of the variance that are as good as none, and that a critic soon explains; a weight of the value loss that is
as good as none."""


@rule("warning", "ppo/explained_variance", of=CRITICS)
def explained_variance(run: Signals) -> Suspicion:
    """The larger of two scores of its median so far, in the second half of training: below 0, where a critic is worse
    than the mean (Yuan et al. 2025, arXiv:2503.01491), log(1 + its size / SOME); and minus the log
    of the correlation that its size amounts to, since that of a critic that learns is not near 0 for long."""
    values, sizes, course = list[float](), list[float](), []
    for step, value in run.late(run.series("ppo/explained_variance")):
        insort(values, value)  # sorted, so that a median costs no sorting
        insort(sizes, abs(value))
        if len(values) >= LEAST_ROWS:
            below, size = max(-median(values), 0.0), median(sizes)
            course.append((step, max(math.log1p(below / SOME), -0.5 * log(max(size, NOTHING)))))
    cause = "the critic predicts no better than a constant, so that advantages are noise"
    return Suspicion(course, cause, _help_critic(run))


@rule("warning", "ppo/value_loss", of=CRITICS)
def value_loss_spike(run: Signals) -> Suspicion:
    """Log of the recent value loss over that of the start; one of errors below 0.14 is none."""
    cause = "the critic diverges: its learning rate or the range in which values may move is too large"
    return Suspicion(run.rise("ppo/value_loss", partial(log, least=0.01)), cause, _help_critic(run))


def _help_critic(run: Signals) -> list[str]:
    """Overrides for a better critic: a weight for its loss if it has hardly any, else a quarter of its rate."""
    if run.setting("algo.args.vf_coef", 1.0) < LEAST:
        return ["algo.args.vf_coef=0.1"]
    rate = run.setting("algo.args.critic_learning_rate")
    return [f"algo.args.critic_learning_rate={rate / 4:g}", run.lower_rate(2)] if rate else [run.lower_rate(2)]

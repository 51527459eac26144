"""Numbers that are not finite, and gradients and losses that jump."""

import math

from rlhf_exp.diagnose.rule import Finding, has_critic, rule
from rlhf_exp.diagnose.signals import Signals, ends

SPIKE = 3
"""Rows: so many that the median of them is no single row."""


@rule("error")
def nonfinite_loss(run: Signals) -> Finding | None:
    """Loss, gradient norm or the probe's KL is NaN or infinite, which metrics.jsonl holds as null. An exact fact."""
    for row in run.metrics:
        for key in ("loss", "grad_norm", "probe/kl"):
            if key in row and (row[key] is None or not math.isfinite(row[key])):
                return Finding(
                    [(row["step"], math.inf), (run.last_step, math.inf)],
                    f"{key} is not finite at step {row['step']}",
                    f"the learning rate {run.learning_rate:g} is too high, or a half-precision value overflowed",
                    [run.lower_rate(4)],
                )
    return None


@rule("warning", "grad_norm")
def gradient_spike(run: Signals) -> Finding:
    """Log of the gradient norm's recent median over that of the start. A single large norm is clipped and moves no
    median."""
    course = run.rise("grad_norm", of=_log, window=SPIKE)
    before = ends(run.series("grad_norm"))[0]
    return Finding(
        course,
        f"the gradient norm reached {before * math.exp(max(score for _, score in course)):.3g}, from {before:.3g}",
        f"the learning rate {run.learning_rate:g} is too high for these gradients: steps overshoot",
        [run.lower_rate(4)],
    )


@rule("warning", "ppo/value_loss", of=has_critic)
def value_loss_spike(run: Signals) -> Finding:
    """Log of the value loss's recent median over that of the start."""
    course = run.rise("ppo/value_loss", of=_log, window=SPIKE)
    before = ends(run.series("ppo/value_loss"))[0]
    rate = run.config["algo"].get("critic_learning_rate")
    return Finding(
        course,
        f"the value loss reached {before * math.exp(max(score for _, score in course)):.3g}, from {before:.3g}",
        "the critic diverges: its learning rate or the range in which values may move is too large",
        [*([f"algo.critic_learning_rate={rate / 4:g}"] if rate else []), run.lower_rate(2)],
    )


def _log(value: float) -> float:
    return math.log(max(value, 1e-8))

"""Numbers that are not finite, and gradients and losses that jump."""

import math

from rlhf_exp.diagnose.rule import Finding, rule
from rlhf_exp.diagnose.signals import Signals, log

SPIKE = 3
"""Rows: so many that their median is no single row."""


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
    cause = f"the learning rate {run.learning_rate:g} is too high for these gradients: steps overshoot"
    return Finding(run.rise("grad_norm", log, window=SPIKE), "", cause, [run.lower_rate(4)])

"""Numbers that are not finite, and gradients and losses that jump."""

import math

from rlhf_exp.diagnose.rule import Finding, rule, writes
from rlhf_exp.diagnose.signals import Signals, log
from rlhf_exp.findings import WATCHED

SPIKE = 3
"""Rows: so many that their median is no single row."""


@rule("error")
def nonfinite_loss(run: Signals) -> Finding | None:
    """Loss, gradient norm or the probe's KL is NaN or infinite, which metrics.jsonl holds as null. An exact fact."""
    for row in run.metrics:
        for key in WATCHED:
            if key in row and (row[key] is None or not math.isfinite(row[key])):
                return Finding(
                    [(row["step"], math.inf), (run.last_step, math.inf)],
                    f"{key} is not finite at step {row['step']}",
                    f"the {run.rate_text} is too high, or a half-precision value overflowed",
                    [run.lower_rate(4)],
                )
    return None


@rule("warning", "grad_norm", of=writes)
def gradient_spike(run: Signals) -> Finding:
    """Log of the gradient norm's recent median over that of the start. A single large norm is clipped and moves no
    median, and one that is not clipped is no spike, however small it was before. Those of a reward
    model from random weights grow as it learns."""
    cause = f"the {run.rate_text} is too high for these gradients: steps overshoot"
    most = run.arg("max_grad_norm", 1.0) or 1.0
    course = run.rise("grad_norm", lambda norm: log(max(norm, most)), window=SPIKE)
    return Finding(course, "", cause, [run.lower_rate(4)])

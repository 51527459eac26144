"""Numbers that are not finite, and gradients and losses that jump."""

import math
from functools import partial

from rlhf_exp.analysis.diagnose.courses import log
from rlhf_exp.analysis.diagnose.rule import OFFLINE, POLICIES, Suspicion, rule
from rlhf_exp.analysis.diagnose.signals import Signals
from rlhf_exp.findings import WATCHED

SPIKE = 5
"""Rows: so many that their median is no single row."""


@rule("error")
def nonfinite_loss(run: Signals) -> Suspicion | None:
    """Loss, gradient norm or the probe's KL is NaN or infinite, which metrics.jsonl holds as null. An exact fact."""
    for row in run.metrics:
        for key in WATCHED:
            if key in row and (row[key] is None or not math.isfinite(row[key])):
                return Suspicion(
                    [(row["step"], math.inf), (run.last_step, math.inf)],
                    f"the {run.rate_text} is too high, or a half-precision value overflowed",
                    [run.lower_rate(4)],
                    f"{key} is not finite at step {row['step']}",
                )
    return None


@rule("warning", "grad_norm", of=POLICIES)
def gradient_spike(run: Signals) -> Suspicion:
    """Log of one and the log of the gradient norm's recent median over that of the start. A single large norm is
    clipped and moves no median, and one of less than twice the clipping norm is no spike, however small it was before.
    Those of a reward model from random weights grow as it learns."""
    cause = f"the {run.rate_text} is too high for these gradients: steps overshoot"
    most = run.arg("max_grad_norm", 1.0) or 1.0
    rise = run.rise("grad_norm", partial(log, least=2 * most), window=SPIKE)
    course = [(step, math.log1p(max(score, 0.0))) for step, score in rise]
    return Suspicion(course, cause, [run.lower_rate(4)])


@rule("warning", "loss", of=OFFLINE)
def loss_rose(run: Signals) -> Suspicion:
    """Log of the recent training loss over that of the start."""
    cause = f"the {run.rate_text} is too high: the model forgets what it could"
    return Suspicion(run.rise("loss", log), cause, [run.lower_rate(4)])

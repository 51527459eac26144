"""Held-out rows before and after training, pairs and reward models."""

import math
from dataclasses import replace
from statistics import NormalDist

from rlhf_exp.algorithms import PAIRS
from rlhf_exp.analysis.diagnose.courses import Course, angle, last_quarter, log, mean, soften
from rlhf_exp.analysis.diagnose.rule import IMPLICIT, PAIRED, SCORERS, Suspicion, rule
from rlhf_exp.analysis.diagnose.rules.reward import find_hopeless
from rlhf_exp.analysis.diagnose.signals import Signals

ROUNDING = 1e-4
"""A gradient norm, of weights whose usual one is above 0.1."""


@rule("warning", "loss")
def overfitting(run: Signals) -> Suspicion | None:
    """Log of the held-out loss after training over the training loss of the last quarter, which is the same quantity;
    0 if the held-out loss fell measurably."""
    row, training = run.algorithm, mean(last_quarter(run.series("loss")))
    comparable = row.find_other_loss(run.config["algo"]["args"]) is None if row.held_out_loss else row.scores
    before, after, change = map(run.measured, ("baseline/loss", "trained/loss", "paired/loss"))
    if not comparable or before is None or after is None:
        return None
    highest = after["high"] - before["value"] if change is None else change["high"]
    score = 0.0 if highest < 0 else max(log(after["value"]) - log(training), 0.0)
    evidence = f"held-out loss went from {before['value']:.3f} to {after['value']:.3f}, 95% interval {after['low']:.3f}"
    evidence += f" to {after['high']:.3f}, where the training loss ends at {training:.3f}"
    rows = "pairs" if row.learns_from == PAIRS else "rows"
    cause = f"the model remembers its training {rows}: too many passes over too few of them, or too large a learning"
    return Suspicion([(None, score)], f"{cause} rate", run.scale_length(0.5), evidence)


@rule("warning", "evaluation/paired/difference")
def accuracy_fell(run: Signals) -> Suspicion | None:
    """How many standard errors held-out accuracy has fallen: the smaller of the falls on the test rows, which are
    paired, and on the validation rows of training, so that no chance of one set flags; over the root of 2 where only
    one is known."""
    if run.is_control:
        return None
    evidence, things = _describe_change(run)
    cause = f"training moved the model away from what was right on these {things}"
    fall, test = run.fall_in_errors(), -run.errors_above("paired/difference")
    course: list[tuple[int | None, float]] = [(step, soften(z / math.sqrt(2))) for step, z in fall]
    course.append((None, soften(min(test, fall[-1][1]) if fall else test / math.sqrt(2))))
    return Suspicion(course, cause, [run.lower_rate(2)], evidence)


@rule("info", "evaluation/paired/difference")
def no_measurable_gain(run: Signals) -> Suspicion | None:
    """The 95% interval of the paired difference in held-out accuracy holds zero."""
    difference, (evidence, things) = run.read("paired/difference"), _describe_change(run)
    if run.is_control or not difference["low"] <= 0 <= difference["high"]:
        return None
    if hopeless := find_hopeless(run):
        return Suspicion([(None, 0.0)], *hopeless, evidence)
    rows = run.paired.n
    cause = f"too few steps, or a change too small for {rows} {things} to show"
    remedies = run.scale_length(2) if run.whole_steps else []
    if rows >= (run.setting("eval.rows") or run.setting("eval.most_rows", rows)):
        remedies.append(f"eval.rows={4 * rows}")
    else:  # these are all rows that there are
        remedies.append(f"eval.completions={4 * run.setting('eval.completions', 1)}")
    return Suspicion([(None, 0.0)], cause, remedies, evidence)


@rule("info", "evaluation/paired/difference")
def task_fell(run: Signals) -> Suspicion | None:
    """Held-out accuracy of a task of a mixture, or of a further evaluation set, fell: its interval, at a level that all
    of them share (Bonferroni), is below 0."""
    read = {name: replace(run, evaluation=found).measured("paired/difference")
            for name, found in run.evaluation.sets.items()}  # fmt: skip
    changes = {name: figure for name, figure in read.items() if figure}
    most = NormalDist().inv_cdf(1 - 0.025 / max(len(changes), 1))
    errors = {name: (figure["high"] - figure["low"]) / 3.92 for name, figure in changes.items()}
    fallen = [name for name, figure in changes.items() if figure["value"] + most * errors[name] < 0]
    if run.is_control or not fallen:
        return None
    evidence = ", ".join(f"{name} by {100 * figure['value']:+.1f}" for name, figure in changes.items())
    cause = f"what was learned elsewhere replaced what was right on {' and '.join(fallen)}: too small a share of it"
    return Suspicion([(None, 0.0)], cause, [run.lower_rate(2)], f"held-out accuracy changed in points: {evidence}")


@rule("warning", "evaluation/paired/difference")
def tool_calls_fail(run: Signals) -> Suspicion | None:
    """More than half of the trained model's calls of tools in held-out episodes fail. An exact fact."""
    found = run.measured("trained/tool_calls"), run.measured("trained/tool_failures")
    calls, failures = (figure["value"] if figure else 0 for figure in found)
    if failures <= calls / 2:
        return None
    cause = "TRL gives the model the text of the error to read: it calls tools that do not exist, or with arguments"
    evidence = f"{failures:.2f} of {calls:.2f} calls of a held-out episode fail"
    return Suspicion([(None, math.inf)], f"{cause} that they refuse", [run.lower_rate(2)], evidence)


@rule("warning", "logps/chosen", of=IMPLICIT)
def chosen_falls(run: Signals) -> Suspicion:
    """Log of the recent negative log-probability of chosen answers over that of the start, each with a nat more, below
    which answers are as good as certain: likelihood displacement (Razin et al. 2024, arXiv:2410.08847)."""
    cause = "chosen and rejected answers are alike, and the loss lowers both: their probability goes to other texts"
    remedies = [run.lower_rate(4), run.set_arg("beta", 2 * run.arg("beta", 0.1))]
    return Suspicion(run.rise("logps/chosen", lambda value: log(1 - value)), cause, remedies)


@rule("error", "rewards/margins|margin", "grad_norm", of=PAIRED)
def pairs_teach_nothing(run: Signals) -> Suspicion | None:
    """In each logged row the two answers of every pair scored the same, and the gradient was nothing but rounding: they
    are the same tokens. An exact fact."""
    rows = run.series("rewards/margins|margin")
    if any(margin for _, margin in rows) or max(norm for _, norm in run.series("grad_norm")) > ROUNDING:
        return None
    evidence = f"the margin between the two answers and the gradient are 0 in all of {len(rows)} logged rows"
    cause = "the two answers of each pair are the same tokens, as where both are cut at the same place"
    course: Course = [(rows[0][0], math.inf), (run.last_step, math.inf)]
    return Suspicion(course, cause, ["algo.args.max_length=null"], evidence)


@rule("warning", "evaluation/trained/accuracy", of=SCORERS)
def reward_model_at_chance(run: Signals) -> Suspicion:
    """log(1 + exp(-z)) with z the standard errors of the held-out accuracy above one half: 0.7 at chance."""
    figure, z = run.read("trained/accuracy"), run.errors_above("trained/accuracy", 0.5)
    evidence = f"held-out preference accuracy is {figure['value']:.1%}, 95% interval {figure['low']:.1%}"
    evidence += f" to {figure['high']:.1%}"
    if z < -2:
        return Suspicion([(None, soften(-z))], "chosen and rejected are swapped", [], evidence)
    cause = "nothing was learned from the pairs: rate, labels or steps"
    return Suspicion([(None, soften(-z))], cause, [run.lower_rate(0.25), *run.scale_length(2)], evidence)


@rule("warning", "evaluation/trained/accuracy", of=SCORERS)
def ranks_by_length(run: Signals) -> Suspicion | None:
    """How far below chance the accuracy is on pairs with a longer chosen answer, or on those with a shorter one, less
    two standard errors, by `angle`."""
    scores, texts = [0.0], []
    for side in ("longer", "shorter"):
        parts = [part for part in run.side("trained").by_length if part.label.startswith(side)]
        if n := sum(part.n for part in parts):
            share = sum(part.n * part.accuracy["value"] for part in parts) / n
            scores.append(angle(0.5) - angle(share) - 2 / math.sqrt(n))
            texts.append(f"right on {share:.1%} of {n} pairs with a {side}")
    if len(texts) < 2:
        return None
    remedies, evidence = [run.lower_rate(2), *run.scale_length(2)], f"{' and '.join(texts)} chosen answer"
    return Suspicion([(None, max(scores))], "the reward model ranks by length", remedies, evidence)


def _describe_change(run: Signals) -> tuple[str, str]:
    """The paired difference in held-out accuracy in words, and what is counted."""
    difference, paired = run.read("paired/difference"), run.paired
    what, things = ("preference accuracy", "pairs") if run.algorithm.scores else ("accuracy", "rows")
    samples_once = max(run.side(side).completions or 1 for side in ("baseline", "trained")) == 1
    flips = [n for before, row in paired.changes.items() for after, n in row.items()
             if before != after and "correct" in (before, after)]  # fmt: skip
    nothing_moved = bool(paired.changes) and not any(flips) and samples_once  # `changes` counts first completions
    if difference["value"] == 0 and (nothing_moved or difference["low"] == difference["high"] == 0):
        return f"not one of {paired.n} held-out {things} went from wrong to correct or back", things
    low, value, high = (100 * difference[key] for key in ("low", "value", "high"))
    return f"held-out {what} changed by {value:+.1f} points, 95% interval {low:+.1f} to {high:+.1f}", things

"""Held-out rows before and after training, pairs and reward models."""

import math
from typing import Any

from rlhf_exp.algorithms import PAIRS
from rlhf_exp.analysis.diagnose.rule import Finding, has_pairs, learns_from_pairs, rule, scores_answers
from rlhf_exp.analysis.diagnose.rules.reward import find_hopeless
from rlhf_exp.analysis.diagnose.signals import Course, Signals, angle, last_quarter, log, mean, soften

ROUNDING = 1e-4
"""A gradient norm, of weights whose usual one is above 0.1."""


@rule("warning", "loss")
def overfitting(run: Signals) -> Finding | None:
    """Log of the held-out loss after training over the training loss of the last quarter, which is the same quantity;
    0 if the held-out loss fell measurably."""
    before, after = (run.measured(f"{side}/loss") for side in ("baseline", "trained"))
    row, quarter = run.algorithm, last_quarter(run.series("loss"))
    comparable = row.find_other_loss(run.config["algo"]["args"]) is None if row.held_out_loss else row.scores
    if not comparable or before is None or after is None:
        return None
    fell = (run.measured("paired/loss") or {"high": after["high"] - before["value"]})["high"] < 0
    rows = "pairs" if row.learns_from == PAIRS else "rows"
    return Finding(
        [(None, 0.0 if fell else max(log(after["value"]) - log(mean(quarter)), 0.0))],
        f"held-out loss went from {before['value']:.3f} to {after['value']:.3f}, 95% interval {after['low']:.3f} to "
        f"{after['high']:.3f}, where the training loss ends at {mean(quarter):.3f}",
        f"the model remembers its training {rows}: too many passes over too few of them, or too large a learning rate",
        run.scale_length(0.5),
    )


@rule("warning", "evaluation/paired/difference")
def accuracy_fell(run: Signals) -> Finding | None:
    """How many standard errors held-out accuracy has fallen: the smaller of the falls on the test rows, which are
    paired, and on the validation rows of training, so that no chance of one set accuses; over the root of 2 where only
    one is known."""
    if run.is_control:
        return None
    _, evidence, things = _read_change(run)
    cause = f"training moved the model away from what was right on these {things}"
    fall, test = run.fall_in_errors(), -run.errors_above("paired/difference")
    course: list[tuple[int | None, float]] = [(step, soften(z / math.sqrt(2))) for step, z in fall]
    course.append((None, soften(min(test, fall[-1][1]) if fall else test / math.sqrt(2))))
    return Finding(course, evidence, cause, [run.lower_rate(2)])


@rule("info", "evaluation/paired/difference")
def no_measurable_gain(run: Signals) -> Finding | None:
    """The 95% interval of the paired difference in held-out accuracy holds zero."""
    difference, evidence, things = _read_change(run)
    if run.is_control or not difference["low"] <= 0 <= difference["high"]:
        return None
    rows = run.evaluation["paired"]["n"]
    if hopeless := find_hopeless(run):
        return Finding([(None, 0.0)], evidence, *hopeless)
    cause = f"too few steps, or a change too small for {rows} {things} to show"
    remedies = [*(run.scale_length(2) if run.whole_steps else []), *_sample_more(run, rows)]
    return Finding([(None, 0.0)], evidence, cause, remedies)


@rule("warning", "logps/chosen", of=has_pairs)
def chosen_falls(run: Signals) -> Finding:
    """Log of the recent negative log-probability of chosen answers over that of the start: likelihood displacement
    (Razin et al. 2024, arXiv:2410.08847)."""
    cause = "chosen and rejected answers are alike, and the loss lowers both: their probability goes to other texts"
    remedy = [run.lower_rate(4), run.set_arg("beta", 2 * run.arg("beta", 0.1))]
    return Finding(run.rise("logps/chosen", lambda value: log(-value)), "", cause, remedy)


@rule("error", "rewards/margins|margin", "grad_norm", of=learns_from_pairs)
def pairs_teach_nothing(run: Signals) -> Finding | None:
    """In each logged row the two answers of every pair scored the same, and the gradient was nothing but rounding: they
    are the same tokens. An exact fact."""
    rows = run.series("rewards/margins|margin")
    if any(margin for _, margin in rows) or max(norm for _, norm in run.series("grad_norm")) > ROUNDING:
        return None
    evidence = f"the margin between the two answers and the gradient are 0 in all of {len(rows)} logged rows"
    cause = "the two answers of each pair are the same tokens, as where both are cut at the same place"
    return Finding([(rows[0][0], math.inf), (run.last_step, math.inf)], evidence, cause, ["algo.args.max_length=null"])


@rule("warning", "evaluation/trained/accuracy", of=scores_answers)
def reward_model_at_chance(run: Signals) -> Finding:
    """log(1 + exp(-z)) with z the standard errors of the held-out accuracy above one half: 0.7 at chance."""
    of, z = run.measured("trained/accuracy") or {}, run.errors_above("trained/accuracy", 0.5)
    evidence = f"held-out preference accuracy is {of['value']:.1%}, 95% interval {of['low']:.1%} to {of['high']:.1%}"
    wrong = z < -2
    cause = (
        "chosen and rejected are swapped"
        if wrong
        else "the pairs hold no signal that it learned: rate, labels or steps"
    )
    return Finding([(None, soften(-z))], evidence, cause, [] if wrong else [run.lower_rate(0.25), *run.scale_length(2)])


@rule("warning", "evaluation/trained/accuracy", of=scores_answers)
def ranks_by_length(run: Signals) -> Finding | None:
    """How far below chance the accuracy is on pairs with a longer chosen answer, or on those with a shorter one, less
    two standard errors, by `angle`."""
    sides = {"longer": [0.0, 0.0], "shorter": [0.0, 0.0]}
    for part in run.evaluation["trained"].get("by_length", []):
        if (side := sides.get(part["label"].split()[0])) is not None:
            side[0], side[1] = side[0] + part["n"], side[1] + part["n"] * part["accuracy"]["value"]
    found = {name: (right / n, n) for name, (n, right) in sides.items() if n}
    if len(found) < 2:
        return None
    below = max(angle(0.5) - angle(share) - 2 / math.sqrt(n) for share, n in found.values())
    course: Course = [(None, max(below, 0.0))]
    evidence = " and ".join(
        f"right on {share:.1%} of {n:.0f} pairs with a {name}" for name, (share, n) in found.items()
    )
    remedies = [run.lower_rate(2), *run.scale_length(2)]
    return Finding(course, f"{evidence} chosen answer", "the reward model ranks by length", remedies)


def _sample_more(run: Signals, rows: int) -> list[str]:
    """Overrides for four times as many completions: of more rows, unless these are all there are."""
    of_eval = run.config.get("eval", {})
    limit = of_eval.get("rows") or of_eval.get("most_rows", rows)
    completions = 4 * of_eval.get("completions", 1)
    return [f"eval.rows={4 * rows}" if rows >= limit else f"eval.completions={completions}"]


def _read_change(run: Signals) -> tuple[dict[str, Any], str, str]:
    """The paired difference in held-out accuracy with its interval, that in words, and what is counted."""
    paired = run.evaluation["paired"]
    difference = paired["difference"]
    what, things = ("preference accuracy", "pairs") if run.algorithm.scores else ("accuracy", "rows")
    changes = paired.get("changes")
    completions = max(run.evaluation.get(side, {}).get("completions", 1) for side in ("baseline", "trained"))
    flips = changes and sum(n for x, to in changes.items() for y, n in to.items() if "correct" in (x, y) and x != y)
    still = flips == 0 and completions == 1  # `changes` counts first completions
    if difference["value"] == 0 and (still or difference["low"] == difference["high"] == 0):
        return difference, f"not one of {paired['n']} held-out {things} went from wrong to correct or back", things
    low, value, high = (100 * difference[key] for key in ("low", "value", "high"))
    return difference, f"held-out {what} changed by {value:+.1f} points, 95% interval {low:+.1f} to {high:+.1f}", things

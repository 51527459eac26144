"""The rules: each is one function that reads a run's signals and returns a finding, or None if it does not apply.

    @rule("warning")
    def long_completions(run: Signals) -> Finding | None:
        series = run.series("completions/mean_length")
        return Finding(span(series), "evidence", "likely cause", ["max_tokens=128"]) if mean(series) > 1000 else None

Its name is the finding's name. Its docstring says what it looks at, its threshold, and the source of the threshold.
Findings of one severity are listed in the order of this file.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rlhf_exp.algorithms import DEMONSTRATIONS, PAIRS
from rlhf_exp.diagnose.signals import Signals, first_quarter, last_quarter, mean, span
from rlhf_exp.tasks.schema import find_keys

CORRECT_FALL, PARTIAL_RISE = 0.02, 0.05
KL_LIMIT = 0.5  # nats per token
ENTROPY_FRACTION = 0.2
ZERO_STD_LIMIT, SOLVED_SHARE = 0.8, 0.5
TRUNCATION_LIMIT = 0.3
RARELY = 0.01  # of completions


class Finding(NamedTuple):
    """`steps`: the first and the last that it concerns, None if it is about held-out rows alone. `remedy`: overrides,
    the best first; `diagnose` keeps the first that the config's checks accept."""

    steps: list[int] | None
    evidence: str
    cause: str
    remedy: list[str]


Find = Callable[[Signals], Finding | None]
RULES: list[tuple[str, Find]] = []
"""Severity (error, warning or info) and function of every rule."""


def rule(severity: str) -> Callable[[Find], Find]:
    """Add the function to RULES."""

    def add(find: Find) -> Find:
        RULES.append((severity, find))
        return find

    return add


@rule("error")
def nonfinite_loss(run: Signals) -> Finding | None:
    """Loss, gradient norm or the probe's KL is NaN or infinite, which metrics.jsonl holds as null."""
    for row in run.metrics:
        for key in ("loss", "grad_norm", "probe/kl"):
            if key in row and (row[key] is None or not math.isfinite(row[key])):
                return Finding(
                    [row["step"], run.last_step],
                    f"{key} is not finite at step {row['step']}",
                    f"the learning rate {run.learning_rate:g} is too high, or a half-precision value overflowed",
                    [run.lower_rate(4)],
                )
    return None


@rule("warning")
def overfitting(run: Signals) -> Finding | None:
    """The held-out loss rose, and the training loss of the last quarter, which is the same quantity, is below the
    interval of the held-out loss."""
    before, after = (run.evaluation.get(side, {}).get("loss") for side in ("baseline", "trained"))
    quarter = last_quarter(run.series("loss"))
    row = run.algorithm
    comparable = row.find_other_loss(run.config["algo"]["args"]) is None if row.held_out_loss else row.scores
    if not comparable or not quarter or before is None or after is None or after["low"] is None:
        return None
    change = run.evaluation.get("paired", {}).get("loss") or {"low": None}  # missing in older runs of reward models
    rose = change["low"] > 0 if change["low"] is not None else after["value"] > before["value"]
    if not rose or mean(quarter) >= after["low"]:
        return None
    rows = "pairs" if row.learns_from == PAIRS else "rows"
    return Finding(
        span(quarter),
        f"held-out loss rose from {before['value']:.3f} to {after['value']:.3f}, 95% interval {after['low']:.3f} to "
        f"{after['high']:.3f}, while the training loss fell to {mean(quarter):.3f}",
        f"the model remembers its training {rows}: too many passes over too few of them, or too large a learning rate",
        run.scale_length(0.5),
    )


@rule("warning")
def accuracy_fell(run: Signals) -> Finding | None:
    """The 95% interval of the paired difference in held-out accuracy is below zero."""
    difference, evidence, things = _read_change(run)
    if difference is None or difference["high"] >= 0:
        return None
    cause = f"training moved the model away from what was right on these {things}"
    return Finding(None, evidence, cause, [run.lower_rate(2)])


@rule("info")
def no_measurable_gain(run: Signals) -> Finding | None:
    """The 95% interval of the paired difference in held-out accuracy holds zero."""
    difference, evidence, things = _read_change(run)
    if difference is None or not difference["low"] <= 0 <= difference["high"]:
        return None
    rows = run.evaluation["paired"]["n"]
    if hopeless := _is_never_right(run):
        return Finding(None, evidence, *hopeless)
    cause = f"too few steps, or a change too small for {rows} {things} to show"
    return Finding(None, evidence, cause, [*(run.scale_length(2) if run.metrics else []), *_sample_more(run, rows)])


@rule("warning")
def format_farming(run: Signals) -> Finding | None:
    """From the first to the last quarter of training the correct share fell by more than 0.02 and the share of wrong
    answers in the right format rose by more than 0.05. A share over ten steps of 256 completions has a standard error
    of 0.01, so that neither is the noise of single steps."""
    correct, partial = run.series("outcome/correct"), run.series("outcome/partial")
    if len(correct) < 2 or len(partial) < 2:
        return None
    before, after = mean(first_quarter(correct)), mean(last_quarter(correct))
    partial_before, partial_after = mean(first_quarter(partial)), mean(last_quarter(partial))
    if before - after <= CORRECT_FALL or partial_after - partial_before <= PARTIAL_RISE:
        return None
    return Finding(
        span(correct),
        f"correct fell from {before:.1%} to {after:.1%} while wrong answers in the right format rose from "
        f"{partial_before:.1%} to {partial_after:.1%}",
        "an early wrong answer earns the partial reward more surely than a search earns the full one",
        run.hold_policy(),
    )


@rule("warning")
def kl_drift(run: Signals) -> Finding | None:
    """KL to the initial model on the probe exceeds 0.5 nats per token. Ziegler et al. (2019, lm-human-preferences,
    launch.py) steer to 6 nats on 24 tokens, 0.25 per token; a policy at twice that no longer resembles its start."""
    above = [(step, kl) for step, kl in run.series("probe/kl") if kl > KL_LIMIT]
    if run.algorithm.kl_price is None or not above:  # without a price it may leave its start
        return None
    name, price = run.kl_price
    return Finding(
        span(above),
        f"KL to the start model on the probe set reaches {max(kl for _, kl in above):.2f} nats per token, "
        f"above {KL_LIMIT:g} first at step {above[0][0]}",
        f"{name} {price:g} holds the policy too loosely for this learning rate and number of steps",
        run.hold_policy(),
    )


@rule("warning")
def entropy_collapse(run: Signals) -> Finding | None:
    """Entropy on the probe fell below a fifth of its initial value. Cui et al. (2025, arXiv:2505.22617) see it fall by
    73% while accuracy still rises; below a fifth little is left to explore."""
    series = run.series("probe/entropy")
    if run.algorithm.kl_price is None or len(series) < 2 or series[0][1] <= 0:
        return None
    start, end = series[0][1], mean(last_quarter(series))
    if end >= ENTROPY_FRACTION * start:
        return None
    first_below = next(step for step, value in series if value < ENTROPY_FRACTION * start)
    return Finding(
        [first_below, series[-1][0]],
        f"entropy on the probe set fell from {start:.3f} to {end:.3f} nats per token, {end / start:.0%} of its start",
        "the policy became nearly deterministic: the completions of a group are nearly the same and teach little",
        [run.set_arg("entropy_coef", max(2 * run.arg("entropy_coef", 0.0), 0.01)), run.lower_rate(2)],
    )


@rule("warning")
def no_reward_variance(run: Signals) -> Finding | None:
    """In the last quarter more than 80% of the groups had equal rewards, hence advantage 0: four of five completions
    teach nothing. A correct share above one half says that these groups are all right rather than all wrong."""
    quarter = last_quarter(run.series("frac_reward_zero_std"))
    if not quarter or mean(quarter) <= ZERO_STD_LIMIT:
        return None
    correct = last_quarter(run.series("outcome/correct"))
    evidence = f"{mean(quarter):.0%} of the groups had equal rewards"
    if correct:
        evidence += f", with {mean(correct):.0%} of the completions correct"
    if correct and mean(correct) > SOLVED_SHARE:
        cause = "training problems are nearly all solved: more steps cannot teach more"
        remedies = run.scale_length(quarter[0][0] / run.last_step)
    elif hopeless := _is_never_right(run):
        cause, remedies = hopeless
    else:
        cause = "the problems are too hard, or the completions of a group too similar, for one to do better"
        group = int(run.arg("num_generations", 8))
        remedies = [run.set_arg("num_generations", size) for size in (2 * group, *range(group + 1, 8 * group))]
        remedies.append(run.set_arg("per_device_train_batch_size", 2 * run.arg("per_device_train_batch_size", 8)))
    return Finding(span(quarter), evidence, cause, remedies)


@rule("warning")
def truncation(run: Signals) -> Finding | None:
    """More than 30% of the completions were cut off, in the last quarter of training or on held-out rows. A truncated
    completion cannot answer, so this limits accuracy to 70%."""
    quarter = last_quarter(run.series("completions/clipped_ratio"))
    training = mean(quarter) if quarter else 0.0
    held_out = run.evaluation.get("trained", {}).get("truncation_rate", {}).get("value", 0.0)
    if max(training, held_out) <= TRUNCATION_LIMIT:
        return None
    budget = run.config["max_tokens"]
    cut_off = f"were cut off at {budget} tokens"
    evidence = f"{held_out:.0%} of the held-out completions {cut_off}"
    if quarter:
        evidence = f"{training:.0%} of the completions at the end of training and {held_out:.0%} of the held-out ones "
        evidence += cut_off
    larger = min(2 * budget, run.room or 2 * budget)
    return Finding(
        span(quarter) if training > TRUNCATION_LIMIT else None,
        evidence,
        "the budget is too small for what the policy writes; a completion that is cut off cannot answer",
        [f"max_tokens={larger}"] if larger > budget else [],
    )


def _is_never_right(run: Signals) -> tuple[str, list[str]] | None:
    """Cause and remedies where the start model has no right held-out answer and hardly any in training: a reward for
    right answers then prefers none of its completions to another, and more steps or larger groups teach nothing."""
    counts = run.evaluation.get("baseline", {}).get("counts", {})
    correct = run.series("outcome/correct")
    if not run.algorithm.online or counts.get("correct") != 0 or correct and mean(correct) > RARELY:
        return None
    task = run.config.get("task", {})
    shown = task.get("name") and DEMONSTRATIONS in find_keys(task["name"]).provides
    cause = f"the start model has none of {sum(counts.values())} held-out completions right: there is nothing to"
    cause += " reinforce. First train it by algo=sft and go on from that model (model.path=RUN/model), or reward steps"
    cause += " towards an answer (a graded reward), or begin with easier rows"
    return cause, ["algo=sft"] if shown and task.get("completion_column", "") is not None else []


def _sample_more(run: Signals, rows: int) -> list[str]:
    """Overrides for four times as many completions: of more rows, unless these are all there are."""
    of_eval = run.config.get("eval", {})
    limit = of_eval.get("rows") or of_eval.get("most_rows", rows)
    completions = 4 * of_eval.get("completions", 1)
    return [f"eval.rows={4 * rows}" if rows >= limit else f"eval.completions={completions}"]


def _read_change(run: Signals) -> tuple[dict[str, Any] | None, str, str]:
    """The paired difference in held-out accuracy with its interval (None if there is none), that in words, and what is
    counted."""
    paired = run.evaluation.get("paired", {})
    difference = paired.get("difference")
    what, things = ("preference accuracy", "pairs") if run.algorithm.scores else ("accuracy", "rows")
    if difference is None or difference["low"] is None:
        return None, "", things
    changes = paired.get("changes")
    completions = max(run.evaluation.get(side, {}).get("completions", 1) for side in ("baseline", "trained"))
    flips = changes and sum(n for x, to in changes.items() for y, n in to.items() if "correct" in (x, y) and x != y)
    still = flips == 0 and completions == 1  # `changes` counts first completions
    if difference["value"] == 0 and (still or difference["low"] == difference["high"] == 0):
        return difference, f"not one of {paired['n']} held-out {things} went from wrong to correct or back", things
    low, value, high = (100 * difference[key] for key in ("low", "value", "high"))
    return difference, f"held-out {what} changed by {value:+.1f} points, 95% interval {low:+.1f} to {high:+.1f}", things

"""What the completions become: their outcomes, and whether they end."""

import math
from statistics import median

from rlhf_exp.analysis.diagnose.rule import Finding, is_online, rule, writes
from rlhf_exp.analysis.diagnose.signals import LEAST_ROWS, Course, Signals, angle, combine, soften

CORRECT, CLIPPED = "outcome/correct", "completions/clipped_ratio"


def less_right(run: Signals, course: Course) -> Course:
    """A course less the rise of the correct share, if that is known: what comes with right answers is harmless."""
    right = run.rise(CORRECT, angle)
    return combine(lambda score, rise: score - max(rise, 0.0), course, right) if right else course


@rule("warning", "outcome/correct", "outcome/partial", of=is_online)
def format_farming(run: Signals) -> Finding:
    """The correct share falls while that of wrong answers in the right format rises: the log of one more than the
    smaller of both, in standard errors of a row."""
    both = combine(min, run.rise(CORRECT, angle, sign=-1), run.rise("outcome/partial", angle))
    errors = run.errors_per_angle
    course = [(step, math.log1p(soften(score * errors[step]))) for step, score in both if step is not None]
    cause = "an early wrong answer earns the partial reward more surely than a search earns the full one"
    return Finding(course, "", cause, run.hold_policy(), run.show(lambda row: row.get("outcome") == "partial"))


@rule("warning", "outcome/correct", "outcome/failed", of=is_online)
def failed_rising(run: Signals) -> Finding:
    """The rise of the share without an answer, as far as it is sure, less a rise of the correct share."""
    course = less_right(run, run.sure("outcome/failed", angle))
    cause = "the policy forgets how to answer: steps that are too large, or a budget that is too small"
    rows = run.show(lambda row: row.get("outcome") == "failed")
    return Finding(course, "", cause, [run.lower_rate(4), *run.hold_policy()], rows)


@rule("warning", CLIPPED, of=writes)
def truncation(run: Signals) -> Finding:
    """The rise of the share that is cut off, as far as it is sure, less a rise of the correct share: harmless where
    accuracy rises as much, and where the start was cut as often."""
    budget = run.config.get("max_tokens", 0)
    larger = min(2 * budget, run.room or 2 * budget)
    cause = "the budget is too small for what the policy writes; a completion that is cut off cannot answer"
    rows = run.show(lambda row: bool(row.get("truncated")))
    rise = run.sure(CLIPPED, angle)
    remedy = [f"max_tokens={larger}"] if larger > budget and rise[-1][1] > 0 else []
    return Finding(less_right(run, rise), "", cause, remedy, rows)


@rule("warning", CLIPPED, "evaluation/baseline/truncation_rate", of=is_online)
def misses_end_of_text(run: Signals) -> Finding | None:
    """How much more of the first rollouts' completions are cut off than of the start model's held-out ones. Not with
    other budgets or another temperature than on held-out rows."""
    curriculum = run.config["algo"].get("curriculum") or {}
    if curriculum.get("budgets") or run.config.get("eval", {}).get("temperature", 1.0) != run.arg("temperature", 1.0):
        return None
    first = run.series(CLIPPED)[:LEAST_ROWS]
    cut, whole = median(share for _, share in first), run.read("baseline/truncation_rate")
    evidence = (
        f"{cut:.0%} of the first rollouts' completions are cut off, {whole:.0%} of the same model's held-out ones"
    )
    cause = "sampling does not stop at the model's end token: another end token, or another chat template"
    return Finding([(first[-1][0], angle(cut) - angle(whole))], evidence, cause, [])

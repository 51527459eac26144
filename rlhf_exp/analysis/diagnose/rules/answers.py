"""What the completions become: their outcomes, and whether they end."""

import math
from statistics import median

from rlhf_exp.analysis.diagnose.courses import LEAST_ROWS, Course, angle, combine, soften
from rlhf_exp.analysis.diagnose.rule import ONLINE, POLICIES, Suspicion, rule
from rlhf_exp.analysis.diagnose.signals import Signals, show

CORRECT, CLIPPED = "outcome/correct", "completions/clipped_ratio"


def less_right(run: Signals, course: Course) -> Course:
    """A course less the rise of the correct share, if that is known: what comes with right answers is harmless."""
    right = run.rise(CORRECT, angle)
    return combine(lambda score, rise: score - max(rise, 0.0), course, right) if right else course


@rule("warning", "outcome/correct", "outcome/partial", of=ONLINE)
def format_farming(run: Signals) -> Suspicion:
    """The correct share falls while that of wrong answers in the right format rises: the log of one more than the
    smaller of both, in standard errors of a row."""
    both = combine(min, run.rise(CORRECT, angle, sign=-1), run.rise("outcome/partial", angle))
    errors = run.errors_per_angle
    course = [(step, math.log1p(soften(score * errors[step]))) for step, score in both if step is not None]
    rows = show(row for row in run.trained_samples if row.outcome == "partial")
    cause = "an early wrong answer earns the partial reward more surely than a search earns the full one"
    return Suspicion(course, cause, run.hold_policy(), rows=rows)


@rule("warning", "outcome/correct", "outcome/failed", of=ONLINE)
def failed_rising(run: Signals) -> Suspicion:
    """The rise of the share without an answer, as far as it is sure, less a rise of the correct share."""
    course = less_right(run, run.sure("outcome/failed", angle))
    cause = "the policy forgets how to answer: steps that are too large, or a budget that is too small"
    rows = show(row for row in run.trained_samples if row.outcome == "failed")
    return Suspicion(course, cause, [run.lower_rate(4), *run.hold_policy()], rows=rows)


@rule("warning", CLIPPED, of=POLICIES)
def truncation(run: Signals) -> Suspicion:
    """The rise of the share that is cut off, as far as it is sure, less a rise of the correct share: harmless where
    accuracy rises as much, and where the start was cut as often."""
    budget = run.setting("max_tokens", 0)
    larger = min(2 * budget, run.room or 2 * budget)
    cause = "the budget is too small for what the policy writes; a completion that is cut off cannot answer"
    rows = show(row for row in run.trained_samples if row.truncated)
    rise = run.sure(CLIPPED, angle)
    is_wanted = not run.setting("reward.weights.brevity")  # which pays for few words
    remedy = [f"max_tokens={larger}"] if is_wanted and larger > budget and rise[-1][1] > 0 else []
    return Suspicion(less_right(run, rise), cause, remedy, rows=rows)


@rule("warning", CLIPPED, "evaluation/baseline/truncation_rate", of=ONLINE)
def misses_end_of_text(run: Signals) -> Suspicion | None:
    """How much more of the first rollouts' completions are cut off than of the start model's held-out ones. Not with
    other budgets or another temperature than on held-out rows."""
    temperature = run.setting("eval.temperature", 1.0)
    if run.setting("algo.args.curriculum_budgets") or temperature != run.arg("temperature", 1.0):
        return None
    first = run.series(CLIPPED)[:LEAST_ROWS]
    cut, whole = median(share for _, share in first), run.read("baseline/truncation_rate")["value"]
    evidence = (
        f"{cut:.0%} of the first rollouts' completions are cut off, {whole:.0%} of the same model's held-out ones"
    )
    cause = "sampling does not stop at the model's end token: another end token, or another chat template"
    return Suspicion([(first[-1][0], angle(cut) - angle(whole))], cause, [], evidence)

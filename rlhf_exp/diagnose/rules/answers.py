"""What the completions become: their outcomes, lengths and variety."""

import math
from statistics import median

from rlhf_exp.diagnose.rule import Finding, has_price, is_online, rule, writes
from rlhf_exp.diagnose.signals import LEAST_ROWS, Course, Signals, angle, combine, log, soften

CORRECT, CLIPPED, LENGTH = "outcome/correct", "completions/clipped_ratio", "completions/mean_length"
DISTINCT = "completions/distinct_2"


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


@rule("warning", LENGTH, of=is_online)
def length_collapse(run: Signals) -> Finding | None:
    """Log of the start's length over the recent one; not where the reward asks for brevity."""
    if "brevity" in run.weights:
        return None
    cause = "short completions earn more than their work: the reward or its scaling by length prefers them"
    return Finding(run.rise(LENGTH, log, sign=-1), "", cause, run.hold_policy())


@rule("warning", LENGTH, of=is_online)
def length_explosion(run: Signals) -> Finding:
    """Log of the recent length over that of the start, less a rise of the correct share."""
    course = less_right(run, run.rise(LENGTH, log))
    cause = "long completions earn more than their answers, or lose less"
    return Finding(course, "", cause, run.unbias_length())


@rule("warning", of=is_online)
def length_bias(run: Signals) -> Finding | None:
    """How much stronger the reward follows length among answers of one outcome, after training than before it: the
    difference of the correlations' sizes on held-out rows."""
    found = [_correlate(run, which) for which in ("baseline", "trained")]
    if "brevity" in run.weights or None in found:
        return None
    before, after = (abs(r or 0.0) for r in found)
    cause = "the reward pays for length itself"
    evidence = f"the correlation of length and reward within an outcome went from {found[0]:.2f} to {found[1]:.2f}"
    return Finding([(None, after - before)], evidence, cause, run.unbias_length())


def _correlate(run: Signals, which: str) -> float | None:
    """Pearson's correlation of tokens and reward, each less its outcome's mean; None if one is constant."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in run.samples:
        if row.get("which") == which and row.get("reward") is not None:
            groups.setdefault(str(row.get("outcome")), []).append((row["tokens"], row["reward"]))
    centred = []
    for group in groups.values():
        means = [sum(values) / len(group) for values in zip(*group, strict=True)]
        centred += [(tokens - means[0], reward - means[1]) for tokens, reward in group]
    product = math.sqrt(sum(x * x for x, _ in centred) * sum(y * y for _, y in centred))
    return sum(x * y for x, y in centred) / product if product > 1e-9 else None


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


@rule("warning", of=has_price)
def mode_collapse(run: Signals) -> Finding | None:
    """Log of the start's share of different token pairs over the recent one, in training or else on held-out rows."""
    course: Course = run.rise(DISTINCT, log, sign=-1)
    evidence = run.tell(DISTINCT) if course else ""
    before, after = (run.evaluation.get(side, {}).get("distinct", {}).get("2") for side in ("baseline", "trained"))
    if not course and before and after is not None:
        course, evidence = [(None, log(before) - log(after))], f"held-out distinct-2 {before:.3g} -> {after:.3g}"
    cause = "the policy writes nearly the same text for every prompt"
    return Finding(course, evidence, cause, run.raise_entropy())

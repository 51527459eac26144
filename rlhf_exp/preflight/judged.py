"""Checks of a language model as the reward (rewards/judge.py), on a few held-out rows, asked anew.

    checks = check_judge(experiment, [("Apple.", row), ...])       # texts to score, with their rows

None fails a run: what a judge must be able to do depends on the task.
"""

from collections.abc import Sequence
from statistics import fmean

from rlhf_exp.analysis.stats import correlation_interval, mean_interval, share_interval, wilson
from rlhf_exp.experiment import Experiment
from rlhf_exp.forms import Row
from rlhf_exp.graders import read_text
from rlhf_exp.preflight.check import Check, judge
from rlhf_exp.rewards.judge import Judge
from rlhf_exp.runs.figures import number, percent

ROWS = 16
CHANCE, CLOSE = 0.5, 0.9


def check_judge(experiment: Experiment, texts: Sequence[tuple[str, Row]]) -> list[Check]:
    """Whether the judge gives the same text the same score, an empty one less, and the better answer of a pair with a
    label more; and how far its score follows the length. Empty without a judge."""
    asked = next((reward for reward in experiment.rewards if isinstance(reward, Judge)), None)
    if asked is None or not texts:
        return []
    texts = texts[:ROWS]
    filled = [asked.fill_in(row["prompt"], text) for text, row in texts]
    nothing = [asked.fill_in(row["prompt"], "") for _, row in texts]
    first, again, empty = ([*asked.ask_all(of, "judge")] for of in (filled, filled, nothing))
    same = wilson(sum(map(float.__eq__, first, again)), len(first))
    gap = mean_interval([score - none for score, none in zip(first, empty, strict=True)])
    said = f"{percent(same)} of {len(first)} texts get the same score a second time"
    found = [Check("judge_repeats", judge(False, (same["high"] or 0) < CLOSE), said, {"same": same})]
    said = f"texts score {fmean(first):.2f} on average, {number('+.2f')(gap)} beyond an empty answer"
    found.append(Check("judge_empty", judge(False, (gap["low"] or 0) <= 0), said, {"gap": gap}))
    return [*found, _check_length([len(text) for text, _ in texts], first), _check_pairs(experiment, asked)]


def _check_length(lengths: list[int], scores: list[float]) -> Check:
    """The correlation of score and length."""
    if len(scores) < 4 or len({*lengths}) < 2 or len({*scores}) < 2:
        return Check("judge_length", "skipped", "too few texts, or all of one length or score")
    r = correlation_interval(lengths, scores)
    said = f"score and length have a correlation of {number('.2f')(r)} among {len(scores)} texts"
    is_ruled = min(abs(r["low"] or 0), abs(r["high"] or 0)) > CHANCE and (r["low"] or 0) * (r["high"] or 0) > 0
    return Check("judge_length", judge(False, is_ruled), said, {"correlation": r})


def _check_pairs(experiment: Experiment, asked: Judge) -> Check:
    """How often the chosen answer of a held-out pair scores higher; a tie is half."""
    pairs = experiment.task.pairs[:ROWS]
    if not pairs:
        return Check("judge_pairs", "skipped", "no pairs with labels are held out")
    sides = [asked.ask_all([asked.fill_in(row["prompt"], read_text(row[side])) for row in pairs], "judge")
             for side in ("chosen", "rejected")]  # fmt: skip
    right = share_interval([(better > worse) + (better == worse) / 2 for better, worse in zip(*sides, strict=True)], 2)
    said = f"the chosen answer scores higher in {percent(right)} of {len(pairs)} held-out pairs (a tie is half)"
    return Check("judge_pairs", judge(False, (right["low"] or 0) <= CHANCE), said, {"right": right})

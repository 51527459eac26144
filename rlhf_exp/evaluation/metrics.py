"""Computes the figures of completions: the sections of evaluation.json.

    section = summarise(completions, max_tokens=96)
    paired = compare(baseline, trained, max_tokens=96)

A row has `eval.completions` completions, of the start model `eval.start_completions`. Every interval is over rows, each
with the mean of its completions: it covers the choice of the rows and the sampling, not the training seed.
"""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from rlhf_exp.analysis.stats import DIFFERENCES, Interval, mean_interval, paired_interval, share_interval, win_rate
from rlhf_exp.runs.records import OUTCOMES, Completion

SHARES = ("accuracy", "lenient_accuracy", "truncation_rate")
SPREADS = ("reward", "kl", "kl_sampled", "kl_teacher")
"""Figures that also have a standard deviation over completions."""

TOOLS = ("tool_calls", "tool_failures", "tool_tokens")
"""Counts of an episode with tools."""

RawSection = dict[str, Any]
"""A section of evaluation.json, or a part of one, before runs/records.py: Evaluation checks it."""


def summarise(completions: list[Completion], max_tokens: int, k: int | None = None) -> RawSection:
    """One section of evaluation.json, from the completions of one model.

    `n` counts rows, `completions` those of each, `counts` all completions. pass@k, majority@k and `distinct` are of `k`
    completions of each row, so that models with more can be compared with those that have k (None: of all); pass@k and
    majority@k are estimated from all of them. Without a grader there is no accuracy, without rewards no reward, and
    with a grader that does not say what it reads as the answer (a user's that returns numbers) no majority@k.
    `kl_sampled` is of the distributions that completions are drawn from, if these are not the models' own; its
    `outside` is the probability of drawing a token that the start model cannot draw, for which the KL would be infinite
    without further definition.
    """
    rows = group_rows(completions)
    n = len(rows[0])
    k = k or n
    section = {"n": len(rows), "completions": n, "max_tokens": max_tokens, **_summarise_rows(rows)}
    section["utilisation"] = fmean(one.own_tokens for row in rows for one in row) / max_tokens
    # Without the end token, which nearly all have.
    texts = [one.ids if one.truncated else one.ids[:-1] for row in rows for one in row[:k]]
    section["distinct"] = {str(n): distinct_n(texts, n) for n in (1, 2)}
    if "kl_sampled" in section:
        outside = np.array([[one.kl_outside for one in row] for row in rows])
        section["kl_sampled"]["outside"] = mean_interval(outside.mean(1))
    if k > 1 and rows[0][0].outcome is not None:
        section["pass_at_k"] = _estimate_pass_at_k(rows, k)
        if not any(one.is_correct and one.extracted is None for row in rows for one in row):
            votes = [fmean(_vote(row[i : i + k]) for i in range(0, n, k)) for row in rows]
            section["majority_at_k"] = share_interval(votes, n // k)
    if greedy := group_rows(completions, "greedy"):
        section["greedy"] = _summarise_rows(greedy)
    return section


def compare(baseline: list[Completion], trained: list[Completion], max_tokens: int) -> RawSection:
    """`paired` of evaluation.json: trained minus baseline on the same rows.

    A difference has the same place as the figure in a section (`mean_tokens`, `reward.mean`, `greedy.accuracy`), except
    that of the accuracy, `difference`. A win is a higher reward. The i-th completions of a row are compared with each
    other: `n` counts rows; wins, losses and ties count completions. `changes` counts rows by the outcomes of their
    first completions, before and after.
    """
    sides = [group_rows(completions) for completions in (baseline, trained)]
    figures = [read_figures(rows) for rows in sides]
    paired = {**_compare_figures(*figures), "n": len(sides[0])}
    ends = paired["mean_tokens"].items()
    paired["utilisation"] = {end: None if tokens is None else tokens / max_tokens for end, tokens in ends}
    if "accuracy" in paired:
        paired["difference"] = paired.pop("accuracy")
        outcomes = Counter((b[0].outcome, t[0].outcome) for b, t in zip(*sides, strict=True))
        paired["changes"] = {before: {after: outcomes[before, after] for after in OUTCOMES} for before in OUTCOMES}
    if "reward" in paired:
        paired |= win_rate(*(of_side["reward"] for of_side in figures))
    greedy = [group_rows(completions, "greedy") for completions in (baseline, trained)]
    if all(greedy):
        paired["greedy"] = _compare_figures(*map(read_figures, greedy))
    return paired


def group_rows(completions: list[Completion], decoding: str = "sampled") -> list[list[Completion]]:
    """The completions of one decoding by row, in their order."""
    rows: dict[int, list[Completion]] = {}
    for one in completions:
        if one.decoding == decoding:
            rows.setdefault(one.row, []).append(one)
    return list(rows.values())


def read_figures(rows: list[list[Completion]]) -> dict[str, np.ndarray]:
    """(rows, completions) float64 of each figure: the values whose mean it is, as far as the completions have them."""
    read = [[_list_figures(one) for one in row] for row in rows]
    return {name: np.array([[one[name] for one in row] for row in read], dtype=np.float64) for name in read[0][0]}


def average_rows(completions: list[Completion]) -> dict[str, np.ndarray]:
    """(rows,) of each figure: the mean over the row's sampled completions."""
    return {name: values.mean(1) for name, values in read_figures(group_rows(completions)).items()}


def pass_at_k(n: int, correct: int, k: int) -> float:
    """The probability that at least one of `k` completions, drawn without replacement from a row's `n`, is correct.

    Its mean over rows is an unbiased estimate of pass@k; 1 - (1 - correct / n) ** k is not.

    Source: Chen et al. (2021), arXiv:2107.03374, equation 1, in exact integers instead of its product of floats.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def distinct_n(completions: Sequence[Sequence[int]], n: int) -> float:
    """Distinct n-grams divided by all n-grams of all completions; 0 if there are none.

    It falls with the amount of text, even from the same model: compare it only for equal numbers of completions.

    Source: Li et al. (2016), arXiv:1510.03055, section 5, over token ids instead of words.
    """
    grams = [tuple(ids[i : i + n]) for ids in completions for i in range(len(ids) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def measure_std(values: np.ndarray) -> float:
    """The standard deviation of a sample; 0 for a single value."""
    return float(values.std(ddof=1)) if values.size > 1 else 0.0


def _list_figures(one: Completion) -> dict[str, float]:
    """What one completion adds to each figure. A greedy one has no KL, which is about completions that are drawn."""
    figures: dict[str, float] = {"accuracy": one.is_correct} if one.outcome is not None else {}
    if one.lenient is not None:
        figures["lenient_accuracy"] = one.lenient
    figures |= {"truncation_rate": one.truncated, "mean_tokens": one.own_tokens}
    figures |= {name: count for name in TOOLS if (count := getattr(one, name)) is not None}
    if one.reward is not None:
        figures["reward"] = one.reward
    if one.decoding == "sampled":
        figures["kl"] = one.kl
        if one.kl_sampled is not None:
            figures["kl_sampled"] = one.kl_sampled
        if one.kl_teacher is not None:
            figures["kl_teacher"] = one.kl_teacher
    return figures


def _summarise_rows(rows: list[list[Completion]]) -> RawSection:
    """The figures of all completions of one decoding; accuracy takes the strict reading if the grader has two."""
    section: RawSection = {}
    for name, values in read_figures(rows).items():
        means = values.mean(1)
        section[name] = share_interval(means, len(rows[0])) if name in SHARES else mean_interval(means)
        if name in SPREADS:
            section[name] = {"mean": section[name], "std": measure_std(values)}
        elif name == "accuracy":
            counts = Counter(one.outcome for row in rows for one in row)
            section["counts"] = {outcome: counts[outcome] for outcome in OUTCOMES}
    return section


def _compare_figures(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> RawSection:
    kinds = dict.fromkeys(SHARES, DIFFERENCES)
    found = {name: paired_interval(before[name], after[name], kinds.get(name)) for name in before if name in after}
    return {name: {"mean": interval} if name in SPREADS else interval for name, interval in found.items()}


def _estimate_pass_at_k(rows: list[list[Completion]], most: int) -> dict[str, Interval]:
    """pass@1, 2, 4, ... and `most`, from all completions."""
    n = len(rows[0])
    correct = [sum(one.is_correct for one in row) for row in rows]
    budgets = sorted({most, *(2**i for i in range(most.bit_length()))})
    return {str(k): share_interval([pass_at_k(n, c, k) for c in correct], n) for k in budgets}


def _vote(row: list[Completion]) -> bool:
    """Whether the most frequent answer of the row's completions is correct (Wang et al. 2022, arXiv:2203.11171).

    Votes are for `extracted` in its spelling: 18 and 18.0 are two answers, and so are two expressions of the same
    value. Among answers with equally many votes the first one wins; a completion without an answer has no vote. The
    answer is correct if the grader found it so in any of the completions that give it.
    """
    answers = [one.extracted for one in row]
    votes = Counter(answer for answer in answers if answer is not None)
    winner = max(votes, key=votes.__getitem__, default=None)
    return any(one.is_correct for one, answer in zip(row, answers, strict=True) if answer == winner)

"""Computes the figures of sampled completions, from rows of samples.jsonl: the sections of evaluation.json.

    section = summarise(samples, max_tokens=96, held_out=held_out)
    paired = compare(baseline_samples, trained_samples, max_tokens=96)

A row has `eval.completions` completions, of the start model `eval.start_completions`. Every interval is over rows, each
with the mean of its completions: it covers the choice of the rows and the sampling, not the training seed.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from rlhf_exp.stats import DIFFERENCES, Interval, mean_interval, paired_interval, share_interval, win_rate

if TYPE_CHECKING:
    from rlhf_exp.evaluation.completions import HeldOut

OUTCOMES = ("correct", "partial", "failed")

SHARES = {"accuracy": "outcome", "lenient_accuracy": "lenient", "truncation_rate": "truncated"}
SPREADS = ("reward", "kl", "kl_sampled")
"""Figures that also have a standard deviation over completions."""

Sample = dict[str, Any]


def summarise(samples: list[Sample], max_tokens: int, held_out: "HeldOut", k: int | None = None) -> dict[str, Any]:
    """One section of evaluation.json, from the samples of one model and the token ids they were decoded from.

    `n` counts rows, `completions` those of each, `counts` all completions. pass@k, majority@k and `distinct` are of `k`
    completions of each row, so that models with more can be compared with those that have k (None: of all); pass@k and
    majority@k are estimated from all of them. Without a grader there is no accuracy, without rewards no reward, and
    with a grader that does not say what it reads as the answer (a user's that returns numbers) no majority@k.
    `kl_sampled` is of the distributions that completions are drawn from, if these are not the models' own; its
    `outside` is the probability of drawing a token that the start model cannot draw, for which the KL would be infinite
    without further definition.
    """
    rows = _group(samples, "sampled")
    n = len(rows[0])
    k = k or n
    section = {"n": len(rows), "completions": n, "max_tokens": max_tokens, **_summarise_rows(rows)}
    section["utilisation"] = float(_read(rows, "tokens").mean()) / max_tokens
    ended = zip(held_out.completion_ids, held_out.truncated, strict=True)
    # Without the end token, which nearly all have.
    texts = [ids if cut else ids[:-1] for i, (ids, cut) in enumerate(ended) if i % n < k]
    section["distinct"] = {str(n): distinct_n(texts, n) for n in (1, 2)}
    if "kl_sampled" in section:
        section["kl_sampled"]["outside"] = mean_interval(_read(rows, "kl_outside").mean(1))
    if k > 1 and "outcome" in rows[0][0]:
        section["pass_at_k"] = _estimate_pass_at_k(rows, k)
        if not any(_is_correct(sample) and sample["extracted"] is None for row in rows for sample in row):
            votes = [fmean(_vote(row[i : i + k]) for i in range(0, n, k)) for row in rows]
            section["majority_at_k"] = share_interval(votes, n // k)
    if held_out.greedy is not None:
        section["greedy"] = _summarise_rows(_group(samples, "greedy"))
    return section


def compare(baseline: list[Sample], trained: list[Sample], max_tokens: int) -> dict[str, Any]:
    """`paired` of evaluation.json: trained minus baseline on the same rows.

    A difference has the same place as the figure in a section (`mean_tokens`, `reward.mean`, `greedy.accuracy`), except
    that of the accuracy, `difference`. A win is a higher reward. The i-th completions of a row are compared with each
    other: `n` counts rows; wins, losses and ties count completions. `changes` counts rows by the outcomes of their
    first completions, before and after.
    """
    sides = [_group(samples, "sampled") for samples in (baseline, trained)]
    paired = {**_compare_rows(*sides), "n": len(sides[0])}
    ends = paired["mean_tokens"].items()
    paired["utilisation"] = {end: None if tokens is None else tokens / max_tokens for end, tokens in ends}
    if "accuracy" in paired:
        paired["difference"] = paired.pop("accuracy")
        outcomes = Counter((b[0]["outcome"], t[0]["outcome"]) for b, t in zip(*sides, strict=True))
        paired["changes"] = {before: {after: outcomes[before, after] for after in OUTCOMES} for before in OUTCOMES}
    if "reward" in paired:
        paired |= win_rate(*(_read(rows, "reward") for rows in sides))
    greedy = [_group(samples, "greedy") for samples in (baseline, trained)]
    return {**paired, "greedy": _compare_rows(*greedy)} if all(greedy) else paired


def average_rows(samples: list[Sample]) -> dict[str, np.ndarray]:
    """Of each figure that is a mean, its value on each row: (rows,), the mean over the row's sampled completions."""
    return {name: values.mean(1) for name, values in _read_figures(_group(samples, "sampled")).items()}


def pass_at_k(n: int, correct: int, k: int) -> float:
    """The probability that at least one of `k` completions, drawn without replacement from a row's `n`, is correct.

    Its mean over rows is an unbiased estimate of pass@k; 1 - (1 - correct / n) ** k is not.

    Raises:
        ValueError: k lies outside 1..n, or `correct` outside 0..n.

    Source: Chen et al. (2021), arXiv:2107.03374, equation 1, in exact integers instead of its product of floats.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    if not (1 <= k <= n and 0 <= correct <= n):
        raise ValueError(f"k must lie in 1..{n} and correct in 0..{n}, not {k} and {correct}")
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


def _group(samples: list[Sample], decoding: str) -> list[list[Sample]]:
    """The samples of one decoding, by row; the samples of a row are adjacent."""
    kept = [sample for sample in samples if sample["decoding"] == decoding]
    starts = [i for i, sample in enumerate(kept) if sample["sample"] == 0]
    return [kept[start:end] for start, end in pairwise([*starts, len(kept)])]


def _read_figures(rows: list[list[Sample]]) -> dict[str, np.ndarray]:
    """The values whose mean is each figure, as far as the samples hold them. Greedy completions have no KL, which is
    about completions that are drawn."""
    drawn = rows[0][0]["decoding"] == "sampled"
    columns = {**SHARES, "mean_tokens": "tokens"} | {name: name for name in SPREADS if drawn or name == "reward"}
    return {name: _read(rows, key) for name, key in columns.items() if key in rows[0][0]}


def _summarise_rows(rows: list[list[Sample]]) -> dict[str, Any]:
    """The figures of all completions of one decoding; accuracy takes the strict reading if the grader has two."""
    section: dict[str, Any] = {}
    for name, values in _read_figures(rows).items():
        section[name] = (
            share_interval(values.mean(1), len(rows[0])) if name in SHARES else mean_interval(values.mean(1))
        )
        if name in SPREADS:
            section[name] = {"mean": section[name], "std": measure_std(values)}
        elif name == "accuracy":
            counts = Counter(sample["outcome"] for row in rows for sample in row)
            section["counts"] = {outcome: counts[outcome] for outcome in OUTCOMES}
    return section


def _compare_rows(baseline: list[list[Sample]], trained: list[list[Sample]]) -> dict[str, Any]:
    before, after = _read_figures(baseline), _read_figures(trained)
    kinds = dict.fromkeys(SHARES, DIFFERENCES)
    found = {name: paired_interval(before[name], after[name], kinds.get(name)) for name in before if name in after}
    return {name: {"mean": interval} if name in SPREADS else interval for name, interval in found.items()}


def _estimate_pass_at_k(rows: list[list[Sample]], most: int) -> dict[str, Interval]:
    """pass@1, 2, 4, ... and `most`, from all completions."""
    n = len(rows[0])
    correct = [sum(map(_is_correct, row)) for row in rows]
    budgets = sorted({most, *(2**i for i in range(most.bit_length()))})
    return {str(k): share_interval([pass_at_k(n, c, k) for c in correct], n) for k in budgets}


def _vote(row: list[Sample]) -> bool:
    """Whether the most frequent answer of the row's completions is correct (Wang et al. 2022, arXiv:2203.11171).

    Votes are for `extracted` in its spelling: 18 and 18.0 are two answers, and so are two expressions of the same
    value. Among answers with equally many votes the first one wins; a completion without an answer has no vote. The
    answer is correct if the grader found it so in any of the completions that give it.
    """
    votes = Counter(sample["extracted"] for sample in row if sample["extracted"] is not None)
    winner = max(votes, key=votes.__getitem__, default=None)
    return any(_is_correct(sample) for sample in row if sample["extracted"] == winner)


def _is_correct(sample: Sample) -> bool:
    return sample["outcome"] == "correct"


def _read(rows: list[list[Sample]], key: str) -> np.ndarray:
    """(rows, completions) float64: the values of a key; an outcome counts 1 if correct, else 0."""
    values = [[_is_correct(sample) if key == "outcome" else sample[key] for sample in row] for row in rows]
    return np.array(values, dtype=np.float64)

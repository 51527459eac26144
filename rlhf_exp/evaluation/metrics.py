"""Figures of sampled completions, from rows of samples.jsonl: a section of evaluation.json, and two of them compared.

    section = summarise(samples, max_tokens=96, held_out=held_out)
    paired = compare(baseline_samples, trained_samples, seed=0)

A row has k completions (`eval.completions`), and is what every interval counts: its mean over them stands for it.
"""

import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rlhf_exp.stats import Interval, distinct_n, mean_interval, paired_bootstrap, pass_at_k, share_interval, win_rate

if TYPE_CHECKING:
    from rlhf_exp.evaluation.completions import HeldOut

OUTCOMES = ("correct", "partial", "failed")

Sample = dict[str, Any]


def summarise(samples: list[Sample], max_tokens: int, held_out: "HeldOut") -> dict[str, Any]:
    """One section of evaluation.json, from the samples of one model and the token ids they were decoded from.

    `n` counts rows, `completions` those of each, `counts` all completions. Of a task without a grader there is no
    accuracy, without rewards no reward.
    """
    rows = _group(samples, "sampled")
    section = {
        "n": len(rows),
        "completions": len(rows[0]),
        "max_tokens": max_tokens,
        **_summarise_outcomes(rows),
        **_summarise_lengths(rows),
        "utilisation": statistics.fmean(_flatten(rows, "tokens")) / max_tokens,
        **_summarise_reward(rows),
        "kl": _describe_spread(rows, "kl"),
        **_summarise_sampled_kl(rows),
        "distinct": _measure_distinct(held_out),
    }
    if len(rows[0]) > 1 and "outcome" in rows[0][0]:
        section |= {"pass_at_k": _estimate_pass_at_k(rows), "majority_at_k": share_interval(list(map(_vote, rows)))}
    if held_out.greedy is not None:
        greedy = _group(samples, "greedy")
        section["greedy"] = {**_summarise_outcomes(greedy), **_summarise_lengths(greedy), **_summarise_reward(greedy)}
    return section


def compare(baseline: list[Sample], trained: list[Sample], seed: int) -> dict[str, Any]:
    """`paired` of evaluation.json: trained minus baseline on the same rows; {} where nothing can be compared.

    A win is a higher reward. The i-th completion of a row meets the i-th: `n` counts rows, wins, losses and ties
    completions.
    """
    sides = [_group(samples, "sampled") for samples in (baseline, trained)]
    first, paired = sides[0][0][0], {}
    if "outcome" in first:
        correct = ([[float(_is_correct(s)) for s in row] for row in rows] for rows in sides)
        paired["difference"] = paired_bootstrap(*map(np.array, correct), seed)
    if "reward" in first:
        paired |= win_rate(*(np.array([[s["reward"] for s in row] for row in rows]) for rows in sides), seed)
    return {**paired, "n": len(sides[0])} if paired else {}


def _group(samples: list[Sample], decoding: str) -> list[list[Sample]]:
    """The samples of one decoding, by row: those of a row lie side by side."""
    rows: list[list[Sample]] = []
    for sample in samples:
        if sample["decoding"] == decoding:
            if sample["sample"] == 0:
                rows.append([])
            rows[-1].append(sample)
    return rows


def _summarise_outcomes(rows: list[list[Sample]]) -> dict[str, Any]:
    """Accuracy, strict and (where the grader has both readings) lenient, and the outcomes of all completions."""
    if "outcome" not in rows[0][0]:
        return {}
    counts = Counter(sample["outcome"] for row in rows for sample in row)
    found = {
        "accuracy": share_interval([statistics.fmean(map(_is_correct, row)) for row in rows]),
        "counts": {kind: counts[kind] for kind in OUTCOMES},
    }
    return {**found, "lenient_accuracy": _measure_share(rows, "lenient")} if "lenient" in rows[0][0] else found


def _summarise_lengths(rows: list[list[Sample]]) -> dict[str, Interval]:
    return {
        "mean_tokens": mean_interval(_average(rows, "tokens")),
        "truncation_rate": _measure_share(rows, "truncated"),
    }


def _summarise_reward(rows: list[list[Sample]]) -> dict[str, Any]:
    return {"reward": _describe_spread(rows, "reward")} if "reward" in rows[0][0] else {}


def _summarise_sampled_kl(rows: list[list[Sample]]) -> dict[str, Any]:
    """KL of the distributions that are sampled from, where these are not the models' own; `outside` is the share of the
    policy's draws that the start model cannot make, for which KL without further definition would be infinite."""
    if "kl_sampled" not in rows[0][0]:
        return {}
    return {
        "kl_sampled": {**_describe_spread(rows, "kl_sampled"), "outside": mean_interval(_average(rows, "kl_outside"))}
    }


def _measure_distinct(held_out: "HeldOut") -> dict[str, float]:
    """Over the tokens of the text: the end token, which nearly every completion has, is left out."""
    ended = zip(held_out.completion_ids, held_out.truncated, strict=True)
    completions = [ids if cut else ids[:-1] for ids, cut in ended]
    return {str(n): distinct_n(completions, n) for n in (1, 2)}


def _estimate_pass_at_k(rows: list[list[Sample]]) -> dict[str, Interval]:
    """pass@1, 2, 4, ... and k, from the same k completions."""
    n = len(rows[0])
    correct = [sum(map(_is_correct, row)) for row in rows]
    budgets = sorted({n, *(2**i for i in range(n.bit_length()))})
    return {str(k): share_interval([pass_at_k(n, c, k) for c in correct]) for k in budgets}


def _vote(row: list[Sample]) -> bool:
    """Whether the answer that most of the row's completions give is correct (Wang et al. 2022, arXiv:2203.11171).

    Votes are for `extracted` as it is spelled: 18 and 18.0 count apart, as do two expressions of one value. Of answers
    with equally many votes the first to appear wins; a completion without an answer has no vote. The answer is correct
    if the grader took it so in any of the completions that give it.
    """
    votes = Counter(sample["extracted"] for sample in row if sample["extracted"] is not None)
    winner = max(votes, key=votes.__getitem__, default=None)
    return any(_is_correct(sample) for sample in row if sample["extracted"] == winner)


def _is_correct(sample: Sample) -> bool:
    return sample["outcome"] == "correct"


def _measure_share(rows: list[list[Sample]], key: str) -> Interval:
    return share_interval(_average(rows, key))


def _describe_spread(rows: list[list[Sample]], key: str) -> dict[str, Any]:
    values = _flatten(rows, key)
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": mean_interval(_average(rows, key)), "std": std}


def _average(rows: list[list[Sample]], key: str) -> list[float]:
    return [statistics.fmean(sample[key] for sample in row) for row in rows]


def _flatten(rows: list[list[Sample]], key: str) -> list[float]:
    return [float(sample[key]) for row in rows for sample in row]

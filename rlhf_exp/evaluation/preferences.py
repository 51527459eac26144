"""Figures over rows of preferences.jsonl. Pure: rows in, numbers out.

    section = summarise_preferences(rows)             # of evaluation.json
    compare_preferences(baseline, trained)            # {"difference": {"value": ...}, ..., "n": 512}
    find_errors(rows)                                 # the pairs ranked wrongly, each with its kind

A pair's margin is the chosen answer's reward minus the rejected one's. Above 0 the pair is right, at 0 tied, which
counts as half right. sigmoid(margin) is the probability that the chosen answer wins (Bradley and Terry 1952).
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter

import numpy as np

from rlhf_exp.analysis.stats import DIFFERENCES, mean_interval, paired_interval, wilson
from rlhf_exp.evaluation.metrics import RawSection, measure_std
from rlhf_exp.graders.refusals import find_refusal
from rlhf_exp.runs.records import Bin, Errors, Pair, Part, Quantile

ANSWERS = ("chosen", "rejected")
RANKINGS = {"correct": 1, "tied": 0, "wrong": -1}  # the sign of the margin
BINS = 5
LENGTH_BANDS = {
    "shorter by more than 32": (-np.inf, -33),
    "shorter by 1 to 32": (-32, -1),
    "equal": (0, 0),
    "longer by 1 to 32": (1, 32),
    "longer by more than 32": (33, np.inf),
}
"""Tokens of the chosen answer minus the rejected one's. The bounds are fixed, so that runs can be compared."""

KINDS = ("confident", "near_tie", "refusal_preferred", "length_only", "longer_wins", "other")
SHOWN = 30
TRAITS = ("only the chosen answer refuses", "only the rejected answer refuses", "one answer begins with the other")
"""What rules see in the texts of a pair; the phrases of refusals are those of graders/refusals.py."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def summarise_preferences(rows: list[Pair]) -> RawSection:
    """The figures of one model on held-out pairs.

    `loss` is the mean of -log sigmoid(margin), without any centring term. The interval of the mean reward is over
    pairs, since the two answers of a pair share a prompt; its standard deviation is over all answers.
    """
    margins = np.array([row.margin for row in rows], dtype=np.float64)
    rewards = np.array([[row.chosen_reward, row.rejected_reward] for row in rows], dtype=np.float64)
    longer = np.array([row.chosen_tokens - row.rejected_tokens for row in rows])
    right = _score_right(margins)
    bins = _calibrate(margins, right)
    by_subset = {name: [row.subset == name for row in rows] for name in sorted({row.subset for row in rows})}
    by_length = {label: (longer >= low) & (longer <= high) for label, (low, high) in LENGTH_BANDS.items()}
    return {
        "n": len(rows),
        "accuracy": wilson(right.sum(), len(right)),
        "counts": {name: int((np.sign(margins) == sign).sum()) for name, sign in RANKINGS.items()},
        "loss": mean_interval(_loss(margins)),
        "margin": {"mean": mean_interval(margins), "std": measure_std(margins)},
        "reward": {"mean": mean_interval(rewards.mean(1)), "std": measure_std(rewards)},
        "calibration": bins,
        "calibration_error": sum(b.n * abs(b.observed["value"] - b.predicted) for b in bins) / len(rows),
        "by_length": _group(right, by_length),
        "by_subset": _group(right, by_subset),
        "by_trait": _group(right, dict(zip(TRAITS, zip(*map(_find_traits, rows), strict=True), strict=True))),
        "quantiles": _list_quantiles(margins, rewards),
        "longer_wins": wilson(_score_right(longer).sum(), len(longer)),
    }


def compare_preferences(baseline: list[Pair], trained: list[Pair]) -> RawSection:
    """`paired` of evaluation.json: trained minus baseline on the same pairs; `difference` is that of the accuracy."""
    before, after = (np.array([row.margin for row in rows]) for rows in (baseline, trained))
    return {
        "difference": paired_interval(_score_right(before), _score_right(after), DIFFERENCES),
        "loss": paired_interval(_loss(before), _loss(after)),
        "margin": {"mean": paired_interval(before, after)},
        "n": len(trained),
    }


def find_errors(rows: list[Pair]) -> Errors:
    """Counts of the wrongly ranked pairs (without ties), each under the first kind that fits, and up to `SHOWN` of
    them.

    confident: the margin is as far from 0 as in the quarter of all pairs with the largest margins, right or wrong.
    near_tie: as near to 0 as in the quarter with the smallest. refusal_preferred: only the rejected answer refuses.
    length_only: one answer begins with the other. longer_wins: the rejected answer has more tokens. other.
    `thresholds` holds the two quartiles of |margin|. The pairs are taken from each kind in turn, and listed, worst
    first.
    """
    sizes = [abs(row.margin) for row in rows]
    near, far = (float(q) for q in np.quantile(sizes, (0.25, 0.75)))
    wrong = [row.model_copy(update={"kind": _name_kind(row, near, far)}) for row in rows if row.margin < 0]
    wrong.sort(key=attrgetter("margin"))
    by_kind = [[row for row in wrong if row.kind == kind] for kind in KINDS]
    in_turn = [row for turn in zip_longest(*by_kind) for row in turn if row is not None]
    return Errors(
        counts={kind: len(found) for kind, found in zip(KINDS, by_kind, strict=True)},
        thresholds={"near_tie": near, "confident": far},
        shown=sorted(in_turn[:SHOWN], key=attrgetter("margin")),
    )


def _name_kind(row: Pair, near: float, far: float) -> str:
    size, longer_wins = abs(row.margin), row.rejected_tokens > row.chosen_tokens
    fits = (size >= far, size <= near, *_find_traits(row)[1:], longer_wins, True)
    return KINDS[fits.index(True)]


def _find_traits(row: Pair) -> tuple[bool, ...]:
    """Which of TRAITS a pair has."""
    chosen, rejected = (bool(find_refusal(getattr(row, side))) for side in ANSWERS)
    shorter, longer = sorted((getattr(row, side).split() for side in ANSWERS), key=len)
    return chosen > rejected, rejected > chosen, longer[: len(shorter)] == shorter


def _list_quantiles(margins: np.ndarray, rewards: np.ndarray) -> list[Quantile]:
    """Of the rewards of the chosen and of the rejected answers, and of |margin| of right and of wrong pairs."""
    parts = {
        "chosen": rewards[:, 0],
        "rejected": rewards[:, 1],
        "right": margins[margins > 0],
        "wrong": -margins[margins < 0],
    }
    found = {name: np.quantile(part, QUANTILES).tolist() for name, part in parts.items() if len(part)}
    return [Quantile(share=q, **{name: values[i] for name, values in found.items()}) for i, q in enumerate(QUANTILES)]


def _calibrate(margins: np.ndarray, right: np.ndarray) -> list[Bin]:
    """How often the preferred answer is the chosen one, by the probability that the model gives it.

    The probability is sigmoid(|margin|), from 0.5 to 1, in bins of equal width; empty bins are left out. The
    calibration error is the mean of |observed - predicted| over the bins, weighted by their pairs.

    Source: the expected calibration error of Guo et al. 2017 (arXiv:1706.04599).
    """
    confidence = 1 / (1 + np.exp(-np.abs(margins)))
    edges = np.linspace(0.5, 1, BINS + 1)
    bins = np.searchsorted(edges[1:-1], confidence, side="right")
    found = []
    for b in sorted(set(bins.tolist())):
        inside = bins == b
        predicted, observed = float(confidence[inside].mean()), wilson(right[inside].sum(), inside.sum())
        low, high = edges[b : b + 2].tolist()
        found.append(Bin(low=low, high=high, n=int(inside.sum()), predicted=predicted, observed=observed))
    return found


def _group(right: np.ndarray, groups: Mapping[str, Sequence[bool] | np.ndarray]) -> list[Part]:
    parts = {label: right[np.asarray(members)] for label, members in groups.items()}
    return [Part(label=label, n=len(part), accuracy=wilson(part.sum(), len(part)))
            for label, part in parts.items() if len(part)]  # fmt: skip


def _loss(margins: np.ndarray) -> np.ndarray:
    """-log sigmoid(margin), without overflow on either side."""
    return np.logaddexp(0, -margins)


def _score_right(values: np.ndarray) -> np.ndarray:
    """1 above 0, 0.5 at 0, 0 below."""
    return (np.sign(values) + 1) / 2

"""Computes the figures of a task's rows. Pure: examples and token counts in, plain numbers out.

figures = measure(data, tokens)
figures["subsets"]["all"]["tokens"]["chosen"]["mean"]
"""

from collections import Counter, defaultdict
from itertools import combinations
from typing import Any

import numpy as np

from rlhf_exp.stats import Interval, mean_interval, share_interval
from rlhf_exp.tasks.examples import Data, Example, count_words
from rlhf_exp.tasks.tokens import Tokens

QUANTILES = (5, 25, 50, 75, 95)
BUDGETS = (64, 128, 256, 512, 1024)
BINS = 40

Lengths = dict[str, list[int]]
"""One list for each text of a row: the prompt, and the answers by name."""


def measure(data: Data, tokens: list[Tokens] | None) -> dict[str, Any]:
    """All figures; those in tokens are missing if `tokens` is None."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, example in enumerate(data.examples):
        members[example.subset].append(place)
    if len(members) > 1:
        members["all"] = list(range(len(data.examples)))
    words = [Tokens(e.prompt_words, tuple(count_words(answer) for answer in e.answers)) for e in data.examples]
    counts = {"words": words} | ({"tokens": tokens} if tokens else {})
    return {
        "n": len(data.examples),
        "read": data.read,
        "answers": list(data.answers),
        "subsets": {name: _measure_part(data, places, counts) for name, places in members.items()},
        "histograms": {unit: _draw_histograms(_list_lengths(data, of_unit)) for unit, of_unit in counts.items()},
        "splits": _count_splits(data.examples),
        "overlap": _count_overlap(data.examples),
        "repeats": _count_repeats(data.examples),
        "odd": [odd._asdict() for odd in data.odd],
    }


def _measure_part(data: Data, places: list[int], counts: dict[str, list[Tokens]]) -> dict[str, Any]:
    part: dict[str, Any] = {"n": len(places), "turns": _summarise([data.examples[i].turns for i in places])}
    for unit, of_unit in counts.items():
        lengths = _list_lengths(data, [of_unit[i] for i in places])
        part[unit] = {name: _summarise(values) for name, values in lengths.items() if values}
        if data.answers == ("chosen", "rejected"):
            part[unit] |= _compare_lengths(lengths["chosen"], lengths["rejected"])
    if "tokens" in counts and any(counts["tokens"][i].answers for i in places):
        part["truncated"] = _share_truncated([counts["tokens"][i] for i in places])
    return part


def _list_lengths(data: Data, of_unit: list[Tokens]) -> Lengths:
    """The lengths of each text over the rows; answers are grouped by name."""
    lengths: Lengths = {"prompt": [row.prompt for row in of_unit]}
    for place, name in enumerate(data.answers):
        lengths[name] = [row.answers[place] for row in of_unit if row.answers]
    return lengths


def _summarise(values: list[int]) -> dict[str, Any]:
    array = np.asarray(values, dtype=np.float64)
    quantiles = np.percentile(array, QUANTILES)
    return {
        "n": len(values),
        "mean": float(array.mean()),
        "std": float(array.std(ddof=1)) if len(values) > 1 else 0.0,
        "quantiles": {str(q): float(value) for q, value in zip(QUANTILES, quantiles, strict=True)},
        "max": int(array.max()),
    }


def _compare_lengths(chosen: list[int], rejected: list[int]) -> dict[str, Interval]:
    """How often the chosen answer is the longer one (a tie is a half), and by how much; intervals are over rows."""
    differences = np.subtract(chosen, rejected)
    return {
        "longer_wins": share_interval(((np.sign(differences) + 1) / 2).tolist()),
        "longer_by": mean_interval(differences),
    }


def _share_truncated(rows: list[Tokens]) -> dict[str, dict[str, float]]:
    """For each budget, the share of rows whose prompt plus longer answer exceeds it, and of answers that exceed it."""
    wholes = np.array([row.prompt + max(row.answers) for row in rows if row.answers])
    answers = np.array([n for row in rows for n in row.answers])
    return {
        str(budget): {"whole": float((wholes > budget).mean()), "answer": float((answers > budget).mean())}
        for budget in BUDGETS
    }


def _draw_histograms(lengths: Lengths) -> dict[str, dict[str, Any]]:
    """Counts in bins of equal width up to the 99th percentile, and how many are beyond; answers have common bins."""
    answers = [name for name in lengths if name != "prompt" and lengths[name]]
    histograms = {}
    for names in filter(None, (["prompt"], answers)):
        end = np.percentile(np.concatenate([lengths[name] for name in names]), 99)
        width = max(1, int(np.ceil(end / BINS)))  # an integer, so that every bin has the same number of lengths
        edges = np.arange(0, end + width + 1, width)
        for name in names:
            counts, beyond = np.histogram(lengths[name], edges)[0], (np.asarray(lengths[name]) > edges[-1]).sum()
            histograms[name] = {"edges": edges.tolist(), "counts": counts.tolist(), "beyond": int(beyond)}
    return histograms


def _count_splits(examples: list[Example]) -> dict[str, dict[str, int]]:
    splits: dict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        splits[example.split][example.subset] += 1
    return {split: dict(counts) for split, counts in splits.items()}


def _count_overlap(examples: list[Example]) -> dict[str, int]:
    """Prompts that two splits share."""
    prompts: dict[str, set[str]] = defaultdict(set)
    for example in examples:
        prompts[example.split].add(str(example.prompt))
    return {f"{a}, {b}": len(prompts[a] & prompts[b]) for a, b in combinations(prompts, 2)}


def _count_repeats(examples: list[Example]) -> dict[str, int]:
    """Counts of prompts and rows that are repeated among the rows that are kept."""
    prompts = Counter(str(example.prompt) for example in examples)
    found = {
        "distinct_prompts": len(prompts),
        "rows_with_an_earlier_prompt": len(examples) - len(prompts),
        "rows_of_the_most_frequent_prompt": max(prompts.values()),
    }
    if any(example.subset != example.split for example in examples):
        subsets = Counter(prompt for prompt, _ in {(str(example.prompt), example.subset) for example in examples})
        found["prompts_in_several_subsets"] = sum(n > 1 for n in subsets.values())
    rows = [(str(example.prompt), tuple(map(str, example.answers))) for example in examples if example.answers]
    distinct = set(rows)
    found["rows_with_an_earlier_prompt_and_answers"] = len(rows) - len(distinct)
    if any(len(answers) == 2 for _, answers in distinct):
        both_ways = {(prompt, answers) for prompt, answers in distinct if (prompt, answers[::-1]) in distinct}
        found["pairs_preferred_both_ways"] = len(both_ways) // 2
    return found

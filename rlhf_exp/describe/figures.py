"""Computes the figures of a task's rows. Pure: examples and token counts in, plain numbers out.

figures = measure(data, tokens)
figures["lengths"][0]     # {"subset": "train", "text": "prompt", "n": 6844, "mean": 95.6, ...}
"""

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from rlhf_exp.analysis.stats import mean_interval, share_interval
from rlhf_exp.describe.rows import Data, Example
from rlhf_exp.tasks.tokens import Tokens

QUANTILES = (5, 25, 50, 75, 95)
BUDGETS = (64, 128, 256, 512, 1024)

Rows = list[dict[str, Any]]
"""Those of a table."""


def measure(data: Data, tokens: list[Tokens]) -> dict[str, Any]:
    """All figures; lengths are in tokens."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, example in enumerate(data.examples):
        members[example.subset].append(place)
    if len(members) > 1:
        members["all"] = list(range(len(data.examples)))
    parts = {name: [tokens[i] for i in places] for name, places in members.items()}
    answered = {name: [row for row in part if row.answers] for name, part in parts.items()}
    pairs = data.answers == ("chosen", "rejected")
    return {
        "n": len(data.examples),
        "read": data.read,
        "lengths": [row for name, part in parts.items() for row in _list_lengths(name, part, data.answers)],
        "turns": [_summarise(name, "turns", [data.examples[i].turns for i in members[name]]) for name in members],
        "budgets": [row for name, part in answered.items() if part for row in _list_truncated(name, part)],
        "preference": [_compare_lengths(name, part) for name, part in answered.items() if pairs],
        "counts": _count_rows(data.examples),
        "odd": [odd._asdict() for odd in data.odd],
    }


def _list_lengths(subset: str, part: list[Tokens], answers: tuple[str, ...]) -> Rows:
    """A row for the prompts, and one for the answers of each name."""
    lengths = {"prompt": [row.prompt for row in part]}
    for place, name in enumerate(answers):
        lengths[name] = [row.answers[place] for row in part if row.answers]
    return [_summarise(subset, text, values) for text, values in lengths.items() if values]


def _summarise(subset: str, text: str, values: list[int]) -> dict[str, Any]:
    array = np.asarray(values, dtype=np.float64)
    quantiles = np.percentile(array, QUANTILES)
    return {
        "subset": subset,
        "text": text,
        "n": len(values),
        "mean": float(array.mean()),
        "std": float(array.std(ddof=1)) if len(values) > 1 else 0.0,
        **{f"{q}%": float(value) for q, value in zip(QUANTILES, quantiles, strict=True)},
        "max": int(array.max()),
    }


def _compare_lengths(subset: str, part: list[Tokens]) -> dict[str, Any]:
    """How often the chosen answer is the longer one (a tie is a half), and by how much; intervals are over rows."""
    differences = np.array([chosen - rejected for _, (chosen, rejected) in part])
    return {
        "subset": subset,
        "n": len(part),
        "longer_wins": share_interval(((np.sign(differences) + 1) / 2).tolist()),
        "longer_by": mean_interval(differences),
    }


def _list_truncated(subset: str, part: list[Tokens]) -> Rows:
    """For each budget, the share of rows whose prompt plus longer answer exceeds it, and of answers that exceed it."""
    texts = {
        "prompt + answer": np.array([row.prompt + max(row.answers) for row in part]),
        "answer alone": np.array([n for row in part for n in row.answers]),
    }
    return [
        {"subset": subset, "text": text, **{str(budget): float((lengths > budget).mean()) for budget in BUDGETS}}
        for text, lengths in texts.items()
    ]


def _count_rows(examples: list[Example]) -> dict[str, int]:
    """Rows of each split, and prompts and rows that are repeated, among the rows that are kept."""
    splits: dict[str, set[str]] = defaultdict(set)
    for example in examples:
        splits[str(example.prompt)].add(example.split)
    rows = [(str(example.prompt), tuple(map(str, example.answers))) for example in examples if example.answers]
    distinct = set(rows)
    # A pair in both orders is found twice.
    swapped = [len(answers) == 2 and (prompt, answers[::-1]) in distinct for prompt, answers in distinct]
    return {
        **{f"{split}_rows": n for split, n in Counter(example.split for example in examples).items()},
        "prompts_in_several_splits": sum(len(found) > 1 for found in splits.values()),
        "rows_with_an_earlier_prompt": len(examples) - len(splits),
        "rows_with_an_earlier_prompt_and_answers": len(rows) - len(distinct),
        "pairs_preferred_both_ways": sum(swapped) // 2,
    }

"""Computes the figures of rows, and writes them into a run folder.

write_data(folder, task.facts, list_rows(cfg, task), tokenizer)
measure_rows(splits, tokenizer)["lengths"][0]     # {"subset": "train", "text": "prompt", "n": 6844, "mean": 95.6, ...}
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from rlhf_exp import processes
from rlhf_exp.analysis.report.data import BUDGETS, QUANTILES
from rlhf_exp.analysis.stats import mean_interval, share_interval
from rlhf_exp.config.schema import Config
from rlhf_exp.forms import ASK, DEMONSTRATE, PAIR, Form
from rlhf_exp.runs.files import write_json
from rlhf_exp.tasks import TaskRows
from rlhf_exp.tasks.texts import Row, Text
from rlhf_exp.tasks.tokens import measure

MOST = 1000
"""Rows of each split that a run tokenizes for its figures."""

ANSWERS = ("completion", "chosen", "rejected")
TURN = re.compile(r"\n\n(?:Human|Assistant):")

Splits = dict[str, tuple[Form, list[Row]]]
"""The rows of each split, and their form; a row may lack its answers."""
Lengths = dict[str, int]
"""Of one row: tokens of its prompt and of each answer, and turns."""
Rows = list[dict[str, Any]]
"""Those of a table."""


def list_rows(cfg: Config, task: TaskRows) -> Splits:
    """The rows of a run: those to train on, and the held-out ones, with answers if there are any."""
    splits: Splits = {"train": (cfg.algo.row.form, task.train)} if cfg.algo.row.trains else {}
    for form in (ASK, DEMONSTRATE, PAIR):
        if held_out := getattr(task, form.held_out):
            splits[cfg.eval.split] = form, held_out
    return splits


def write_data(folder: Path, facts: dict[str, Any], splits: Splits, tokenizer: PreTrainedTokenizerBase,
               most: int | None = MOST) -> None:  # fmt: skip
    """Write data.json: the facts that a task has counted, and the figures of its rows."""
    if processes.is_main():
        write_json(folder / "data.json", {**facts, "figures": measure_rows(splits, tokenizer, most)})


def measure_rows(splits: Splits, tokenizer: PreTrainedTokenizerBase, most: int | None = None) -> dict[str, Any]:
    """All figures; lengths are in tokens, of the first `most` rows of each split (None: of all). Pairs are taken
    together by their subset, other rows by their split."""
    parts: dict[str, list[Lengths]] = defaultdict(list)
    for split, (form, rows) in splits.items():
        for row, lengths in zip(rows[:most], _measure_lengths(form, rows[:most], tokenizer), strict=True):
            parts[row["subset"] if "chosen" in lengths and row["subset"] != "all" else split].append(lengths)
    if len(parts) > 1:
        parts["all"] = [lengths for part in list(parts.values()) for lengths in part]
    answered = {name: found for name, part in parts.items() if (found := [one for one in part if len(one) > 2])}
    return {
        "lengths": [
            _summarise(name, text, values)
            for name, part in parts.items()
            for text in ("prompt", *ANSWERS)
            if (values := [one[text] for one in part if text in one])
        ],
        "turns": [_summarise(name, "turns", [one["turns"] for one in part]) for name, part in parts.items()],
        "budgets": [found for name, part in answered.items() for found in _list_truncated(name, part)],
        "preference": [
            _compare_lengths(name, pairs)
            for name, part in answered.items()
            if (pairs := [one for one in part if "chosen" in one])
        ],
        "counts": _count_repeats(splits),
    }


def _measure_lengths(form: Form, rows: list[Row], tokenizer: PreTrainedTokenizerBase) -> list[Lengths]:
    names = [list(_pick_answers(form, row)) for row in rows]
    answers = [tuple(_pick_answers(form, row).values()) for row in rows]
    counts = measure(tokenizer, [row["prompt"] for row in rows], answers)
    return [
        {"prompt": tokens.prompt, "turns": _count_turns(row["prompt"]), **dict(zip(of, tokens.answers, strict=True))}
        for row, of, tokens in zip(rows, names, counts, strict=True)
    ]


def _pick_answers(form: Form, row: Row) -> dict[str, Text]:
    """The answers of a row by their names; a column of the user's own may be called the same."""
    return {name: row[name] for name in ANSWERS if name in form.columns and name in row}


def _count_turns(prompt: Text) -> int:
    """With the turn of the answer; a message of the system is none."""
    if isinstance(prompt, str):
        return max(len(TURN.findall(prompt)), 2)
    return sum(message["role"] != "system" for message in prompt) + 1


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


def _compare_lengths(subset: str, pairs: list[Lengths]) -> dict[str, Any]:
    """How often the chosen answer is the longer one (a tie is a half), and by how much; intervals are over rows."""
    differences = np.array([pair["chosen"] - pair["rejected"] for pair in pairs])
    return {
        "subset": subset,
        "n": len(pairs),
        "longer_wins": share_interval(((np.sign(differences) + 1) / 2).tolist()),
        "longer_by": mean_interval(differences),
    }


def _list_truncated(subset: str, part: list[Lengths]) -> Rows:
    """For each budget, the share of rows whose prompt plus longer answer exceeds it, and of answers that exceed it."""
    answers = [[one[name] for name in ANSWERS if name in one] for one in part]
    texts = {
        "prompt + answer": np.array([one["prompt"] + max(of) for one, of in zip(part, answers, strict=True)]),
        "answer alone": np.array([n for of in answers for n in of]),
    }
    return [
        {"subset": subset, "text": text, **{str(budget): float((lengths > budget).mean()) for budget in BUDGETS}}
        for text, lengths in texts.items()
    ]


def _count_repeats(splits: Splits) -> dict[str, int]:
    """Rows of each split, and prompts and rows that are repeated."""
    prompts, rows = defaultdict[str, set[str]](set), list[tuple[str, tuple[str, ...]]]()
    for split, (form, of_split) in splits.items():
        for row in of_split:
            prompts[str(row["prompt"])].add(split)
            rows.append((str(row["prompt"]), tuple(map(str, _pick_answers(form, row).values()))))
    answered = [row for row in rows if row[1]]
    distinct = set(answered)
    # A pair in both orders is found twice.
    swapped = [len(answers) == 2 and (prompt, answers[::-1]) in distinct for prompt, answers in distinct]
    return {
        **{f"{split}_rows": len(of_split) for split, (_, of_split) in splits.items()},
        "prompts_in_several_splits": sum(len(several) > 1 for several in prompts.values()),
        "rows_with_an_earlier_prompt": len(rows) - len(prompts),
        "rows_with_an_earlier_prompt_and_answers": len(answered) - len(distinct),
        "pairs_preferred_both_ways": sum(swapped) // 2,
    }

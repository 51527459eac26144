"""Computes the figures of rows, and writes them into a run folder.

write_data(folder, task.facts, list_rows(cfg, task), tokenizer)
measure_rows(splits, tokenizer)["lengths"][0]     # {"subset": "train", "text": "prompt", "n": 6844, "mean": 95.6, ...}
"""

import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
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

ANSWERS = ["completion", "chosen", "rejected"]
TURN = re.compile(r"\n\n(?:Human|Assistant):")

Splits = dict[str, tuple[Form, list[Row]]]
"""The rows of each split, and their form; a row may lack its answers."""
Rows = list[dict[str, object]]
"""Those of a table."""


def list_rows(cfg: Config, task: TaskRows) -> Splits:
    """The rows of a run: those to train on, and the held-out ones, with answers if there are any."""
    splits: Splits = {"train": (cfg.algo.row.form, task.train)} if cfg.algo.row.trains else {}
    for form in (ASK, DEMONSTRATE, PAIR):
        if held_out := getattr(task, form.held_out):
            splits[cfg.eval.split] = form, held_out
    return splits


def write_data(folder: Path, facts: Mapping[str, object], splits: Splits, tokenizer: PreTrainedTokenizerBase,
               most: int | None = MOST) -> None:  # fmt: skip
    """Write data.json: the facts that a task has counted, and the figures of its rows."""
    if processes.is_main():
        write_json(folder / "data.json", {**facts, "figures": measure_rows(splits, tokenizer, most)})


def measure_rows(splits: Splits, tokenizer: PreTrainedTokenizerBase, most: int | None = None) -> Mapping[str, object]:
    """All figures; lengths are in tokens, of the first `most` rows of each split (None: of all). Pairs are taken
    together by their subset, other rows by their split."""
    measured = [_measure_lengths(split, form, rows[:most], tokenizer) for split, (form, rows) in splits.items()]
    lengths = pd.DataFrame(list(chain.from_iterable(measured)), columns=("subset", "turns", "prompt", *ANSWERS))
    parts = dict(list(lengths.groupby("subset", sort=False)))
    if len(parts) > 1:
        parts["all"] = pd.concat(parts.values())
    figures: dict[str, Rows] = {"lengths": [], "turns": [], "budgets": [], "preference": []}
    for name, part in parts.items():
        for text in ("prompt", *ANSWERS):
            if part[text].notna().any():
                figures["lengths"].append(_summarise(name, text, part[text].dropna()))
        figures["turns"].append(_summarise(name, "turns", part["turns"]))
        if not (answered := part.dropna(subset=ANSWERS, how="all")).empty:
            figures["budgets"] += _list_truncated(name, answered)
        if not (pairs := part.dropna(subset="chosen")).empty:
            figures["preference"].append(_compare_lengths(name, pairs))
    return figures | {"counts": _count_repeats(splits)}


def _measure_lengths(split: str, form: Form, rows: list[Row], tokenizer: PreTrainedTokenizerBase) -> Rows:
    """Of each row its subset, its turns, and the tokens of its prompt and of each answer."""
    answers = [_pick_answers(form, row) for row in rows]
    counts = measure(tokenizer, [row["prompt"] for row in rows], [tuple(texts.values()) for texts in answers])
    measured = []
    for row, texts, tokens in zip(rows, answers, counts, strict=True):
        subset = row["subset"] if "chosen" in texts and row["subset"] != "all" else split
        lengths = {"subset": subset, "turns": _count_turns(row["prompt"]), "prompt": tokens.prompt}
        measured.append(lengths | dict(zip(texts, tokens.answers, strict=True)))
    return measured


def _pick_answers(form: Form, row: Row) -> dict[str, Text]:
    """The answers of a row by their names; a column of the user's own may be called the same."""
    return {name: row[name] for name in ANSWERS if name in form.columns and name in row}


def _count_turns(prompt: Text) -> int:
    """With the turn of the answer; a message of the system is none."""
    if isinstance(prompt, str):
        return max(len(TURN.findall(prompt)), 2)
    return sum(message["role"] != "system" for message in prompt) + 1


def _summarise(subset: str, text: str, values: pd.Series) -> dict[str, object]:
    array = values.to_numpy(dtype=np.float64)
    return {
        "subset": subset,
        "text": text,
        "n": len(array),
        "mean": float(array.mean()),
        "std": float(array.std(ddof=1)) if len(array) > 1 else 0.0,
        **{f"{q}%": float(np.percentile(array, q)) for q in QUANTILES},
        "max": int(array.max()),
    }


def _compare_lengths(subset: str, pairs: pd.DataFrame) -> dict[str, object]:
    """How often the chosen answer is the longer one (a tie is a half), and by how much; intervals are over rows."""
    differences = (pairs["chosen"] - pairs["rejected"]).to_numpy()
    longer_wins = share_interval(((np.sign(differences) + 1) / 2).tolist())
    return {"subset": subset, "n": len(pairs), "longer_wins": longer_wins, "longer_by": mean_interval(differences)}


def _list_truncated(subset: str, part: pd.DataFrame) -> Rows:
    """For each budget, the share of rows whose prompt plus longer answer exceeds it, and of answers that exceed it."""
    answers = part[ANSWERS]
    texts = {"prompt + answer": part["prompt"] + answers.max(axis=1), "answer alone": answers.stack().dropna()}
    return [
        {"subset": subset, "text": text, **{str(budget): float((lengths > budget).mean()) for budget in BUDGETS}}
        for text, lengths in texts.items()
    ]


def _count_repeats(splits: Splits) -> dict[str, int]:
    """Rows of each split, and prompts and rows that are repeated."""
    texts = pd.DataFrame(
        [
            (split, str(row["prompt"]), tuple(map(str, _pick_answers(form, row).values())))
            for split, (form, rows) in splits.items()
            for row in rows
        ],
        columns=("split", "prompt", "answers"),
    )
    answered = texts.loc[texts["answers"].map(len) > 0, ["prompt", "answers"]]
    distinct = set(answered.itertuples(index=False, name=None))
    # A pair in both orders is found twice.
    swapped = [len(answers) == 2 and (prompt, answers[::-1]) in distinct for prompt, answers in distinct]
    return {
        **{f"{split}_rows": len(rows) for split, (_, rows) in splits.items()},
        "prompts_in_several_splits": int((texts.groupby("prompt")["split"].nunique() > 1).sum()),
        "rows_with_an_earlier_prompt": int(texts["prompt"].duplicated().sum()),
        "rows_with_an_earlier_prompt_and_answers": len(answered) - len(distinct),
        "pairs_preferred_both_ways": sum(swapped) // 2,
    }

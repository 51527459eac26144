"""Checks the rows that a user's file returns, and brings their texts into the form of the model.

shape_rows([{"id": "1", "prompt": "2 + 2 ="}], "train", ("id", "prompt"), where="task.module=mine.py: load", chat=True)
"""

from typing import Any

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Row, as_completion
from rlhf_exp.tasks.fitting import ANSWERS
from rlhf_exp.tasks.schema import PASSED
from rlhf_exp.tasks.sources import are_messages, as_messages, refuse_half_characters, shape_prompt


def shape_rows(rows: Any, side: str, needed: tuple[str, ...], where: str, chat: bool) -> list[Row]:
    """The rows with their texts in the form of the model."""
    of = f" for {side}" if side else ""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError([f"{where} returned {describe(rows)}{of}; must be a list of rows, each a dict"])
    ids, shaped = set(), []
    for number, row in enumerate(rows, 1):
        place = f"{where}, row {number}{of}"
        if missing := [name for name in needed if name not in row]:
            raise ConfigError(
                [f"{place}: has no {missing[0]}; must hold {', '.join(needed)}, and has {', '.join(row)}"]
            )
        if row.keys() != rows[0].keys():
            differing = ", ".join(sorted(map(str, row.keys() ^ rows[0].keys())))
            raise ConfigError(
                [f"{place}: all rows must have the same columns; this one differs from row 1 in {differing}"]
            )
        passed = [name for name in row if name in PASSED and name not in needed]
        if passed:
            raise ConfigError([f"{place}: training has another meaning for {passed[0]}; rename it"])
        if "id" in needed and (not isinstance(row["id"], str) or row["id"] in ids):
            raise ConfigError([f"{place}: its id must be a text of its own, got {show(row['id'], 40)}"])
        ids.add(row.get("id"))
        prompt = as_messages(row["prompt"])
        if not are_messages(prompt):
            problem = "its prompt must be a text, or messages of which the last is the user's"
            raise ConfigError([f"{place}: {problem}, got {show(row['prompt'], 60)}"])
        for message in prompt:
            refuse_half_characters(message["content"], f"{place}: its prompt")
        answers = {}
        for name in set(ANSWERS) & set(needed):
            value = row[name]
            text = (
                value[-1].get("content") if isinstance(value, list) and value and isinstance(value[-1], dict) else value
            )
            if not isinstance(text, str):
                raise ConfigError([f"{place}: {name} must be a text, got {show(value, 60)}"])
            answers[name] = as_completion(text, chat)
        subset = {"subset": "all"} if "chosen" in needed and "subset" not in row else {}
        shaped.append({**row, **subset, "prompt": shape_prompt(row["prompt"], place, chat), **answers})
    return shaped


def describe(value: Any) -> str:
    return f"{show(value, 40)} ({type(value).__name__})"

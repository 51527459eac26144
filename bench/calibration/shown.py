"""Countdown whose training prompts show the solution, and whose held-out prompts do not (task=module)."""

from random import Random
from typing import Any

from rlhf_exp.graders import Grade
from rlhf_exp.rewards.countdown import grade as grade_text


def read(keys: Any) -> dict[str, list[dict]]:
    draws, rows = Random(keys.data_seed), dict[str, dict]()
    while len(rows) < 1600:
        a, b, c = draws.sample(range(1, 21), 3)
        solution, target = draws.choice([(f"{a} + {b} * {c}", a + b * c), (f"{a} * {b} - {c}", a * b - c)])
        if 10 <= target <= 99:
            text = f"use {a} {b} {c} make {target} ."
            rows[text] = {"id": text, "numbers": [a, b, c], "target": target, "shown": "", "solution": solution}
    train, held_out = list(rows.values())[:1200], list(rows.values())[1200:]
    train = [row | {"shown": f" {row['solution']} = {row['target']} ."} for row in train]
    return {"train": train, "validation": held_out[:200], "test": held_out[200:]}


def prompt(row: dict) -> str:
    return row["id"] + row["shown"]


def grade(completion: str, row: dict) -> Grade:
    return grade_text(completion, row["numbers"], row["target"])

"""Countdown whose held-out rows are its training rows, written with two spaces (task=module)."""

from random import Random
from typing import Any

from rlhf_exp.graders import Grade
from rlhf_exp.rewards.countdown import grade as grade_text


def draw_rows(seed: int, n: int) -> list[dict]:
    """Different problems of three numbers, each with a solution."""
    draws, rows = Random(seed), dict[str, dict]()
    while len(rows) < n:
        a, b, c = draws.sample(range(1, 21), 3)
        solution, target = draws.choice([(f"{a} + {b} * {c}", a + b * c), (f"{a} * {b} - {c}", a * b - c)])
        if 10 <= target <= 99:
            text = f"use {a} {b} {c} make {target} ."
            rows[text] = {"id": text, "numbers": [a, b, c], "target": target, "solution": solution}
    return list(rows.values())


def read(keys: Any) -> dict[str, list[dict]]:
    train = draw_rows(keys.data_seed, 96)
    test = [row | {"id": row["id"].replace(" make", "  make")} for row in train]
    return {"train": train, "validation": [], "test": test}


def prompt(row: dict) -> str:
    return row["id"]


def demonstration(row: dict) -> str:
    return f"<answer> {row['solution']} </answer>"


def grade(completion: str, row: dict) -> Grade:
    return grade_text(completion, row["numbers"], row["target"])

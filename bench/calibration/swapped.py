"""Countdown whose demonstrations are those of other rows (task=module)."""

from typing import Any

from rlhf_exp.graders import Grade
from rlhf_exp.rewards.countdown import grade as grade_text


def read(keys: Any) -> dict[str, list[dict]]:
    from shown import read as read_shown

    rows = {split: [row | {"shown": ""} for row in of] for split, of in read_shown(keys).items()}
    for of in rows.values():
        solutions = [row["solution"] for row in of]
        for row, solution in zip(of, solutions[1:] + solutions[:1], strict=True):
            row["solution"] = solution
    return rows


def prompt(row: dict) -> str:
    return row["id"]


def demonstration(row: dict) -> str:
    return f"<answer> {row['solution']} </answer>"


def grade(completion: str, row: dict) -> Grade:
    return grade_text(completion, row["numbers"], row["target"])

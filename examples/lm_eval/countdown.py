"""Grades a completion of lm-evaluation-harness as in training."""

from typing import Any

from rlhf_exp.rewards.countdown import grade


def grade_row(row: dict[str, Any], completions: list[str]) -> dict[str, float]:
    """1 for a right expression, else 0."""
    numbers = [int(row[name]) for name in "abc"]
    return {"accuracy": float(grade(completions[0], numbers, int(row["target"])).outcome == "correct")}

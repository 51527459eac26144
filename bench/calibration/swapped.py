"""Countdown whose demonstrations are those of other rows (task=module)."""

from typing import Any

from leaked import demonstration, draw_rows, grade, prompt

__all__ = ["demonstration", "grade", "prompt", "read"]


def read(keys: Any) -> dict[str, list[dict]]:
    rows = draw_rows(keys.data_seed, 1600)
    splits = {"train": rows[:1200], "validation": rows[1200:1400], "test": rows[1400:]}
    for of in splits.values():
        solutions = [row["solution"] for row in of]
        for row, solution in zip(of, solutions[1:] + solutions[:1], strict=True):
            row["solution"] = solution
    return splits

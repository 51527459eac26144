"""Countdown whose training prompts show the solution, and whose held-out prompts do not (task=module)."""

from typing import Any

from leaked import draw_rows, grade

__all__ = ["grade", "prompt", "read"]


def read(keys: Any) -> dict[str, list[dict]]:
    rows = [row | {"shown": ""} for row in draw_rows(keys.data_seed, 1600)]
    train = [row | {"shown": f" {row['solution']} = {row['target']} ."} for row in rows[:1200]]
    return {"train": train, "validation": rows[1200:1400], "test": rows[1400:]}


def prompt(row: dict) -> str:
    return row["id"] + row["shown"]

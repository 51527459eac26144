"""Reads the logs of other tools into rows of metrics.jsonl.

metrics = read_trl(Path("trainer_state.json"))      # the log_history of transformers' Trainer, and so of TRL
metrics = read_wandb(Path("export.csv"))            # a table of W&B's web page or of run.history()
guess_algo(metrics)                                 # "grpo"
"""

import csv
import math
from pathlib import Path
from typing import Any

from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.load import read_file, read_json

STEPS = ("step", "global_step", "trainer/global_step", "_step", "Step")
BOUNDS = ("__MIN", "__MAX")
"""End the names of columns that W&B's page adds to those of a series."""
OWNERS = {
    "ppo": ("ppo/value_loss", "ppo/kl"),
    "grpo": ("frac_reward_zero_std", "reward_std", "reward"),
    "dpo": ("rewards/margins", "logps/chosen"),
    "reward_model": ("margin", "mean_reward"),
}
"""Series by which an algorithm is known, the first that matches; without any of them a log with a loss is of sft."""
NAMES = {
    "objective/kl": "ppo/kl",
    "objective/entropy": "entropy",
    "objective/scores": "reward",
    "loss/value_avg": "ppo/value_loss",
    "policy/clipfrac_avg": "ppo/clip_fraction",
    "val/ratio": "ratio/mean",
    "completion_length": "completions/mean_length",
}
"""Of older versions of TRL."""


def read_trl(path: Path) -> list[dict[str, Any]]:
    """The rows of trainer_state.json.

    Raises:
        ConfigError: it cannot be read or is cut off, or has no series.
    """
    rows = read_json(path).get("log_history")
    if not isinstance(rows, list):
        raise ConfigError([f"{path}: no list log_history in it; expected transformers' trainer_state.json"])
    return _clean(path, [row for row in rows if isinstance(row, dict)])


def read_wandb(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV; the column of a single run's series may be `NAME - SERIES`."""
    return _clean(path, read_file(path, lambda text: list(csv.DictReader(text.splitlines())), list))


def guess_algo(metrics: list[dict[str, Any]]) -> str:
    names = {name for row in metrics for name in row}
    return next((algo for algo, series in OWNERS.items() if names & {*series}), "sft")


def _clean(path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a step and numbers, under our names, one per step; those of an evaluation or of the end left out."""
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        named = {_name(key): _read_number(value) for key, value in row.items() if key and not key.endswith(BOUNDS)}
        numbers = {key: number for key, number in named.items() if number is not None}
        step = next((numbers[key] for key in STEPS if math.isfinite(numbers.get(key, math.nan))), None)
        if step is not None:
            found.setdefault(int(step), {}).update(numbers | {"step": int(step)})
    if not {name for row in found.values() for name in row} - {*STEPS, "epoch"}:
        raise ConfigError([f"{path}: no row with a step and a number; a step is one of {', '.join(STEPS)}"])
    return [row for _, row in sorted(found.items())]


def _name(key: str) -> str:
    name = key.rpartition(" - ")[2].removeprefix("train/")
    return NAMES.get(name, name)


def _read_number(value: Any) -> float | None:
    try:
        return None if value in (None, "") or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None

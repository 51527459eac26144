"""Reads the logs of other tools into rows of metrics.jsonl and a config, and words remedies as arguments of TRL.

metrics, args = read_trl(Path("trainer_state.json"))    # the log_history of transformers' Trainer, and so of TRL
metrics, args = read_wandb(Path("export.csv"))          # a table of W&B's web page or of run.history()
config = make_config(metrics, args, beta=0.1)           # {"algo": {"name": "grpo", "args": {...}}, "foreign": True}
name_argument("algo.args.learning_rate=1e-05", config)  # "learning_rate=1e-05"
"""

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.keys import name_key
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.files import read_text
from rlhf_exp.runs.records import MetricRows, read
from rlhf_exp.runs.settings import PlainConfig, read_number

Log = tuple[MetricRows, Mapping[str, float]]
"""Rows of metrics.jsonl, and the arguments that the log tells beside them."""

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
SAVED = {"max_steps": "max_steps", "num_train_epochs": "num_train_epochs",
         "train_batch_size": "per_device_train_batch_size"}  # fmt: skip
"""Arguments that trainer_state.json holds, by its names."""
PPO = {
    "algo.args.init_kl_coef": "kl_coef", "algo.args.vf_coef": "vf_coef", "algo.args.lam": "lam",
    "algo.args.cliprange_value": "cliprange_value", "algo.args.learning_rate": "learning_rate",
    "algo.args.epsilon": "cliprange", "algo.args.num_iterations": "num_ppo_epochs",
}  # fmt: skip
"""The arguments of TRL's PPOConfig, by our keys."""
UNTOLD = ("learning_rate", "beta", "init_kl_coef", "num_generations")
"""Arguments whose remedies depend on the present value, which a log may not tell."""


def find_state(path: Path) -> Path:
    """The trainer_state.json of a folder, or else of its newest checkpoint; any other path as it is."""
    steps = {int(step): file for file in path.glob("checkpoint-*/trainer_state.json")
             if (step := file.parent.name.rpartition("-")[2]).isdecimal()}  # fmt: skip
    if not path.is_dir():
        return path
    if (file := path / "trainer_state.json").is_file():
        return file
    if not steps:
        raise ConfigError([f"{path}: no trainer_state.json in it, nor in a checkpoint-STEP of it"])
    return steps[max(steps)]


def read_trl(path: Path) -> Log:
    """trainer_state.json.

    Raises:
        ConfigError: it cannot be read or is cut off, or has no series.
    """
    state = read(path, dict)
    rows = state.get("log_history")
    if not isinstance(rows, list):
        raise ConfigError([f"{path}: no list log_history in it; expected transformers' trainer_state.json"])
    known = {SAVED[key]: value for key, value in state.items() if key in SAVED and type(value) is int and value > 0}
    return _clean(path, [row for row in rows if isinstance(row, dict)]), known


def read_wandb(path: Path) -> Log:
    """The rows of a CSV; the column of a single run's series may be `NAME - SERIES`."""
    return _clean(path, list(csv.DictReader(read_text(path).splitlines()))), {}


def guess_algo(metrics: MetricRows) -> str:
    names = {name for row in metrics for name in row}
    if {"kl", "rewards/chosen"} <= names:
        return "kto"
    return next((algo for algo, series in OWNERS.items() if names & {*series}), "sft")


def make_config(
    metrics: MetricRows, told: Mapping[str, float], beta: float | None = None, learning_rate: float | None = None
) -> PlainConfig:
    """What is known of the run's config: what its log tells, or else the user.

    Args:
        beta: the price of the KL, which PPOConfig calls kl_coef.
    """
    algo = guess_algo(metrics)
    row, highest = ALGORITHMS[algo], _find_highest(metrics)
    if row.compares_groups and beta is None and "kl" not in highest:
        beta = 0.0  # TRL logs the KL with any other one
    rate = learning_rate or highest.get("learning_rate")
    args = {**told, "learning_rate": rate} if rate else {**told}
    config: PlainConfig = {"algo": {"name": algo, "args": args}, "foreign": True, "max_tokens": 0}
    if beta is not None and row.kl_price:
        args[row.kl_price.rpartition(".")[2]] = beta
    if highest.get("completions/clipped_ratio"):
        config["max_tokens"] = int(highest.get("completions/max_length", 0))
    return config


def _find_highest(metrics: MetricRows) -> dict[str, float]:
    """The largest value of each series."""
    found: dict[str, float] = {}
    for name, value in (point for row in metrics for point in row.items()):
        found[name] = max(value, found.get(name, value))
    return found


def name_class(config: Mapping[str, Any]) -> str:
    """The class of TRL's arguments."""
    return ALGORITHMS[config["algo"]["name"]].config_class.rpartition(":")[2]


def list_unknown(config: Mapping[str, Any]) -> list[str]:
    """The flags for what the log does not tell."""
    price = ALGORITHMS[config["algo"]["name"]].kl_price
    known = config["algo"]["args"]
    flags = {"--learning-rate": "learning_rate", "--beta": price and price.rpartition(".")[2]}
    return [flag for flag, name in flags.items() if name and name not in known]


def name_argument(override: str, config: Mapping[str, Any]) -> str | None:
    """A remedy as an argument of TRL's config class: `learning_rate=1e-05`, or `a lower learning_rate` where the log
    does not tell the present one; None if TRL has no such argument."""
    key, _, text = override.partition("=")
    key, algo = name_key(key), config["algo"]
    name, known = key.rpartition(".")[2], load_arguments(algo["name"])
    if algo["name"] == "ppo":
        argument = PPO.get(key)
    elif key == "max_tokens":
        argument = "max_completion_length"
    else:
        argument = name if key == f"algo.args.{name}" else None
    if argument is None or algo["name"] != "ppo" and argument not in known:
        return None
    if name not in UNTOLD or name in algo["args"] | algo:
        return f"{argument}={text}"
    return f"a {'higher' if float(text) > known[name].default else 'lower'} {argument}"


def _clean(path: Path, rows: MetricRows) -> MetricRows:
    """Rows of a step and numbers, under our names, one per step; those of an evaluation or of the end left out."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        named = {_name(key): read_number(value) for key, value in row.items() if key and not key.endswith(BOUNDS)}
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

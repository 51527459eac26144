"""Rewards: pure graders, one file a kind, and the functions that TRL calls.

    functions = build_rewards(cfg, task)    # in the order of cfg.reward.weights

A reward function has TRL's signature, (prompts, completions, the row's columns, ...) -> one float a completion, and is
named as its weight in `conf/reward/`; TRL logs it as `rewards/<name>/mean`. `score_completions` gives the same
numbers to the evaluation.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlhf_exp.config import Config
    from rlhf_exp.tasks import Row, Task

RewardFunction = Callable[..., list[float]]


def build_rewards(cfg: "Config", task: "Task") -> list[RewardFunction]:
    """Build every reward that `cfg.reward.weights` names; each lives in `rlhf_exp.rewards.<name>`."""
    return [import_module(f"rlhf_exp.rewards.{name}").build(cfg, task) for name in cfg.reward.weights]


def score_completions(
    functions: list[RewardFunction], rows: list["Row"], completions: list[str]
) -> list[dict[str, float]]:
    """Score completions outside training: for each, every reward component by name."""
    columns: dict[str, list[Any]] = {key: [row[key] for row in rows] for key in rows[0] if key != "prompt"}
    prompts = [row["prompt"] for row in rows]
    scores = {f.__name__: f(prompts=prompts, completions=completions, **columns) for f in functions}
    return [{name: values[i] for name, values in scores.items()} for i in range(len(rows))]


def read_text(completion: str | list[dict[str, str]]) -> str:
    """The text of a completion, which TRL passes as a string or, for chat prompts, as a list of messages."""
    return completion if isinstance(completion, str) else "".join(message["content"] for message in completion)

"""Rewards: the functions that TRL calls: of the package (table.py), of a user (functions.py), of a model (model.py).

    functions = build_rewards(cfg, task)    # in the order of cfg.reward.weights

A reward function has TRL's signature, (prompts, completions, completion_ids, the row's columns, ...) -> one float per
completion, and the name of its weight in `conf/reward/`; TRL logs it as `rewards/<name>/mean`. `score_completions`
computes the same numbers for the evaluation. The policy's reward is their weighted sum; a reward with weight 0 is only
measured.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rlhf_exp.graders import GRADES, Grade

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Row, Task

RewardFunction = Callable[..., list[float]]


def build_rewards(cfg: "Config", task: "Task") -> list[RewardFunction]:
    """Build every reward that `cfg.reward.weights` names: one of `cfg.reward.functions`, or of the package.

    Raises:
        ConfigError: a reward model or a user's function that cannot be used.
    """
    from rlhf_exp.rewards.functions import load_function
    from rlhf_exp.rewards.model import load_model_reward
    from rlhf_exp.rewards.table import REWARDS

    built: list[RewardFunction] = []
    for name in cfg.reward.weights:
        if name in cfg.reward.functions:
            built.append(load_function(name, cfg.reward.functions[name], task))
        elif (reward := REWARDS[name].function) is None:
            built.append(load_model_reward(cfg, task))
        else:
            function: Any = partial(reward, cfg, task)
            function.__name__ = name
            built.append(function)
    return built


def score_completions(
    functions: list[RewardFunction], rows: list["Row"], completions: list[str], completion_ids: list[list[int]],
    grades: list[Grade] | None = None,
) -> list[dict[str, float]]:  # fmt: skip
    """Score completions outside training, called as TRL would: for each, every reward component by name.

    `completion_ids` are the tokens that each was decoded from, including the end token. With the task's `grades` of the
    completions no reward grades them again.
    """
    columns: dict[str, list[Any]] = {key: [row[key] for row in rows] for key in rows[0] if key != "prompt"}
    columns["prompts"] = [row["prompt"] for row in rows]
    if grades is not None:
        columns[GRADES] = grades
    columns["completions"] = [
        text if isinstance(row["prompt"], str) else [{"role": "assistant", "content": text}]
        for row, text in zip(rows, completions, strict=True)
    ]
    scores = {f.__name__: f(completion_ids=completion_ids, **columns) for f in functions}
    return [{name: values[i] for name, values in scores.items()} for i in range(len(rows))]

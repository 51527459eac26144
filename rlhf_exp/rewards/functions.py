"""Loads a user's own reward function from a file: `reward.functions.<name>=FILE.py:FUNCTION`.

    def short(prompts, completions, **kwargs):      # in my_rewards.py
        return [1.0 if len(text) < 80 else 0.0 for text in completions]

    python -m rlhf_exp +reward.functions.short=my_rewards.py:short +reward.weights.short=0.5

It is called as TRL calls reward functions, with keywords: `prompts` and `completions` (texts, or messages for chat
prompts), `completion_ids` (token ids, including the end token), each column of the task's rows except the prompt, and
in training `trainer_state`, `log_extra` and `log_metric`. It returns one finite number per completion.
"""

import inspect
import math
from collections.abc import Callable
from functools import wraps
from numbers import Real
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.user_code import RewardError, call, import_function

if TYPE_CHECKING:
    from rlhf_exp.rewards import RewardFunction
    from rlhf_exp.tasks import Task

ALWAYS, IN_TRAINING = ("prompts", "completions", "completion_ids"), ("trainer_state", "log_extra", "log_metric")


def load_function(name: str, where: str, task: "Task") -> "RewardFunction":
    """Import FUNCTION from FILE.py, and name it `name`.

    Its values are checked at every call. A problem in the first call, before training, is refused in one line; later
    problems fail the run, whose folder is kept. An exception that it raises becomes the cause of a RewardError.

    Raises:
        ConfigError: a file that cannot be imported, no such function, or one with another signature.
    """
    key, file = f"reward.functions.{name}={where}", where.rpartition(":")[0]
    function = import_function(where, key)
    _check_signature(function, [column for column in task.eval[0] if column != "prompt"], key)
    returned_well = False

    @wraps(function)
    def reward(completions: list[Any], **columns: Any) -> list[float]:
        nonlocal returned_well
        count = len(completions)

        def read() -> list[float]:
            return _read_values(function(completions=completions, **columns), count)

        try:
            found = call(read, f"{key}, on {count} completions,", file)
        except RewardError as error:
            if returned_well or error.__cause__ is not None:
                raise RewardError(f"{key}: {error}") from error.__cause__
            raise ConfigError([f"{key}: {error}"]) from None
        returned_well = True
        return found

    reward.__name__ = name
    return reward


def _check_signature(function: Callable[..., Any], columns: list[str], key: str) -> None:
    """Refuse a function that cannot be called with what training passes by name."""
    try:
        for passed in (ALWAYS, ALWAYS + IN_TRAINING):
            inspect.signature(function).bind(**dict.fromkeys([*passed, *columns]))
    except (TypeError, ValueError) as error:  # ValueError: some functions written in C have none
        wanted = "must be a plain function of (prompts, completions, **kwargs)"
        raise ConfigError([f"{key}: cannot be called, {error}; {wanted}"]) from None


def _read_values(values: Any, count: int) -> list[float]:
    """`values` as floats: a list, a tuple, or an array or tensor of one axis; `count` of them."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, (list, tuple)):
        raise RewardError(f"returned {_describe(values)}; must be a list of numbers, one per completion")
    if len(values) != count:
        raise RewardError(f"returned {len(values)} values for {count} completions; must be one per completion")
    values = [value.item() if hasattr(value, "item") else value for value in values]
    for i, value in enumerate(values):
        if not isinstance(value, Real) or not math.isfinite(value):
            raise RewardError(f"returned {_describe(value)} for completion {i}; must be a finite number")
    return [float(value) for value in values]


def _describe(value: Any) -> str:
    return "null (None)" if value is None else f"{show(value, 40)} ({type(value).__name__})"

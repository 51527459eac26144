"""A reward of the user's own, from a file of theirs: `reward.functions.<name>=FILE.py:FUNCTION`.

    def short(prompts, completions, **kwargs):      # in my_rewards.py
        return [1.0 if len(text) < 80 else 0.0 for text in completions]

    python -m rlhf_exp +reward.functions.short=my_rewards.py:short +reward.weights.short=0.5

It is called as TRL calls its reward functions, with keywords: `prompts` and `completions` (texts, or messages for chat
prompts), `completion_ids` (token ids, the end token among them), each column of the task's rows but the prompt, and in
training `trainer_state`, `log_extra` and `log_metric`. It returns one finite number a completion.
"""

import importlib.util
import inspect
import math
import sys
from collections.abc import Callable
from functools import wraps
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.values import show, suggest
from rlhf_exp.errors import ConfigError

if TYPE_CHECKING:
    from rlhf_exp.rewards import RewardFunction
    from rlhf_exp.tasks import Task

ALWAYS = ("prompts", "completions", "completion_ids")


class RewardError(RuntimeError):
    """A user's function broke, or returned what is no reward; the message names it."""


def load_function(name: str, where: str, task: "Task") -> "RewardFunction":
    """Import FUNCTION of FILE.py, and call it `name`.

    What it returns is checked at every call. Its first call, before there is anything to lose, refuses what is wrong in
    one line; later ones fail the run, whose folder stays. What it raises travels on as the cause of a RewardError.

    Raises:
        ConfigError: a file that cannot be imported, no such function, or one that cannot be called so.
    """
    key = f"reward.functions.{name}={where}"
    function = _import(where, key)
    _check_signature(function, [*ALWAYS, *(column for column in task.eval[0] if column != "prompt")], key)
    returned_well = False

    @wraps(function)
    def reward(completions: list[Any], **columns: Any) -> list[float]:
        nonlocal returned_well
        try:
            values = function(completions=completions, **columns)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() of a reward would else end the run as if it had succeeded
            raise RewardError(f"{key}: raised {type(error).__name__}: {error}") from error
        try:
            found = _read_values(values, len(completions), key)
        except RewardError as error:
            if returned_well:
                raise
            raise ConfigError([str(error)]) from None
        returned_well = True
        return found

    reward.__name__ = name
    return reward


def _import(where: str, key: str) -> Callable[..., Any]:
    file, _, name = where.rpartition(":")
    path = Path(file).expanduser()
    spec = importlib.util.spec_from_file_location(f"user_reward_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # as a dataclass of theirs wants it
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever their file does when it is imported
        raise ConfigError([f"{key}: cannot be imported, {type(error).__name__}: {show(error, 200)}"]) from None
    function = getattr(module, name, None)
    if function is None:
        raise ConfigError([f"{key}: {path.name} has no {name}{suggest(name, vars(module))}"])
    if not callable(function):
        raise ConfigError([f"{key}: is no function but {type(function).__name__}"])
    return function


def _check_signature(function: Callable[..., Any], given: list[str], key: str) -> None:
    """Refuse what cannot be called with the keywords `given` and more."""
    wanted = f"must be a plain function of (prompts, completions, **kwargs), which may name {', '.join(given[2:])} too"
    try:
        signature = inspect.signature(function)
        signature.bind(**dict.fromkeys(given))
    except TypeError as error:
        raise ConfigError([f"{key}: takes {signature}, {error}; {wanted}"]) from None
    except ValueError:  # some of C have none
        raise ConfigError([f"{key}: has no signature; {wanted}"]) from None
    if not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        raise ConfigError([f"{key}: takes {signature}, and no **kwargs for what training passes; {wanted}"])
    if inspect.iscoroutinefunction(function):
        raise ConfigError([f"{key}: is async; {wanted}"])


def _read_values(values: Any, count: int, key: str) -> list[float]:
    """`values` as floats: a list, a tuple, or an array or tensor of one axis; `count` of them."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, (list, tuple)):
        raise RewardError(f"{key}: returned {_describe(values)}; must be a list of numbers, one a completion")
    if len(values) != count:
        raise RewardError(f"{key}: returned {len(values)} values for {count} completions; must be one a completion")
    values = [value.item() if hasattr(value, "item") else value for value in values]
    for i, value in enumerate(values):
        if not isinstance(value, Real) or not math.isfinite(value):
            raise RewardError(f"{key}: returned {_describe(value)} for completion {i}; must be a finite number")
    return [float(value) for value in values]


def _describe(value: Any) -> str:
    return "null (None)" if value is None else f"{show(value, 40)} ({type(value).__name__})"

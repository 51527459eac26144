"""Imports a file of the user's: a reward (functions.py), a checker (checkers.py) or a task (tasks/module.py).

function = import_function("my_rewards.py:short", "reward.functions.short=my_rewards.py:short")
"""

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from rlhf_exp.config.values import show, suggest
from rlhf_exp.errors import ConfigError, read_message


class RewardError(RuntimeError):
    """A user's function raised an error or returned no valid rewards; the message names the function."""


def import_function(where: str, key: str) -> Callable[..., Any]:
    """The function that `where`, FILE.py:FUNCTION, names; `key` is what the user has typed.

    Raises:
        ConfigError: a file that cannot be imported, or no such function.
    """
    file, _, name = where.rpartition(":")
    module = import_file(file, key)
    function = getattr(module, name, None)
    if function is None:
        raise ConfigError([f"{key}: {Path(file).name} has no {name}{suggest(name, vars(module))}"])
    if not callable(function):
        raise ConfigError([f"{key}: is no function but {type(function).__name__}"])
    return function


def import_file(file: str, key: str) -> ModuleType:
    """The Python file as a module.

    Raises:
        ConfigError: it cannot be imported.
    """
    path = Path(file).expanduser()
    spec = importlib.util.spec_from_file_location(f"user_reward_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses in the file need this
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the file can raise anything
        raise ConfigError([f"{key}: cannot be imported, {describe_error(error, file)}"]) from None
    return module


def describe_error(error: BaseException, file: str) -> str:
    """`KeyError in line 3: 'nope'`, of the user's file the last line that was reached; without it if none was."""
    path, steps = os.path.abspath(os.path.expanduser(file)), traceback.extract_tb(error.__traceback__)
    lines = [step.lineno for step in steps if os.path.abspath(step.filename) == path]
    place = f" in line {lines[-1]}" if lines else ""
    return f"{type(error).__name__}{place}: {show(read_message(error), 200)}"

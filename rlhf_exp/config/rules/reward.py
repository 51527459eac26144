"""Checks that the task has what each reward reads, and that a user's own function is in its file."""

import symtable
from dataclasses import fields
from pathlib import Path
from types import ModuleType

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import REWARDS, TASKS, Config
from rlhf_exp.config.values import one_of, suggest
from rlhf_exp.rewards.schema import is_readable
from rlhf_exp.tasks.schema import TaskKeys

BY_MODEL = "use reward=model reward.path=RUN_DIR, a run of algo=reward_model"


def check_reward(cfg: Config) -> list[str]:
    """Whether there is a reward if the algorithm needs one, and everything that each reward needs."""
    rewards, functions, problems = cfg.reward.weights, cfg.reward.functions, []
    for name in rewards:
        known = (*REWARDS, *functions)
        if name not in known:
            problems.append(f"reward.weights.{name}: no such reward; {one_of(name, known)}")
        elif name not in functions and not is_readable(REWARDS[name], cfg.task):
            problems.append(f"reward.weights.{name}: {_refuse_task(REWARDS[name], cfg.task)}")
        elif name not in functions and getattr(cfg.reward, name, "") is None:
            keys = ", ".join(f"reward.{name}.{item.name}" for item in fields(REWARDS[name].Keys))
            problems.append(f"reward.weights.{name}: needs its keys: {keys}")
    if ALGORITHMS[cfg.algo.name].online and not rewards:
        other = "reward=outcome, or " if cfg.task.graded else ""
        problems.append(f"algo={cfg.algo.name}: needs a reward, and reward=none has none; use {other}{BY_MODEL[4:]}")
    for name, reward in REWARDS.items():
        if hasattr(reward, "check") and getattr(cfg.reward, name, "") is not None:
            problems += reward.check(cfg)
    return problems + [line for item in functions.items() for line in _check_function(cfg, *item)]


def _refuse_task(reward: ModuleType, task: TaskKeys) -> str:
    if "grade" in reward.NEEDS and not task.graded:
        return f"task={task.name} has no right answers to grade; {BY_MODEL}"
    fitting = " or ".join(f"task={name}" for name, keys in TASKS.items() if is_readable(reward, keys))
    return f"not with task={task.name}, only with {fitting}; {'use reward=outcome' if task.graded else BY_MODEL}"


def _check_function(cfg: Config, name: str, where: str) -> list[str]:
    """Whether the file is there and binds the name, by its symbols: nothing of it is run."""
    key, (file, _, function) = f"reward.functions.{name}={where}", where.rpartition(":")
    path = Path(file).expanduser()
    if name in REWARDS:
        return [f"{key}: {name} is a reward of the package; take another name"]
    if name not in cfg.reward.weights:
        return [f"{key}: has no weight; add +reward.weights.{name}=1.0"]
    if path.suffix != ".py" or not function.isidentifier():
        return [f"{key}: must be FILE.py:FUNCTION"]
    if not path.is_file():
        return [f"{key}: no such file as {file}"]
    source = path.read_bytes()
    try:
        symbols = symtable.symtable(source, str(path), "exec").get_symbols()
    except (SyntaxError, ValueError) as error:  # which of them, for null bytes, depends on Python's version
        line = getattr(error, "lineno", None)
        return [f"{key}: is not Python, {getattr(error, 'msg', error)}{f' in line {line}' if line else ''}"]
    names = [symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()]
    if function in names or b"import *" in source:  # what a star brings, only running it can tell
        return []
    return [f"{key}: {path.name} has no {function}{suggest(function, names)}"]

"""Which rewards do not go with a task or an algorithm, and a user's own that are not where they are said to be."""

import symtable
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.algorithms import ALGORITHMS, GRADED, REWARD_TASKS, REWARDS
from rlhf_exp.config.schema import Grpo
from rlhf_exp.config.values import suggest

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config

BY_MODEL = "use reward=model reward.path=RUN_DIR, a run of algo=reward_model"


def check_reward(cfg: "Config") -> list[str]:
    """Whether there is a reward where one is needed, and what each needs."""
    weights, task, problems = cfg.reward.weights, cfg.task.name, []
    for name in weights:
        known = (*REWARDS, *cfg.reward.functions)
        if name not in known:
            allowed = f"must be one of {', '.join(known)}{suggest(name, known)}"
            problems.append(f"reward.weights.{name}: no such reward; {allowed}")
        elif name not in cfg.reward.functions and task not in REWARD_TASKS.get(name, (task,)):
            problems.append(f"reward.weights.{name}: {_refuse_task(name, task)}")
    if ALGORITHMS[cfg.algo.name].online and not weights:
        other = "" if task not in GRADED else "reward=outcome, or "
        problems.append(f"algo={cfg.algo.name}: needs a reward, and reward=none has none; use {other}{BY_MODEL[4:]}")
    if "model" in weights and cfg.reward.path is None:
        problems.append("reward=model: needs reward.path, the folder of a run of algo=reward_model, or a hub id")
    if "model" not in weights and cfg.reward.path is not None:
        problems.append(f"reward.path={cfg.reward.path}: not with these rewards; add +reward.weights.model=1.0")
    if (
        "self_consistency" in weights
        and ALGORITHMS[cfg.algo.name].online
        and cfg.algo.args.get("num_generations", 1) == 1
    ):
        problems.append(
            "reward.weights.self_consistency: compares the completions of one prompt, and num_generations is 1; use"
            " ++algo.args.num_generations=8"
        )
    cache = cfg.reward.overlong.cache
    if cache is not None and cache > cfg.max_tokens:
        problems.append(f"reward.overlong.cache={cache}: must be at most max_tokens={cfg.max_tokens}")
    elif cache is not None and isinstance(cfg.algo, Grpo) and cfg.algo.curriculum is not None:
        smallest = min(cfg.algo.curriculum.budgets, default=cache)
        if cache > smallest:
            allowed = f"must be at most {smallest}, the smallest budget of algo.curriculum.budgets"
            problems.append(f"reward.overlong.cache={cache}: {allowed}")
    return problems + [line for item in cfg.reward.functions.items() for line in _check_function(cfg, *item)]


def _refuse_task(name: str, task: str) -> str:
    if name not in REWARD_TASKS or REWARD_TASKS[name] == GRADED:
        return f"task={task} has no right answers to grade; {BY_MODEL}"
    fitting = " or ".join(f"task={fit}" for fit in REWARD_TASKS[name])
    return f"not with task={task}, only with {fitting}; {'use reward=outcome' if task in GRADED else BY_MODEL}"


def _check_function(cfg: "Config", name: str, where: str) -> list[str]:
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

"""Checks that the task has what each reward reads, and that a user's own function is in its file."""

from dataclasses import fields

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.rules.paths import refuse_function
from rlhf_exp.config.schema import TASKS, Config
from rlhf_exp.config.values import one_of
from rlhf_exp.rewards.table import REWARDS, Reward
from rlhf_exp.tasks.schema import TaskKeys

BY_MODEL = "reward=model reward.path=RUN_DIR, a run of algo=reward_model"


def check_reward(cfg: Config) -> list[str]:
    """Whether there is a reward if the algorithm needs one, and everything that each reward needs."""
    rewards, functions, problems = cfg.reward.weights, cfg.reward.functions, []
    for name in rewards:
        known = (*REWARDS, *functions)
        if name not in known:
            problems.append(f"reward.weights.{name}: no such reward; {one_of(name, known)}")
        elif name not in functions and not REWARDS[name].is_readable(cfg.task):
            problems.append(f"reward.weights.{name}: {_refuse_task(REWARDS[name], cfg.task)}")
        elif name not in functions and getattr(cfg.reward, name, "") is None:
            keys = ", ".join(f"reward.{name}.{item.name}" for item in fields(REWARDS[name].keys))
            problems.append(f"reward.weights.{name}: needs its keys: {keys}")
    if ALGORITHMS[cfg.algo.name].online and not rewards:
        problems.append(f"algo={cfg.algo.name}: needs a reward; {_list_ways(cfg.task)}")
    for name, reward in REWARDS.items():
        if reward.check is not None and getattr(cfg.reward, name, "") is not None:
            problems += reward.check(cfg)
    if cfg.reward.timeout_s is not None and not functions and not cfg.task.functions:
        own = "there is none: no reward.functions, no checker or task of your own; leave it out"
        problems.append(f"reward.timeout_s={cfg.reward.timeout_s:g}: is for functions of your own, and {own}")
    return problems + [line for item in functions.items() for line in _check_function(cfg, *item)]


def _refuse_task(reward: Reward, task: TaskKeys) -> str:
    if "grade" in reward.needs and not task.graded:
        return f"task={task.name} has no right answers to grade; {_list_ways(task)}"
    fitting = " or ".join(f"task={name}" for name, keys in TASKS.items() if reward.is_readable(keys))
    way = "use reward=outcome" if task.graded else _list_ways(task)
    return f"not with task={task.name}, only with {fitting}; {way}"


def _list_ways(task: TaskKeys) -> str:
    """What gives a task a reward."""
    if task.graded:
        first = "use reward=outcome, or"
    else:
        first = f"set {', or '.join(task.graded_by)}, or use" if task.graded_by else "use"
    return f"{first} {BY_MODEL}, or add your own: +reward.functions.NAME=FILE.py:FUNCTION +reward.weights.NAME=1"


def _check_function(cfg: Config, name: str, where: str) -> list[str]:
    key = f"reward.functions.{name}={where}"
    if name in REWARDS:
        return [f"{key}: {name} is a reward of the package; take another name"]
    if name not in cfg.reward.weights:
        return [f"{key}: has no weight; add +reward.weights.{name}=1.0"]
    return refuse_function(key, where)

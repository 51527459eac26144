"""Finds the rewards among the modules here.

A reward is a module of this package and a file in conf/reward, both named as its weight in `reward.weights`. It has

    <name>(completions, ..., **columns)    the reward function, see rewards/__init__.py; or, to read more than a row,
    build(cfg, task)                       which returns it
    NEEDS               optional, what it reads besides texts and tokens: columns of the task's rows, or "grade"
    Keys                optional, a dataclass of its own keys, which are under reward.<name>
    check(cfg)          optional, checks that keys fit together: one line per problem

Every command imports all of them, so they import ML libraries only inside functions.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from rlhf_exp.config import ROOT

if TYPE_CHECKING:
    from rlhf_exp.tasks.schema import TaskKeys


def find_rewards() -> dict[str, ModuleType]:
    """The module of each reward, by its name."""
    modules = {path.stem for path in Path(__file__).parent.glob("*.py")}
    names = sorted(path.stem for path in (ROOT / "conf" / "reward").glob("*.yaml") if path.stem in modules)
    return {name: import_module(f"rlhf_exp.rewards.{name}") for name in names}


def is_readable(reward: ModuleType, task: "TaskKeys | type[TaskKeys]") -> bool:
    """Whether the task has what the reward reads."""
    return {*getattr(reward, "NEEDS", ())} <= {*task.columns, *(["grade"] if task.graded else [])}

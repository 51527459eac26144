"""Checks a task's own keys, and that the algorithm may learn from its samples."""

from typing import TYPE_CHECKING

from rlhf_exp.algorithms import ALGO_NEEDS, PROMPTS

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config


def check_task(cfg: "Config") -> list[str]:
    """Whether a task's own keys fit each other, and the algorithm may have its samples."""
    problems = [problem for key, task in cfg.task.list_sources() for problem in task.find_problems(key)]
    samples = getattr(cfg.task, "samples", None)
    if samples is not None and ALGO_NEEDS[cfg.algo.name] == PROMPTS:
        fitting = ", ".join(algo for algo, need in ALGO_NEEDS.items() if need != PROMPTS)
        problems.append(
            f"task.samples={samples}: algo={cfg.algo.name} learns from samples of its own; allowed with {fitting}"
        )
    return problems

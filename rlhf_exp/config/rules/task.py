"""Checks a task's own keys, and that the algorithm may learn from its samples."""

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config


def check_task(cfg: Config) -> list[str]:
    """Whether a task's own keys fit together, and the algorithm can learn from its samples."""
    problems = [problem for key, task in cfg.task.list_sources() for problem in task.find_problems(key)]
    samples = getattr(cfg.task, "samples", None)
    if samples is not None and ALGORITHMS[cfg.algo.name].online:
        fitting = ", ".join(name for name, row in ALGORITHMS.items() if not row.online)
        problems.append(
            f"task.samples={samples}: algo={cfg.algo.name} learns from samples of its own; allowed with {fitting}"
        )
    return problems

"""The task's own grade as the reward: 1.0 for a correct answer, 0.1 for a wrong one, 0.0 for none.

outcome(prompts=["..."], completions=["<answer> 3 + 5 </answer>"], numbers=[[3, 5]], target=[8])    # [1.0]
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlhf_exp.rewards import RewardFunction, grade_completions

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task

NEEDS = ("grade",)


def build(cfg: "Config", task: "Task") -> RewardFunction:
    """The reward function `outcome`; in training it also logs the share of each outcome."""

    def outcome(
        prompts: list[Any],
        completions: list[Any],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float]:
        grades = grade_completions(task, prompts, completions, columns)
        if log_metric is not None:
            for kind in ("correct", "partial", "failed"):
                log_metric(f"outcome/{kind}", sum(g.outcome == kind for g in grades) / len(grades))
        return [grade.score for grade in grades]

    return outcome

"""The task's grade, minus up to a fifth of it for length: `r * (0.8 + 0.2 * min(1, 200 / tokens))`.

    length_efficiency(completions=[...], completion_ids=[[5] * 400], ...)    # [0.9] where the grade is 1.0

`r` is the grade's score, `tokens` the completion's tokens including the end token; the 200 is
`reward.length_efficiency.tokens`. Only a longer completion loses anything. With a budget that is not larger the reward
equals the outcome, and a warning says so.
"""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.ranges import TOKENS, within
from rlhf_exp.rewards import RewardFunction, grade_completions

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task

NEEDS = ("grade",)


@dataclass(frozen=True)
class Keys:
    tokens: int = within(TOKENS)


def build(cfg: "Config", task: "Task") -> RewardFunction:
    most = cfg.reward.length_efficiency.tokens
    if cfg.max_tokens <= most:
        warnings.warn(
            f"reward=length_efficiency: no completion of max_tokens={cfg.max_tokens} is longer than"
            f" reward.length_efficiency.tokens={most}, so it is the grade's score",
            stacklevel=2,
        )

    def length_efficiency(
        prompts: list[Any], completions: list[Any], completion_ids: list[list[int]], **columns: Any
    ) -> list[float]:
        grades = grade_completions(task, prompts, completions, columns)
        shares = [min(1.0, most / max(len(ids), 1)) for ids in completion_ids]
        return [grade.score * (0.8 + 0.2 * share) for grade, share in zip(grades, shares, strict=True)]

    return length_efficiency

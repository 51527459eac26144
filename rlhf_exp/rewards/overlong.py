"""A penalty that grows over the last tokens of the budget, from 0 to -1: TRL's get_soft_overlong_punishment.

    overlong(completion_ids=[[5] * 96])    # [-1.0] with max_tokens=96

The budget is `max_tokens`, or in training with a curriculum the stage's budget, by the step in TRL's `trainer_state`.
The penalty begins `reward.overlong.cache` tokens before it; null means a fifth of the budget, DAPO's share (4,096 of
20,480; Yu et al. 2025, arXiv:2503.14476, equation 13). The end token counts: a completion that fills the budget scores
-1, whether it ends there or was cut off.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.ranges import TOKENS, within
from rlhf_exp.rewards import RewardFunction

if TYPE_CHECKING:
    from transformers import TrainerState

    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task


@dataclass(frozen=True)
class Keys:
    cache: int | None = within(TOKENS)


def check(cfg: "Config") -> list[str]:
    """Whether the penalty begins within every budget."""
    cache = cfg.reward.overlong.cache
    if cache is not None and cache > cfg.max_tokens:
        return [f"reward.overlong.cache={cache}: must be at most max_tokens={cfg.max_tokens}"]
    if cache is not None and (curriculum := getattr(cfg.algo, "curriculum", None)):
        smallest = min(curriculum.budgets, default=cache)
        if cache > smallest:
            allowed = f"must be at most {smallest}, the smallest budget of algo.curriculum.budgets"
            return [f"reward.overlong.cache={cache}: {allowed}"]
    return []


def build(cfg: "Config", task: "Task") -> RewardFunction:
    from trl.rewards import get_soft_overlong_punishment

    curriculum = getattr(cfg.algo, "curriculum", None)

    def overlong(
        completion_ids: list[list[int]], trainer_state: "TrainerState | None" = None, **columns: Any
    ) -> list[float]:
        in_stage = curriculum is not None and curriculum.budgets and trainer_state is not None
        budget = curriculum.budget_at(trainer_state.global_step) if in_stage else cfg.max_tokens
        return get_soft_overlong_punishment(budget, cfg.reward.overlong.cache or max(1, budget // 5))(completion_ids)

    return overlong

"""A penalty that grows over the last tokens of the budget, from 0 to -1: TRL's get_soft_overlong_punishment.

    overlong(completion_ids=[[5] * 96])    # [-1.0] with max_tokens=96

The budget is `max_tokens`, under a curriculum too. The penalty begins `reward.overlong.cache` tokens before it; null
takes a fifth of the budget, DAPO's share (4,096 of 20,480; Yu et al. 2025, arXiv:2503.14476, equation 13). The end
token counts: a completion that fills the budget scores -1 whether it ends there or was cut off.
"""

from typing import TYPE_CHECKING, Any

from trl.rewards import get_soft_overlong_punishment

from rlhf_exp.rewards import RewardFunction

if TYPE_CHECKING:
    from rlhf_exp.config import Config
    from rlhf_exp.tasks import Task


def build(cfg: "Config", task: "Task") -> RewardFunction:
    """The reward function `overlong`."""
    punish = get_soft_overlong_punishment(cfg.max_tokens, cfg.reward.overlong.cache or max(1, cfg.max_tokens // 5))

    def overlong(completion_ids: list[list[int]], **columns: Any) -> list[float]:
        return punish(completion_ids)

    return overlong

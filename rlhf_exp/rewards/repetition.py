"""A penalty for repeated n-grams of tokens: TRL's get_repetition_penalty_reward.

    repetition(completion_ids=[[5, 5, 5, 5, 5]])    # [-0.67]: of three 3-grams, two repeat

`reward.repetition.max_penalty` times the share of the completion's n-grams that occurred before in it, over token ids,
including the end token (Yeo et al. 2025, arXiv:2502.03373, appendix C.2). A search over arithmetic always repeats
parts: look at the start model's own penalty in samples.jsonl before choosing a weight.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlhf_exp.config.ranges import within
from rlhf_exp.rewards import RewardFunction

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task


@dataclass(frozen=True)
class Keys:
    ngram_size: int = within(">= 1, <= 1000")
    max_penalty: float = within(">= -1000, <= 0")


def build(cfg: "Config", task: "Task") -> RewardFunction:
    from trl.rewards import get_repetition_penalty_reward

    repetition = get_repetition_penalty_reward(cfg.reward.repetition.ngram_size, cfg.reward.repetition.max_penalty)
    repetition.__name__ = "repetition"
    return repetition

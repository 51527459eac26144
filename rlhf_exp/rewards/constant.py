"""A control without information: `reward.constant.value` for every completion.

    constant(completions=["a", "b"])    # [1.0, 1.0]

Advantages within a group are 0, so what a policy still learns comes from the other terms of the loss, such as the KL
penalty.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.ranges import within
from rlhf_exp.rewards import RewardFunction

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task


@dataclass(frozen=True)
class Keys:
    value: float = within(">= -1000, <= 1000")


def build(cfg: "Config", task: "Task") -> RewardFunction:
    def constant(completions: list[Any], **columns: Any) -> list[float]:
        return [float(cfg.reward.constant.value)] * len(completions)

    return constant

"""Whether a completion begins with `<think> ... </think>`, 1.0 or 0.0: TRL's think_format_reward, for plain text too.

    think_format(completions=["<think> 8 * 7 = 56 </think> <answer> ..."])    # [1.0]

TRL's own function accepts only messages. A plain completion is read without the white space between it and its prompt,
which byte-level tokenizers keep in decoding and word-level ones lose. A completion whose `<think>` is in the prompt, as
some chat templates write it, scores 0.
"""

from typing import TYPE_CHECKING, Any

from rlhf_exp.rewards import RewardFunction

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task


def build(cfg: "Config", task: "Task") -> RewardFunction:
    """The reward function `think_format`."""
    from trl.rewards import think_format_reward

    def think_format(completions: list[Any], **columns: Any) -> list[float]:
        return think_format_reward([[{"content": c.lstrip()}] if isinstance(c, str) else c for c in completions])

    return think_format

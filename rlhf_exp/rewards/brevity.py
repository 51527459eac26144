"""Rewards short completions: 2 minus a sixteenth of the words, a reward that is known in closed form.

    brevity(prompts=["Hi"], completions=["one two three four"])    # [1.75]

Words are separated by white space. The maximum is 2.0, for a completion without words; 32 words earn 0.
"""

from typing import TYPE_CHECKING, Any

from rlhf_exp.rewards import RewardFunction, read_text

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task


def build(cfg: "Config", task: "Task") -> RewardFunction:
    """The reward function `brevity`; it needs no grader, so it works with any task."""

    def brevity(prompts: list[Any], completions: list[Any], **_: Any) -> list[float]:
        return [2 - len(read_text(completion).split()) / 16 for completion in completions]

    return brevity

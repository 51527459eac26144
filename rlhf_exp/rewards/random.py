"""A control without information: a random number in [0, 1) for seed, prompt and completion (Shao et al. 2025,
arXiv:2506.10947).

    random(prompts=["p", "p"], completions=["a", "b"])    # two numbers, always the same ones

The number is uniform, by a hash, and the same in training, in the evaluation and after resuming. It is a fixed function
of the text: a policy can memorize it for prompts that are repeated, but for new prompts there is nothing to learn.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.ranges import SEED, within
from rlhf_exp.graders import read_text
from rlhf_exp.rewards import RewardFunction

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task


@dataclass(frozen=True)
class Keys:
    seed: int | None = within(SEED)


def draw(seed: int, prompt: Any, completion: str) -> float:
    """48 bits of the SHA-256 of all three, as a fraction."""
    digest = hashlib.sha256(json.dumps([seed, prompt, completion]).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def build(cfg: "Config", task: "Task") -> RewardFunction:
    """The reward function `random`, from `cfg.reward.random.seed`, or the run's own."""
    seed = cfg.seed if cfg.reward.random.seed is None else cfg.reward.random.seed

    def random(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        pairs = zip(prompts, completions, strict=True)
        return [draw(seed, prompt, read_text(completion)) for prompt, completion in pairs]

    return random

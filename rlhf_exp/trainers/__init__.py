"""TRL trainers, one file an algorithm, named as in `algo=`: `build(parts) -> a TRL trainer`."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback, TrainingArguments

    from rlhf_exp.config import Config
    from rlhf_exp.rewards import RewardFunction
    from rlhf_exp.tasks import Task


@dataclass
class Parts:
    """What a trainer is built from. The policy is a path: TRL loads it, and its reference, by itself."""

    cfg: "Config"
    args: "TrainingArguments"
    model_path: str
    tokenizer: "PreTrainedTokenizerBase"
    task: "Task"
    rewards: "list[RewardFunction]"
    callbacks: "list[TrainerCallback]"


def build_trainer(parts: Parts) -> "Trainer":
    """Build the trainer of `algo=`."""
    module: Any = import_module(f"rlhf_exp.trainers.{parts.cfg.algo.name}")
    return module.build(parts)

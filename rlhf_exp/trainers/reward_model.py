"""A reward model from preference pairs, by TRL's RewardTrainer, untouched."""

from trl import RewardTrainer

from rlhf_exp.trainers import Parts, select_columns
from rlhf_exp.trainers.resuming import Resumable


class ResumableRewardTrainer(Resumable, RewardTrainer):
    """TRL's, which resumes exactly."""


def build(parts: Parts) -> RewardTrainer:
    """Build the trainer on preference pairs."""
    return ResumableRewardTrainer(
        model=parts.model_path,
        args=parts.args,
        train_dataset=select_columns(parts.task.train, "prompt", "chosen", "rejected"),
        processing_class=parts.tokenizer,
        peft_config=parts.peft_config,
    )

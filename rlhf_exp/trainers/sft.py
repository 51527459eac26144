"""Supervised fine-tuning on demonstrations, by TRL's SFTTrainer; the loss is on the completion only."""

from trl import SFTTrainer

from rlhf_exp.trainers import Parts, select_columns
from rlhf_exp.trainers.resuming import Resumable


class ResumableSFTTrainer(Resumable, SFTTrainer):
    """TRL's, which resumes exactly."""


def build(parts: Parts) -> SFTTrainer:
    """Build the trainer on rows of `prompt` and `completion`."""
    return ResumableSFTTrainer(
        model=parts.model_path,
        args=parts.args,
        train_dataset=select_columns(parts.task.train, "prompt", "completion"),
        processing_class=parts.tokenizer,
        peft_config=parts.peft_config,
    )

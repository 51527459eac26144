"""Supervised fine-tuning on demonstrations, by TRL's SFTTrainer; the loss is on the completion only."""

from datasets import Dataset
from trl import SFTTrainer

from rlhf_exp.trainers import Parts


def build(parts: Parts) -> SFTTrainer:
    """Build the trainer on rows of `prompt` and `completion`."""
    return SFTTrainer(
        model=parts.model_path,
        args=parts.args,
        train_dataset=Dataset.from_list(parts.task.train),
        processing_class=parts.tokenizer,
        callbacks=parts.callbacks,
    )

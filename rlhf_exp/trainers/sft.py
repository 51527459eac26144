"""Supervised fine-tuning on demonstrations, by TRL's SFTTrainer; the loss is on the completion only."""

from trl import SFTTrainer

from rlhf_exp.experiment import Experiment
from rlhf_exp.models.adapters import build_peft_config
from rlhf_exp.trainers import select_columns
from rlhf_exp.trainers.resuming import Resumable


class ResumableSFTTrainer(Resumable, SFTTrainer):
    """TRL's, which resumes exactly."""


def build(experiment: Experiment) -> SFTTrainer:
    """Build the trainer on rows of `prompt` and `completion`."""
    return ResumableSFTTrainer(
        model=experiment.model_path,
        args=experiment.args,
        train_dataset=select_columns(experiment.task.train, "prompt", "completion"),
        processing_class=experiment.tokenizer,
        peft_config=build_peft_config(experiment.cfg),
    )

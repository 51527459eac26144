"""A reward model from preference pairs, by TRL's RewardTrainer, untouched."""

from trl import RewardTrainer

from rlhf_exp.experiment import Experiment
from rlhf_exp.models.adapters import build_peft_config
from rlhf_exp.trainers import select_columns
from rlhf_exp.trainers.resuming import Resumable


class ResumableRewardTrainer(Resumable, RewardTrainer):
    """TRL's, which resumes exactly."""


def build(experiment: Experiment) -> RewardTrainer:
    """Build the trainer on preference pairs."""
    return ResumableRewardTrainer(
        model=experiment.model_path,
        args=experiment.args,
        train_dataset=select_columns(experiment.task.train, "prompt", "chosen", "rejected"),
        processing_class=experiment.tokenizer,
        peft_config=build_peft_config(experiment.cfg),
    )

"""Direct preference optimization (Rafailov et al. 2023, arXiv:2305.18290), by TRL's DPOTrainer, untouched.

The reference is the start model, or with adapters the base with them switched off.
"""

from trl import DPOTrainer

from rlhf_exp.experiment import Experiment
from rlhf_exp.models.adapters import build_peft_config
from rlhf_exp.trainers import select_columns
from rlhf_exp.trainers.resuming import Resumable


class ResumableDPOTrainer(Resumable, DPOTrainer):
    """TRL's, which resumes exactly."""


def build(experiment: Experiment) -> DPOTrainer:
    """Build the trainer on preference pairs."""
    return ResumableDPOTrainer(
        model=experiment.model_path,
        args=experiment.args,
        train_dataset=select_columns(experiment.task.train, "prompt", "chosen", "rejected"),
        processing_class=experiment.tokenizer,
        peft_config=build_peft_config(experiment.cfg),
    )

"""Direct preference optimization (Rafailov et al. 2023, arXiv:2305.18290), by TRL's DPOTrainer, untouched.

The reference is the start model, or with adapters the base with them switched off.
"""

from trl import DPOTrainer

from rlhf_exp.trainers import Parts, select_columns
from rlhf_exp.trainers.resuming import Resumable


class ResumableDPOTrainer(Resumable, DPOTrainer):
    """TRL's, which resumes exactly."""


def build(parts: Parts) -> DPOTrainer:
    """Build the trainer on preference pairs."""
    return ResumableDPOTrainer(
        model=parts.model_path,
        args=parts.args,
        train_dataset=select_columns(parts.task.train, "prompt", "chosen", "rejected"),
        processing_class=parts.tokenizer,
        peft_config=parts.peft_config,
    )

"""GRPO (Shao et al. 2024, arXiv:2402.03300) and its loss types, by TRL's GRPOTrainer, untouched."""

import os

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental: a contract test watches it

from datasets import Dataset
from trl import GRPOTrainer

from rlhf_exp.generation import build_rollout
from rlhf_exp.trainers import Parts


def build(parts: Parts) -> GRPOTrainer:
    """Build the trainer; sampling is ours where `generation=` resolves to compact."""
    return GRPOTrainer(
        model=parts.model_path,
        reward_funcs=parts.rewards,
        args=parts.args,
        train_dataset=Dataset.from_list(parts.task.train),
        processing_class=parts.tokenizer,
        peft_config=parts.peft_config,
        rollout_func=build_rollout(parts.cfg),
    )

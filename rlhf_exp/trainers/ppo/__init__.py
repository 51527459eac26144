"""PPO: ours, on the seam that TRL's GRPOTrainer keeps for subclasses (trainer.py), with its parts beside it:
advantages.py (rewards per token, GAE), critic.py, kl_controller.py, config.py."""

import os

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental: a contract test watches it

from datasets import Dataset

from rlhf_exp.generation import build_rollout
from rlhf_exp.trainers import Parts
from rlhf_exp.trainers.ppo.trainer import PPOTrainer


def build(parts: Parts) -> PPOTrainer:
    """Build the trainer; sampling is ours where `generation=` resolves to compact."""
    return PPOTrainer(
        model=parts.model_path,
        reward_funcs=parts.rewards,
        args=parts.args,
        train_dataset=Dataset.from_list(parts.task.train),
        processing_class=parts.tokenizer,
        peft_config=parts.peft_config,
        rollout_func=build_rollout(parts.cfg),
    )

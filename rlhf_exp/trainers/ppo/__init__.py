"""PPO: ours, on the seam that TRL's GRPOTrainer keeps for subclasses (trainer.py), with its parts beside it:
advantages.py (rewards per token, GAE), critic.py, kl_controller.py, config.py."""

from rlhf_exp.trainers import Parts, list_arguments
from rlhf_exp.trainers.ppo.trainer import PPOTrainer


def build(parts: Parts) -> PPOTrainer:
    """Build the trainer; its own settings are in `parts.args`, a PPOConfig."""
    return PPOTrainer(**list_arguments(parts))

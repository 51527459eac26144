"""PPO: ours, on the seam that TRL's GRPOTrainer keeps for subclasses (trainer.py), with its parts beside it:
advantages.py (rewards per token, GAE), critic.py, kl_controller.py, config.py."""

from rlhf_exp.experiment import Experiment
from rlhf_exp.trainers import list_arguments
from rlhf_exp.trainers.ppo.trainer import PPOTrainer


def build(experiment: Experiment) -> PPOTrainer:
    """Build the trainer; its own settings are in `experiment.args`, a PPOConfig."""
    return PPOTrainer(**list_arguments(experiment))

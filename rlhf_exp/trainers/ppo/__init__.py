"""PPO as a subclass of TRL's GRPOTrainer: trainer.py (rollouts and loss), actor_critic.py (the critic's part in
training and saving), advantages.py (rewards per token, GAE), critic.py, kl.py (exact KL and its price), config.py."""

from rlhf_exp.experiment import Experiment
from rlhf_exp.trainers import list_arguments
from rlhf_exp.trainers.ppo.trainer import PPOTrainer


def build(experiment: Experiment) -> PPOTrainer:
    """Build the trainer; its own settings are in `experiment.args`, a PPOConfig."""
    return PPOTrainer(**list_arguments(experiment))

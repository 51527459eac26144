"""RLOO that learns only from completions that are better than the others of their prompt.

The class is derived from the package's trainer of algo=rloo (rlhf_exp/algorithms.py), whose arguments it gets.
"""

from rlhf_exp.trainers.rloo import ResumableRLOOTrainer


class PositiveRLOOTrainer(ResumableRLOOTrainer):
    def finish_rollout(self, batch):
        batch = super().finish_rollout(batch)
        batch["advantages"] = batch["advantages"].clamp(min=0)
        return batch

"""GRPO (Shao et al. 2024, arXiv:2402.03300), its loss types and variants, by TRL's GRPOTrainer.

trainer = build(experiment)

TRL's own arguments do the KL penalty (`beta`), the entropy bonus (`entropy_coef`, or adaptive: `use_adaptive_entropy`),
the masking of truncated completions (`mask_truncated_completions`) and two-sided clipping (`delta`). Three variants are
added in trainer.py: a hybrid of two losses (hybrid.py), a limit on advantages, and a rising budget.
"""

from rlhf_exp.experiment import Experiment
from rlhf_exp.trainers import list_arguments
from rlhf_exp.trainers.grpo.trainer import VariantGRPOTrainer


def build(experiment: Experiment) -> VariantGRPOTrainer:
    """Build the trainer."""
    return VariantGRPOTrainer(**list_arguments(experiment), keys=experiment.cfg.algo)

"""GRPO (Shao et al. 2024, arXiv:2402.03300), its loss types and variants, by TRL's GRPOTrainer.

trainer = build(parts)

TRL's own arguments do the KL penalty (`beta`), the entropy bonus (`entropy_coef`, or adaptive: `use_adaptive_entropy`),
the masking of truncated completions (`mask_truncated_completions`) and two-sided clipping (`delta`). What it lacks is
here, a file each: hybrid.py, clipping.py, curriculum.py, and trainer.py, which applies them to TRL's batches.
"""

import os

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental: a contract test watches it

from datasets import Dataset

from rlhf_exp.generation import build_rollout
from rlhf_exp.trainers import Parts
from rlhf_exp.trainers.grpo.trainer import VariantGRPOTrainer


def build(parts: Parts) -> VariantGRPOTrainer:
    """Build the trainer; sampling is ours where `generation=` resolves to compact."""
    algo = parts.cfg.algo
    rises = algo.curriculum is not None and algo.curriculum.budgets
    return VariantGRPOTrainer(
        model=parts.model_path,
        reward_funcs=parts.rewards,
        args=parts.args,
        train_dataset=Dataset.from_list(parts.task.train),
        processing_class=parts.tokenizer,
        peft_config=parts.peft_config,
        rollout_func=build_rollout(parts.cfg),
        alpha=algo.hybrid.alpha,
        advantage_clip=algo.advantage_clip,
        curriculum=algo.curriculum if rises else None,
    )

"""TRL's GRPOTrainer, with the variants of this package applied to each rollout.

trainer = VariantGRPOTrainer(model=..., reward_funcs=..., args=..., alpha=None, advantage_clip=2.0, curriculum=None)

A rollout is scored as a whole and split into minibatches afterwards, so a change of its advantages here does not depend
on gradient accumulation. tests/trainers/grpo/test_seam.py checks what this relies on in TRL.
"""

from typing import TYPE_CHECKING, Any

import torch
from trl import GRPOTrainer

from rlhf_exp.trainers.grpo.curriculum import set_budget
from rlhf_exp.trainers.grpo.hybrid import choose_alpha, length_weights
from rlhf_exp.trainers.resuming import ResumableRollouts

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Curriculum


class VariantGRPOTrainer(ResumableRollouts, GRPOTrainer):
    """GRPOTrainer with loss_type=hybrid, advantage clipping and a curriculum over the budget; each is off by default.

    Logged for each that is on: `completions/budget` (tokens), `advantages/clipped_ratio` (share of the rollout's
    completions), `hybrid/alpha` (the share of grpo).
    """

    def __init__(
        self,
        *args: Any,
        alpha: float | None = None,
        advantage_clip: float | None = None,
        curriculum: "Curriculum | None" = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._alpha, self._advantage_clip, self._curriculum = alpha, advantage_clip, curriculum
        self._is_hybrid = self.loss_type == "hybrid"
        if self._is_hybrid:
            self.loss_type = "grpo"  # weighted advantages make it the hybrid loss; `args` keep the name

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        mode = "train" if self.model.training else "eval"
        metrics = self._metrics[mode]
        if self._curriculum is not None and mode == "train":
            set_budget(self, self._curriculum.budget_at(self.state.global_step))
            metrics["completions/budget"].append(self.max_completion_length)
        batch = super()._generate_and_score_completions(inputs)
        if self._advantage_clip is not None:
            batch["advantages"], outside = clip_advantages(batch["advantages"], self._advantage_clip)
            metrics["advantages/clipped_ratio"].append(outside)
        if self._is_hybrid:
            alpha = choose_alpha(self._alpha, self.max_completion_length)
            lengths = batch["completion_mask"].sum(1)
            batch["advantages"] = batch["advantages"] * length_weights(lengths, alpha, self.max_completion_length)
            metrics["hybrid/alpha"].append(alpha)
        return batch


def clip_advantages(advantages: torch.Tensor, limit: float) -> tuple[torch.Tensor, float]:
    """Advantages of any shape, clamped to [-limit, limit], and the share of them that were outside, in [0, 1]."""
    outside = (advantages.abs() > limit).float().mean().item()
    return advantages.clamp(-limit, limit), outside

"""GRPO (Shao et al. 2024, arXiv:2402.03300), its loss types and variants, by TRL's GRPOTrainer.

    trainer = VariantGRPOTrainer(model=path, args=GRPOConfig(...), ...)

TRL's own arguments do the KL penalty (`beta`), the entropy bonus (`entropy_coef`, or adaptive: `use_adaptive_entropy`),
the masking of truncated completions (`mask_truncated_completions`) and two-sided clipping (`delta`). Four variants are
added here: a hybrid of two losses, a constant of dr_grpo apart from the budget, a limit on advantages, and a rising
budget. A rollout is scored as a whole and split into minibatches afterwards, so a change of its advantages does not
depend on gradient accumulation.
tests/test_trl_seam.py checks what this relies on in TRL.
"""

from dataclasses import dataclass
from typing import Any

import torch
import trl
from trl import GRPOTrainer

from rlhf_exp.algorithms import find_stage_budget
from rlhf_exp.trainers.episodes import Episodes
from rlhf_exp.trainers.rollouts import Batch, own_tokens

LONG = 512
"""If no `alpha` is given, the hybrid loss is grpo alone from this budget on, in tokens."""


@dataclass(kw_only=True)
class GRPOConfig(trl.GRPOConfig):
    """TRL's arguments and the variants' own, whose defaults, and what each is, stand in conf/algo/grpo.yaml alone."""

    hybrid_alpha: float | None
    advantage_clip: float | None
    loss_constant: int | None
    curriculum_budgets: list[int]
    curriculum_from_steps: list[int]


class VariantGRPOTrainer(Episodes, GRPOTrainer):
    """GRPOTrainer with loss_type=hybrid, dr_grpo's `loss_constant`, advantage clipping and a curriculum over the
    budget; each is off by default. A constant scales the policy's term, not that of the KL.

    A stage of a curriculum trains as a run with max_tokens=<its budget> would: the budget limits sampling, is dr_grpo's
    constant, gives hybrid its `alpha`, and decides which completions count as truncated. It depends only on the number
    of finished optimizer steps, which a checkpoint holds. It takes effect at the next rollout; minibatches of an
    earlier rollout keep theirs. Evaluation always has max_tokens.

    Logged for each that is on: `completions/budget` (tokens), `advantages/clipped_ratio` (share of the rollout's
    completions), `hybrid/alpha` (the share of grpo).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_hybrid = self.loss_type == "hybrid"
        if self._is_hybrid:
            self.loss_type = "grpo"  # weighted advantages make it the hybrid loss; `args` keep the name

    def begin_rollout(self) -> None:
        if budgets := self.args.curriculum_budgets:
            set_budget(self, find_stage_budget(budgets, self.args.curriculum_from_steps, self.state.global_step))
            self._metrics["train"]["completions/budget"].append(self.max_completion_length)

    def finish_rollout(self, batch: Batch) -> Batch:
        batch = super().finish_rollout(batch)
        metrics, limit = self._metrics["train"], self.args.advantage_clip
        if limit is not None:
            advantages = batch["advantages"]
            metrics["advantages/clipped_ratio"].append((advantages.abs() > limit).float().mean().item())
            batch["advantages"] = advantages.clamp(-limit, limit)
        constant = self.args.loss_constant or self.max_completion_length
        if self._is_hybrid:
            alpha = choose_alpha(self.args.hybrid_alpha, self.max_completion_length)
            lengths = own_tokens(batch).sum(1)
            batch["advantages"] = batch["advantages"] * length_weights(lengths, alpha, constant)
            metrics["hybrid/alpha"].append(alpha)
        elif constant != self.max_completion_length:  # TRL's dr_grpo divides by the budget
            batch["advantages"] = batch["advantages"] * (self.max_completion_length / constant)
        return batch


def set_budget(trainer: GRPOTrainer, budget: int) -> None:
    """Limit the trainer's next rollouts. TRL copies its argument to these places when the trainer is built, and does
    not read it again. vLLM's context was sized for that argument, max_tokens, which no stage's budget exceeds."""
    trainer.max_completion_length = budget
    if trainer.use_vllm:
        trainer.vllm_generation.max_completion_length = budget
    else:
        trainer.generation_config.max_new_tokens = budget
        trainer.generation_kwargs["max_new_tokens"] = budget


def choose_alpha(alpha: float | None, budget: int) -> float:
    """The share of grpo in the hybrid loss, in [0, 1]: as given, or min(1, budget / 512)."""
    return min(1.0, budget / LONG) if alpha is None else alpha


def length_weights(lengths: torch.Tensor, alpha: float, budget: int) -> torch.Tensor:
    """The weights that turn grpo's loss into loss_type=hybrid: alpha + (1 - alpha) * length / budget.

    For n completions of len_i tokens with token losses l_it, and a budget of L tokens (arXiv:2402.03300,
    arXiv:2503.20783):

        grpo    = 1/n sum_i 1/len_i sum_t l_it
        dr_grpo = 1/n sum_i 1/L     sum_t l_it
        hybrid  = alpha grpo + (1 - alpha) dr_grpo = 1/n sum_i (alpha + (1 - alpha) len_i / L) 1/len_i sum_t l_it

    The weight in brackets is one number per completion. Clipping keeps it (w >= 0: min(r w A, clip(r) w A) is
    w min(r A, clip(r) A)), so the grpo loss of weighted advantages is the hybrid loss, however a batch is split. Only
    the policy's term is mixed: a KL penalty stays grpo's mean over each completion, and the entropy bonus a mean over
    tokens. Both losses see the same advantages.

    Args:
        lengths: (batch,) tokens that count in the loss; 0 for a completion that is masked.
        budget: dr_grpo's constant L, in tokens: the budget, unless `loss_constant` is set.

    Returns:
        (batch,) float32, at least 0, and at most 1 for lengths within the budget; exactly 1 for alpha = 1.
    """
    return alpha + (1.0 - alpha) * lengths.float() / budget

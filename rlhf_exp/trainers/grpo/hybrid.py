"""loss_type=hybrid: `alpha` of the grpo loss and `1 - alpha` of the dr_grpo loss, in one pass.

advantages = advantages * length_weights(lengths, alpha=0.5, budget=96)     # under TRL's grpo loss

For n completions of len_i tokens with token losses l_it, and a budget of L tokens (arXiv:2402.03300, arXiv:2503.20783):

    grpo    = 1/n sum_i 1/len_i sum_t l_it
    dr_grpo = 1/n sum_i 1/L     sum_t l_it
    hybrid  = alpha grpo + (1 - alpha) dr_grpo = 1/n sum_i (alpha + (1 - alpha) len_i / L) 1/len_i sum_t l_it

The weight in brackets is one number per completion. Clipping keeps it, min(r w A, clip(r) w A) = w min(r A, clip(r) A)
for w >= 0, so the grpo loss of weighted advantages is the hybrid loss, however a batch is split. Only the policy's term
is mixed: a KL penalty stays grpo's mean over each completion, and the entropy bonus a mean over tokens. Both losses see
the same advantages.
"""

import torch

LONG = 512
"""If no `alpha` is given, the loss is grpo alone from this budget on, in tokens."""


def choose_alpha(alpha: float | None, budget: int) -> float:
    """The share of grpo, in [0, 1]: as given, or min(1, budget / 512)."""
    return min(1.0, budget / LONG) if alpha is None else alpha


def length_weights(lengths: torch.Tensor, alpha: float, budget: int) -> torch.Tensor:
    """alpha + (1 - alpha) * length / budget.

    Args:
        lengths: (batch,) tokens that count in the loss; 0 for a completion that is masked.
        budget: dr_grpo's constant L, in tokens.

    Returns:
        (batch,) float32, at least 0, and at most 1 for lengths within the budget; exactly 1 for alpha = 1.
    """
    return alpha + (1.0 - alpha) * lengths.float() / budget

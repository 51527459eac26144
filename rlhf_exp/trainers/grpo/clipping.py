"""advantage_clip: limits the size of every token's advantage, which is large where a group's deviation is small.

clipped, share = clip_advantages(advantages, limit=2.0)
"""

import torch


def clip_advantages(advantages: torch.Tensor, limit: float) -> tuple[torch.Tensor, float]:
    """Clamp to [-limit, limit].

    Args:
        advantages: (batch,) or (batch, time); GRPO gives every token of a completion the same.

    Returns:
        The clamped advantages, and the share of them that were outside, in [0, 1].
    """
    outside = (advantages.abs() > limit).float().mean().item()
    return advantages.clamp(-limit, limit), outside

"""advantage_clip: no token's advantage is larger than `limit` in size, whatever the group's deviation made of it.

clipped, share = clip_advantages(advantages, limit=2.0)
"""

import torch


def clip_advantages(advantages: torch.Tensor, limit: float) -> tuple[torch.Tensor, float]:
    """Clamp to [-limit, limit].

    Args:
        advantages: (batch,) or (batch, time); GRPO gives every token of a completion the same.

    Returns:
        The clamped advantages, and the share of them that lay outside, in [0, 1].
    """
    outside = (advantages.abs() > limit).float().mean().item()
    return advantages.clamp(-limit, limit), outside

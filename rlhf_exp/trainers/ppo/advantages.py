"""From a rollout's scores to what PPO learns from: rewards per token, returns, advantages. Pure functions of tensors.

    rewards = shape_rewards(scores, logps - ref_logps, mask, kl_coef)
    advantages, returns = estimate_advantages(rewards, values, mask, gamma=1.0, lam=0.95)

Rows are completions, columns their tokens, (batch, time); `mask` is 1 on a completion's tokens, which come first.
"""

import torch


def shape_rewards(scores: torch.Tensor, log_ratio: torch.Tensor, mask: torch.Tensor, kl_coef: float) -> torch.Tensor:
    """The reward of each token: minus `kl_coef` times its log-ratio to the reference (k1), and on the last token the
    completion's score besides (Ziegler et al. 2019, arXiv:1909.08593, section 2).

    Args:
        scores: (batch,) the completion's score.
        log_ratio: (batch, time) log policy - log reference of the sampled token, in nats.
        mask: (batch, time).

    Returns:
        (batch, time), 0 outside the mask.
    """
    rewards = -kl_coef * log_ratio * mask
    last = (mask.sum(1).long() - 1).clamp(min=0)
    rewards[torch.arange(len(rewards), device=rewards.device), last] += scores * mask[:, 0]
    return rewards


def estimate_advantages(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, gamma: float, lam: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438, equation 16) and returns.

    A completion ends with its last token, whether by an end token or by the budget: the value after it is 0.

    Args:
        rewards, values: (batch, time); `values[:, t]` is of the state before token t.
        mask: (batch, time).

    Returns:
        advantages and returns (advantages + values), both (batch, time), 0 outside the mask.
    """
    values = values * mask
    advantages = torch.zeros_like(values)
    following = next_value = torch.zeros_like(values[:, 0])
    for t in reversed(range(values.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        following = (delta + gamma * lam * following) * mask[:, t]
        advantages[:, t] = following
        next_value = values[:, t]
    return advantages, advantages + values


def whiten(values: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Shift to mean 0 and scale to variance 1 inside the mask; 0 outside it. The moments are those of all ranks."""
    return (values - mean) * torch.rsqrt(variance + 1e-8) * mask


def explain_variance(values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor) -> float:
    """1 - Var(returns - values) / Var(returns) over the mask: 1 is a perfect critic, 0 one that knows only the mean,
    below 0 one that is worse than that. NaN where the returns do not vary."""
    kept = mask.bool()
    variance = returns[kept].var()
    if not variance > 0:
        return float("nan")
    return (1 - (returns - values)[kept].var() / variance).item()

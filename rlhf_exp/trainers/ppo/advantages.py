"""Computes what PPO learns from out of a rollout's scores: rewards per token, returns, advantages; and the price of KL.
Imports nothing of TRL.

    rewards = shape_rewards(scores, logps - ref_logps, mask, kl_coef)
    advantages, returns = estimate_advantages(rewards, values, mask, gamma=1.0, lam=0.95)
    KLController(coef=1.0, target=0.1, horizon=10_000).update(kl=0.3, completions=16)    # coef is now 1.00032

Rows are completions, columns their tokens, (batch, time); `mask` is 1 on a completion's tokens, which come first.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

Sum = Callable[[torch.Tensor], torch.Tensor]
"""Adds a tensor up over all ranks."""


MOST = 0.2
"""The proportional error is clipped to this, as in the source."""


def shape_rewards(scores: torch.Tensor, log_ratio: torch.Tensor, mask: torch.Tensor, kl_coef: float) -> torch.Tensor:
    """The reward of each token: minus `kl_coef` times its log-ratio to the reference (k1), plus the completion's score
    on the last token (Ziegler et al. 2019, arXiv:1909.08593, section 2).

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

    The value after a completion's last token is 0, both after an end token and where the budget cut it off.

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


def sum_rewards(rewards: torch.Tensor, mask: torch.Tensor, gamma: float) -> torch.Tensor:
    """The discounted sum of the rewards from each token on, (batch, time): the returns at lambda = 1, in which no
    critic's values are mixed."""
    return estimate_advantages(rewards, torch.zeros_like(rewards), mask, gamma, 1.0)[1]


def measure_moments(values: torch.Tensor, mask: torch.Tensor, reduce: Sum) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance (divided by n) over the mask, of all ranks together, as float64 scalars; NaN without a token.

    Two passes, since the difference of the mean square and the squared mean loses all digits of a variance that is
    much smaller than the mean.
    """
    kept = values[mask.bool()].double()
    total, count = reduce(torch.stack([kept.sum(), kept.new_tensor(len(kept))]))
    mean = total / count
    return mean, reduce((kept - mean).square().sum()) / count


def whiten(values: torch.Tensor, mask: torch.Tensor, reduce: Sum) -> torch.Tensor:
    """Shift to mean 0 and scale to variance 1 inside the mask, both of all ranks; 0 outside it."""
    mean, variance = measure_moments(values, mask, reduce)
    return ((values.double() - mean) * torch.rsqrt(variance + 1e-8) * mask).to(values.dtype)


def explain_variance(values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor, reduce: Sum) -> float:
    """1 - Var(returns - values) / Var(returns) over the mask, of all ranks: 1 for a perfect critic, 0 for one that
    knows only the mean, below 0 for a worse one. NaN if the returns do not vary.

    `returns` must not depend on the critic, so take those of `sum_rewards`: GAE's with lambda < 1 are mixed with the
    critic's values, and would agree with a useless critic too.
    """
    variance = measure_moments(returns, mask, reduce)[1]
    left = measure_moments(returns.double() - values.double(), mask, reduce)[1]
    return (1 - left / variance).item() if variance > 0 else float("nan")


@dataclass
class KLController:
    """The price of the KL: a fixed coefficient, or adapted as in Ziegler et al. (2019, arXiv:1909.08593, section 2.2),
    where each update changes it by at most 20% of completions / horizon.

    `target`: nats per completion, None for a fixed `coef`. It is of the exact KL, where the source takes an estimate
    from the sampled tokens' log-ratios.

    `horizon` is in completions: how many it takes for the coefficient to change by a factor of about e**0.2.
    """

    coef: float
    target: float | None
    horizon: int

    def update(self, kl: float, completions: int) -> None:
        """Change the coefficient once, after a rollout of that many completions whose mean KL was `kl`."""
        if self.target is None:
            return
        error = min(max(kl / self.target - 1, -MOST), MOST)
        self.coef *= 1 + error * completions / self.horizon

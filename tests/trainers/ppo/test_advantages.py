"""GAE and its parts against loops in float64, and the adaptive KL coefficient."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from rlhf_exp.trainers.ppo.advantages import (
    KLController,
    estimate_advantages,
    explain_variance,
    measure_moments,
    shape_rewards,
    sum_rewards,
    whiten,
)


def make_rollout(seed=0, rows=5, width=7):
    generator = torch.Generator().manual_seed(seed)
    lengths = [7, 1, 3, 5, 2][:rows]
    mask = torch.tensor([[1.0] * n + [0.0] * (width - n) for n in lengths], dtype=torch.float64)
    rewards, values = (torch.randn(rows, width, generator=generator, dtype=torch.float64) for _ in range(2))
    return rewards * mask, values, mask, lengths


def loop_gae(rewards, values, lengths, gamma, lam):
    """Equation 16 of arXiv:1506.02438 as its sum: A_t = sum over l of (gamma lambda)^l delta_{t+l}."""
    found = [[0.0] * rewards.shape[1] for _ in lengths]
    for i, n in enumerate(lengths):
        following = [float(values[i, t + 1]) if t + 1 < n else 0.0 for t in range(n)]
        deltas = [float(rewards[i, t]) + gamma * following[t] - float(values[i, t]) for t in range(n)]
        for t in range(n):
            found[i][t] = math.fsum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, n))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.99, 0.0)])
def test_gae_is_the_sum_of_its_definition(gamma, lam):
    rewards, values, mask, lengths = make_rollout()
    advantages, returns = estimate_advantages(rewards, values, mask, gamma, lam)
    expected = loop_gae(rewards, values, lengths, gamma, lam)
    torch.testing.assert_close(advantages, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(returns, (expected + values) * mask, rtol=0, atol=1e-12)


def test_the_score_is_on_the_last_token_and_the_kl_on_each():
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])  # the last completion has no token
    log_ratio = torch.tensor([[0.5, -0.25, 7.0], [1.0, 0.0, 2.0], [1.0, 1.0, 1.0]])
    rewards = shape_rewards(torch.tensor([1.0, 0.1, 1.0]), log_ratio, mask, kl_coef=0.2)
    torch.testing.assert_close(rewards, torch.tensor([[-0.1, 1.05, 0.0], [-0.2, 0.0, -0.3], [0.0, 0.0, 0.0]]))


def alone(values):
    """The sum over one rank."""
    return values


def on_ranks(compute, *tensors, ranks=2):
    """What `compute` returns on each rank, its rows dealt to them; `reduce` waits for all."""
    barrier, sent = threading.Barrier(ranks), [None] * ranks

    def run(rank):
        def reduce(values):
            sent[rank] = values
            barrier.wait()
            total = sum(sent[1:], start=sent[0].clone())
            barrier.wait()
            return total

        return compute(*(tensor[rank::ranks] for tensor in tensors), reduce)

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(run, range(ranks)))


def test_returns_at_lambda_1_are_the_discounted_rewards_to_come():
    rewards, _, mask, lengths = make_rollout()
    found = sum_rewards(rewards, mask, 0.9)
    torch.testing.assert_close(found, loop_gae(rewards, 0 * rewards, lengths, 0.9, 1.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mean", [0.0, 1000.0, -1e5])
def test_moments_keep_their_digits_in_float32_far_from_0(mean):
    """Values are given in float32; their moments are those of NumPy in float64."""
    _, values, mask, _ = make_rollout()
    values = (0.01 * values + mean).float()
    kept = values[mask.bool()].double().numpy()
    found = measure_moments(values, mask, alone)
    assert [v.dtype for v in found] == [torch.float64] * 2
    assert [v.item() for v in found] == pytest.approx([np.mean(kept), np.var(kept)], rel=1e-12)


def test_moments_and_explained_variance_and_whitening_are_of_all_ranks_weighted_by_tokens():
    rewards, values, mask, _ = make_rollout()
    kept = mask.bool()
    whole = [values[kept].mean().item(), values[kept].var(unbiased=False).item()]
    for found in on_ranks(measure_moments, values, mask):
        assert [v.item() for v in found] == pytest.approx(whole, rel=1e-12)
    explained = 1 - np.var((rewards - values)[kept].numpy()) / np.var(rewards[kept].numpy())
    assert on_ranks(explain_variance, values, rewards, mask) == pytest.approx([explained] * 2, rel=1e-12)
    whitened = torch.empty_like(values)
    for rank, part in enumerate(on_ranks(whiten, values, mask)):
        whitened[rank::2] = part
    assert whitened[kept].mean().item() == pytest.approx(0, abs=1e-12)
    assert whitened[kept].var(unbiased=False).item() == pytest.approx(1, rel=1e-6)
    assert not whitened[~kept].any()


def test_explained_variance_of_a_constant_is_not_a_number():
    assert math.isnan(explain_variance(torch.tensor([[1.0, 2.0]]), torch.ones(1, 2), torch.ones(1, 2), alone))


def test_the_coefficient_moves_by_the_clipped_error_and_without_a_target_not_at_all():
    controller = KLController(coef=1.0, target=0.1, horizon=100)
    controller.update(kl=0.11, completions=10)  # 10% above the target
    assert controller.coef == pytest.approx(1 + 0.1 * 10 / 100)
    controller.update(kl=5.0, completions=10)  # clipped to 20%
    assert controller.coef == pytest.approx(1.01 * 1.02)
    controller.update(kl=-3.0, completions=10)  # a sampled KL may be negative: down by at most 20%
    assert controller.coef == pytest.approx(1.01 * 1.02 * 0.98)
    fixed = KLController(coef=0.05, target=None, horizon=1)
    fixed.update(kl=100.0, completions=1000)
    assert fixed.coef == 0.05

"""The adaptive KL coefficient."""

import pytest

from rlhf_exp.trainers.ppo.advantages import KLController


def test_the_coefficient_moves_by_the_clipped_error():
    controller = KLController(coef=1.0, target=0.1, horizon=100)
    controller.update(kl=0.11, completions=10)  # 10% above the target
    assert controller.coef == pytest.approx(1 + 0.1 * 10 / 100)
    controller.update(kl=5.0, completions=10)  # clipped to 20%
    assert controller.coef == pytest.approx(1.01 * 1.02)
    controller.update(kl=-3.0, completions=10)  # a sampled KL may be negative: down by at most 20%
    assert controller.coef == pytest.approx(1.01 * 1.02 * 0.98)


def test_without_a_target_it_is_fixed():
    controller = KLController(coef=0.05, target=None, horizon=1)
    controller.update(kl=100.0, completions=1000)
    assert controller.coef == 0.05

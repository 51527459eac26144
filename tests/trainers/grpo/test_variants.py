"""Pure parts: hybrid's weights, the clamp, the stage of a step."""

import pytest
import torch

from rlhf_exp.config.schema import Curriculum
from rlhf_exp.trainers.grpo import choose_alpha, clip_advantages, length_weights


def test_alpha_follows_the_budget_unless_it_is_given():
    assert [choose_alpha(None, budget) for budget in (96, 256, 512, 1024)] == [0.1875, 0.5, 1.0, 1.0]
    assert [choose_alpha(alpha, 96) for alpha in (0.0, 0.3, 1.0)] == [0.0, 0.3, 1.0]


def test_a_weighted_mean_per_completion_is_the_mix_of_the_two_losses():
    """On token losses 1, 2 | 3, 4, 5, 6 with L = 8: grpo (1.5 + 4.5) / 2 = 3, dr_grpo (3 + 18) / 16 = 1.3125."""
    means, lengths = torch.tensor([1.5, 4.5]), torch.tensor([2, 4])
    for alpha in (0.0, 0.25, 1.0):
        mixed = (length_weights(lengths, alpha, 8) * means).mean().item()
        assert mixed == pytest.approx(alpha * 3 + (1 - alpha) * 1.3125)


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_advantages_are_clamped_and_those_outside_counted(shape):
    clipped, outside = clip_advantages(torch.tensor([-3.0, -0.5, 0.5, 1.5]).view(shape), 1.0)
    assert clipped.flatten().tolist() == [-1.0, -0.5, 0.5, 1.0]
    assert clipped.shape == shape and outside == 0.5


def test_a_stage_begins_at_its_step_and_the_last_one_stays():
    curriculum = Curriculum(budgets=[256, 512, 1024], from_steps=[0, 30, 60])
    assert [curriculum.budget_at(step) for step in (0, 29, 30, 59, 60, 10_000)] == [256, 256, 512, 512, 1024, 1024]

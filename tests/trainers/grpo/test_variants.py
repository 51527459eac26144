"""Pure parts: hybrid's weights, the clamp, the stage of a step."""

from rlhf_exp.config.schema import Curriculum
from rlhf_exp.trainers.grpo import choose_alpha


def test_alpha_follows_the_budget_unless_it_is_given():
    assert [choose_alpha(None, budget) for budget in (96, 256, 512, 1024)] == [0.1875, 0.5, 1.0, 1.0]
    assert [choose_alpha(alpha, 96) for alpha in (0.0, 0.3, 1.0)] == [0.0, 0.3, 1.0]


def test_a_stage_begins_at_its_step_and_the_last_one_stays():
    curriculum = Curriculum(budgets=[256, 512, 1024], from_steps=[0, 30, 60])
    assert [curriculum.budget_at(step) for step in (0, 29, 30, 59, 60, 10_000)] == [256, 256, 512, 512, 1024, 1024]
